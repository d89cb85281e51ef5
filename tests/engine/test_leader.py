"""Leading and being led, in one process on a real PostgreSQL and Redis: what no backlog may hide, and what it may not cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from holdfast import Engine, Workflow, task
from holdfast.compose.fleet import leading
from holdfast.core.views.status import status
from holdfast.engine.fleet import leader as leader_
from holdfast.engine.fleet import sweep as sweep_
from holdfast.models.providers import Providers
from holdfast.queues.none import NoQueue
from holdfast.settings import Settings
from holdfast.testing.model_server import ModelServer, Rule
from holdfast.testing.redis_server import RedisServer
from tests.engine.kit import bounded
from tests.engine.test_money import asks

SWEEP_FINDS_S = 1.5
"""What the leader's sweep needs at most; a worker's own would wait twice as long for it."""


@pytest.fixture
def settings(database: str) -> Iterator[Settings]:
    """A fleet of this test's own."""
    with RedisServer() as redis:
        yield Settings(store=database, queue=redis.url)


def brief(name: str) -> Workflow:
    wf = Workflow(name)
    wf.node("only")(task(lambda state: name))
    return wf


def held(until: asyncio.Event) -> Workflow:
    wf = Workflow("held")

    @wf.node("hold")
    @task
    async def hold(state):
        await until.wait()

    return wf


async def until_free(leader: leader_.Leader, slots: int) -> None:
    while leader.free != slots:
        await asyncio.sleep(0.01)


@bounded
async def test_runs_that_no_process_can_take_hide_no_others(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_, "MAX_RUNS", 2)
    known, unknown = brief("known"), brief("unknown")
    silent = Settings(store=settings.store)
    async with (
        Engine.open(settings.store, execute=False, settings=silent, queue=NoQueue()) as asking,
        Engine.open(settings.store, workflows=[known], settings=settings),
        leading(settings.store, settings=settings) as leader,
    ):
        for _ in range(5):
            await asking.start(unknown)
        await leader.leads.wait()
        await until_free(leader, 100)
        await asyncio.sleep(1)  # the leader knows of both workflows
        took_s = []
        while not took_s or (min(took_s) >= SWEEP_FINDS_S and len(took_s) < 3):  # a busy machine may be late once or twice
            began_s = time.monotonic()
            run = await asking.start(known)
            assert await run.result() == "known"
            took_s.append(time.monotonic() - began_s)
        assert min(took_s) < SWEEP_FINDS_S


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often a leader and a sweep have looked into the store."""
    counts = {"leader": 0, "sweep": 0}
    for name, kind in (("leader", leader_.Leader), ("sweep", sweep_.Sweep)):

        def counted(self, turn=kind.turn, name=name):
            counts[name] += 1
            return turn(self)

        monkeypatch.setattr(kind, "turn", counted)
    return counts


async def a_second(turns: dict[str, int], *names: str) -> float:
    """A second, or more where somebody has not looked by then: how long it really was, on a machine that others use."""
    began_s = time.monotonic()
    await asyncio.sleep(1)
    while not all(turns[name] for name in names):
        await asyncio.sleep(0.1)
    return time.monotonic() - began_s


@bounded
async def test_what_waits_for_a_slot_is_not_looked_for_all_the_time(settings: Settings, turns: dict[str, int]) -> None:
    enough = asyncio.Event()
    wf = held(enough)
    async with (
        Engine.open(settings.store, workflows=[wf], slots=1, settings=settings) as worker,
        leading(settings.store, settings=settings) as leader,
    ):
        await leader.leads.wait()
        runs = [await worker.start(wf) for _ in range(20)]
        await asyncio.sleep(4.5)  # all are overdue, for the worker's own patience too
        turns.update(leader=0, sweep=0)
        looked_s = await a_second(turns, "leader", "sweep")
        assert turns["leader"] <= 10 * looked_s
        assert turns["sweep"] <= 7 * looked_s
        enough.set()
        await asyncio.gather(*(run.result() for run in runs))


@bounded
async def test_nor_by_a_process_without_a_leader(store: str, turns: dict[str, int]) -> None:
    enough = asyncio.Event()
    wf = held(enough)
    async with Engine.open(store, slots=1) as worker:
        runs = [await worker.start(wf) for _ in range(20)]
        await asyncio.sleep(1.2)  # all are due
        turns.update(sweep=0)
        looked_s = await a_second(turns, "sweep")
        assert turns["sweep"] <= 10 * looked_s
        enough.set()
        await asyncio.gather(*(run.result() for run in runs))


@bounded
async def test_a_leader_whose_store_is_away_for_a_moment_keeps_leading(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.errors import StoreBusy
    from holdfast.stores.postgres.session import Leadership

    async with leading(settings.store, settings=settings) as leader:
        await leader.leads.wait()
        with monkeypatch.context() as broken:

            async def lead(*_: object) -> bool:
                raise StoreBusy("not now")

            broken.setattr(Leadership, "lead", lead)
            await asyncio.sleep(1)
            assert leader.leads.is_set(), "its lease is not over, so nobody else can lead"


@bounded
async def test_more_jobs_than_slots_are_spread_over_the_workers(settings: Settings) -> None:
    enough = asyncio.Event()
    wf = held(enough)
    async with (
        Engine.open(settings.store, execute=False, settings=settings) as asking,
        Engine.open(settings.store, workflows=[wf], slots=10, settings=settings) as one,
        Engine.open(settings.store, workflows=[wf], slots=10, settings=settings) as two,
        leading(settings.store, settings=settings) as leader,
    ):
        await leader.leads.wait()
        await until_free(leader, 20)
        runs = await asyncio.gather(*(asking.start(wf) for _ in range(20)))
        while one.executor.working + two.executor.working < 20:
            await asyncio.sleep(0.01)
        await until_free(leader, 0)
        enough.set()
        await asyncio.gather(*(run.result() for run in runs))
        await until_free(leader, 20)


@bounded
async def test_who_waits_for_money_of_its_tenant_goes_on_in_a_fleet_that_is_led(
    settings: Settings, server: ModelServer, model: Providers
) -> None:
    """The workers leave to the leader what waits; so it must look for money too."""
    server.script.add(Rule(text="."))
    wf = asks("a")
    silent = Settings(store=settings.store)
    async with (
        Engine.open(settings.store, execute=False, settings=silent, queue=NoQueue()) as asking,
        Engine.open(settings.store, workflows=[wf], model=model, settings=settings),
        leading(settings.store, settings=settings) as leader,
    ):
        await asking.set_budget("acme", "day", "0.000001")
        await leader.leads.wait()
        await until_free(leader, 100)
        runs = [await asking.start(wf, tenant="acme") for _ in range(3)]
        for run in runs:
            assert status(await run.settled()) == "budget_blocked"
        await asking.set_budget("acme", "day", None)
        assert [await run.result() for run in runs] == ["."] * 3


@bounded
async def test_a_process_that_comes_and_goes_always_goes(settings: Settings) -> None:
    """It may leave in the very moment in which it begins to listen."""
    for _ in range(60):
        async with asyncio.timeout(10), Engine.open(settings.store, execute=False, settings=settings) as engine:
            await engine.runs()
