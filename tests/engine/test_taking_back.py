"""A call whose intent became durable when nobody was there any more to make it does not stay open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Workflow, task, tool
from holdfast.core.facts.events import AttemptFailed, EffectCompleted, EffectIntended, EffectReleased
from holdfast.core.values.policies import RetryPolicy
from holdfast.errors import StoreError
from holdfast.ports import Append
from tests.engine.history import events_of
from tests.engine.kit import bounded, carry_by, eventually, opened


def program(calls: list[str], timeout_s: float | None = None) -> Workflow:
    @tool(effect="once")
    async def mail(to: str, key: str) -> str:
        calls.append(key)
        return "sent"

    wf = Workflow("taking back", tools=[mail])

    @wf.node("send")
    @task(tools=[mail], timeout_s=timeout_s, retry=RetryPolicy(max_attempts=3, initial_s=0.0))
    async def send(state: Any, ctx: Any) -> Any:
        return await ctx.tool("mail", to="bob")

    return wf


@bounded
async def test_an_intent_that_is_committed_after_its_attempt_timed_out_is_released(tmp_path: Path) -> None:
    calls: list[str] = []
    wf = program(calls, timeout_s=0.5)
    async with opened(str(tmp_path / "holdfast.db"), workflows=[wf]) as engine:
        plainly, held = engine.runtime.runs.flush.append, [0]

        async def append(append: Append, *, patient: bool) -> None:
            if held[0] == 0 and any(isinstance(each.event, EffectIntended) for each in append.events):
                held[0] += 1
                # The disk is so slow that the attempt's time is up, and it says so, before the intent is durable.
                await eventually(lambda: engine.runtime.runs.mailbox(append.run)._envelopes)
            await plainly(append, patient=patient)

        carry_by(engine, append)
        run = await engine.start(wf)
        assert await run.result() == "sent"
        assert len(await events_of(run, AttemptFailed)) == 1
        assert len(await events_of(run, EffectReleased)) == 1
        assert len(calls) == 1


@bounded
@pytest.mark.parametrize("refusals", [1, 3])
async def test_an_outcome_that_the_store_refuses_for_a_while_is_brought_home(tmp_path: Path, refusals: int) -> None:
    calls: list[str] = []
    wf = program(calls)
    async with opened(str(tmp_path / "holdfast.db"), workflows=[wf]) as engine:
        plainly, refused = engine.runtime.runs.flush.append, [0]

        async def append(append: Append, *, patient: bool) -> None:
            if refused[0] < refusals and any(isinstance(each.event, EffectCompleted) for each in append.events):
                refused[0] += 1
                raise StoreError("The disk is full; nothing was written.")
            await plainly(append, patient=patient)

        carry_by(engine, append)
        run = await engine.start(wf)
        assert await run.result() == "sent"
        assert len(calls) == 1


@bounded
async def test_an_outcome_that_waits_for_the_store_outlives_the_time_of_its_attempt(tmp_path: Path) -> None:
    """The call has been made and its outcome is known: that the attempt's time is up meanwhile must not lose it."""
    calls: list[str] = []
    wf = program(calls, timeout_s=0.5)
    async with opened(str(tmp_path / "holdfast.db"), workflows=[wf]) as engine:
        plainly, failed = engine.runtime.runs.flush.append, [False]

        async def append(append: Append, *, patient: bool) -> None:
            kinds = {type(each.event) for each in append.events}
            if EffectCompleted in kinds and not failed[0]:
                raise StoreError("The disk is full; nothing was written.")
            await plainly(append, patient=patient)
            failed[0] = failed[0] or AttemptFailed in kinds

        carry_by(engine, append)
        run = await engine.start(wf)
        assert await run.result() == "sent"
        assert len(await events_of(run, EffectCompleted)) == len(calls) == 1
