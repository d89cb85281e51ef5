"""Typed state in runs: parallel patches, results that say where to go, and what is refused in words."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from holdfast import ApprovalState, Engine, EvidenceRef, NodeResult, RetryPolicy, RunFailed, Workflow, task
from holdfast.core.facts.events import AttemptFailed, GateOpened, StateConflicted, StepCompleted, StepSkipped
from holdfast.core.values import policies
from holdfast.errors import UsageError
from tests.engine.history import events_of


class Case(BaseModel):
    evidence: list[EvidenceRef] = []
    cost: float = 0
    owner: str = ""
    facts: dict[str, Any] = {}
    risk_level: Literal["low", "high"] = "low"
    approval: ApprovalState = Field(default_factory=ApprovalState)


STRATEGIES: Any = {"evidence": "append", "cost": "sum", "owner": "first_write", "facts": "merge", "risk_level": "reject"}


def found(name: str, **more: Any) -> dict[str, Any]:
    return {"evidence": [{"evidence_id": name, "source_id": name, "summary": f"of {name}"}], "cost": 1.5, **more}


async def come_to(store: str, left: Any, right: Any) -> tuple[Any, list[StateConflicted]]:
    """The state of a run in which `left` and `right` begin at the same time and `left` is done first, and the conflicts."""
    wf = Workflow("case", state=Case, state_strategies=STRATEGIES)
    right_began, left_is_done = asyncio.Event(), asyncio.Event()

    @wf.node("left")
    @task
    async def left_(state: Any) -> Any:
        await right_began.wait()
        return left

    @wf.node("right")
    @task(retry=RetryPolicy(max_attempts=2, initial_s=0, retryable_errors=["conflict"]))
    async def right_(state: Any) -> Any:
        right_began.set()
        await left_is_done.wait()
        return right

    wf.node("end")(task(lambda state: state.data.model_dump(mode="json")))
    wf.edge("left", "end")
    wf.edge("right", "end")
    async with asyncio.timeout(20), Engine.open(store) as engine:
        run = await engine.start(wf)
        while not await events_of(run, StepCompleted):
            await asyncio.sleep(0.005)
        left_is_done.set()
        return await run.result(), await events_of(run, StateConflicted)


async def test_parallel_patches_meet_under_the_strategy_of_each_field(store: str) -> None:
    left = found("left", owner="ann", facts={"a": 1})
    state, conflicts = await come_to(store, left, found("right", owner="bob", facts={"a": 2, "b": 3}))
    assert [each["evidence_id"] for each in state["evidence"]] == ["left", "right"]
    assert (state["cost"], state["owner"], state["facts"]) == (3.0, "ann", {"a": 1, "b": 3})
    assert [(each.field, each.other) for each in conflicts] == [("facts", "left#1"), ("owner", "left#1")]
    owner = conflicts[1]
    assert (owner.current.value(), owner.attempted.value()) == ("ann", "bob")


async def test_a_rejected_patch_is_tried_again_by_a_step_that_has_seen_the_other(store: str) -> None:
    state, (conflict,) = await come_to(store, {"risk_level": "low"}, {"risk_level": "high"})
    assert state["risk_level"] == "high"
    assert (conflict.strategy, conflict.resolved) == ("reject", None)


def alone(result: Any, retry: Any = None, **more: Any) -> Workflow:
    """`first`, which says where to go on, and two that may follow."""
    wf = Workflow("case", state=Case, **more)
    wf.node("first")(task(lambda state: result(state) if callable(result) else result, retry=retry))
    for name in ("left", "right"):
        wf.node(name)(task(lambda state: {"owner": state.data.owner, "cost": 1}))
        wf.edge("first", name)
    return wf


async def test_a_result_names_the_next_node_and_leaves_a_trace(store: str) -> None:
    result = NodeResult(state_patch={"owner": "ann"}, next_node="right", trace={"why": "because"})
    async with Engine.open(store) as engine:
        run = await engine.start(alone(result))
        assert await run.result() == {"owner": "ann", "cost": 1}
        assert [each.step for each in await events_of(run, StepSkipped)] == ["left#1"]
        completed = await events_of(run, StepCompleted)
    assert completed[0].trace is not None
    assert completed[0].trace.value() == {"why": "because"}


async def test_a_completed_result_leads_nowhere(store: str) -> None:
    async with Engine.open(store) as engine:
        run = await engine.start(alone(NodeResult(state_patch={"owner": "ann"}, status="completed")))
        await run.result()
        assert [each.step for each in await events_of(run, StepSkipped)] == ["left#1", "right#1"]


async def test_a_retryable_error_is_tried_again_and_a_fatal_one_is_not(store: str) -> None:
    tries: list[int] = []

    def flaky(state: Any) -> NodeResult:
        tries.append(1)
        return NodeResult(status="retryable_error" if len(tries) < 2 else "fatal_error", error=f"try {len(tries)}")

    async with Engine.open(store) as engine:
        run = await engine.start(alone(flaky, retry=RetryPolicy(initial_s=0)))
        with pytest.raises(RunFailed, match="try 2"):
            await run.result()
        (failed,) = await events_of(run, AttemptFailed)
    assert (len(tries), failed.error.error_class) == (2, policies.TEMPORARY)


async def test_a_waiting_result_asks_a_person_whose_answer_joins_the_patch(store: str) -> None:
    result = NodeResult(state_patch={"cost": 2}, status="waiting", error="Who owns this?", next_node=None)
    async with Engine.open(store) as engine:
        run = await engine.start(alone(result))
        await run.settled()
        (gate,) = await events_of(run, GateOpened)
        assert gate.shown.value() == {"question": "Who owns this?"}
        await engine.decide(gate.gate, "answer", data={"owner": "cid"}, by="ann")
        assert await run.result() == {"left": {"owner": "cid", "cost": 1}, "right": {"owner": "cid", "cost": 1}}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (NodeResult(next_node="elsewhere"), "'first' chose 'elsewhere', which is none of its ways: left, right"),
        (NodeResult(state_patch={"ownr": "ann"}), "The patch of 'first' names 'ownr', and Case has no such field"),
        (NodeResult(state_patch={"cost": "much"}), "does not take this"),
        ({"cost": "much"}, "does not take this"),
    ],
)
async def test_what_does_not_fit_fails_its_step_in_words(store: str, result: Any, words: str) -> None:
    async with Engine.open(store) as engine:
        run = await engine.start(alone(result))
        with pytest.raises(RunFailed, match=words):
            await run.result()


async def test_patches_that_could_not_be_compared_are_refused(store: str) -> None:
    async with Engine.open(store) as engine:
        run = await engine.start(alone({"owner": "x" * 70_000}, state_strategies=STRATEGIES))
        with pytest.raises(RunFailed, match="has more than 64 KiB"):
            await run.result()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"evidnce": "append"}, "state_strategies has one for 'evidnce', and the state has no such field; it has approval"),
        ({"evidence": "concat"}, "the strategy of 'evidence' is one of last_write, first_write, merge, append, sum, reject"),
    ],
)
def test_a_strategy_that_is_none_is_refused_where_it_is_declared(given: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Workflow("case", state=Case, state_strategies=given)


def test_a_workflow_without_strategies_is_the_one_that_it_was() -> None:
    assert b"last_write" not in alone({}).graph.encoded
    assert b"last_write" in alone({}, state_strategies={"cost": "sum"}).graph.encoded
