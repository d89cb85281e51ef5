"""What all ports of the store stand on.

Never here: a promise of the store.
"""

from __future__ import annotations

import re
import uuid
from functools import cache
from typing import Final, NamedTuple

from holdfast.core.views.sealing import PLAIN, Sealing
from holdfast.ports import BlobPlace
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.clock import StoreClock
from holdfast.stores.postgres.connection import Connections
from holdfast.stores.statement import statements

_SQL: Final = statements("postgres")
_RUN: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FIRST: Final = "00000000-0000-0000-0000-000000000000"


@cache
def sql(address: Address) -> dict[str, str]:
    """The store's statements, for its schema."""
    return {name: address.localized(text) for name, text in _SQL.items()}


class StoreContext(NamedTuple):
    """The connections and the clock of one open store."""

    connections: Connections
    clock: StoreClock
    process: uuid.UUID
    """This process's name among those that commit."""
    snapshot: str
    """What was visible when the store was opened."""
    lease_s: float
    elsewhere: BlobPlace | None = None
    """Where archives go and are, besides the table."""
    audit_keys: tuple[bytes, ...] = ()
    """With what the audit log is signed, the newest first; empty: with nothing."""
    sealing: Sealing = PLAIN
    """How what users have stored is kept."""


class StorePort:
    """Keeps one port of the store, on the context of the whole store."""

    def __init__(self, context: StoreContext) -> None:
        self._db = context.connections
        self._clock = context.clock
        self._sealing = context.sealing
        self._process = context.process
        self._sql = sql(context.connections.address)


def is_run(name: str) -> bool:
    """Whether `name` can be a run's: ids are UUIDs in their usual form, so everything else is nobody."""
    return _RUN.fullmatch(name) is not None


def runs_from(prefix: str) -> tuple[str | None, str | None]:
    """The first and the last id that begin with `prefix`; None where no run's can."""
    first = prefix + _FIRST[len(prefix) :]
    return (first, prefix + _FIRST.replace("0", "f")[len(prefix) :]) if is_run(first) else (None, None)
