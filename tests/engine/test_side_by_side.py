"""Operations of a flow that may not begin for a while, beside others that are under way: they begin as soon as they may."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast import Context, flow, step
from holdfast.core.facts import events as ev
from holdfast.core.values.ids import SessionId
from holdfast.ports import Append
from tests.engine.history import events_of
from tests.engine.kit import bounded, carry_by, eventually, opened


class Stage:
    """What has happened, and what takes until the test says so."""

    def __init__(self) -> None:
        self.world: list[str] = []
        self.go = asyncio.Event()


@bounded
async def test_a_call_whose_intent_was_taken_back_is_made_while_others_are_under_way(store: str) -> None:
    """The lease was over between intent and send, and is renewed."""
    stage = Stage()

    @step(effect="once")
    async def pay() -> str:
        stage.world.append("paid")
        return "paid"

    @step
    async def lasts() -> str:
        await stage.go.wait()
        return "lasted"

    @flow
    async def handle(ctx: Context) -> list[str]:
        return await asyncio.gather(lasts(), pay())

    async with opened(store) as engine:
        plainly, membership, is_over = engine.runtime.runs.flush.append, engine.runtime.membership, [False]
        alive = membership.alive

        async def append(one: Append, *, patient: bool) -> None:
            kinds = {type(each.event) for each in one.events}
            if ev.EffectIntended in kinds and not is_over[0] and not stage.world:
                is_over[0] = len(await events_of(run, ev.EffectReleased)) == 0
            await plainly(one, patient=patient)
            if ev.EffectReleased in kinds:
                is_over[0] = False

        def lives(session: SessionId | None = None) -> bool:
            return not is_over[0] and alive(session)

        membership.alive = lives  # type: ignore[method-assign]
        carry_by(engine, append)
        run = await engine.start(handle)
        await eventually(lambda: stage.world)
        stage.go.set()
        assert await run.result() == ["lasted", "paid"]
        assert len(await events_of(run, ev.EffectReleased)) == 1
        assert not await events_of(run, ev.StepSuspended)
    assert stage.world == ["paid"]


@bounded
async def test_a_resumed_run_starts_its_waiting_step_beside_the_others(store: str) -> None:
    stage = Stage()
    came: asyncio.Event = asyncio.Event()

    @step
    async def first() -> None:
        stage.world.append("first")
        await came.wait()

    @step
    async def second() -> None:
        stage.world.append("second")

    @step
    async def lasts() -> None:
        await stage.go.wait()

    @flow
    async def handle(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(lasts())
            await first()
            await second()

    def has_first(state: Any) -> bool:
        return any(op.name == "first" and op.status == "done" for op in state.steps["flow"].journal.values())

    async with opened(store) as engine:
        run = await engine.start(handle)
        await eventually(lambda: stage.world)
        await engine.pause(run.id)
        came.set()
        await run.until(has_first)
        assert stage.world == ["first"]
        await engine.resume(run.id)
        await eventually(lambda: "second" in stage.world)
        stage.go.set()
        await run.result()
    assert stage.world == ["first", "second"]


@bounded
async def test_the_code_of_a_flow_that_waits_in_nested_gathers_hears_no_error_of_that(store: str) -> None:
    heard: list[BaseException] = []

    @flow
    async def handle(ctx: Context) -> Any:
        async def both(name: str) -> list[Any]:
            return await ctx.gather(ctx.wait_signal(name), ctx.wait_signal(name))

        try:
            return await ctx.gather(both("a"), both("b"))
        except Exception as problem:
            heard.append(problem)
            raise

    async with opened(store) as engine:
        run = await engine.start(handle)
        await run.until(lambda state: state.steps["flow"].status == "suspended")
        for name in ("a", "a", "b", "b"):
            await engine.signal(run.id, name, name)
        assert await run.result() == [["a", "a"], ["b", "b"]]
    assert heard == []
