"""A flow whose run is cancelled cleans up: once, recorded, for so long and no longer. What is no flow is stopped as ever."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast import Context, Workflow, flow, step
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import FUNCTION
from holdfast.core.views.status import status
from tests.engine.history import events_of
from tests.engine.kit import eventually, opened


async def recorded(run: Any) -> list[str]:
    return [each.name for each in await events_of(run, ev.ValueRecorded) if each.kind == FUNCTION]


async def test_a_flow_that_waits_when_it_is_cancelled_releases_what_it_holds_once(store: str) -> None:
    world: list[str] = []

    @step
    async def release() -> None:
        world.append("released")

    @flow
    async def handle(ctx: Context) -> None:
        try:
            await ctx.wait_signal("go")
        finally:
            await release()
            await ctx.sleep(0.01)
            await release()

    async with opened(store) as engine:
        run = await engine.start(handle)
        await run.until(lambda state: status(state) == "waiting")
        await engine.cancel(run.id)
        await run.until(lambda state: state.ended == "cancelled")
        assert await recorded(run) == ["release", "release"]
        assert world == ["released", "released"]
        (cancelled,) = await events_of(run, ev.StepCancelled)
        assert cancelled.reason == "the run is being cancelled"


async def test_a_flow_that_takes_too_long_is_cut_short(store: str) -> None:
    world: list[str] = []

    @step
    async def lasts() -> None:
        world.append("begins")
        await asyncio.Event().wait()

    @flow(cleanup_s=0.1)
    async def handle(ctx: Context) -> None:
        try:
            await ctx.wait_signal("go")
        finally:
            await lasts()

    async with opened(store) as engine:
        run = await engine.start(handle)
        await run.until(lambda state: status(state) == "waiting")
        await engine.cancel(run.id)
        await run.until(lambda state: state.ended == "cancelled")
        assert world == ["begins"]


async def test_a_workflow_of_one_node_that_is_called_as_a_flows_is_stopped_at_once(store: str) -> None:
    """Its graph is that of a flow, and its code hears of nothing."""
    world: list[str] = []
    work = Workflow("work")

    @work.node("flow")
    async def works(ctx: Context) -> None:
        world.append("begins")
        await asyncio.Event().wait()

    waits = Workflow("waits")

    @waits.node("flow")
    async def waiting(ctx: Context) -> None:
        await ctx.wait_signal("go")

    async with opened(store) as engine:
        busy, idle = await engine.start(work), await engine.start(waits)
        await eventually(lambda: world)
        await idle.until(lambda state: status(state) == "waiting")
        for run in (busy, idle):
            await engine.cancel(run.id)
            await run.until(lambda state: state.ended == "cancelled")
