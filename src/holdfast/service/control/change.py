"""A change of a record as it was seen: decided again, and kept in its place, if another was first.

Never here: what changes, and who may.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from holdfast.errors import Conflict

TRIES: Final = 20

Kept = TypeVar("Kept")


async def changed(name: str, attempt: Callable[[], Awaitable[Kept | None]]) -> Kept:
    """Return what the first `attempt` has kept without a conflict; one that met a conflict returns None. `name` is the record,
    in words. Raises Conflict after too many conflicts."""
    for _ in range(TRIES):
        if (kept := await attempt()) is not None:
            return kept
    raise Conflict(f"{name} was changed by others {TRIES} times in a row. Nothing was changed: try again later.")
