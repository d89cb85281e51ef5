"""The tables that are parted by the month of a run's start.

Never here: when a month may go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.stores.month import Month
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.connection import Connection

PARTITIONED: Final = ("events", "snapshots", "effects")
LOCK: Final = 0x484C4446
"""The advisory lock, held to the end of a transaction that changes tables."""


def part(table: str, month: Month) -> str:
    """The name of the part of `table` that holds a month."""
    return f"{table}_{month.year:04d}_{month.month:02d}"


async def make(db: Connection, address: Address, months: set[Month]) -> None:
    """Have partitions for `months`, inside a transaction. A table is made first and attached then: to make it as a
    partition would lock out every reader and writer of all months."""
    await db.execute("select pg_advisory_xact_lock($1)", LOCK)
    parts = {part(table, month): (table, month) for month in sorted(months) for table in PARTITIONED}
    there = await tables(db, address, parts)
    for name, (table, month) in parts.items():
        if name not in there:
            whole, new = f"{address.schema}.{table}", f"{address.schema}.{name}"
            await db.execute(f"create table {new} (like {whole} including all)")
            await db.execute(
                f"alter table {whole} attach partition {new} for values from ('{month.first}') to ('{month.next.first}')"
            )


async def missing(db: Connection, address: Address, months: set[Month]) -> set[Month]:
    """Return the `months` that lack a partition of some table."""
    parts = {part(table, month): month for month in months for table in PARTITIONED}
    there = await tables(db, address, parts)
    return {month for name, month in parts.items() if name not in there}


async def tables(db: Connection, address: Address, names: Iterable[str]) -> set[str]:
    """Return the `names` that are tables of the store, as the database's own tables have it now. (A cast to regclass may be
    answered from before the lock that one has just waited for.)"""
    rows = await db.fetch(
        "select relname from pg_class join pg_namespace on pg_namespace.oid = relnamespace"
        " where nspname = $1 and relname = any($2::text[])",
        address.schema,
        list(names),
    )
    return {row["relname"] for row in rows}
