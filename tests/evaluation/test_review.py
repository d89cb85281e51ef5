"""The review of a workflow: sixteen questions and nine parts, answered from its code and from the paths of its runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from holdfast import Engine, ToolRule, Workflow, human_gate, llm_node, map_node, task, tool, tool_node
from holdfast.errors import InvalidWorkflow
from holdfast.evaluation.review import Review, review
from holdfast.evaluation.suite import Scenario, Suite

TITLES = [
    "State schema",
    "Node list",
    "Transition table",
    "Approval policy",
    "Retry policy",
    "Checkpoint strategy",
    "Trace schema",
    "Failure scenarios",
    "Trajectory eval results",
]


class Case(BaseModel):
    number: int


class Verdict(BaseModel):
    fair: bool


@tool(effect="idempotent", compensation="take_back")
def pay(number: int) -> str:
    """Pay."""
    return "paid"


@tool(effect="idempotent")
def take_back(number: int) -> str:
    """Take back."""
    return "taken back"


@tool(effect="once")
def shout(number: int) -> str:
    """Tell everybody."""
    return "told"


def careful() -> Workflow:
    wf = Workflow("careful", input=Case, cost_limit_usd="0.50", tool_rules=[ToolRule("pay", "ask")], on_exhausted="dead_letter")
    wf.node("judge")(llm_node(model="claude-haiku-4-5", output=Verdict)(lambda state: "Is it fair?"))
    wf.node("look")(human_gate(reviewers=["ann"])(lambda state: {"diff": "pay"}))
    wf.node("pay")(tool_node(name=pay)(lambda state: {"number": state.input.number}))
    wf.node("sorry")(task(lambda state: "sorry"))
    wf.edge("judge", "look")
    wf.edge("look", "pay", when="approve")
    wf.edge("pay", "sorry", on="error")
    return wf


def careless() -> Workflow:
    wf = Workflow("careless")
    judge = llm_node(model="claude-haiku-4-5")(lambda state, item: "Is it fair?")
    wf.node("judge")(map_node(lambda state: state.input)(judge))
    wf.node("shout")(tool_node(name=shout)(lambda state: {"number": 1}))
    wf.edge("judge", "shout")
    return wf


def open_(found: Review) -> list[int]:
    """The numbers of the questions that do not hold."""
    return [number for number, each in enumerate(found.findings, 1) if each.holds == "no"]


def test_every_question_has_an_answer_and_every_part_of_the_report_lines() -> None:
    suite = Suite(workflow="careful.py:wf", scenarios=[Scenario(id="fair")])
    found = review(careful(), suite=suite)
    assert len(found.findings) == 16
    assert open_(found) == []
    assert list(found.report) == TITLES
    assert all(lines for lines in found.report.values())
    assert "look -> pay (when approve)" in found.report["Transition table"]
    assert found.report["Approval policy"] == ("look asks ann", "rule: ask pay")
    assert "pay fails: sorry goes on" in found.report["Failure scenarios"]


def test_what_a_careless_workflow_lacks_is_reported_with_what_to_do() -> None:
    found = review(careless())
    told = {number: found.findings[number - 1].because for number in open_(found)}
    assert set(told) == {1, 4, 5, 6, 13, 15}
    assert "give output=" in told[4]
    assert "shout" in told[5]
    assert "set cost_limit_usd" in told[6]
    assert "nothing undoes what shout did" in told[15]


def test_a_workflow_that_cannot_be_run_has_no_review() -> None:
    wf = careless()
    wf.edge("shout", "nowhere")
    with pytest.raises(InvalidWorkflow):
        review(wf)


async def test_the_paths_of_runs_are_in_the_report(tmp_path: Path) -> None:
    wf = Workflow("steps")
    wf.node("one")(task(lambda state: 1))
    wf.node("two")(task(lambda state: 1 / state.input))
    wf.edge("one", "two")
    async with Engine.open(tmp_path / "holdfast.db") as engine:
        runs = [await engine.start(wf, number) for number in (1, 2, 0)]
        for run in runs:
            await run.settled()
        found = review(wf, [await engine.trajectory(run.id) for run in runs])
    assert "seen in 1 of 3 runs: failed" in found.report["Failure scenarios"]
    results = found.report["Trajectory eval results"]
    assert results[0] == "2 of the latest 3 runs completed, after 0 retries in all"
    assert "3 went one -> two" in results
