"""The operations of an administrator on the store as a whole: its state, its migrations, its months.

Unlike the store itself it opens on tables of any version, and on none. Never here: a run's affairs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Final, Self

from holdfast.core.views.projection import RunRow
from holdfast.core.views.sealing import PLAIN, Sealing
from holdfast.errors import UsageError
from holdfast.ports import (
    BlobPlace,
    LeaseCondition,
    MonthStatus,
    OldTransaction,
    RemovedData,
    SessionStatus,
    StoreCondition,
    StoreStatus,
    TableCondition,
)
from holdfast.ports.administration import MAX_MONTH_READ
from holdfast.stores.canary import Canary, expect_at_rest, sealed_of, without_keys
from holdfast.stores.month import Month, state
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.clock import StoreClock
from holdfast.stores.postgres.connection import Connections
from holdfast.stores.postgres.context import StoreContext, sql
from holdfast.stores.postgres.guard import guard
from holdfast.stores.postgres.partition import PARTITIONED, part
from holdfast.stores.postgres.retention import PostgresRetention
from holdfast.stores.postgres.schema import LATEST, NEEDED, PARTS, AppliedMigrations, expect_ready, migrate, pending, standing
from holdfast.stores.postgres.session import LEASE_S
from holdfast.stores.postgres.upkeep import forget_told, make_ahead
from holdfast.stores.statement import indexes

_CONNECTIONS: Final = 4
_MAX_SESSIONS: Final = 1000
_MAX_MONTHS: Final = 1200
_OLD_S: Final = 60.0
"""Seconds after which a transaction is old: those of Holdfast take milliseconds."""


class PostgresAdministration:
    """Keeps ports.Administration."""

    def __init__(self, context: StoreContext) -> None:
        self._ground = context
        self._db = context.connections
        self._sql = sql(context.connections.address)

    @classmethod
    async def connect(cls, url: str, elsewhere: BlobPlace | None = None, sealing: Sealing = PLAIN) -> Self:
        """`elsewhere` is where archives go instead of the table. Raises UsageError, StoreUnreadable."""
        address = Address.of(url)
        async with contextlib.AsyncExitStack() as undo:
            connections = await Connections.open(address, _CONNECTIONS)
            undo.push_async_callback(connections.close)
            (greeting,) = await connections.fetch(sql(address)["greet"])
            undo.pop_all()
        clock = StoreClock(greeting["now_ms"], 0)
        return cls(
            StoreContext(connections, clock, greeting["process"], greeting["snapshot"], LEASE_S, elsewhere, sealing=sealing)
        )

    async def aclose(self) -> None:
        await self._db.close()

    # --- Condition ----------------------------------------------------------------------------------------------------

    async def condition(self, *, thorough: bool = False) -> StoreCondition:
        """`thorough` finds nothing more: pg_amcheck checks a database."""
        address = self._db.address
        async with self._db.reading() as db:
            now = await standing(db, address)
        ((now_ms, size_bytes),) = await self._db.fetch(self._sql["database_now"])
        todo = tuple(f"{each.version:04d}_{each.name}" for part in PARTS for each in pending(now, part))
        shown, version = f"{address.shown} (schema {address.schema})", now.before if now is not None else 0
        if not _is_readable(now):
            return StoreCondition(shown, version, LATEST, todo, now_ms, size_bytes=size_bytes)
        leases = await self._db.fetch(self._sql["leases"], _MAX_SESSIONS)
        here = {name for (name,) in await self._db.fetch(self._sql["index_names"], address.schema)}
        tables = await self._db.fetch(self._sql["table_conditions"], address.schema)
        old = await self._db.fetch(self._sql["old_transactions"], _OLD_S)
        return StoreCondition(
            shown,
            version,
            LATEST,
            todo,
            now_ms,
            tuple(LeaseCondition(*row) for row in leases),
            tuple(sorted(indexes("postgres") - here)),
            size_bytes,
            tables=tuple(TableCondition(*row) for row in tables),
            transactions=tuple(OldTransaction(*row) for row in old),
        )

    # --- Migrations ---------------------------------------------------------------------------------------------------

    async def migrate(self, part: str | None) -> Sequence[str]:
        done: list[str] = []
        for each in PARTS if part is None else (part,):
            done += await migrate(self._db, each)
        await make_ahead(self._db, Month.at(self._ground.clock.now_ms()))
        await forget_told(self._db)
        return done

    async def back_up(self, file: str) -> int:
        address = self._db.address
        raise UsageError(
            f"This store is in a PostgreSQL database, which has its own: pg_dump --format=custom --schema={address.schema}"
            f" --file={file} ({address.shown}), at any moment and while everything goes on. Nothing was done."
            " docs/howto/backup.md describes how to restore it."
        )

    async def forget_keys(self) -> int:
        await expect_ready(self._db)
        expect_at_rest(await self.standing())
        async with self._db.writing() as db:
            await db.execute(self._sql["lock_canaries"])
            found = [Canary(*each) for each in await db.fetch(self._sql["canaries"])]
            if sealed_of(found):
                await db.execute(self._sql["add_canary"], *without_keys(found))
            return len(await db.fetch(self._sql["forget_canaries"]))

    async def guard(self, read_role: str, work_roles: Sequence[str]) -> Sequence[str]:
        await expect_ready(self._db)
        return await guard(self._db, read_role, work_roles)

    # --- Retention ----------------------------------------------------------------------------------------------------

    async def archive(self, month: str) -> RemovedData:
        wanted = Month.parse(month)
        await expect_ready(self._db)
        return await PostgresRetention(self._ground).archive(wanted)

    async def prune(self, before: str) -> RemovedData:
        wanted = Month.parse(before)
        await expect_ready(self._db)
        return await PostgresRetention(self._ground).prune(wanted)

    # --- Standing -----------------------------------------------------------------------------------------------------

    async def standing(self) -> StoreStatus:
        address, now_ms = self._db.address, self._ground.clock.now_ms()
        async with self._db.reading() as db:
            now = await standing(db, address)
        todo = tuple(f"{each.version:04d}_{each.name}" for part in PARTS for each in pending(now, part))
        shown = f"{address.shown} (schema {address.schema})"
        found = StoreStatus(shown, now.before if now is not None else 0, LATEST, todo, now_ms)
        return await self._with_sizes(found) if _is_readable(now) else found

    async def _with_sizes(self, status: StoreStatus) -> StoreStatus:
        sessions = await self._db.fetch(self._sql["living_sessions"], _MAX_SESSIONS)
        ((blobs, blob_bytes),) = await self._db.fetch(self._sql["blobs_kept"])
        oldest = await self._db.fetch(self._sql["runs"] + " where ended_at_ms is null order by runs.run limit 1")
        return StoreStatus(
            status.store,
            status.version,
            status.known,
            status.pending,
            status.now_ms,
            tuple(await self._months()),
            tuple(SessionStatus(*row) for row in sessions),
            blobs,
            int(blob_bytes),
            RunRow(*oldest[0]) if oldest else None,
        )

    async def _months(self) -> list[MonthStatus]:
        months = await self._months_with_runs()
        sizes = await self._partition_sizes()
        rows = await self._db.fetch(
            self._sql["months"], [month.first for month in months], [month.next.first for month in months], MAX_MONTH_READ
        )
        return [_month(months[row["place"] - 1], row, sizes) for row in rows]

    async def _months_with_runs(self) -> list[Month]:
        found: list[Month] = []
        after = Month.at(0)
        while len(found) < _MAX_MONTHS:
            row = await self._db.fetch(self._sql["first_run_from"], after.first)
            if not row:
                break
            found.append(Month.of(row[0]["run"]))
            after = found[-1].next
        return found

    async def _partition_sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for table in PARTITIONED:
            rows = await self._db.fetch(self._sql["partitions"], f"{self._db.address.schema}.{table}")
            sizes |= {name: size for name, size in rows if size is not None}  # None: it is just being dropped
        return sizes


def _is_readable(now: AppliedMigrations | None) -> bool:
    """Return True if this version can read the tables."""
    return now is not None and now.before >= NEEDED and now.after <= LATEST


def _month(month: Month, row: Any, sizes: dict[str, int]) -> MonthStatus:
    _, runs, unended, events, read, archived, pruned, archive_bytes = row
    parts = [part(table, month) for table in PARTITIONED]
    in_tables = sum(sizes.get(each, 0) for each in parts)
    found = state(runs, archived, pruned, is_in_tables=parts[0] in sizes)
    return MonthStatus(str(month), found, runs, unended, events, in_tables + archive_bytes, read < runs)
