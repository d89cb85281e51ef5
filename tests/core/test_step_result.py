"""What a step came to: a job's output says its result, and no other step's output is taken for a job's."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.values.payload import Payload, inline
from holdfast.core.views.step_result import StepResult, step_result


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
