"""Flows that wait are kept in memory: one that wakes goes on where it stands, and is replayed wherever that would not be right."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Run, flow, step
from holdfast.core.facts.state import Operation, Step
from holdfast.core.values.ids import Path as Place
from holdfast.core.values.ids import RunId, StepId
from holdfast.core.views.status import status
from holdfast.engine.attempts.residents import FlowPosition, Residents, outcomes
from holdfast.settings import Settings
from tests.engine.kit import Time, engine_at, opened

DAY_S = 86_400
CODE = object()


@step
async def pay(what: str) -> str:
    return what


class Passes:
    """How often a flow's function has begun, and how often it was left."""

    begun = left = 0


@pytest.fixture
def passes() -> Passes:
    return Passes()


async def at_a_wait(run: Run, path: str) -> None:
    """Wait until the run waits, and what it waits for stands at that place."""
    await run.until(lambda state: status(state) == "waiting" and any(path in each.journal for each in state.steps.values()))


async def test_a_flow_that_wakes_goes_on_where_it_waits(tmp_path: Path, passes: Passes) -> None:
    time = Time()

    @flow
    async def buy(ctx: Context) -> list[Any]:
        passes.begun += 1
        try:
            told = [await pay("a"), await ctx.wait_signal("go")]
            await asyncio.sleep(DAY_S)
            told.append((await ctx.ask("May I?")).decision)
            async with asyncio.TaskGroup() as group:
                both = [group.create_task(ctx.wait_signal(name)) for name in ("x", "y")]
            return [*told, *(each.result() for each in both), await pay("b")]
        finally:
            passes.left += 1

    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        run = await engine.start(buy)
        await at_a_wait(run, "1")
        await engine.signal(run.id, "go", 1)
        await at_a_wait(run, "@0")
        time.forward(DAY_S + 1)
        await at_a_wait(run, "2")
        [gate] = (await run.state()).gates
        await engine.decide(gate, by="ida")
        await at_a_wait(run, "~1.0")
        await engine.signal(run.id, "y", "y")
        await engine.signal(run.id, "x", "x")
        assert await run.result() == ["a", 1, "approve", "x", "y", "b"]
        assert (passes.begun, passes.left) == (1, 1)


async def test_a_flow_is_replayed_where_none_is_kept(tmp_path: Path, passes: Passes) -> None:
    @flow
    async def buy(ctx: Context) -> Any:
        passes.begun += 1
        try:
            return await ctx.wait_signal("go")
        finally:
            passes.left += 1

    async with engine_at(tmp_path, Time(), workflows=[buy], settings=Settings(resident_flows_mb=0)) as engine:
        run = await engine.start(buy)
        await at_a_wait(run, "0")
        assert passes.left == 1
        await engine.signal(run.id, "go", 1)
        assert await run.result() == 1
        assert (passes.begun, passes.left) == (2, 2)


async def test_an_engine_that_closes_leaves_the_flows_that_wait_in_it(tmp_path: Path, passes: Passes) -> None:
    paid: list[str] = []

    @step
    async def note(what: str) -> None:
        paid.append(what)

    @flow
    async def buy(ctx: Context) -> Any:
        passes.begun += 1
        try:
            return await ctx.wait_signal("go")
        finally:
            passes.left += 1
            await note("left")

    time = Time()
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        run = await engine.start(buy)
        await at_a_wait(run, "0")
        assert (passes.begun, passes.left) == (1, 0)
    assert (passes.begun, passes.left, paid) == (1, 1, [])
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        await engine.signal(run.id, "go", 1)
        assert await engine.run(run.id).result() == 1
    assert (passes.begun, passes.left, paid) == (2, 2, ["left"])


async def test_a_flow_that_went_on_elsewhere_meanwhile_is_replayed(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_RESIDENT_FLOWS_MB", raising=False)
    begun: list[int] = []

    @flow
    async def buy(ctx: Context) -> list[Any]:
        begun.append(len(begun))
        return [await ctx.wait_signal("go"), await pay("a"), await ctx.wait_signal("go")]

    async with opened(store, workflows=[buy]) as here:
        run = await here.start(buy)
        await at_a_wait(run, "0")
        here.executor.take_slots(100)  # its own are all taken
        async with opened(store, workflows=[buy]) as there:
            await there.signal(run.id, "go", 1)
            await at_a_wait(there.run(run.id), "2")
        here.executor.take_slots(-100)
        await here.signal(run.id, "go", 2)
        assert await run.result() == [1, "a", 2]
    assert begun == [0, 1, 2]


async def test_code_that_waits_under_a_lock_is_left(tmp_path: Path, passes: Passes) -> None:
    @flow
    async def buy(ctx: Context) -> Any:
        passes.begun += 1
        async with ctx.shared("till").lock("drawer"):
            return await ctx.wait_signal("go")

    @flow
    async def other(ctx: Context) -> str:
        async with ctx.shared("till").lock("drawer", wait_s=0):
            return "had it"

    async with engine_at(tmp_path, Time(), workflows=[buy, other]) as engine:
        run = await engine.start(buy)
        await at_a_wait(run, "1")
        assert await (await engine.start(other)).result() == "had it"
        await engine.signal(run.id, "go", 1)
        assert await run.result() == 1
    assert passes.begun == 2


async def test_code_that_waits_with_a_connection_open_is_left(tmp_path: Path, passes: Passes) -> None:
    @flow
    async def reads(ctx: Context) -> list[Any]:
        passes.begun += 1
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            return [await ctx.wait_signal("go"), writer.is_closing()]
        finally:
            writer.close()

    async with await asyncio.start_server(lambda _, writer: None, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        async with engine_at(tmp_path, Time(), workflows=[reads]) as engine:
            run = await engine.start(reads)
            await at_a_wait(run, "0")
            await engine.signal(run.id, "go", 1)
            assert await run.result() == [1, False]
    assert passes.begun == 2


async def test_what_a_paused_run_was_refused_is_asked_for_again(tmp_path: Path, passes: Passes) -> None:
    has_begun, goes_on = asyncio.Event(), asyncio.Event()

    @step
    async def work() -> str:
        has_begun.set()
        await goes_on.wait()
        return "worked"

    @flow
    async def buy(ctx: Context) -> list[str]:
        passes.begun += 1
        return [await work(), await pay("a")]

    async with engine_at(tmp_path, Time(), workflows=[buy]) as engine:
        run = await engine.start(buy)
        await has_begun.wait()
        await engine.pause(run.id)
        goes_on.set()
        await run.until(lambda state: not state.active)
        await engine.resume(run.id)
        assert await run.result() == ["worked", "a"]
    assert passes.begun == 1


async def test_children_of_a_flow_that_waits_come_home_to_it(tmp_path: Path, passes: Passes) -> None:
    @flow
    async def small(ctx: Context, number: int) -> int:
        await ctx.wait_signal("go")
        return number

    @flow
    async def large(ctx: Context) -> list[int]:
        passes.begun += 1
        return await asyncio.gather(*(ctx.child(small, number, key=str(number)) for number in range(5)))

    async with engine_at(tmp_path, Time(), workflows=[large, small]) as engine:
        run = await engine.start(large)
        await at_a_wait(run, "~4.0")
        children = [*(await run.state()).children]
        for each in reversed(children):
            await engine.signal(each, "go")
        assert await run.result() == [0, 1, 2, 3, 4]
    assert passes.begun == 1


# --- What is kept ---------------------------------------------------------------------------------------------------------


class Waiting:
    """A flow that waits, and its `ctx`."""

    def __init__(self, run: str, step: Step, size_bytes: int = 10) -> None:
        self.flow = self
        self.run_id, self.step_id = RunId(run), step.id
        self.is_left = False
        self._standing = FlowPosition(
            self.run_id,
            step.id,
            step.attempt,
            CODE,
            step.generation,
            step.settlements,
            outcomes(step, step.settlements),
            size_bytes,
        )

    def standing(self) -> FlowPosition:
        return self._standing

    def let_go(self) -> None:
        self.is_left = True


def waits(attempt: int = 1, generation: int = 0, **settled: int) -> Step:
    journal = {Place(path.strip("_")): Operation("step", "pay", "", "done", settled=each) for path, each in settled.items()}
    return Step(
        StepId("flow#1"), attempt=attempt, generation=generation, journal=journal, settlements=max(settled.values(), default=0)
    )


def test_what_waited_longest_is_let_go_of_to_keep_to_the_budget() -> None:
    kept: Any = Residents(25)
    first, second, third = (Waiting(run, waits()) for run in ("a", "b", "c"))
    for each in (first, second, third):
        kept.keep(each)
    assert [each.is_left for each in (first, second, third)] == [True, False, False]
    assert (len(kept), kept.size_bytes) == (2, 20)
    kept.keep(huge := Waiting("d", waits(), 26))
    assert [each.is_left for each in (second, third, huge)] == [True] * 3
    assert (len(kept), kept.size_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("now", "goes_on"),
    [
        (waits(2, _0=1, _1=2), True),
        (waits(2, _0=1, _1=2, _2=3), True),
        (waits(3, _0=1, _1=2), False),
        (waits(2, _0=1, _1=3), False),
        (waits(2, _0=1), False),
        (waits(2, generation=1, _0=1, _1=2), False),
    ],
    ids=["woken", "come", "gone_on_elsewhere", "come_again", "taken_back", "dropped"],
)
def test_only_what_fits_the_history_goes_on(now: Step, goes_on: bool) -> None:
    kept: Any = Residents(100)
    kept.keep(flow := Waiting("a", waits(_0=1, _1=2)))
    assert (kept.take(RunId("a"), now, CODE) is flow) == goes_on
    assert flow.is_left != goes_on
    assert len(kept) == 0


def test_other_code_does_not_go_on() -> None:
    kept: Any = Residents(100)
    kept.keep(flow := Waiting("a", waits()))
    assert kept.take(RunId("a"), waits(2), object()) is None
    assert flow.is_left


def test_a_wait_that_was_not_recorded_is_left_unless_it_goes_on() -> None:
    kept: Any = Residents(100)
    kept.keep(flow := Waiting("a", waits()))
    kept.drop(flow, 2)
    assert not flow.is_left
    kept.drop(flow, 1)
    assert flow.is_left
