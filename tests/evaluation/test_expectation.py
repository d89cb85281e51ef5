"""What is expected of a path: a sentence for each thing that it misses, and none for what it keeps to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Engine, StateView, Workflow, check, human_gate, task, tool, tool_node
from holdfast.core.views.trajectory import Approval, ToolUse, Trajectory, Transition, Visit
from holdfast.errors import InvalidInput
from holdfast.evaluation import (
    Expectation,
    assert_came_back_to,
    assert_caught_by,
    assert_failed_at,
    assert_stopped_before,
    assert_trajectory,
    assert_went_to_approval,
    evaluate,
)

PATH = Trajectory(
    run="r1",
    workflow="case",
    status="completed",
    visits=(
        Visit("draft", 2, "completed"),
        Visit("validate", 5, "completed", ("retry",)),
        Visit("draft", 8, "completed"),
        Visit("validate", 11, "completed", ("pass",)),
        Visit("approval", 14, "completed", ("approve",)),
        Visit("send", 18, "completed"),
    ),
    transitions=(
        Transition("draft", "validate", 5),
        Transition("validate", "draft", 8),
        Transition("draft", "validate", 11),
        Transition("validate", "approval", 14),
        Transition("approval", "send", 18),
    ),
    approvals=(Approval("g1", "approval", "approval", 15, "approve", 16),),
    tools=(ToolUse("draft", "search", "a", 3), ToolUse("draft", "search", "b", 9), ToolUse("send", "post", "c", 19)),
    retries=1,
    holds=2,
    model_calls=2,
    tool_calls=3,
    tokens=100,
    cost_nanousd=2_000_000_000,
    duration_ms=1500,
)

KEPT: tuple[dict[str, Any], ...] = (
    {},
    {"nodes": ("draft", "validate", "draft", "validate", "approval", "send"), "match": "exact"},
    {"nodes": ("draft", "approval", "send")},
    {"nodes": ("send", "draft", "draft"), "match": "any_order"},
    {"unsafe": ("draft -> send",), "approvals": {"send": "approval", "post": "approval"}, "tools": ("search", "post")},
    {"supported_by": "validate"},
    {"max_retries": 1, "max_holds": 2, "max_model_calls": 2, "max_tool_calls": 3, "max_tokens": 100},
    {"max_cost_usd": 2, "max_duration_s": 1.5},
)
MISSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"final_state": "failed"}, "The run is completed; expected was failed."),
    ({"nodes": ("draft", "send"), "match": "exact"}, "expected was draft → send (exact)"),
    ({"nodes": ("send", "draft")}, "expected was send → draft (in_order)"),
    ({"nodes": ("send", "send"), "match": "any_order"}, "expected was send → send (any_order)"),
    ({"unsafe": ("draft->validate",)}, "from 'draft' to 'validate', which is unsafe (event 5)"),
    ({"approvals": {"draft": "approval"}}, "'draft' went on without an approval at 'approval' (event 2)"),
    ({"approvals": {"search": "approval"}}, "'search' went on without an approval at 'approval' (event 3)"),
    ({"approvals": {"send": "another"}}, "'send' went on without an approval at 'another' (event 18)"),
    ({"tools": ("post",)}, "'draft' asked for the tool 'search', which was not needed (event 3)"),
    ({"supported_by": "nobody"}, "'nobody' did not let the answer pass"),
    ({"max_retries": 0}, "It took 1 retries; at most 0 were expected."),
    ({"max_holds": 1}, "2 holds; at most 1"),
    ({"max_model_calls": 1}, "2 calls of models; at most 1"),
    ({"max_tool_calls": 2}, "3 calls of tools; at most 2"),
    ({"max_tokens": 99}, "100 tokens; at most 99"),
    ({"max_cost_usd": "1.99"}, "It cost $2.00; at most $1.99 was expected."),
    ({"max_duration_s": 1}, "1500 milliseconds; at most 1000"),
)


@pytest.mark.parametrize("expected", KEPT, ids=str)
def test_what_a_path_keeps_to_is_no_miss(expected: dict[str, Any]) -> None:
    assert evaluate(PATH, Expectation(**expected)).misses == ()


@pytest.mark.parametrize(("expected", "sentence"), MISSED)
def test_each_miss_is_reported_in_a_sentence(expected: dict[str, Any], sentence: str) -> None:
    found = evaluate(PATH, Expectation(**expected), "high risk")
    assert sentence in str(found.notes)
    assert not found.passed
    with pytest.raises(AssertionError, match=r"high risk \(run r1\):"):
        found.require()


def test_the_same_call_again_is_one_that_was_not_needed() -> None:
    twice = msgspec.structs.replace(PATH, tools=(*PATH.tools, ToolUse("send", "post", "c", 21)))
    found = evaluate(twice, Expectation())
    assert (found.unnecessary_tool_calls, found.misses) == (
        1,
        ("'send' called 'post' again with the same arguments (event 21).",),
    )
    assert evaluate(twice, Expectation(max_unnecessary_tool_calls=1)).passed
    reused = msgspec.structs.replace(PATH, tools=(*PATH.tools, ToolUse("send", "post", "c", 21, "reused")))
    assert evaluate(reused, Expectation()).passed


def test_an_approval_is_for_one_visit_and_goes_when_a_person_rejects() -> None:
    approvals = {"send": "approval"}
    again = msgspec.structs.replace(PATH, visits=(*PATH.visits, Visit("send", 22)))
    assert evaluate(again, Expectation(approvals=approvals)).missing_approval
    later = Approval("g2", "approval", "approval", 16, "reject", 17)
    rejected = msgspec.structs.replace(PATH, approvals=(*PATH.approvals, later))
    assert evaluate(rejected, Expectation(approvals=approvals)).missing_approval


def test_what_is_expected_in_vain_is_refused_in_words() -> None:
    with pytest.raises(InvalidInput, match="'draft, send' is not a way"):
        Expectation(unsafe=("draft, send",))
    with pytest.raises(InvalidInput, match="max_cost_usd: 'much' is not an amount"):
        Expectation(max_cost_usd="much")


@pytest.mark.parametrize(
    ("held", "missed", "sentence"),
    [
        (
            lambda: assert_went_to_approval(PATH, "approval"),
            lambda: assert_went_to_approval(PATH, "send"),
            "No person was asked",
        ),
        (lambda: assert_stopped_before(PATH, "refund"), lambda: assert_stopped_before(PATH, "send"), "came to 'send'"),
        (
            lambda: assert_failed_at(msgspec.structs.replace(PATH, visits=(Visit("access", 2, "failed"),)), "access"),
            lambda: assert_failed_at(PATH, "send"),
            "did not fail at 'send'",
        ),
        (lambda: assert_came_back_to(PATH, "draft"), lambda: assert_came_back_to(PATH, "send"), "never came back"),
        (lambda: assert_caught_by(PATH, "validate"), lambda: assert_caught_by(PATH, "send"), "caught nothing"),
    ],
    ids=["approval", "stopped", "failed", "corrected", "caught"],
)
def test_the_example_checks_of_the_document(held: Callable[[], None], missed: Callable[[], None], sentence: str) -> None:
    held()
    with pytest.raises(AssertionError, match=sentence):
        missed()


def test_a_run_that_did_something_after_a_failure_did_not_fail_there() -> None:
    refused, done = Visit("access", 2, "failed"), Visit("send", 3, "completed")
    assert_failed_at(msgspec.structs.replace(PATH, visits=(refused, Visit("fail", 3, "failed"))), "access")
    with pytest.raises(AssertionError, match="did not fail at 'access'"):
        assert_failed_at(msgspec.structs.replace(PATH, visits=(refused, done)), "access")


# --- A run -----------------------------------------------------------------------------------------------------------

case = Workflow("case")
posted: list[str] = []


@case.node("draft")
@task
def draft(state: StateView) -> str:
    return "bold" if state.visits("draft") == 1 else "sound"


@case.node("validate")
@check
def validate(state: StateView) -> str:
    return "retry" if state.events["draft"].output == "bold" else "pass"


@case.node("approval")
@human_gate
def approval(state: StateView) -> dict[str, Any]:
    return {"diff": state.events["draft"].output}


@tool(effect="once")
def post(body: str) -> str:
    posted.append(body)
    return "posted"


@case.node("send")
@tool_node(name=post)
def send(state: StateView) -> dict[str, Any]:
    return {"body": state.events["draft"].output}


case.edge("draft", "validate")
case.edge("validate", "approval")
case.loop("validate", "draft", when="retry", max_visits=2)
case.edge("approval", "send")


async def test_the_path_of_a_run_is_held_against_what_is_expected(tmp_path: Path) -> None:
    async with Engine.open(tmp_path / "runs.db", workflows=[case]) as engine:
        run = await engine.start(case, {})
        await run.settled()
        [(gate, _)] = await engine.gates(run.id)
        await engine.decide(gate.gate, "approve", by="ann")
        await run.result()
        path = await engine.trajectory(run.id)
    assert_trajectory(
        path,
        Expectation(
            nodes=("draft", "validate", "draft", "validate", "approval", "send"),
            match="exact",
            approvals={"send": "approval", "post": "approval"},
            unsafe=("draft -> send", "validate -> send"),
            tools=("post",),
            supported_by="validate",
            max_retries=0,
            max_tool_calls=1,
            max_cost_usd=0,
        ),
    )
    assert_caught_by(path, "validate")
    assert_came_back_to(path, "draft")
    assert {("validate", "draft"), ("approval", "send")} <= {(each.source, each.target) for each in path.transitions}
