"""Slips that everybody makes once: each is told with its way out, before anything is done."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, RunFailed, Workflow, flow, human_gate, step, task
from holdfast.core.facts import events as ev
from holdfast.engine.flow.loop_watch import LoopWatch
from holdfast.errors import Conflict, InvalidInput, NotFound, UsageError
from holdfast.testing import VirtualTime
from tests.engine.history import events_of
from tests.engine.kit import eventually, gate_of, opened


@step
async def a_step() -> None:
    pass


@flow
async def a_flow(ctx: Context) -> str:
    return "done"


async def a_function(ctx: Context) -> None:
    pass


class Desk:
    @flow
    async def handle(self, ctx: Context) -> None:
        pass


def traced(function: Any) -> Callable[..., Any]:
    @functools.wraps(function)
    def around(*args: Any) -> Any:
        return function(*args)

    around.__wrapped__ = function  # type: ignore[attr-defined]
    return around


# --- Engine.open ---------------------------------------------------------------------------------------------------------

NOT_LISTS = {"a flow": a_flow, "a name": "a_flow", "a function": a_function, "nothing": None}


@pytest.mark.parametrize("given", NOT_LISTS.values(), ids=NOT_LISTS)
async def test_what_is_no_list_of_workflows_gets_the_advice_to_give_one(store: str, given: Any) -> None:
    with pytest.raises(UsageError, match=r"^Give a list: workflows=\[\.\.\.\]"):
        async with opened(store, workflows=given):
            pass


NO_WORKFLOWS = {
    "a step": (a_step, "Give the flow that calls the step"),
    "a function": (a_function, "Put @flow above the function"),
    "a wrapped flow": (traced(a_flow), "Put @flow above all other decorators"),
    "a node": (task(lambda state: None), "Give the Workflow in which the node is"),
    "a method of no object": (Desk.handle, "Give the flow of an object"),
    "a number": (3, "Give a flow or a Workflow"),
}


@pytest.mark.parametrize("name", NO_WORKFLOWS)
async def test_what_is_no_workflow_gets_advice_on_what_to_give(store: str, name: str) -> None:
    given, way_out = NO_WORKFLOWS[name]
    with pytest.raises(UsageError, match=f"^{way_out}"):
        async with opened(store, workflows=[given]):
            pass
    async with opened(store) as engine:
        with pytest.raises(UsageError, match=f"^{way_out}"):
            await engine.start(given)
        assert await engine.runs() == []


async def test_start_refuses_a_called_flow_and_asks_for_the_flow_and_its_input(store: str) -> None:
    @flow
    async def doubled(ctx: Context, number: int) -> int:
        return 2 * number

    apart = r"^Give the flow and its input apart"
    async with opened(store) as engine:
        with pytest.raises(UsageError, match=apart):
            await engine.start(doubled(3))  # type: ignore[arg-type]
        given: Any = None
        with pytest.raises(UsageError, match=apart):
            await engine.start(a_flow(given))  # type: ignore[arg-type]
        assert await engine.runs() == []


def test_an_engine_that_is_made_by_its_class_says_how_to_open_one() -> None:
    made: Any = Engine
    with pytest.raises(UsageError, match=r"^Write `async with Engine.open\(...\)"):
        made("holdfast.db", workflows=[a_flow])


async def test_a_generator_of_workflows_is_as_good_as_a_list(store: str) -> None:
    async with opened(store, workflows=(each for each in [a_flow])) as engine:
        assert await (await engine.start("a_flow")).result() == "done"


async def test_an_engine_that_is_not_entered_says_how_to(store: str) -> None:
    opening: Any = Engine.open(store)
    with pytest.raises(AttributeError, match=r"^Write `async with Engine.open\(\.\.\.\) as engine:`.*'start'"):
        opening.start(a_flow)
    assert not hasattr(opening, "start")
    with pytest.raises(UsageError, match=r"^Write `async with"):
        await opening
    with pytest.raises(UsageError, match=r"^Write `async with"), opening:
        pass
    async with opening as engine:
        assert await (await engine.start(a_flow)).result() == "done"


async def test_waiting_for_a_result_that_no_process_works_on_advises_to_start_a_worker(
    store: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(store, execute=False) as asking:
        run = await asking.start(a_flow)
        waiting = asyncio.create_task(run.result())
        await eventually(lambda: "Start a worker (holdfast worker FILE.py:a_flow)" in caplog.text)
        async with opened(store, workflows=[a_flow]):
            assert await waiting == "done"
            caplog.clear()
            assert await (await asking.start(a_flow)).result() == "done"
    assert "Start a worker" not in caplog.text


def test_the_file_of_virtual_time_may_be_named_by_a_text(tmp_path: Path) -> None:
    VirtualTime(str(tmp_path / "time")).leap(60)
    assert VirtualTime(tmp_path / "time")() > (time.time() + 50) * 1000


# --- Questions -----------------------------------------------------------------------------------------------------------

QUESTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no decisions": ({"decisions": []}, "Name the answers in a list"),
    "one word": ({"decisions": "approve"}, "Name the answers in a list"),
    "a decision twice": ({"decisions": ["yes", "yes"]}, "Name each decision once"),
    "a number": ({"decisions": ["approve", 1]}, "Make each of the decisions a text"),
    "a blank": ({"decisions": [" "]}, "Make each of the decisions a text"),
    "nobody's decision": ({"decisions": ["expired"]}, "Make each of the decisions a text"),
    "no reviewers": ({"reviewers": []}, "Name at least one person in reviewers="),
    "a reviewer without a name": ({"reviewers": ["ann", ""]}, "Make each of the reviewers"),
    "too many reviewers": ({"reviewers": [f"r{n}" for n in range(101)]}, "Name at most 100 reviewers"),
    "four eyes, of whom nobody has two": ({"four_eyes": True}, "Say who asks for the run at its start"),
}


@pytest.mark.parametrize("name", QUESTIONS)
async def test_a_question_that_no_person_could_answer_is_refused_when_it_is_asked(store: str, name: str) -> None:
    options, way_out = QUESTIONS[name]

    @flow
    async def wf(ctx: Context) -> Any:
        return await ctx.ask("Pay?", **options)

    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert failed.value.error.message.startswith(way_out)
        assert not failed.value.error.retryable
        assert await events_of(run, ev.GateOpened) == []


@pytest.mark.parametrize("decisions", [(), "approve", ("approve", "approve")])
def test_a_gate_that_no_person_could_answer_is_refused_when_it_is_defined(decisions: Any) -> None:
    with pytest.raises(UsageError, match=r"^Name each answer once"):
        human_gate(decisions=decisions)(lambda state: "?")


async def test_one_name_is_as_good_as_a_list_of_one(store: str) -> None:
    @flow
    async def wf(ctx: Context) -> Any:
        return (await ctx.ask("Pay?", reviewers="support", four_eyes=True, decisions=("yes", "no"))).decision

    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf, by="ann")
        gate = await gate_of(run)
        assert (await engine.gate(gate)).reviewers == ("support",)
        await engine.decide(gate, "yes", by="bob", roles=["support"])
        assert await run.result() == "yes"


SHOWN = {"diff": "one line", "letter": "x" * 70_000}
"""Some of it is stored apart."""


async def test_an_engine_tells_everything_that_a_gate_shows(store: str) -> None:
    wf = Workflow("wf")
    wf.node("approval")(human_gate(reviewers=["ann"], timeout_s=60, expires_after_s=90)(lambda state: SHOWN))

    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        gate = await engine.gate(await gate_of(run))
        assert (gate.run, gate.step, gate.reason, gate.shown) == (run.id, "approval#1", "approval", SHOWN)
        assert gate.decisions == ("approve", "edit", "reject", "answer")
        assert gate.form is not None
        assert gate.initial_data == {"edited_body": "one line"}
        assert gate.expires_at_ms - gate.due_at_ms == 30_000  # type: ignore[operator]
        assert (gate.reviewers, gate.four_eyes) == (("ann",), False)
        with pytest.raises(Conflict):
            await engine.decide(gate.gate, "approve", by="ann", shown_hash="another")
        await engine.decide(gate.gate, "approve", by="ann", shown_hash=gate.shown_hash)
        with pytest.raises(NotFound, match="no gate nope"):
            await engine.gate("nope")


async def test_an_engine_shows_a_gate_also_when_it_is_decided(store: str) -> None:
    wf = Workflow("wf")
    wf.node("approval")(human_gate(reviewers=["ann"], timeout_s=60, expires_after_s=90)(lambda state: SHOWN))

    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        before = await engine.gate(await gate_of(run))
        assert (before.is_open, before.state, before.decision, before.by) == (True, "open", None, None)
        await engine.decide(
            before.gate, "edit", {"edited_body": "two"}, by="ann", reason="too short", shown_hash=before.shown_hash
        )
        after = await engine.gate(before.gate)
        assert (after.is_open, after.state, after.decision, after.by, after.decision_reason) == (
            False,
            "decided",
            "edit",
            "ann",
            "too short",
        )
        assert after.data == {"edited_body": "two"}
        decided = ("state", "decision", "by", "decision_reason", "data")
        assert after == before._replace(**{name: getattr(after, name) for name in decided})


async def test_a_former_name_of_a_run_s_method_still_works_and_warns(store: str) -> None:
    async with opened(store, workflows=[a_flow]) as engine:
        run = await engine.start(a_flow)
        state = await run.settled()
        assert await run.is_settled(state)
        with pytest.warns(DeprecationWarning, match=r"needs_somebody\(\) has become is_idle\(\)"):
            assert run.needs_somebody(state) is run.is_idle(state) is True


# --- The event loop --------------------------------------------------------------------------------------------------------


async def test_code_that_holds_the_event_loop_is_named_with_its_line_once(store: str, caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        return [each.getMessage() for each in caplog.records if "holds the event loop" in each.getMessage()]

    @flow
    async def wf(ctx: Context) -> None:
        for times in (1, 2):
            until_s = time.monotonic() + 10
            while len(told()) < times and time.monotonic() < until_s:
                time.sleep(0.01)
            await ctx.sleep(0.2)

    with LoopWatch(bound_s=0.1), caplog.at_level(logging.WARNING):
        async with opened(store, workflows=[wf]) as engine:
            run = await engine.start(wf)
            await run.result()
    assert [f"in 'flow' of 'wf' (run {run.id})" in each for each in told()][:2] == [True, True]
    assert all("test_slips.py:" in each and "wf" in each for each in told())


async def test_a_loop_that_goes_on_is_not_complained_of(caplog: pytest.LogCaptureFixture) -> None:
    with LoopWatch(bound_s=0.05) as watch:
        await asyncio.sleep(0.2)  # a few looks
        assert watch._thread.is_alive()
    assert "holds the event loop" not in caplog.text


async def test_an_input_that_is_given_by_the_name_of_the_one_parameter_is_reported(store: str) -> None:
    @flow
    async def quote(ctx: Context, item: str) -> str:
        return item

    async with opened(store) as engine:
        with pytest.raises(InvalidInput, match=r"Give the input without its name.* the parameters of workflow 'quote'"):
            await engine.start(quote, {"item": "lamp"})
        with pytest.raises(InvalidInput, match=r"\AThe input does not fit the parameters of workflow 'quote'"):
            await engine.start(quote, {"other": "lamp"})


async def test_an_engine_that_is_entered_by_hand_stays_open(store: str) -> None:
    """As in the cells of a notebook: `engine = await Engine.open(...).__aenter__()`."""
    entered = Engine.open(store)
    engine = await entered.__aenter__()
    known = weakref.ref(entered)
    del entered
    gc.collect()
    still = known()
    assert still is not None
    assert len(await engine.dead_letters()) == 0
    await still.__aexit__(None, None, None)
    del still
    gc.collect()
    assert known() is None
