"""Evaluators of Pydantic Evals for the path of a run: its datasets and reports, with the assertions of this package.

Never here: what is expected of a path (expectation), and the five checks (checks); this gives them a face.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from holdfast.core.values.money import usd
from holdfast.core.views.trajectory import Trajectory
from holdfast.errors import InvalidInput
from holdfast.evaluation import checks
from holdfast.evaluation.expectation import Expectation, evaluate
from holdfast.evaluation.suite import Suite, parse_part
from holdfast.platform.extra import needs

with needs("evals", "Judging paths with Pydantic Evals"):
    from pydantic_evals import Case, Dataset
    from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext, EvaluatorOutput

_CHECKS: Final[dict[str, Callable[[Trajectory, str], None]]] = {
    "went_to_approval": checks.assert_went_to_approval,
    "stopped_before": checks.assert_stopped_before,
    "failed_at": checks.assert_failed_at,
    "came_back_to": checks.assert_came_back_to,
    "caught_by": checks.assert_caught_by,
}


@dataclass(repr=False)
class TrajectoryEvaluator(Evaluator[object, Trajectory, object]):
    """An evaluator for Pydantic Evals that compares the path that a task returned with an Expectation.

    Its assertions are `trajectory` (with the misses as its reason), `reached_expected_final_state`, `approved`, and
    `final_answer_supported` if `supported_by` is expected.

    Its scores are `unsafe_transitions`, `unnecessary_tool_calls`, `retries`, `holds`, `model_calls`, `tool_calls`, `tokens`,
    `cost_usd` and `run_s`.

    Args:
        expected: The requirements; in a dataset file a mapping.
    """

    expected: Expectation = field(default_factory=Expectation)

    def __post_init__(self) -> None:
        self.expected = parse_part(self.expected, Expectation)

    def evaluate(self, ctx: EvaluatorContext[object, Trajectory, object]) -> EvaluatorOutput:
        path = ctx.output
        found = evaluate(path, self.expected, ctx.name or "")
        supported = found.final_answer_supported
        return {
            "trajectory": EvaluationReason(found.passed, found.notes),
            "reached_expected_final_state": found.reached_expected_final_state,
            "approved": not found.missing_approval,
            **({} if supported is None else {"final_answer_supported": supported}),
            "unsafe_transitions": found.unsafe_transition_count,
            "unnecessary_tool_calls": found.unnecessary_tool_calls,
            "retries": found.retry_count,
            "holds": path.holds,
            "model_calls": path.model_calls,
            "tool_calls": path.tool_calls,
            "tokens": path.tokens,
            "cost_usd": float(usd(path.cost_nanousd)),
            "run_s": path.duration_ms / 1000,
        }

    def build_serialization_arguments(self) -> dict[str, Any]:
        """Return the arguments that a dataset file stores for this evaluator."""
        return {"expected": msgspec.to_builtins(self.expected)}


@dataclass(repr=False)
class TrajectoryCheck(Evaluator[object, Trajectory, object]):
    """An evaluator for Pydantic Evals that makes one check of a path.

    Args:
        question: The check, named like the assertion without `assert_`.
        node: Name of the gate, check or task.
    """

    question: Literal["went_to_approval", "stopped_before", "failed_at", "came_back_to", "caught_by"]
    node: str

    def __post_init__(self) -> None:
        if self.question not in _CHECKS:
            raise InvalidInput(f"There is no check {self.question!r}; there are {', '.join(_CHECKS)}.")

    def get_default_evaluation_name(self) -> str:
        """The question and its node: a case may ask it of several."""
        return f"{self.question} {self.node}"

    def evaluate(self, ctx: EvaluatorContext[object, Trajectory, object]) -> EvaluationReason:
        try:
            _CHECKS[self.question](ctx.output, self.node)
        except AssertionError as missed:
            return EvaluationReason(False, str(missed))
        return EvaluationReason(True)


def dataset(suite: Suite, name: str | None = None) -> Dataset[Mapping[str, Any], Trajectory, Any]:
    """Return the scenarios of a suite as a dataset of Pydantic Evals. Their task is `partial(play, workflow)`.

    Args:
        suite: The suite.
        name: Name of the dataset; by default the workflow's.

    Raises:
        InvalidInput: A scenario is one of recorded runs.
    """
    cases: list[Case[Mapping[str, Any], Trajectory, Any]] = []
    for each in suite.scenarios:
        if each.records is not None:
            raise InvalidInput(
                f"Scenario {each.id!r} is of recorded runs, and a case of a dataset is one run: have holdfast.evaluation.replay"
                " make their paths in the task of a dataset of your own."
            )
        inputs = msgspec.to_builtins(each)
        inputs.pop("expect", None)
        cases.append(Case(name=each.id, inputs=inputs, evaluators=(TrajectoryEvaluator(each.expect),)))
    return Dataset[Any, Any, Any](name=name or suite.workflow, cases=cases)
