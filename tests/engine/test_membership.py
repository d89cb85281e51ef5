"""A process whose lease is over waits until it knows whether its session lives, and only then gives its steps up."""

from __future__ import annotations

from asyncio import Event
from collections.abc import Iterator

import pytest

from holdfast import Context, Engine, flow, step
from holdfast.core.facts import events as ev
from holdfast.core.values.ids import NodeName
from holdfast.engine.runs import membership
from tests.engine.history import events_of
from tests.engine.kit import DAY_S, eventually, opened


@pytest.fixture
def lease(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    with monkeypatch.context() as patch:
        yield patch


def end(engine: Engine, lease: pytest.MonkeyPatch) -> None:
    """What a process finds that stood still: its lease is over, and nobody has found its session dead."""
    lease.setattr(engine.runtime.store.sessions, "alive", lambda session: False)


async def test_a_step_whose_process_does_not_know_whether_its_session_lives_waits_for_that(
    store: str, lease: pytest.MonkeyPatch
) -> None:
    go = Event()

    @step
    async def price(number: int) -> int:
        return number

    @flow
    async def handle(ctx: Context) -> int:
        await go.wait()
        return await price(7)

    async with opened(store) as engine:
        run = await engine.start(handle)
        end(engine, lease)
        go.set()
        await eventually(lambda: engine.runtime.membership._news is not None)
        lease.undo()
        assert await run.result() == 7
        assert not await events_of(run, ev.AttemptLost)


async def test_a_branch_that_gives_up_is_begun_again_though_another_sleeps(store: str, lease: pytest.MonkeyPatch) -> None:
    lease.setattr(membership, "_LONGEST_UNKNOWN_S", 0.01)
    go = Event()

    @step
    async def price(number: int) -> int:
        return number

    @step
    async def opening() -> None:
        await go.wait()

    async def later() -> int:
        await opening()
        return await price(7)

    @flow
    async def handle(ctx: Context) -> None:
        await ctx.gather(ctx.sleep(DAY_S), later())

    async with opened(store) as engine:
        run = await engine.start(handle)
        await run.until(lambda state: bool(state.steps) and bool(state.steps[NodeName("flow")].pending))
        end(engine, lease)
        go.set()
        await run.until(lambda state: state.steps[NodeName("flow")].losses > 0)
        lease.undo()
        await run.until(lambda state: any(op.kind == "step" for op in state.steps[NodeName("flow")].journal.values()))


async def test_a_process_that_has_given_up_writes_no_piece_of_a_stream(store: str, lease: pytest.MonkeyPatch) -> None:
    lease.setattr(membership, "_LONGEST_UNKNOWN_S", 0.01)
    go = Event()

    @flow
    async def handle(ctx: Context) -> str:
        await go.wait()
        try:
            await ctx.stream("progress").write(1)
        except BaseException:
            return "caught"
        return "written"

    async with opened(store) as engine:
        run = await engine.start(handle)
        end(engine, lease)
        go.set()
        await run.until(lambda state: bool(state.steps) and state.steps[NodeName("flow")].losses > 0)
        lease.undo()
        assert await run.result() == "written"
