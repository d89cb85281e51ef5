"""Bringing a database to this version's tables, in two parts around a deployment.

What the new code needs and the old code does not mind comes before it; what the old code needed and the new does not
comes after it, when no old process is left. In between, both work on the same tables.
Never here: what the tables mean.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from asyncpg import exceptions as pg

from holdfast.errors import StoreError, StoreTooNew, StoreUnreadable
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.connection import LOST, Connection, Connections, explain
from holdfast.stores.postgres.partition import LOCK
from holdfast.stores.statement import Migration, migrations

BEFORE: Final = "before"
AFTER: Final = "after"
PARTS: Final = (BEFORE, AFTER)
_AFTER_NAME: Final = "_after"

_IS_THERE: Final = """select exists (
    select 1 from pg_class join pg_namespace on pg_namespace.oid = relnamespace
    where nspname = $1 and relname = 'migrations'
)"""
"""Read from the catalogue's tables: to_regclass may answer from what the connection remembers of before it waited for
another process to make them."""

MIGRATIONS: Final = migrations("postgres")
LATEST: Final = max(migration.version for migration in MIGRATIONS)


class Standing(NamedTuple):
    """Which migrations a store has had: the latest of each part, 0 for none."""

    before: int
    after: int


def part_of(migration: Migration) -> str:
    """A file `0002_name_after.sql` belongs to what comes after the deployment; every other comes before it."""
    return AFTER if migration.name.endswith(_AFTER_NAME) else BEFORE


async def standing(db: Connection, address: Address) -> Standing | None:
    """Where the store is; None where there is none."""
    if not await db.fetchval(_IS_THERE, address.schema):
        return None
    rows = await db.fetch(f"select part, max(version) as version from {address.schema}.migrations group by part")
    found = {row["part"]: row["version"] for row in rows}
    return Standing(found.get(BEFORE, 0), found.get(AFTER, 0))


async def migrate(connections: Connections, part: str) -> list[str]:
    """Apply the migrations of `part` that the store has not had; their names. Raises StoreError with nothing changed."""
    address = connections.address
    try:
        async with connections.taken() as db, db.transaction():
            await db.execute("select pg_advisory_xact_lock($1)", LOCK)
            return await _apply(db, address, part)
    except (*LOST, pg.PostgresError) as problem:
        raise explain(problem, address) from problem


async def _apply(db: Connection, address: Address, part: str) -> list[str]:
    now = await standing(db, address)
    if now is not None:
        expect_known(now, address)
    if part == AFTER and (now is None or now.before < LATEST):
        raise StoreError(
            f"The part of the migration before the deployment is still to be done: run `holdfast store migrate --{BEFORE}`."
        )
    await db.execute(f"create schema if not exists {address.schema}")
    done = [migration for migration in MIGRATIONS if part_of(migration) == part]
    done = [migration for migration in done if now is None or migration.version > getattr(now, part)]
    for migration in done:
        await db.execute(address.localized(migration.sql))
        await db.execute(
            f"insert into {address.schema}.migrations (version, part) values ($1, $2)", migration.version, part
        )
    return [migration.name for migration in done]


def expect_known(now: Standing, address: Address) -> None:
    """Raises StoreTooNew where the store has been taken out of reach of this version."""
    if now.after > LATEST:
        raise StoreTooNew(
            f"The store at {address.shown} has left this version of Holdfast behind (its tables are at version {now.after},"
            f" this one knows {LATEST}). It was not touched: upgrade Holdfast to work with it.",
            found=now.after,
            known=LATEST,
        )


async def expect_ready(connections: Connections) -> None:
    """See that the tables are there: an empty database is given them. Raises StoreTooNew, StoreUnreadable."""
    address = connections.address
    async with connections.reading() as db:
        now = await standing(db, address)
    if now is None:
        for part in PARTS:
            await migrate(connections, part)
        return
    expect_known(now, address)
    if now.before < LATEST:
        raise StoreUnreadable(
            f"The store at {address.shown} has the tables of an older Holdfast (version {now.before}, this one needs"
            f" {LATEST}). Nothing was touched: run `holdfast store migrate --{BEFORE}`, which old processes do not mind."
        )
