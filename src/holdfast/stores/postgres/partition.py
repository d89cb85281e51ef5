"""The months that histories are kept by: a run id begins with the time of its start, so it tells its month.

Never here: when a month may go.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from holdfast.core.ids import RunId
from holdfast.errors import Unstorable, UsageError
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.connection import Connection

PARTITIONED: Final = ("events", "snapshots", "effects")
_LAST_MS: Final = int(datetime(9998, 12, 1, tzinfo=UTC).timestamp() * 1000)

LOCK: Final = 0x484C4446
"""The advisory lock, held to the end of a transaction, of whoever changes tables."""


class Month(NamedTuple):
    """A month of UTC."""

    year: int
    month: int

    @classmethod
    def of(cls, run: RunId) -> Month:
        """The month in which `run` was started. Raises Unstorable for an id with no time that a calendar has."""
        return cls.at(uuid.UUID(run).int >> 80)

    @classmethod
    def at(cls, at_ms: int) -> Month:
        if not 0 <= at_ms < _LAST_MS:
            raise Unstorable(f"{at_ms} ms after 1970 is in no month that can be kept. Nothing was written.")
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
        return cls(moment.year, moment.month)

    @classmethod
    def parse(cls, text: str) -> Month:
        """`2026-09`. Raises UsageError."""
        try:
            moment = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
            if len(text) != len("2026-09"):
                raise ValueError(text)
            return cls.at(int(moment.timestamp() * 1000))
        except (ValueError, Unstorable):
            raise UsageError(f"{text!r} is no month; write it like 2026-09. Nothing was done.") from None

    @property
    def next(self) -> Month:
        return Month(self.year + self.month // 12, self.month % 12 + 1)

    @property
    def first(self) -> uuid.UUID:
        """The least id that a run of this month can have."""
        begins_ms = int(datetime(self.year, self.month, 1, tzinfo=UTC).timestamp() * 1000)
        return uuid.UUID(int=begins_ms << 80)

    def partition(self, table: str) -> str:
        """The name of the part of `table` that holds this month."""
        return f"{table}_{self.year:04d}_{self.month:02d}"

    def __str__(self) -> str:
        return f"{self.year:04d}-{self.month:02d}"


async def make(db: Connection, address: Address, months: set[Month]) -> None:
    """Have partitions for `months`, inside a transaction. A table is made first and attached then: to make it as a
    partition would lock out every reader and writer of all months."""
    await db.execute("select pg_advisory_xact_lock($1)", LOCK)
    parts = {month.partition(table): (table, month) for month in sorted(months) for table in PARTITIONED}
    there = await tables(db, address, parts)
    for part, (table, month) in parts.items():
        if part not in there:
            whole, new = f"{address.schema}.{table}", f"{address.schema}.{part}"
            await db.execute(f"create table {new} (like {whole} including all)")
            await db.execute(
                f"alter table {whole} attach partition {new} for values from ('{month.first}') to ('{month.next.first}')"
            )


async def missing(db: Connection, address: Address, months: set[Month]) -> set[Month]:
    """Those of `months` that lack a partition of some table."""
    parts = {month.partition(table): month for month in months for table in PARTITIONED}
    there = await tables(db, address, parts)
    return {month for part, month in parts.items() if part not in there}


async def tables(db: Connection, address: Address, names: Iterable[str]) -> set[str]:
    """Those of `names` that are tables of the store, as the database's own tables tell it now. (A cast to regclass may
    be answered from before the lock that one has just waited for.)"""
    rows = await db.fetch(
        "select relname from pg_class join pg_namespace on pg_namespace.oid = relnamespace"
        " where nspname = $1 and relname = any($2::text[])",
        address.schema,
        list(names),
    )
    return {row["relname"] for row in rows}
