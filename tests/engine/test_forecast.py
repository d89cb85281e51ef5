"""When a waiting step starts is forecast from how long the steps took before that hold what it waits for."""

from __future__ import annotations

import asyncio
import time

from holdfast import Demand, Engine, Run
from holdfast.engine.capacity.diagnosis import WaitReason
from tests.engine.kit import bounded, opened
from tests.engine.test_placing import Stage, played

ONE = Demand(pools={"BROWSERS": 1})
TOOK_S = 0.4


async def why(engine: Engine, run: Run, holder: Run) -> WaitReason:
    """Why the run waits, as soon as the store knows of it and of who holds the pool."""
    async with asyncio.timeout(20):
        while True:
            found = await engine.why(run.id)
            if found and found[0].reason.holders == ((holder.id, "step0#1"),):  # reports may be a second old
                return found[0]
            await asyncio.sleep(0.02)


@bounded
async def test_a_step_starts_when_the_holders_end_that_take_as_long_as_others_did(store: str) -> None:
    stage = Stage()
    wf = played(stage, "wf", ONE)
    async with opened(store, workflows=[wf]) as engine:
        await engine.set_pool("BROWSERS", slots=1)
        first = await engine.start(wf)
        await stage.seen("wf")
        second = await engine.start(wf)
        assert (await why(engine, second, first)).starts is None, "nothing has ended from which it could be learned"
        ends_s = time.monotonic() + TOOK_S  # how long it takes is what is measured
        while time.monotonic() < ends_s:
            await asyncio.sleep(0.02)
        stage.go.set()
        await first.result()
        await second.result()
        stage.go.clear()
        holder = await engine.start(wf)
        await stage.seen("wf")
        waiting = [await engine.start(wf) for _ in range(2)]
        starts = [(await why(engine, run, holder)).starts for run in waiting]
        began_ms = (await holder.state()).steps["step0"].began_ms
        took_ms = [step.since_ms - step.began_ms for run in (first, second) for step in (await run.state()).steps.values()]
        mean_ms = round(sum(took_ms) / 2)
        now_ms = engine.runtime.store.clock.now_ms()
        next_, last = [each for each in starts if each is not None]
        assert (next_.steps, last.steps) == (2, 2)
        assert began_ms + mean_ms <= next_.at_ms <= max(began_ms + mean_ms, now_ms), "one that takes longer ends any moment"
        assert next_.at_ms + mean_ms <= last.at_ms <= max(began_ms + mean_ms, now_ms) + mean_ms
        stage.go.set()
        for run in waiting:
            await run.result()


@bounded
async def test_a_forecast_learns_nothing_from_another_tenant_s_runs(store: str) -> None:
    stage = Stage()
    wf = played(stage, "wf", ONE)
    async with opened(store, workflows=[wf]) as engine:
        await engine.set_pool("BROWSERS", slots=1)
        stage.go.set()
        for _ in range(2):
            await (await engine.start(wf, tenant="globex")).result()
        stage.go.clear()
        holder = await engine.start(wf, tenant="globex")
        await stage.seen("wf")
        waiting = {tenant: await engine.start(wf, tenant=tenant) for tenant in ("acme", "globex")}
        starts = {tenant: (await why(engine, run, holder)).starts for tenant, run in waiting.items()}
        assert starts["acme"] is None, "no run of acme has ended"
        assert starts["globex"] is not None
        assert starts["globex"].steps == 2
        stage.go.set()
        for run in waiting.values():
            await run.result()


@bounded
async def test_a_step_that_never_starts_has_no_forecast(store: str) -> None:
    stage = Stage()
    wf = played(stage, "wf", Demand(labels=("gpu",)))
    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        async with asyncio.timeout(20):
            while not (found := await engine.why(run.id)) or found[0].reason.waits_for == "turn":
                await asyncio.sleep(0.02)
        assert (found[0].reason.possible, found[0].starts) == (False, None)
