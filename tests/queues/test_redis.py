"""The queue on a real Redis: what every queue promises, and what it does when Redis forgets, fills up, stops or dies."""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from redis.asyncio import Redis

from holdfast.core.values.ids import RunId, Seq
from holdfast.ports import DeliveredJob, Report
from holdfast.queues import redis as queue_
from holdfast.queues.redis import RedisQueue
from holdfast.testing.redis_server import RedisServer, installed
from tests.queues.conformance import LEADER, MAX_S, WORKER, Connect, QueueConformance, job, jobs, listening, some

_PREFIXES = (f"test-{number}" for number in itertools.count(1))
FULL = ("--maxmemory", "2mb", "--maxmemory-policy", "noeviction")


@pytest.fixture(scope="module", params=sorted(installed()))
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """Every kind that there is here: Redis 6.2, Valkey 9, the system's."""
    with RedisServer(program=installed()[request.param]) as running:
        yield running


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """One that a test may kill."""
    with RedisServer() as running:
        yield running


@pytest.fixture
def prefix() -> str:
    return next(_PREFIXES)


@pytest.fixture
async def connect(server: RedisServer, prefix: str) -> AsyncIterator[Connect]:
    opened: list[RedisQueue] = []

    async def connect() -> RedisQueue:
        opened.append(RedisQueue(server.url, prefix))
        return opened[-1]

    yield connect
    for queue in opened:
        await queue.aclose()


@pytest.fixture
async def client(server: RedisServer) -> AsyncIterator[Any]:
    """Somebody else at the same Redis."""
    opened = Redis.from_url(server.url)
    yield opened
    await opened.aclose()


class TestRedisQueue(QueueConformance):
    pass


async def test_everything_that_was_done_with_is_gone(connect: Connect, client: Any, prefix: str) -> None:
    queue = await connect()
    await queue.offer([job(number) for number in range(50)])
    await queue.place(WORKER, await some(lambda: queue.offered(LEADER), 50))
    await queue.acknowledge(WORKER, await some(lambda: queue.placed(WORKER), 50))
    for stream in (f"{prefix}:ready:default", f"{prefix}:worker:{WORKER}"):
        assert await client.xlen(stream) == 0
        assert [group["pending"] for group in await client.xinfo_groups(stream)] == [0]
    assert 0 < await client.ttl(f"{prefix}:worker:{WORKER}") <= 24 * 3600


async def test_when_redis_has_forgotten_everything_jobs_and_news_come_again(
    connect: Connect, client: Any, server: RedisServer
) -> None:
    leader, worker = await connect(), await connect()
    await leader.offer([job(1)])
    await some(lambda: leader.offered(LEADER), 1)
    offered = asyncio.create_task(some(lambda: leader.offered(LEADER), 1))
    placed = asyncio.create_task(some(lambda: worker.placed(WORKER), 1))
    async with listening(worker) as news:
        await asyncio.sleep(0.1)
        await client.flushall()
        await worker.offer([job(2)])
        await leader.place(WORKER, [DeliveredJob(job(3), "")])
        await leader.notify({RunId("run"): Seq(1)})
        async with asyncio.timeout(MAX_S):
            assert jobs(await offered) == [job(2)]
            assert jobs(await placed) == [job(3)]
            assert await news.get() == {"run": 1}


async def test_a_redis_that_was_killed_and_comes_back_empty_is_used_again(
    own_server: RedisServer, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = RedisQueue(own_server.url, prefix)
    offered = asyncio.create_task(some(lambda: queue.offered(LEADER), 1))
    placed = asyncio.create_task(some(lambda: queue.placed(WORKER), 1))
    async with listening(queue) as news:
        await asyncio.sleep(0.1)
        own_server.stop(signal.SIGKILL)
        with caplog.at_level(logging.WARNING, "holdfast"):
            for _ in range(3):  # said, and lost
                await queue.offer([job(1)])
                await queue.report(Report(WORKER, (), 1, 1))
        assert len([each for each in caplog.records if "does not answer" in each.message]) == 1
        own_server.start()
        async with asyncio.timeout(MAX_S):
            assert await news.get() == {}, "what was missed is told"
            await queue.offer([job(2)])
            await queue.place(WORKER, [DeliveredJob(job(3), "")])
            assert jobs(await offered) == [job(2)]
            assert jobs(await placed) == [job(3)]
    await queue.aclose()


async def test_a_redis_that_stands_still_is_given_up_in_a_bounded_time(
    own_server: RedisServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_, "_ANSWER_S", 0.3)
    queue = RedisQueue(own_server.url, prefix)
    await queue.offer([job(1)])
    own_server.signal(signal.SIGSTOP)
    try:
        async with asyncio.timeout(MAX_S):
            await queue.offer([job(2)])
            await queue.notify({RunId("run"): Seq(1)})
            await queue.aclose()
    finally:
        own_server.signal(signal.SIGCONT)


@pytest.mark.long
async def test_a_redis_whose_memory_is_full_drops_hints_and_frees_what_is_done_with(prefix: str) -> None:
    with RedisServer(settings=FULL) as server:
        queue, client = RedisQueue(server.url, prefix), Redis.from_url(server.url)
        offered = [job(number) for number in range(20_000)]
        for at in range(0, len(offered), 1_000):
            await queue.offer(offered[at : at + 1_000])
        waiting = await client.xlen(f"{prefix}:ready:default")
        assert 0 < waiting < len(offered)
        async with asyncio.timeout(MAX_S):
            left = waiting
            while left:
                found = await queue.offered(LEADER)
                await queue.place(WORKER, found)  # which may be too much for it, too
                left -= len(found)
        assert await client.xlen(f"{prefix}:ready:default") == 0, "what could not be handed on keeps no memory"
        await queue.reclaim(WORKER)
        await queue.offer([job(1)])
        assert jobs(await some(lambda: queue.offered(LEADER), 1)) == [job(1)]
        await queue.aclose()
        await client.aclose()


async def test_no_more_jobs_wait_for_a_leader_than_there_may(
    connect: Connect, client: Any, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_, "MAX_WAITING", 100)
    queue = await connect()
    for number in range(30):
        await queue.offer([job(number * 10 + each) for each in range(10)])
    assert await client.xlen(f"{prefix}:ready:default") == 110
    await queue.place(WORKER, await some(lambda: queue.offered(LEADER), 110))
    await queue.offer([job(1)])
    assert await client.xlen(f"{prefix}:ready:default") == 1


async def test_an_unreadable_notice_is_dropped_and_stops_no_process(
    connect: Connect, client: Any, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = await connect()
    await client.xadd(f"{prefix}:ready:default", {"job": b"\xff{"})
    await client.xadd(f"{prefix}:ready:default", {"other": "field"})
    await client.hset(f"{prefix}:reports:default", "stranger", b"[]")
    await queue.offer([job(1)])
    with caplog.at_level(logging.WARNING, "holdfast"):
        assert jobs(await some(lambda: queue.offered(LEADER), 1)) == [job(1)]
    assert any("cannot read" in record.message for record in caplog.records)
    assert await client.xlen(f"{prefix}:ready:default") == 1
    async with asyncio.timeout(MAX_S):
        assert list(await queue.reported()) == []
        async with listening(queue) as news:
            await client.publish(f"{prefix}:news", b"{]")
            assert await news.get() == {}
            await queue.notify({RunId("run"): Seq(1)})
            assert await news.get() == {"run": 1}


async def test_what_was_read_when_the_connection_was_cut_comes_again(connect: Connect, client: Any) -> None:
    """A cut connection may have carried a reply that nobody has heard."""
    leader, worker = await connect(), await connect()
    await leader.offer([job(1)])
    await leader.place(WORKER, [DeliveredJob(job(2), "")])
    assert jobs(await some(lambda: leader.offered(LEADER), 1)) == [job(1)]
    assert jobs(await some(lambda: worker.placed(WORKER), 1)) == [job(2)]
    for hear, expected in ((lambda: leader.offered(LEADER), job(1)), (lambda: worker.placed(WORKER), job(2))):
        again = asyncio.create_task(some(hear, 1))
        await asyncio.sleep(0.2)
        await client.client_kill_filter(_type="normal", skipme=True)
        assert jobs(await again) == [expected]
