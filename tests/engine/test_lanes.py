"""Lanes without a leader: each process finds in the store what belongs to its own lane, and leaves the rest alone."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import pytest

from holdfast import Demand, Engine, Run
from holdfast.core.facts.events import StepStarted
from holdfast.scheduling.job import Capacity, Job
from holdfast.settings import LaneRules, Settings
from tests.engine.kit import bounded, opened
from tests.engine.test_placing import FOUR_CORES, Stage, played

RULES = {
    "of a workflow": LaneRules(workflows=("placed", "plain")),
    "of a tenant": LaneRules(tenants=("acme",)),
    "of a service": LaneRules(services=("till",)),
}


async def sessions_of(run: Run) -> set[object]:
    return {each.event.session for each in await run.events() if isinstance(each.event, StepStarted)}


@bounded
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
async def test_who_stops_when_idle_neither_waits_for_what_is_of_another_lane_nor_does_it(store: str, rules: LaneRules) -> None:
    stage = Stage()
    stage.go.set()
    flows = [played(stage, "placed", Demand(cpu_m=100)), played(stage, "plain", Demand())]
    settings = Settings(lanes={"own": rules})

    def process(lane: str) -> AbstractAsyncContextManager[Engine]:
        return opened(store, workflows=flows, settings=settings, lane=lane, resources=FOUR_CORES)

    async with AsyncExitStack() as undo:
        desk = await undo.enter_async_context(opened(store, execute=False, settings=settings))
        runs = [await desk.start(flow, tenant="acme", by="till") for flow in flows]
        other = await undo.enter_async_context(process("default"))
        await asyncio.wait_for(other.idle(), 20)
        for run in runs:
            assert await sessions_of(run) == set()
        own = await undo.enter_async_context(process("own"))
        await asyncio.wait_for(own.idle(), 20)
        for run in runs:
            assert await run.status() == "completed"
            assert await sessions_of(run) == {own.runtime.membership.session}


@bounded
@pytest.mark.parametrize(("lane", "chosen"), [("default", "large"), ("packed", "small")])
async def test_each_lane_may_place_in_its_own_way(store: str, lane: str, chosen: str) -> None:
    """The small worker is half taken, so it is the one with more load and with less left."""
    settings = Settings(lanes={"packed": LaneRules(tenants=("acme",), placement="best_fit")})
    async with opened(store, settings=settings, lane=lane) as engine:
        scheduler = engine.executor.placing.scheduler
        for name, slots, busy in (("large", 10, 0), ("small", 2, 1)):
            scheduler.join(Capacity(name, frozenset({"g"}), frozenset(), frozenset(), slots, busy=busy), 0.0)
        scheduler.submit(Job(("a",), "g", "acme", Demand()), 0.0)
        (placed,) = scheduler.place(0.0)
        assert placed.worker == chosen
