"""What a step came to: a job's output says its result, and no other step's output is taken for a job's."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.values.payload import Payload, inline
from holdfast.core.views.step_result import ScriptTime, StepResult, script_times, step_result


@pytest.mark.parametrize(
    ("result", "outcome", "is_failure", "became"),
    [
        ("success", "success", False, "completed"),
        ("success", "failure", False, "completed"),
        ("failure", "failure", True, "failed"),
        ("cancelled", "cancelled", True, "cancelled"),
        ("skipped", "skipped", False, "skipped"),
    ],
)
def test_a_job_came_to_its_result(result: str, outcome: str, is_failure: bool, became: StepResult) -> None:
    output = inline({"result": result, "outcome": outcome, "outputs": {}})
    assert step_result(output, is_failure=is_failure) == became


@pytest.mark.parametrize("output", [None, "skipped", {"result": "skipped"}, ["skipped"]])
def test_another_step_has_completed(output: Any) -> None:
    assert step_result(inline(output), is_failure=False) == "completed"


def test_a_blob_is_not_read() -> None:
    assert step_result(Payload(blob="0" * 64, size_bytes=100_000), is_failure=False) == "completed"
    assert step_result(Payload(blob="0" * 64, size_bytes=100_000), is_failure=True) == "failed"


def test_scripts_of_a_job_have_their_times() -> None:
    job = {"result": "failure", "outcome": "failure", "outputs": {}}
    steps = {"build": {"outcome": "success"}, "test": {"outcome": "failure"}, "skipped": {"outcome": "skipped"}}
    one = {"steps": steps, "times": {"build": [5, 20], "test": [25, 7]}}
    expected = [ScriptTime(0, "build", "completed", 5, 20), ScriptTime(0, "test", "failed", 25, 7)]
    assert script_times(inline({**job, **one})) == expected
    again = script_times(inline({**job, "combinations": [{}, one]}))
    assert again == [each._replace(combination=1) for each in expected]
    for other in ({"times": {"a": [1, 2]}}, {**job, "times": {"a": [-1, 2]}}, {**job, "times": {"a": "long"}}, job):
        assert script_times(inline(other)) == []
    assert script_times(Payload(blob="0" * 64, size_bytes=100_000)) == []
