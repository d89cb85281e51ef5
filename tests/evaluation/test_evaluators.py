"""Paths of real runs in datasets and reports of Pydantic Evals itself."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic_evals import Dataset
from pydantic_evals.reporting import EvaluationReport

from holdfast import StateView, Workflow, check, evaluation, human_gate, task
from holdfast.errors import InvalidInput, MissingExtra
from holdfast.evaluation import Expectation, Scenario, Suite, TrajectoryCheck, TrajectoryEvaluator, dataset, play

OURS = [TrajectoryEvaluator, TrajectoryCheck]

wf = Workflow(name="case")


@wf.node("draft")
@task
def draft(state: StateView) -> int:
    return state.visits("draft")


@wf.node("validate")
@check
def validate(state: StateView) -> str:
    return "pass" if state.events["draft"].output == 2 else "retry"


@wf.node("approval")
@human_gate
def approval(state: StateView) -> dict[str, Any]:
    return {}


@wf.node("send")
@task
def send(state: StateView) -> str:
    return "sent"


wf.edge("draft", "validate")
wf.loop("validate", "draft", when="retry", max_visits=3)
wf.edge("validate", "approval")
wf.edge("approval", "send")

EXPECTED = Expectation(nodes=("draft", "approval", "send"), approvals={"send": "approval"}, supported_by="validate")
SUITE = Suite(
    workflow="case.py:wf",
    scenarios=[
        Scenario(id="approved", input={}, answers={"approval": ["approve"]}, expect=EXPECTED),
        Scenario(id="rejected", input={}, answers={"approval": ["reject"]}, expect=EXPECTED),
    ],
)


async def report_of(asked: Dataset[Any, Any, Any]) -> dict[str, Any]:
    report: EvaluationReport[Any, Any, Any] = await asked.evaluate(partial(play, wf), progress=False)
    assert report.failures == []
    return {case.name: case for case in report.cases}


async def test_a_suite_is_a_dataset_whose_report_says_what_each_path_missed() -> None:
    asked = dataset(SUITE)
    asked.add_evaluator(TrajectoryCheck("went_to_approval", "approval"))
    asked.add_evaluator(TrajectoryCheck("stopped_before", "send"))
    cases = await report_of(asked)
    approved, rejected = cases["approved"], cases["rejected"]
    assert {name: each.value for name, each in approved.assertions.items()} == {
        "trajectory": True,
        "reached_expected_final_state": True,
        "approved": True,
        "final_answer_supported": True,
        "went_to_approval approval": True,
        "stopped_before send": False,
    }
    assert "The run came to 'send'." in approved.assertions["stopped_before send"].reason
    assert {name: each.value for name, each in approved.scores.items() if name != "run_s"} == {
        "unsafe_transitions": 0,
        "unnecessary_tool_calls": 0,
        "retries": 0,
        "holds": 0,
        "model_calls": 0,
        "tool_calls": 0,
        "tokens": 0,
        "cost_usd": 0.0,
    }
    assert approved.scores["run_s"].value > 0
    assert rejected.assertions["trajectory"].value is False
    assert rejected.assertions["trajectory"].reason == (
        "The run is failed; expected was completed. It went draft → validate → draft → validate → approval;"
        " expected was draft → approval → send (in_order)."
    )
    assert rejected.assertions["stopped_before send"].value is True


async def test_a_dataset_goes_to_a_file_and_comes_back_and_is_played(tmp_path: Path) -> None:
    dataset(SUITE).to_file(tmp_path / "cases.yaml", custom_evaluator_types=OURS)
    read = Dataset[Any, Any, Any].from_file(tmp_path / "cases.yaml", custom_evaluator_types=OURS)
    assert [case.evaluators for case in read.cases] == [[TrajectoryEvaluator(EXPECTED)]] * 2
    cases = await report_of(read)
    assert [cases[name].assertions["trajectory"].value for name in ("approved", "rejected")] == [True, False]


@pytest.mark.parametrize(("check_", "goes"), [("caught_by", "validate"), ("came_back_to", "draft"), ("failed_at", "approval")])
async def test_each_check_of_the_document_is_an_evaluator(check_: Any, goes: str) -> None:
    asked = Dataset[Any, Any, Any](name="checks", cases=dataset(SUITE).cases[1:])
    for node in (goes, "send"):
        asked.add_evaluator(TrajectoryCheck(check_, node))
    [case] = (await report_of(asked)).values()
    assert [case.assertions[f"{check_} {node}"].value for node in (goes, "send")] == [True, False]


def test_what_is_no_expectation_is_refused_in_words() -> None:
    with pytest.raises(InvalidInput, match=r"This is no expectation: .*`nods`"):
        TrajectoryEvaluator({"nods": []})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="There is no check 'won'; there are went_to_approval, stopped_before"):
        TrajectoryCheck("won", "draft")  # type: ignore[arg-type]


def test_without_the_package_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_evals", None)
    monkeypatch.delitem(sys.modules, "holdfast.evaluation.evaluators")
    with pytest.raises(MissingExtra, match=r"needs pydantic_evals, .* pip install '\.\[evals\]'"):
        _ = evaluation.dataset


async def test_what_is_no_scenario_is_refused_in_words() -> None:
    with pytest.raises(InvalidInput, match=r"This is no scenario: .*`id`"):
        await play(wf, {"input": {}})


async def test_recorded_runs_are_not_played_and_are_no_cases_of_a_dataset() -> None:
    """Which would lose what their records do not have."""
    suite = Suite(workflow="case.py:wf", scenarios=[Scenario(id="recorded", records="cases.jsonl")])
    with pytest.raises(InvalidInput, match=r"'recorded' is of recorded runs, and a case .* have holdfast\.evaluation\.replay"):
        dataset(suite)
    with pytest.raises(InvalidInput, match="'recorded' is of recorded runs, which are not played"):
        await play(wf, suite.scenarios[0])
