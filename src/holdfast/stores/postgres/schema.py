"""Bringing a database to this version's tables, in two parts around a deployment.

What the new code needs and the old code does not mind comes before it; what the old code needed and the new does not
comes after it, when no old process is left. In between, both work on the same tables.
Never here: what the tables mean.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from asyncpg import exceptions as pg

from holdfast.errors import StillInUse, StoreBusy, StoreError, StoreTooNew, StoreUnreadable
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.connection import AGAIN, LOST, Connection, Connections, explain
from holdfast.stores.postgres.context import sql
from holdfast.stores.postgres.partition import LOCK, tables
from holdfast.stores.statement import Migration, edited, is_of_no_release, migrations, was_edited, was_of_no_release

_T = TypeVar("_T")

BEFORE: Final = "before"
AFTER: Final = "after"
PARTS: Final = (BEFORE, AFTER)
_AFTER_NAME: Final = "_after"
_MAX_NAMED: Final = 1000

MIGRATIONS: Final = migrations("postgres")
LATEST: Final = max(migration.version for migration in MIGRATIONS)

_CHECKED: Final = 51
"""The migration with which stores begin to remember the texts; those before it are as 0.1.0 had them."""
_LOCK_MS: Final = 2_000
"""Longest time that others wait behind a migration that waits for a table; then it steps back and tries again."""
_MAX_TRIES: Final = 15
_LONGEST_S: Final = 3600.0
"""A migration may have to write every row of a large table."""


class AppliedMigrations(NamedTuple):
    """The migrations that a store has had: the latest of each part, 0 for none."""

    before: int
    after: int
    applied: Mapping[tuple[int, str], str | None] = MappingProxyType({})
    """The sha256 of each migration's text by its version and part, None where older code has applied it."""


def part_of(migration: Migration) -> str:
    """A file `0002_name_after.sql` belongs to what comes after the deployment; every other comes before it."""
    return AFTER if migration.name.endswith(_AFTER_NAME) else BEFORE


NEEDED: Final = max(migration.version for migration in MIGRATIONS if part_of(migration) == BEFORE)
"""What this version cannot do without."""


def pending(now: AppliedMigrations | None, part: str) -> list[Migration]:
    """Return the migrations of `part` that a store in this state has not had."""
    had = getattr(now, part) if now is not None else 0
    return [migration for migration in MIGRATIONS if part_of(migration) == part and migration.version > had]


async def standing(db: Connection, address: Address) -> AppliedMigrations | None:
    """Return the state of the store's migrations, or None if there is no store."""
    if not await tables(db, address, ("migrations",)):
        return None
    # As JSON, since a store of 0.1.0 has no column for the text.
    rows = await db.fetch(
        f"select version, part, to_jsonb(each) ->> 'sha256' as sha256 from {address.schema}.migrations each order by version"
    )
    found = {row["part"]: row["version"] for row in rows}
    applied = {(row["version"], row["part"]): row["sha256"] for row in rows}
    return AppliedMigrations(found.get(BEFORE, 0), found.get(AFTER, 0), applied)


async def migrate(connections: Connections, part: str) -> list[str]:
    """Apply the migrations of `part` that the store has not had, all or none; their names.

    Raises StillInUse where processes live that know only older tables, StoreError with nothing changed.
    """
    return await altered(connections, lambda db: _apply(db, connections.address, part))


async def altered(connections: Connections, alter: Callable[[Connection], Awaitable[_T]]) -> _T:
    """Return the result of `alter`, which changes tables, alone and all or nothing. Raises StoreError with nothing changed."""
    address = connections.address
    problem: Exception | None = None
    for _ in range(_MAX_TRIES):
        try:
            async with connections.acquire() as db, db.transaction():
                await db.execute("select set_config('lock_timeout', $1, true)", str(_LOCK_MS))
                await db.execute("select pg_advisory_xact_lock($1)", LOCK)
                return await alter(db)
        except AGAIN as in_the_way:
            problem = in_the_way
            await asyncio.sleep(random.uniform(0, 1))  # two that are in each other's way must not meet again
        except (*LOST, pg.PostgresError) as other:
            raise explain(other, address) from other
    raise StoreBusy(
        f"The tables of {address.shown} are in use without a pause ({problem}), so they could not be changed. Nothing was"
        " done: try again when less is going on, or end what holds them (pg_stat_activity, pg_locks)."
    )


async def _apply(db: Connection, address: Address, part: str) -> list[str]:
    now = await standing(db, address)
    if now is not None:
        expect_known(now, address)
    if part == AFTER and (now is None or now.before < NEEDED):
        raise StoreError(
            f"The part of the migration before the deployment is still to be done: run `holdfast store migrate --{BEFORE}`."
        )
    todo = pending(now, part)
    if todo and part == AFTER:
        await _expect_nobody_older(db, address, todo[-1].version)
    if now is None:
        await db.execute(f"create schema if not exists {address.schema}")
    for migration in todo:
        await db.execute(address.localized(migration.sql), timeout=_LONGEST_S)
        await db.execute(f"insert into {address.schema}.migrations (version, part) values ($1, $2)", migration.version, part)
    if todo and todo[-1].version >= _CHECKED:
        for migration in MIGRATIONS:
            await db.execute(
                f"update {address.schema}.migrations set sha256 = $3 where (version, part) = ($1, $2) and sha256 is null",
                migration.version,
                part_of(migration),
                migration.sha256,
            )
    return [str(migration) for migration in todo]


async def _expect_nobody_older(db: Connection, address: Address, version: int) -> None:
    """Raises StillInUse while a session lives whose code does not know the tables of `version`."""
    rows = await db.fetch(sql(address)["living_sessions"], _MAX_NAMED)
    older = [row["label"] for row in rows if row["version"] < version]
    if older:
        raise StillInUse(
            f"Processes of an older Holdfast still work on {address.shown}: {', '.join(older)}. The part after the"
            " deployment takes away what they need, so it was not done. Stop or upgrade them, then run it again. (One that"
            " was killed counts until its lease is over, 10 s.)",
            labels=tuple(older),
        )


def expect_known(now: AppliedMigrations, address: Address) -> None:
    """Raises StoreTooNew where the store has been taken out of reach of this version, StoreUnreadable where it has had a
    migration that this version knows otherwise, or has tables of no release."""
    if (other := edited(MIGRATIONS, lambda each: now.applied.get((each.version, part_of(each))))) is not None:
        raise StoreUnreadable(was_edited(address.shown, other))
    if now.before and is_of_no_release(MIGRATIONS, now.before):
        raise StoreUnreadable(was_of_no_release(address.shown, now.before))
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
    if now.before < NEEDED:
        raise StoreUnreadable(
            f"The store at {address.shown} has the tables of an older Holdfast (version {now.before}, this one needs"
            f" {NEEDED}). Nothing was touched: run `holdfast store migrate --{BEFORE}`, which old processes do not mind."
        )
