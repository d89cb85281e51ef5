"""A process that borrows and is killed: it holds the only slot of a pool, and waits in line for it a second time.

usage: python -m tests.pools.victim AUTHORITY POOL

It says `waits` once it does both. Its slot is lent for two seconds from about then on.
"""

from __future__ import annotations

import asyncio
import sys

from holdfast.core.quota import Pool, Want
from holdfast.machine import MachineClock
from holdfast.pools import postgres, redis
from holdfast.pools.borrower import Borrower
from holdfast.ports import PoolAuthority
from holdfast.stores.postgres.address import Address

SILENCE_S = 1.5
LENT_S = 2.0
LEASE_S = 3.0


def authority(address: str) -> PoolAuthority:
    if address.startswith("redis"):
        return redis.RedisAuthority.connect(address)
    where = Address.of(address)
    return postgres.PostgresAuthority(*where.dsns, schema=where.schema)


def slot(name: str) -> Pool:
    return Pool(name, "slots", 1, lease_s=LEASE_S)


async def main(address: str, pool: str) -> None:
    redis.SILENCE_S = postgres.SILENCE_S = SILENCE_S  # type: ignore[misc]
    borrower = Borrower(authority(address), MachineClock(), "victim", slack_s=0.0)
    wants = [Want(slot(pool))]
    await borrower.reserve(wants, deadline_s=LENT_S)
    again = asyncio.create_task(borrower.reserve(wants, deadline_s=LENT_S))
    while (await borrower.show([slot(pool)]))[0].waiting == 0:
        await asyncio.sleep(0.01)
    print("waits", flush=True)
    await again


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
