"""Pools above steps: declared, lent in shares, and what steps are known to take of them.

Never here: who gets how much.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.capacity.estimates import Estimate, Use, learned
from holdfast.core.capacity.lending import (
    Bucket,
    DeclaredPool,
    Grant,
    LendingResult,
    PoolRow,
    Share,
    Visit,
    Visitor,
    declared,
    lend,
)
from holdfast.errors import Conflict
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.context import StorePort
from holdfast.stores.row import astuple


class Lending(StorePort):
    """Keeps ports.Lending."""

    async def set_pool(self, pool: DeclaredPool) -> None:
        async with self._db.writing() as db:
            found = _pools(await db.fetch(self._sql["lock_lent_pools"], [pool.name]))
            row = declared(pool, found[0] if found else None, await db.fetchval(self._sql["now_ms"]))
            await db.execute(self._sql["put_lent_pool"], *astuple(row.pool), *astuple(row.bucket))

    async def add_pool(self, pool: DeclaredPool) -> bool:
        async with self._db.writing() as db:
            row = declared(pool, None, await db.fetchval(self._sql["now_ms"]))
            return await db.fetchval(self._sql["add_lent_pool"], *astuple(row.pool), *astuple(row.bucket)) is not None

    async def remove_pool(self, name: str) -> bool:
        async with self._db.writing() as db:
            found = await db.fetchval(self._sql["delete_lent_pool"], name)
            await db.execute(self._sql["tidy_shares"])
        return found is not None

    async def pools(self) -> Sequence[DeclaredPool]:
        return [row.pool for row in _pools(await self._db.fetch(self._sql["lent_pools"]))]

    async def lend(self, visitor: Visitor, visits: Sequence[Visit]) -> Sequence[Grant]:
        asked = sorted(visits, key=lambda visit: visit.pool)
        names = [visit.pool for visit in asked]
        async with self._db.writing() as db:
            await db.execute(self._sql["expire_holders"], names, visitor.session)
            pools = _pools(await db.fetch(self._sql["lock_lent_pools"], names))
            now_ms, lives = await db.fetchrow(self._sql["moment"], visitor.session)
            if not lives:
                raise Conflict(f"Session {visitor.session} is dead, so {visitor.holder} has nothing of any pool any more.")
            shares = [Share(*row) for row in await db.fetch(self._sql["lent_shares"], names)]
            lent = lend(pools, shares, visitor, asked, now_ms)
            await self._keep(db, lent)
        return lent.grants

    async def pool_shares(self, pool: str) -> Sequence[Share]:
        return [Share(*row) for row in await self._db.fetch(self._sql["lent_shares"], [pool])]

    async def estimates(self, *, workflow: str | None = None, pool: str | None = None) -> Sequence[Estimate]:
        return [Estimate(*row) for row in await self._db.fetch(self._sql["estimates"], workflow, pool)]

    async def learn(self, uses: Sequence[Use]) -> None:
        if not uses:
            return
        kinds = _columns(sorted({use.kind for use in uses}))
        async with self._db.writing() as db:
            await db.execute(self._sql["make_estimates"], *kinds)
            found = [Estimate(*row) for row in await db.fetch(self._sql["lock_estimates"], *kinds)]
            new = learned({each.kind: each for each in found}, uses)
            await db.execute(self._sql["put_estimates"], *_columns([astuple(each) for each in new.values()]))

    async def _keep(self, db: Connection, loan: LendingResult) -> None:
        if loan.gone:
            await db.execute(self._sql["delete_shares"], *_columns([share.key for share in loan.gone]))
        if loan.shares:
            await db.execute(self._sql["put_shares"], *_columns([astuple(share)[:-1] for share in loan.shares]))
            levels = [(pool, *astuple(bucket)) for pool, bucket in loan.buckets.items()]
            await db.execute(self._sql["keep_levels"], *_columns(levels))


def _pools(rows: Sequence[Any]) -> list[PoolRow]:
    found = [tuple(row) for row in rows]
    return [PoolRow(DeclaredPool(*row[:-3]), Bucket(*row[-3:])) for row in found]


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
