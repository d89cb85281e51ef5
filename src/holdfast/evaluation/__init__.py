"""Judging the path of a run and not only its end: what was expected of it, and a sentence for each thing that it missed.

After "Agent Workflow Orchestration", section 29. Never here: how a path is read from a history (trajectory), a score by
a model.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.views.comparison import Comparison, compare
from holdfast.evaluation.checks import (
    assert_came_back_to,
    assert_caught_by,
    assert_failed_at,
    assert_stopped_before,
    assert_went_to_approval,
)
from holdfast.evaluation.expectation import Expectation, WorkflowTrajectoryEval, assert_trajectory, evaluate
from holdfast.evaluation.suite import Answer, Scenario, Suite

if TYPE_CHECKING:
    from holdfast.core.views.transcript import TurnChange
    from holdfast.evaluation.evaluators import TrajectoryCheck, TrajectoryEvaluator, dataset
    from holdfast.evaluation.judging import judge
    from holdfast.evaluation.playing import play
    from holdfast.evaluation.record import RunRecord
    from holdfast.evaluation.recording import load_records, recorded
    from holdfast.evaluation.redaction import Redaction
    from holdfast.evaluation.replaying import Live, Quote, ReplayResult, RequestChange, quote, replay

_WHERE: Final = {
    "Live": "replaying",
    "Quote": "replaying",
    "Redaction": "redaction",
    "ReplayResult": "replaying",
    "RequestChange": "replaying",
    "RunRecord": "record",
    "TrajectoryCheck": "evaluators",
    "TrajectoryEvaluator": "evaluators",
    "TurnChange": "replaying",
    "dataset": "evaluators",
    "judge": "judging",
    "load_records": "recording",
    "play": "playing",
    "quote": "replaying",
    "recorded": "recording",
    "replay": "replaying",
}
"""Loaded when they are asked for: who judges a path needs no engine, and no Pydantic Evals."""


def __getattr__(name: str) -> Any:
    if name == "Replayed":
        words = "holdfast.evaluation.Replayed has become ReplayResult, and will be removed in 0.3."
        warnings.warn(words, DeprecationWarning, stacklevel=2)
        name = "ReplayResult"
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.evaluation' has no attribute {name!r}")
    return getattr(import_module(f"holdfast.evaluation.{_WHERE[name]}"), name)


__all__ = [
    "Answer",
    "Comparison",
    "Expectation",
    "Live",
    "Quote",
    "Redaction",
    "ReplayResult",
    "RequestChange",
    "RunRecord",
    "Scenario",
    "Suite",
    "TrajectoryCheck",
    "TrajectoryEvaluator",
    "TurnChange",
    "WorkflowTrajectoryEval",
    "assert_came_back_to",
    "assert_caught_by",
    "assert_failed_at",
    "assert_stopped_before",
    "assert_trajectory",
    "assert_went_to_approval",
    "compare",
    "dataset",
    "evaluate",
    "judge",
    "load_records",
    "play",
    "quote",
    "recorded",
    "replay",
]
