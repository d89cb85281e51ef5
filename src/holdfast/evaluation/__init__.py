"""Judging the path of a run and not only its end: what was expected of it, and a sentence for each thing that it missed.

After "Agent Workflow Orchestration", section 29. Never here: how a path is read from a history (core.trajectory), a score by
a model.
"""

from __future__ import annotations

from holdfast.evaluation.checks import (
    assert_came_back_to,
    assert_caught_by,
    assert_failed_at,
    assert_stopped_before,
    assert_went_to_approval,
)
from holdfast.evaluation.comparison import Comparison, compare
from holdfast.evaluation.expectation import Expectation, WorkflowTrajectoryEval, assert_trajectory, evaluate
from holdfast.evaluation.suite import Answer, Scenario, Suite

__all__ = [
    "Answer",
    "Comparison",
    "Expectation",
    "Scenario",
    "Suite",
    "WorkflowTrajectoryEval",
    "assert_came_back_to",
    "assert_caught_by",
    "assert_failed_at",
    "assert_stopped_before",
    "assert_trajectory",
    "assert_went_to_approval",
    "compare",
    "evaluate",
]
