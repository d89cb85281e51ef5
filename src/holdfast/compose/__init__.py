"""The composition root: it names every adapter, those of `storage` besides. Each process of Holdfast is put together here.

Never here: a rule, SQL, words for people.
"""

from holdfast.compose.engine import Engine, Environment
from holdfast.compose.from_settings import open_queue, prices_of
from holdfast.storage import open_administration, open_store

__all__ = ["Engine", "Environment", "open_administration", "open_queue", "open_store", "prices_of"]
