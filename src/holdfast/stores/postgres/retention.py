"""The removal of a month from the tables of this database: its partitions are dropped.

The parent tables are locked for the moment of the drop. The attempt soon gives up if others hold them. `DETACH PARTITION
CONCURRENTLY` would lock nothing out, but takes two transactions. A crash between them leaves a partition that is neither in nor
out, and no append could find a place for its runs.

Never here: archives (see holdfast.stores.retention).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from asyncpg import exceptions as pg

from holdfast.stores.month import Month
from holdfast.stores.postgres.connection import AGAIN, LOST, Connection, explain, transaction
from holdfast.stores.postgres.context import StoreContext, sql
from holdfast.stores.postgres.partition import LOCK, PARTITIONED, part, tables
from holdfast.stores.retention import Retention
from holdfast.stores.row import Row

_PART_LOCK_MS: Final = 5_000
"""Longest wait for the month's own tables, which holds up no other; long enough for an autovacuum to give way."""
_LOCK_MS: Final = 300
"""Longest time that others wait behind this waiting for a lock; then it steps back and tries again."""


class PostgresRetention(Retention):
    """Archives and removes months of a PostgreSQL store."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context.ground)
        self._db = context.connections
        self._sql = sql(context.connections.address)

    async def _holders(self, month: Month, limit: int) -> Sequence[Row]:
        return await self._tables.ask("holders", month.first, month.next.first, limit)

    async def _let_go(self, month: Month) -> bool:
        """Drop the month's tables."""
        try:
            async with self._db.acquire() as db, transaction(db):
                await _wait_at_most(db, _PART_LOCK_MS)
                await db.execute("select pg_advisory_xact_lock($1)", LOCK)
                return await self._drop(db, month)
        except AGAIN:
            return False
        except (*LOST, pg.PostgresError) as problem:
            raise explain(problem, self._db.address) from problem

    async def _drop(self, db: Connection, month: Month) -> bool:
        address = self._db.address
        parts = [part(table, month) for table in PARTITIONED]
        if not await tables(db, address, parts):
            return True
        history, *others = places = [f"{address.schema}.{each}" for each in parts]
        # An append to a run writes an event of it: from here on no process does in this month, and all read.
        await db.execute(f"lock table {history} in share mode")
        await db.execute(f"lock table {', '.join(others)} in share update exclusive mode")
        if await db.fetch(self._sql["unarchived"], month.first, month.next.first, 1):
            return False
        if await db.fetch(self._sql["holders"], month.first, month.next.first, 1):
            return False
        # For the moment that it takes to drop them, no process reads either: a partition cannot leave its table otherwise,
        # but in two transactions, between which a crash would leave it half gone.
        await _wait_at_most(db, _LOCK_MS)
        await db.execute(f"lock table {', '.join(f'{address.schema}.{table}' for table in PARTITIONED)}")
        await db.execute(f"drop table {', '.join(places)}")
        return True


async def _wait_at_most(db: Connection, lock_ms: int) -> None:
    """For each lock, until the end of the transaction."""
    await db.execute("select set_config('lock_timeout', $1, true)", str(lock_ms))
