"""Tasks of a flow that wait when its function has returned: they are cancelled, at the same moment in every replay."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast import Context, flow, step
from holdfast.core.facts import events as ev
from holdfast.engine.flow.outcomes import CLOSING
from holdfast.errors import StaleAttempt
from holdfast.ports import Append
from tests.engine.history import events_of
from tests.engine.kit import bounded, carry_by, lose_lease, opened


@bounded
async def test_a_signal_that_comes_as_its_task_is_closed_is_not_given_to_it_by_a_replay(store: str) -> None:
    told: list[str] = []

    @step
    async def note(what: str) -> str:
        told.append(what)
        return what

    @flow
    async def ends(ctx: Context) -> str:
        async def beside() -> None:
            try:
                await ctx.wait_signal("go")
                await note("signalled")
            except asyncio.CancelledError:
                await note("cancelled")
                raise

        kept = asyncio.create_task(beside())
        return f"{await note('main')} {kept.done()}"

    async with opened(store, workflows=[ends], execute=False) as desk:
        run = await desk.start(ends)
        async with opened(store, workflows=[ends], grace_s=0) as first:
            carried, is_signalled, is_dead = first.runtime.runs.flush.append, asyncio.Event(), asyncio.Event()

            async def append(one: Append, *, patient: bool) -> None:
                """Have the signal come before the wait is called off, and the process die when the task has cleaned up."""
                if is_dead.is_set():
                    raise StaleAttempt("This process is dead.")
                if any(isinstance(each.event, ev.OperationCalledOff) for each in one.events) and not is_signalled.is_set():
                    is_signalled.set()
                    await desk.signal(run.id, "go", 1)
                await carried(one, patient=patient)
                if told[-1:] == ["cancelled"] and any(isinstance(each.event, ev.ValueRecorded) for each in one.events):
                    is_dead.set()
                    raise StaleAttempt("This process is dead.")

            carry_by(first, append)
            await is_dead.wait()
            await lose_lease(first)
        async with opened(store, workflows=[ends]):
            assert await run.result() == "main False"
        assert is_signalled.is_set()
        assert [each.path for each in await events_of(run, ev.ValueRecorded)] == ["0", CLOSING, "~0.1-0"]
    assert told == ["main", "cancelled"]


@bounded
async def test_a_task_that_waits_for_nothing_of_others_is_closed_without_a_commit(store: str) -> None:
    @step
    async def work() -> str:
        return "done"

    @flow
    async def ends(ctx: Context) -> Any:
        async def beat() -> None:
            while True:
                await asyncio.sleep(3600)

        kept = [asyncio.create_task(beat()), asyncio.create_task(asyncio.Event().wait())]
        return [await work(), len(kept)]

    async with opened(store, workflows=[ends]) as engine:
        run = await engine.start(ends)
        assert await run.result() == ["done", 2]
        assert [each.path for each in await events_of(run, ev.ValueRecorded)] == ["0"]
