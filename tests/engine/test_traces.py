"""Whose request an event follows from: the trace that a request names goes with it, and with what the run does next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Engine, Workflow, task
from holdfast.core.values.ids import RunId
from tests.engine.kit import bounded, opened

FIRST, SECOND, THIRD = (f"{number:032x}" for number in (1, 2, 3))


def header(trace_id: str) -> str:
    return f"00-{trace_id}-00f067aa0ba902b7-01"


def asking(snapshot_every: int = 1000) -> Workflow:
    wf = Workflow("asking", snapshot_every=snapshot_every)

    @wf.node("ask")
    @task
    async def ask(state: Any, ctx: Any) -> Any:
        return await ctx.wait_signal("word")

    @wf.node("end")
    @task
    def end(state: Any) -> str:
        return "done"

    wf.edge("ask", "end")
    return wf


async def traces(engine: Engine, run: str) -> list[tuple[str, str | None]]:
    found = await engine.runtime.store.log.events(RunId(run))
    return [(type(each.event).__name__, each.trace_id) for each in found]


@pytest.mark.parametrize("snapshot_every", [1, 1000])
@bounded
async def test_what_follows_from_a_request_has_its_trace_in_whatever_process(store: str, snapshot_every: int) -> None:
    wf = asking(snapshot_every)
    async with opened(store, workflows=[wf]) as one:
        run = await one.traced(header(FIRST)).start(wf, by="ann")
        await run.settled()
        before = await traces(one, run.id)
        assert {trace for _, trace in before} == {FIRST}
    async with opened(store, workflows=[wf]) as other:
        await other.traced("00-nonsense").pause(run.id)
        await other.resume(run.id)
        assert {trace for _, trace in (await traces(other, run.id))[len(before) :]} == {FIRST}, "nobody named another"
        before = await traces(other, run.id)
        await other.traced(header(SECOND)).signal(run.id, "word", by="bob")
        await other.run(run.id).result()
        after = (await traces(other, run.id))[len(before) :]
        assert (after[0][0], after[-1][0]) == ("SignalReceived", "RunCompleted")
        assert {trace for _, trace in after} == {SECOND}
        told, _ = await other.runtime.store.tail.after(None, 1000)
        assert [each.recorded.trace_id for each in told] == [trace for _, trace in before + after]


@bounded
async def test_requests_that_are_decided_together_keep_each_its_own(store: str) -> None:
    wf = asking()
    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        await run.settled()
        await engine.pause(run.id)
        known = len(await traces(engine, run.id))
        await asyncio.gather(
            *(engine.traced(header(name)).signal(run.id, name, by="ann") for name in (SECOND, THIRD)),
            engine.signal(run.id, "untraced"),
        )
        found = await engine.runtime.store.log.events(RunId(run.id), known)
        named = {each.event.name: each.trace_id for each in found}  # type: ignore[attr-defined]
        assert (named[SECOND], named[THIRD]) == (SECOND, THIRD)
