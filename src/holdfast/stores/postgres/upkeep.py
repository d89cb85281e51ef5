"""The store's regular upkeep, by any process: it makes months ahead and forgets the order of old commits.

Doing it twice, or in two processes at once, does no harm; nor does leaving it for a day.

Never here: anything that a person should have a say in (see retention).
"""

from __future__ import annotations

from typing import Final

from holdfast.stores.month import Month
from holdfast.stores.postgres.connection import Connections
from holdfast.stores.postgres.context import StoreContext, StorePort, sql
from holdfast.stores.postgres.partition import make, missing
from holdfast.stores.postgres.session import Sessions

MONTHS_AHEAD: Final = 2
TOLD_FOR_MS: Final = 3 * 24 * 3600 * 1000
"""How long the order of commits is kept for tails. One that was away for longer begins anew."""
_MOMENT_MS: Final = 30 * 60 * 1000
_MAX_FORGOTTEN: Final = 10_000
"""In one transaction; and `_MAX_TURNS` of them at a time: the rest is left for the next time."""
_MAX_TURNS: Final = 1000


class Upkeep(StorePort):
    """Keeps ports.Upkeep."""

    def __init__(self, context: StoreContext, sessions: Sessions) -> None:
        super().__init__(context)
        self._sessions = sessions

    async def maintain(self) -> None:
        await make_ahead(self._db, Month.at(self._clock.now_ms()))
        await forget_told(self._db)

    async def aclose(self) -> None:
        """End this process's sessions, do what is under way, and let the connections go. May be called again."""
        await self._sessions.end()
        await self._db.close()


async def make_ahead(connections: Connections, month: Month) -> None:
    """Have partitions for `month` and the next ones, so that no append has to make them."""
    months = {month}
    for _ in range(MONTHS_AHEAD):
        month = month.next
        months.add(month)
    address = connections.address
    async with connections.reading() as db:
        needed = await missing(db, address, months)
    if needed:
        async with connections.writing() as db:
            await make(db, address, needed)


async def forget_told(connections: Connections, kept_ms: int = TOLD_FOR_MS) -> None:
    """Forget the order of commits that are older than that. Where it begins is moved first: a tail never reads from
    before it, so it misses nothing that is just being forgotten."""
    statements = sql(connections.address)
    async with connections.writing() as db:
        await db.execute(statements["forget_strange_commits"])
        await db.execute(statements["forget_strange_moments"])
        await db.execute(statements["put_moment"], _MOMENT_MS)
        await db.execute(statements["move_beginning"], kept_ms)
    for _ in range(_MAX_TURNS):
        async with connections.writing() as db:
            done: str = await db.execute(statements["forget_commits"], _MAX_FORGOTTEN)
        if done != f"DELETE {_MAX_FORGOTTEN}":
            return
