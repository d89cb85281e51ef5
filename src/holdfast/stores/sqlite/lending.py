"""Pools above steps: declared, lent in shares, and what steps are known to take of them.

A share lives as long as its session, so the dead are found first. Rates and turns are counted on the clock since boot, as
leases are: were each process to go by its own, the clocks of two that were started before and after the machine's was set
would fill a bucket twice.

Never here: who gets how much.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

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
from holdfast.stores.row import astuple
from holdfast.stores.sqlite.context import SQL, StoreContext, StorePort, boot_ms, rows, value
from holdfast.stores.sqlite.session import Sessions

_encode = msgspec.json.Encoder().encode


class Lending(StorePort):
    """Keeps ports.Lending."""

    def __init__(self, context: StoreContext, sessions: Sessions) -> None:
        super().__init__(context)
        self._sessions = sessions

    async def set_pool(self, pool: DeclaredPool) -> None:
        def write(db: apsw.Connection) -> None:
            row = declared(pool, next(iter(_pools(db, [pool.name])), None), boot_ms())
            rows(db, "put_lent_pool", (*astuple(row.pool), *astuple(row.bucket)))

        await self._writer.write(write)

    async def add_pool(self, pool: DeclaredPool) -> bool:
        def write(db: apsw.Connection) -> bool:
            row = declared(pool, None, boot_ms())
            return value(db, "add_lent_pool", (*astuple(row.pool), *astuple(row.bucket))) is not None

        return await self._writer.write(write)

    async def remove_pool(self, name: str) -> bool:
        def write(db: apsw.Connection) -> bool:
            found = value(db, "delete_lent_pool", (name,)) is not None
            rows(db, "tidy_shares")
            return found

        return await self._writer.write(write)

    async def pools(self) -> Sequence[DeclaredPool]:
        return [row.pool for row in await self._reader.ask(lambda db: _pools(db, None))]

    async def lend(self, visitor: Visitor, visits: Sequence[Visit]) -> Sequence[Grant]:
        await self._sessions.expire()
        asked = sorted(visits, key=lambda visit: visit.pool)
        now_ms = self._clock.now_ms()

        def write(db: apsw.Connection) -> LendingResult | None:
            if value(db, "lives", (visitor.session,)) is None:
                return None
            names = [visit.pool for visit in asked]
            lent = lend(_pools(db, names), _shares(db, names, now_ms), visitor, asked, boot_ms())
            _keep(db, lent)
            return lent

        lent = await self._writer.write(write)
        if lent is None:
            raise Conflict(f"Session {visitor.session} is dead, so {visitor.holder} has nothing of any pool any more.")
        return lent.grants

    async def pool_shares(self, pool: str) -> Sequence[Share]:
        await self._sessions.expire()
        now_ms = self._clock.now_ms()
        return await self._reader.ask(lambda db: _shares(db, [pool], now_ms))

    async def estimates(self, *, workflow: str | None = None, pool: str | None = None) -> Sequence[Estimate]:
        return [Estimate(*row) for row in await self._reader.ask(lambda db: rows(db, "estimates", (workflow, pool)))]

    async def learn(self, uses: Sequence[Use]) -> None:
        def write(db: apsw.Connection) -> None:
            found = [Estimate(*row) for kind in {use.kind for use in uses} for row in rows(db, "estimate", kind)]
            new = learned({each.kind: each for each in found}, uses)
            db.executemany(SQL["put_estimate"], [astuple(each) for each in new.values()])

        await self._writer.write(write)


def _pools(db: apsw.Connection, names: Sequence[str] | None) -> list[PoolRow]:
    """These pools, or all."""
    found: list[Any] = rows(db, "lent_pools", {"pools": None if names is None else _encode(names).decode()})
    return [PoolRow(DeclaredPool(*row[:-3]), Bucket(*row[-3:])) for row in found]


def _shares(db: apsw.Connection, pools: Sequence[str], now_ms: int) -> list[Share]:
    found: list[Any] = rows(db, "lent_shares", {"pools": _encode(pools).decode(), "now_ms": now_ms})
    return [Share(*(*row[:7], bool(row[7]), *row[8:])) for row in found]


def _keep(db: apsw.Connection, loan: LendingResult) -> None:
    db.executemany(SQL["delete_share"], [share.key for share in loan.gone])
    db.executemany(SQL["put_share"], [astuple(share)[:-1] for share in loan.shares])
    db.executemany(SQL["keep_level"], [(*astuple(bucket), pool) for pool, bucket in loan.buckets.items()])
