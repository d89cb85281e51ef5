"""Slots of processes: their figures are true, and a step that waits for one is known to wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from holdfast import Demand, Engine, settings
from holdfast.compose.api import HttpPort
from holdfast.compose.fleet import serving
from holdfast.compose.metrics import of_engine
from holdfast.core.capacity.lanes import DEFAULT
from holdfast.engine.capacity import diagnosis
from holdfast.ports import Report
from holdfast.service.access.identity import Identity
from tests.engine.kit import bounded, opened
from tests.engine.test_placing import Stage, played

SLOW = Demand()


async def reported(engine: Engine, working: int) -> Sequence[Report]:
    """The reports as soon as the processes work at so many steps."""
    while sum(each.working for each in await engine.reports()) != working:
        await asyncio.sleep(0.02)
    return await engine.reports()


@bounded
async def test_a_process_reports_what_it_works_at(store: str) -> None:
    stage = Stage()
    wf = played(stage, "slow", SLOW)
    async with opened(store, workflows=[wf], slots=3) as engine:
        (idle,) = await reported(engine, 0)
        assert (idle.slots, idle.free, idle.steps) == (3, 3, ())
        runs = [await engine.start(wf) for _ in range(2)]
        await stage.seen("slow", 2)
        (busy,) = await reported(engine, 2)
        assert (busy.free, busy.steps) == (1, tuple((run.id, "step0#1") for run in runs))
        assert busy.at_ms >= idle.at_ms > 0
        stage.go.set()
        for run in runs:
            await run.result()
        (after,) = await reported(engine, 0)
        assert (after.free, after.steps) == (3, ())


@bounded
async def test_figures_for_prometheus_are_those_of_the_process(store: str) -> None:
    stage = Stage()
    wf = played(stage, "slow", SLOW)
    async with opened(store, workflows=[wf], slots=2) as engine, opened(store, execute=False) as desk:
        runs = [await engine.start(wf) for _ in range(3)]
        await stage.seen("slow", 2)
        while not engine.executor.runs_in_line:
            await asyncio.sleep(0.01)
        shown = {each.metric.name: each.value for each in of_engine(engine) if "worker" in each.metric.name}
        assert shown == {
            "holdfast_worker_slots": 2,
            "holdfast_worker_slots_free": 0,
            "holdfast_worker_steps": 2,
            "holdfast_worker_runs_waiting": 1,
        }
        assert {each.value for each in of_engine(desk)} == {0}
        stage.go.set()
        for run in runs:
            await run.result()


@bounded
async def test_a_server_over_http_has_the_slots_and_figures_that_it_was_given(tmp_path: Path) -> None:
    wf = played(Stage(), "slow", SLOW)
    port = HttpPort("127.0.0.1:0", Identity(token="secret"))
    where = f"sqlite:///{tmp_path / 'served.db'}"
    async with serving(where, settings.Settings(), [wf], None, port, DEFAULT, lambda words: None, slots=7) as served:
        assert served.engine is not None
        (report,) = await served.engine.reports()
        assert (report.slots, report.free) == (7, 7)
        shown = {each.metric.name: each.value for each in await served.metrics.samples()}
        assert shown["holdfast_worker_slots_free"] == 7


@bounded
async def test_a_wait_for_a_slot_names_its_holders_and_the_steps_ahead(store: str) -> None:
    stage = Stage()
    wf, other = played(stage, "slow", SLOW), played(stage, "elsewhere", SLOW)
    async with opened(store, workflows=[wf], slots=2) as engine:
        at_work = [await engine.start(wf) for _ in range(2)]
        await stage.seen("slow", 2)
        waiting = []
        for number in range(3):
            waiting.append(await engine.start(wf))
            while engine.executor.runs_in_line <= number:
                await asyncio.sleep(0.01)
        await reported(engine, 2)
        for place, run in enumerate(waiting, 1):
            (why,) = await engine.why(run.id)
            reason = why.reason
            assert (reason.waits_for, reason.place, reason.in_use, reason.limit) == ("slot", place, 2, 2)
            assert reason.holders == tuple((each.id, "step0#1") for each in at_work)
        now_ms = engine.runtime.store.clock.now_ms()
        assert [(each.step.run, each.step.demand) async for each in diagnosis.line(engine.runtime.store.views, now_ms)] == [
            (run.id, SLOW) for run in waiting
        ]
        (nobody,) = await engine.why((await engine.start(other)).id)
        assert (nobody.reason.waits_for, nobody.reason.possible, nobody.workers) == ("slot", False, 0)
        assert await engine.why(at_work[0].id) == []
        stage.go.set()
        for run in (*at_work, *waiting):
            await run.result()


@bounded
async def test_a_step_that_waits_for_a_rate_knows_when_it_has_refilled(store: str) -> None:
    stage = Stage()
    stage.go.set()
    wf = played(stage, "hourly", Demand(pools={"HOURLY": 1}))
    async with opened(store, workflows=[wf]) as engine:
        await engine.set_pool("HOURLY", rate=1, per_s=3600, burst=1)
        first = await engine.start(wf)
        await first.result()
        until_ms = engine.store.clock.now_ms() + 3_600_000
        second = await engine.start(wf)
        while not (why := await engine.why(second.id)) or why[0].refills_at_ms is None:
            await asyncio.sleep(0.05)
        assert (why[0].reason.waits_for, why[0].reason.pool) == ("pool", "HOURLY")
        assert until_ms - 60_000 <= why[0].refills_at_ms <= until_ms + 1_000
