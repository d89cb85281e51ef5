"""What every queue of a fleet promises (holdfast.ports.Queue), as tests. A queue takes part by giving `connect`.

Two queues that come from the same `connect` are two processes, as far as these tests can tell. Whatever is lost is found
in the store; these tests are about what comes when nothing is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from holdfast.core.values.ids import RunId, Seq, SessionId
from holdfast.ports import DeliveredJob, Job, Queue, Report

Connect = Callable[[], Awaitable[Queue]]
"""Opens a queue: the same one each time, as a process of its own would."""

LEADER, NEXT_LEADER, WORKER, OTHER = (SessionId(name) for name in ("leader", "next-leader", "worker", "other"))
MAX_S = 15.0
A_MOMENT_S = 0.2


def job(number: int, *dead: str) -> Job:
    return Job(RunId(f"run-{number}"), "graph", frozenset(SessionId(name) for name in dead))


def jobs(handed: Sequence[DeliveredJob]) -> list[Job]:
    return [each.job for each in handed]


async def some(hear: Callable[[], Awaitable[Sequence[DeliveredJob]]], count: int) -> list[DeliveredJob]:
    """`count` jobs, however many come at a time."""
    found: list[DeliveredJob] = []
    async with asyncio.timeout(MAX_S):
        while len(found) < count:
            found += await hear()
    return found


async def nothing(hear: Callable[[], Awaitable[Sequence[object]]]) -> bool:
    """Whether nothing is heard for a moment."""
    try:
        async with asyncio.timeout(A_MOMENT_S):
            while not await hear():
                pass
    except TimeoutError:
        return True
    return False


@asynccontextmanager
async def listening(queue: Queue) -> AsyncIterator[asyncio.Queue[dict[RunId, Seq]]]:
    """All news from now on."""
    heard: asyncio.Queue[dict[RunId, Seq]] = asyncio.Queue()

    async def listen() -> None:
        while True:
            heard.put_nowait(dict(await queue.news()))

    task = asyncio.create_task(listen())
    try:
        async with asyncio.timeout(MAX_S):
            assert await heard.get() == {}, "the first says that something may have been missed"
            yield heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class QueueConformance:
    """Every test is a promise; `connect` is the queue's."""

    async def test_a_job_comes_to_the_leader_once_and_in_order(self, connect: Connect) -> None:
        worker, leader = await connect(), await connect()
        await worker.offer([job(1), job(2, "dead-1", "dead-2")])
        await worker.offer([job(3)])
        assert jobs(await some(lambda: leader.offered(LEADER), 3)) == [job(1), job(2, "dead-1", "dead-2"), job(3)]
        assert await nothing(lambda: leader.offered(LEADER))

    async def test_what_a_leader_has_not_placed_comes_to_the_next_one(self, connect: Connect) -> None:
        worker, leader, standby = await connect(), await connect(), await connect()
        await worker.offer([job(1), job(2), job(3)])
        first, *_ = await some(lambda: leader.offered(LEADER), 3)
        await leader.place(WORKER, [first])
        assert jobs(await some(lambda: standby.offered(NEXT_LEADER), 2)) == [job(2), job(3)]
        assert await nothing(lambda: standby.offered(NEXT_LEADER))

    async def test_what_needs_no_worker_comes_to_none(self, connect: Connect) -> None:
        leader, standby = await connect(), await connect()
        await leader.offer([job(1), job(2)])
        first, _ = await some(lambda: leader.offered(LEADER), 2)
        await leader.drop([first, DeliveredJob(job(9), "")])
        assert jobs(await some(lambda: standby.offered(NEXT_LEADER), 1)) == [job(2)]

    async def test_a_placed_job_comes_to_its_worker_and_to_no_other(self, connect: Connect) -> None:
        leader, worker, other = await connect(), await connect(), await connect()
        await leader.place(WORKER, [DeliveredJob(job(1, "dead"), ""), DeliveredJob(job(2), "")])
        assert await nothing(lambda: other.placed(OTHER))
        assert jobs(await some(lambda: worker.placed(WORKER), 2)) == [job(1, "dead"), job(2)]
        assert await nothing(lambda: worker.placed(WORKER))

    async def test_a_worker_that_waits_before_anything_was_placed_hears_of_it(self, connect: Connect) -> None:
        leader, worker = await connect(), await connect()
        waiting = asyncio.create_task(some(lambda: worker.placed(WORKER), 1))
        await asyncio.sleep(A_MOMENT_S)
        await leader.place(WORKER, [DeliveredJob(job(1), "")])
        assert jobs(await waiting) == [job(1)]

    async def test_what_a_dead_worker_has_not_acknowledged_is_reclaimed_read_or_not(self, connect: Connect) -> None:
        leader, worker = await connect(), await connect()
        await leader.place(WORKER, [DeliveredJob(job(1), ""), DeliveredJob(job(2), "")])
        first, _ = await some(lambda: worker.placed(WORKER), 2)
        await worker.acknowledge(WORKER, [first])
        await leader.place(WORKER, [DeliveredJob(job(3), "")])
        assert list(await leader.reclaim(WORKER)) == [job(2), job(3)]
        assert list(await leader.reclaim(WORKER)) == []
        assert await nothing(lambda: worker.placed(WORKER))

    async def test_a_worker_that_was_given_up_is_given_jobs_again(self, connect: Connect) -> None:
        leader, worker = await connect(), await connect()
        waiting = asyncio.create_task(some(lambda: worker.placed(WORKER), 1))
        await asyncio.sleep(A_MOMENT_S)
        await leader.reclaim(WORKER)
        await leader.place(WORKER, [DeliveredJob(job(1), "")])
        assert jobs(await waiting) == [job(1)]

    async def test_a_leader_hears_the_latest_of_each_worker_and_then_every_word(self, connect: Connect) -> None:
        worker, leader = await connect(), await connect()
        await worker.report(Report(WORKER, ("a", "b"), 4, 4))
        await worker.report(Report(WORKER, ("a", "b"), 4, 3, 1))
        async with asyncio.timeout(MAX_S):
            assert list(await leader.reported()) == [Report(WORKER, ("a", "b"), 4, 3, 1)]
            await worker.report(Report(WORKER, ("a",), 4, 0, 4))
            assert list(await leader.reported()) == [Report(WORKER, ("a",), 4, 0, 4)]

    async def test_a_worker_that_was_given_up_is_no_worker_to_the_next_leader(self, connect: Connect) -> None:
        worker, leader = await connect(), await connect()
        await worker.report(Report(WORKER, ("a",), 1, 1))
        await leader.reclaim(WORKER)
        async with asyncio.timeout(MAX_S):
            assert list(await leader.reported()) == []

    async def test_news_come_to_all_who_listen(self, connect: Connect) -> None:
        teller, one, two = await connect(), await connect(), await connect()
        async with listening(one) as first, listening(two) as second:
            await teller.notify({RunId("run-1"): Seq(7)})
            assert await first.get() == await second.get() == {"run-1": 7}

    async def test_who_stops_waiting_leaves_no_task_behind_and_misses_nothing(self, connect: Connect) -> None:
        queue = await connect()
        before = len(asyncio.all_tasks())
        waits = [queue.offered(LEADER), queue.placed(WORKER), queue.news(), queue.reported()]
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        await asyncio.sleep(A_MOMENT_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(asyncio.all_tasks()) == before
        await queue.offer([job(1)])
        assert jobs(await some(lambda: queue.offered(LEADER), 1)) == [job(1)]
