"""A lane's leader places the steps of a whole fleet: by labels and pools, and goes on where the one before it stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.asyncio import Redis

from holdfast import Demand, Engine
from holdfast.compose.fleet import leading
from holdfast.core.facts.events import StepStarted
from holdfast.core.rules.questions import WORKFLOW_MISSING
from holdfast.core.values.demand import Resources
from holdfast.core.values.ids import SessionId
from holdfast.engine.fleet.leader import Leader
from holdfast.errors import UsageError
from holdfast.settings import LaneRules, Settings
from holdfast.testing.redis_server import RedisServer
from tests.engine.kit import bounded
from tests.engine.test_placing import FOUR_CORES, Stage, played


@pytest.fixture
def settings(database: str) -> Iterator[Settings]:
    """A fleet of this test's own."""
    with RedisServer() as redis:
        yield Settings(store=database, queue=redis.url)


async def led(engines: list[Engine]) -> None:
    """Until every worker leaves placing to the leader."""
    while any(engine.executor.placing.places for engine in engines):
        await asyncio.sleep(0.02)


def kill(leader: Leader) -> None:
    """Have a leader do nothing more, and say nothing: its lease runs out."""
    for loop in (*leader._loops, leader._pool_client._shares._loop):
        loop._task.cancel()  # type: ignore[union-attr]
    leader._runtime.store.sessions._renewer.stop()  # type: ignore[attr-defined]


@bounded
async def test_the_leader_sends_each_step_to_a_worker_that_has_what_it_asks_for(settings: Settings) -> None:
    stage = Stage()
    stage.go.set()
    flows = {label: played(stage, f"on-{label}", Demand(labels=(label,), cpu_m=4000), copies=3) for label in ("gpu", "disk")}
    async with AsyncExitStack() as undo:
        leader = await undo.enter_async_context(leading(settings.store, settings=settings))
        await leader.leads.wait()
        engines = {
            label: await undo.enter_async_context(
                Engine.open(
                    settings.store, workflows=[*flows.values()], labels=[label], resources=FOUR_CORES, settings=settings
                )
            )
            for label in flows
        }
        await led([*engines.values()])
        desk = await undo.enter_async_context(Engine.open(settings.store, execute=False, settings=settings))
        runs = {label: await desk.start(flow) for label, flow in flows.items() for _ in range(2)}
        for label, run in runs.items():
            await run.result()
            on = {
                each.event.session
                for each in await run.events()
                if isinstance(each.event, StepStarted) and each.event.step.startswith("step")
            }
            assert on == {engines[label].runtime.membership.session}
    assert stage.most == {"on-gpu": 1, "on-disk": 1}, "four cores each, and each step takes them all"


@bounded
async def test_another_leader_goes_on_and_no_quota_is_exceeded(settings: Settings) -> None:
    stage = Stage()
    wf = played(stage, "quota", Demand(pools={"BROWSERS": 1}, cpu_m=100), copies=8)
    async with AsyncExitStack() as undo:
        first = await undo.enter_async_context(leading(settings.store, settings=settings))
        await first.leads.wait()
        second = await undo.enter_async_context(leading(settings.store, settings=settings))
        engines = [
            await undo.enter_async_context(
                Engine.open(settings.store, workflows=[wf], resources=Resources(cpu_m=8000), settings=settings)
            )
            for _ in range(2)
        ]
        await engines[0].set_pool("BROWSERS", slots=5)
        await led(engines)
        runs = [await engines[n % 2].start(wf) for n in range(4)]
        await stage.seen("quota", 5)
        kill(first)
        await second.leads.wait()
        await asyncio.sleep(0.5)
        assert stage.now["quota"] == 5, "what the first has placed goes on, and counts"
        stage.go.set()
        for run in runs:
            await run.result()
        starts = [each.event.step for run in runs for each in await run.events() if isinstance(each.event, StepStarted)]
        assert len(starts) == len(runs) * 9, "no step was started twice"
    assert stage.most["quota"] == 5


@bounded
async def test_a_process_whose_session_died_takes_nothing_of_a_pool_before_it_leads_again(settings: Settings) -> None:
    """It has another session soon, and may lead no more: what that takes in the lane's name is nobody's to place against."""
    stage = Stage()
    wf = played(stage, "quota", Demand(pools={"BROWSERS": 1}, cpu_m=100), copies=8)
    async with AsyncExitStack() as undo:
        first = await undo.enter_async_context(leading(settings.store, settings=settings))
        await first.leads.wait()
        engine = await undo.enter_async_context(
            Engine.open(settings.store, workflows=[wf], resources=Resources(cpu_m=8000), settings=settings)
        )
        await engine.set_pool("BROWSERS", slots=5)
        await led([engine])
        run = await engine.start(wf)
        await stage.seen("quota", 5)
        lead, may_ask = first._leadership.lead, asyncio.Event()

        async def late(lane: str, session: SessionId) -> bool:
            await may_ask.wait()
            return await lead(lane, session)

        first._leadership.lead = late  # type: ignore[method-assign]
        membership, shares = first._runtime.membership, first._pool_client._shares
        dead = membership.session
        assert dead is not None
        await first._runtime.store.sessions.close(dead)
        while membership.session in (None, dead):
            await asyncio.sleep(0.02)
        shares._look()
        assert shares._session is None
        second = await undo.enter_async_context(leading(settings.store, settings=settings))
        await second.leads.wait()
        may_ask.set()
        while first.leads.is_set():
            await asyncio.sleep(0.02)
        stage.go.set()
        await run.result()
        held = {share.session for share in await engine.runtime.store.lending.pool_shares("BROWSERS") if share.granted}
        assert held <= {second._runtime.membership.session}
    assert stage.most["quota"] == 5


@bounded
async def test_a_leader_places_nothing_before_it_has_heard_what_those_have_who_live(settings: Settings) -> None:
    """One worker has all of a pool and is slow to say so, and what it has said before is lost with the queue."""
    stage = Stage()
    wf = played(stage, "quota", Demand(pools={"BROWSERS": 1}, cpu_m=100), copies=8)
    small, large = Resources(cpu_m=500), Resources(cpu_m=8000)
    async with AsyncExitStack() as undo:
        busy = await undo.enter_async_context(Engine.open(settings.store, workflows=[wf], resources=small, settings=settings))
        await busy.set_pool("BROWSERS", slots=5)
        async with leading(settings.store, settings=settings) as first:
            await first.leads.wait()
            await led([busy])
            run = await busy.start(wf)
            await stage.seen("quota", 5)
        dispatch: Any = busy.executor.fleet
        report, dispatch._report = dispatch._report, lambda: asyncio.sleep(0)
        assert settings.queue is not None
        async with Redis.from_url(settings.queue) as redis:
            await redis.flushall()
        idle = await undo.enter_async_context(Engine.open(settings.store, workflows=[wf], resources=large, settings=settings))
        second = await undo.enter_async_context(leading(settings.store, settings=settings))
        await second.leads.wait()
        await led([idle])
        await asyncio.sleep(1)
        dispatch._report = report
        await asyncio.sleep(0.5)
        assert stage.now["quota"] == 5
        stage.go.set()
        await run.result()
    assert stage.most["quota"] == 5


@bounded
async def test_what_comes_to_a_worker_too_late_does_not_begin_there(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    stage.go.set()
    wf = played(stage, "late", Demand(cpu_m=100))
    async with AsyncExitStack() as undo:
        leader = await undo.enter_async_context(leading(settings.store, settings=settings))
        await leader.leads.wait()
        engine = await undo.enter_async_context(
            Engine.open(settings.store, workflows=[wf], resources=FOUR_CORES, settings=settings)
        )
        await led([engine])
        with monkeypatch.context() as slow:
            slow.setattr("holdfast.engine.fleet.leader.ON_ITS_WAY_MS", -1000)
            run = await engine.start(wf)
            await asyncio.sleep(1.5)
            assert stage.most["late"] == 0
        await run.result()
    assert stage.most["late"] == 1


@bounded
async def test_each_lane_has_a_leader_and_workers_of_its_own_and_pools_are_shared(settings: Settings) -> None:
    stage = Stage()
    wf = played(stage, "shared", Demand(pools={"ONE": 1}))
    lanes = settings.model_copy(update={"lanes": {"vip": LaneRules(tenants=("acme",))}})
    async with AsyncExitStack() as undo:
        leaders = {
            lane: await undo.enter_async_context(leading(settings.store, settings=lanes, lane=lane))
            for lane in ("default", "vip")
        }
        engines = {
            lane: await undo.enter_async_context(
                Engine.open(settings.store, workflows=[wf], settings=lanes, lane=lane, resources=FOUR_CORES)
            )
            for lane in leaders
        }
        for leader in leaders.values():
            await leader.leads.wait()
        await led([*engines.values()])
        desk = await undo.enter_async_context(Engine.open(settings.store, execute=False, settings=lanes))
        await desk.set_pool("ONE", slots=1)
        runs = {"vip": await desk.start(wf, tenant="acme"), "default": await desk.start(wf, tenant="other")}
        await stage.seen("shared")
        stage.go.set()
        for lane, run in runs.items():
            await run.result()
            (on,) = {each.event.session for each in await run.events() if isinstance(each.event, StepStarted)}
            assert on == engines[lane].runtime.membership.session
    assert stage.most["shared"] == 1, "one slot for both lanes"


@bounded
async def test_what_a_service_starts_is_done_in_its_lane_by_any_process_that_finds_it(settings: Settings) -> None:
    stage = Stage()
    stage.go.set()
    flows = [played(stage, "placed", Demand(cpu_m=100), copies=2), played(stage, "plain", Demand(), copies=2)]
    known = settings.model_copy(update={"lanes": {"shop": LaneRules(services=("till", "web shop"))}})
    async with AsyncExitStack() as undo:
        engines = {
            lane: await undo.enter_async_context(
                Engine.open(settings.store, workflows=flows, settings=known, lane=lane, resources=FOUR_CORES)
            )
            for lane in ("default", "shop")
        }
        loud, quiet = [
            await undo.enter_async_context(Engine.open(settings.store, execute=False, settings=each))
            for each in (known, known.model_copy(update={"queue": None}))
        ]

        async def each_in_its_lane(desk: Engine) -> None:
            runs = [(by, await desk.start(flow, by=by)) for by in ("till", "web shop", "ada", None) for flow in flows]
            for by, run in runs:
                await run.result()
                (on,) = {each.event.session for each in await run.events() if isinstance(each.event, StepStarted)}
                assert on == engines["default" if by in ("ada", None) else "shop"].runtime.membership.session, by

        await each_in_its_lane(quiet)  # found by the workers
        for lane in engines:
            leader = await undo.enter_async_context(leading(settings.store, settings=known, lane=lane))
            await leader.leads.wait()
        await led([*engines.values()])
        await each_in_its_lane(quiet)  # found by the leaders
        await each_in_its_lane(loud)


@bounded
async def test_a_fleet_without_code_for_a_queued_step_asks_until_the_code_is_there(settings: Settings) -> None:
    stage = Stage()
    stage.go.set()
    wf, other = played(stage, "drawing", Demand(labels=("gpu",))), played(stage, "other", Demand())
    hasty = settings.model_copy(update={"workflow_grace_s": 1.0})
    async with AsyncExitStack() as undo:
        leader = await undo.enter_async_context(leading(settings.store, settings=hasty))
        await leader.leads.wait()
        worker = await undo.enter_async_context(Engine.open(settings.store, workflows=[other], settings=hasty))
        await led([worker])
        desk = await undo.enter_async_context(Engine.open(settings.store, execute=False, settings=hasty))
        run = await desk.start(wf)
        await run.until(lambda state: any(gate.opened.reason == WORKFLOW_MISSING for gate in state.gates.values()))
        await undo.enter_async_context(Engine.open(settings.store, workflows=[wf], settings=hasty))
        await run.until(lambda state: not state.gates)
        assert await run.status() == "waiting", "the code is back, its place is not"
        await undo.enter_async_context(Engine.open(settings.store, workflows=[wf], labels=["gpu"], settings=hasty))
        await run.result()


async def test_an_unknown_lane_is_refused(settings: Settings) -> None:
    with pytest.raises(UsageError, match="There is no lane 'nobody'"):
        async with leading(settings.store, settings=settings, lane="nobody"):
            pass


@bounded
async def test_figures_and_waits_of_a_led_fleet_are_true(settings: Settings) -> None:
    stage = Stage()
    slow, hourly = played(stage, "slow", Demand()), played(stage, "hourly", Demand(pools={"HOURLY": 1}))
    async with AsyncExitStack() as undo:
        leader = await undo.enter_async_context(leading(settings.store, settings=settings))
        await leader.leads.wait()
        engines = [
            await undo.enter_async_context(
                Engine.open(settings.store, workflows=[slow, hourly], slots=2, resources=FOUR_CORES, settings=settings)
            )
            for _ in range(2)
        ]
        await led(engines)
        desk = await undo.enter_async_context(Engine.open(settings.store, execute=False, settings=settings))
        await desk.set_pool("HOURLY", rate=1, per_s=3600, burst=1)
        late = [await desk.start(hourly) for _ in range(2)]
        await stage.seen("hourly")
        runs = [await desk.start(slow) for _ in range(4)]
        await stage.seen("slow", 3)
        while [(each.slots, each.free, each.working) for each in await desk.reports()] != [(2, 0, 2)] * 2:
            await asyncio.sleep(0.05)
        slots = [why.reason for run in runs for why in await desk.why(run.id)]
        assert [(each.waits_for, each.place, each.in_use, each.limit) for each in slots] == [("slot", 1, 4, 4)]
        while not (refills := [why.refills_at_ms for run in late for why in await desk.why(run.id) if why.refills_at_ms]):
            await asyncio.sleep(0.05)
        in_ms = refills[0] - desk.store.clock.now_ms()
        assert 3_500_000 < in_ms <= 3_600_000
        stage.go.set()
        for run in runs:
            await run.result()
