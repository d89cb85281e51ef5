"""A process that holds shares of a pool and is killed or frozen: `python -m tests.engine.placer STORE POOL WANTED [OUTLIVES_S]`

It says `SESSION holds N` once it has N of the pool.
"""

from __future__ import annotations

import asyncio
import sys

from holdfast.compose import open_store
from holdfast.core.capacity.lending import Grant
from holdfast.core.values.ids import SessionId
from holdfast.engine.capacity.shares import Need, PoolShares
from holdfast.platform.machine import MachineClock, RandomIds

LEASE_S = 3.0


async def main(where: str, pool: str, wanted: str, outlives_s: str = "0") -> None:
    store = await open_store(where, lease_s=LEASE_S)
    session: SessionId = RandomIds().session()
    await store.sessions.open(session, "placer", [])

    def changed(name: str, grant: Grant | None) -> None:
        print(session, "holds", grant.usable if grant is not None else None, flush=True)

    shares = PoolShares(
        store.lending, store.sessions, MachineClock(), "lane", lambda: session, changed, outlives_s=float(outlives_s)
    )
    shares.start(lambda problem: None)
    shares.need({pool: Need(wanted=int(wanted))})
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
