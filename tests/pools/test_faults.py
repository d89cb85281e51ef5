"""What shared pools do when processes, connections and Redis die: never lend too much, and never keep what is nobody's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from redis.asyncio import Redis

from holdfast.core.quota import Pool, Want
from holdfast.errors import PoolsAway
from holdfast.machine import MachineClock
from holdfast.pools import postgres as in_postgres
from holdfast.pools import redis as in_redis
from holdfast.pools.borrower import Borrower
from holdfast.ports import PoolAuthority, Pools
from holdfast.stores.postgres.address import Address
from holdfast.testing.postgres_server import PostgresServer
from holdfast.testing.redis_server import RedisServer
from tests.forks import AsyncFork
from tests.pools.conformance import in_line, reserve, standing
from tests.pools.forwarder import Forwarder
from tests.pools.victim import LENT_S, SILENCE_S, authority, slot

LEASE_S = 1.0
REDIS_SAID, POSTGRES_SAID = b"EVALSHA", b"commit"


@asynccontextmanager
async def borrower(where: PoolAuthority, name: str = "survivor", slack_s: float = 0.3) -> AsyncIterator[Pools]:
    pools = Borrower(where, MachineClock(), name, slack_s=slack_s)
    try:
        yield pools
    finally:
        await pools.aclose()


@asynccontextmanager
async def victim(address: str, pool: str) -> AsyncIterator[AsyncFork]:
    """Another process, which has the only slot of `pool` and stands in line for it again."""
    process = await AsyncFork.start("tests.pools.victim", address, pool)
    try:
        assert await asyncio.wait_for(process.stdout.readline(), 20) == b"waits\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.wait_for(process.wait(), 10)


@pytest.fixture
async def clean(redis: RedisServer) -> AsyncIterator[str]:
    """A Redis that has forgotten everything."""
    async with Redis.from_url(redis.url) as server:
        await server.flushall()
    return redis.url


async def outlive_a_killed_process(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (in_redis, in_postgres):
        monkeypatch.setattr(module, "SILENCE_S", SILENCE_S)
    place = slot("place")
    async with borrower(authority(address)) as pools, victim(address, place.name) as process:
        behind = await in_line(pools, place, deadline_s=2)
        process.kill()
        await process.wait()
        killed = time.monotonic()
        await asyncio.wait_for(behind, 10)
        waited_s = time.monotonic() - killed
        assert waited_s > LENT_S - 1.0, "its call may still have been running"
        assert waited_s < LENT_S + 1.0, "nobody waits for a place in line that is a dead process's"
        assert (await standing(pools, place)).waiting == 0


async def test_what_a_killed_process_had_in_redis_comes_back_at_its_deadline(
    clean: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await outlive_a_killed_process(clean, monkeypatch)


async def test_what_a_killed_process_had_in_postgres_comes_back_at_its_deadline(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await outlive_a_killed_process(database, monkeypatch)


# --- Redis forgets ----------------------------------------------------------------------------------------------------


def redis_rate(name: str = "rate") -> Pool:
    return Pool(name, "rate", 6_000, 1.0, LEASE_S)


async def test_a_pool_without_a_record_is_closed_for_one_lease_and_starts_empty(clean: str) -> None:
    pool = Pool("rate", "rate", 60, 60.0, LEASE_S)
    async with borrower(authority(clean)) as pools:
        began = time.monotonic()
        await reserve(pools, Want(pool, 1))
        assert time.monotonic() - began >= LEASE_S
        began = time.monotonic()
        await reserve(pools, Want(pool, 2))
        assert time.monotonic() - began > 1.5, "there is only what it has refilled since"


async def test_after_flushall_nothing_is_lent_for_one_lease_and_nobody_loses_his_place(clean: str) -> None:
    places = Pool("slots", "slots", 1, lease_s=2.0)
    async with borrower(authority(clean), "one") as one, borrower(authority(clean), "two") as two:
        await reserve(one, places, deadline_s=1.6)
        tasks = [await in_line(pools, places) for pools in (two, one, two)]
        async with Redis.from_url(clean) as server:
            await server.flushall()
        flushed, order = time.monotonic(), []
        for number, task in enumerate(tasks):
            task.add_done_callback(lambda _, number=number: order.append(number))
        shares = await asyncio.wait_for(tasks[0], 6)
        assert time.monotonic() - flushed >= 1.9, "the call that was lent the slot before may still be running"
        assert (await standing(one, places)).waiting == 2
        two.give_back(shares, {})
        one.give_back(await asyncio.wait_for(tasks[1], 2), {})
        await asyncio.wait_for(tasks[2], 2)
        assert order == [0, 1, 2]


async def test_calls_wait_for_a_redis_that_is_started_again() -> None:
    with RedisServer() as server:
        async with borrower(authority(server.url)) as pools:
            await reserve(pools, redis_rate())
            server.stop()
            waiting = asyncio.create_task(reserve(pools, redis_rate()))
            await asyncio.sleep(1.0)
            assert not waiting.done(), "calls wait; they do not fail"
            server.start()
            began = time.monotonic()
            await asyncio.wait_for(waiting, 10)
            assert time.monotonic() - began >= LEASE_S - 0.1, "it has forgotten what it lent"


async def test_a_redis_whose_memory_is_full_is_waited_for() -> None:
    with RedisServer(settings=("--maxmemory", "2mb", "--maxmemory-policy", "noeviction")) as server:
        async with borrower(authority(server.url)) as pools, Redis.from_url(server.url) as other:
            await reserve(pools, redis_rate())
            for number in range(2_000):
                try:
                    await other.set(f"ballast-{number}", b"x" * 4_096)
                except Exception:
                    break
            waiting = asyncio.create_task(reserve(pools, redis_rate("second")))
            await asyncio.sleep(0.5)
            assert not waiting.done(), "a Redis without memory lends nothing"
            await other.flushall()
            await asyncio.wait_for(waiting, 10)


# --- Lost answers -----------------------------------------------------------------------------------------------------


async def lose_an_answer(forwarder: Forwarder, where: PoolAuthority, said: bytes, witness: Pools) -> None:
    places = Pool("slots", "slots", 1, lease_s=3.0)
    async with borrower(where, "cut") as pools:
        await reserve(pools, redis_rate("warm"))
        pools.give_back(await reserve(pools, places), {})
        forwarder.cut_after(said)
        shares = await reserve(pools, places)
        assert forwarder.cuts == 1
        found = await standing(witness, places)
        assert (found.taken, found.waiting) == (1, 0), "asked for twice, lent once"
        pools.give_back(shares, {})
        await reserve(witness, places, within_s=2)
        gone = asyncio.create_task(reserve(pools, places))
        await asyncio.sleep(0.05)
        forwarder.cut_after(said)
        gone.cancel()
    found = await standing(witness, places)
    assert (found.taken, found.waiting) == (1, 0), "who was called off without an answer keeps nothing"


async def test_an_answer_of_redis_that_is_lost_is_asked_for_again(redis: RedisServer, clean: str) -> None:
    async with Forwarder(redis.port) as forwarder, borrower(authority(clean), "witness") as witness:
        where = authority(f"redis://127.0.0.1:{forwarder.port}/0")
        await lose_an_answer(forwarder, where, REDIS_SAID, witness)


async def test_a_commit_of_postgres_whose_answer_is_lost_is_asked_for_again(
    postgres: PostgresServer, database: str
) -> None:
    async with Forwarder(postgres.port) as forwarder, borrower(authority(database), "witness") as witness:
        there = database.replace(f":{postgres.port}/", f":{forwarder.port}/")
        await lose_an_answer(forwarder, authority(there), POSTGRES_SAID, witness)


async def test_a_process_that_dies_in_the_middle_of_a_visit_to_postgres_leaves_nothing(database: str) -> None:
    where = Address.of(database)
    async with borrower(authority(database), "first") as first, borrower(authority(database), "second") as second:
        await reserve(first, slot("held"), deadline_s=1)
        visitor = await asyncpg.connect(where.dsns[0])
        await visitor.execute(f"begin; select * from {where.schema}.pools for update")
        waiting = asyncio.create_task(reserve(second, slot("other")))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        visitor.terminate()
        await asyncio.wait_for(waiting, 5)


async def test_an_authority_that_is_not_there_says_so() -> None:
    where = in_redis.RedisAuthority.connect("redis://127.0.0.1:1/0")
    with pytest.raises(PoolsAway, match="cannot be reached"):
        await where.show(["any"])
    await where.aclose()
