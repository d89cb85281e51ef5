"""Evaluations that were kept. Never here: printing, who may see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypedDict, overload

from msgspec import Meta

from holdfast.core.values.money import usd
from holdfast.service.view.plain import Dollars, Time, iso

if TYPE_CHECKING:
    from holdfast.core.nouns.evaluations import Evaluation, Judged


class EvaluationRow(TypedDict):
    """A saved result of a suite of scenarios."""

    evaluation_id: str
    tenant: str
    suite: Annotated[str, Meta(description="The file of the suite.")]
    workflow: str
    version: int
    graph_hash: str
    met: Annotated[bool, Meta(description="True if at least `min_passed` of the scenarios passed.")]
    min_passed: Annotated[float, Meta(description="The share of scenarios that must pass, from 0 to 1.")]
    scenarios: Annotated[int, Meta(description="How many scenarios there are.")]
    passed: Annotated[int, Meta(description="How many of them passed.")]
    failed: Annotated[int, Meta(description="How many of them failed.")]
    replayed: Annotated[int, Meta(description="How many of them were replayed from recorded runs.")]
    cost_usd: Annotated[Dollars, Meta(description="What its live runs cost.")]
    by: Annotated[str | None, Meta(description="The person who saved it.")]
    by_os_user: Annotated[str | None, Meta(description="The operating system's user who saved it.")]
    by_client: Annotated[str | None, Meta(description="The token or key with which it was saved.")]
    at: Annotated[Time, Meta(description="When it was saved.")]


class JudgedRow(TypedDict):
    """The result of one scenario."""

    scenario: str
    run_id: str
    passed: bool
    misses: Annotated[list[str], Meta(description="What the run did not meet, a sentence each.")]
    replayed: Annotated[bool, Meta(description="True if a recorded run was replayed.")]
    cost_usd: Annotated[Dollars, Meta(description="What the run cost; of a replayed one, when it was recorded.")]


class EvaluationWhole(EvaluationRow):
    """A saved result with each of its runs."""

    judged: list[JudgedRow]


@overload
def of_evaluation(evaluation: Evaluation) -> EvaluationRow: ...
@overload
def of_evaluation(evaluation: Evaluation, judged: Sequence[Judged]) -> EvaluationWhole: ...
def of_evaluation(evaluation: Evaluation, judged: Sequence[Judged] | None = None) -> EvaluationRow | EvaluationWhole:
    """What a suite came to; with its runs, `judged`, where these were asked for."""
    found: EvaluationRow = {
        "evaluation_id": evaluation.id,
        "tenant": evaluation.tenant,
        "suite": evaluation.suite,
        "workflow": evaluation.workflow,
        "version": evaluation.version,
        "graph_hash": evaluation.graph_hash,
        "met": evaluation.met,
        "min_passed": evaluation.min_passed,
        "scenarios": evaluation.scenarios,
        "passed": evaluation.passed,
        "failed": evaluation.scenarios - evaluation.passed,
        "replayed": evaluation.replayed,
        "cost_usd": usd(evaluation.cost_nanousd),
        "by": evaluation.by or None,
        "by_os_user": evaluation.os_user or None,
        "by_client": evaluation.client or None,
        "at": iso(evaluation.at_ms),
    }
    return found if judged is None else {**found, "judged": [_of_judged(each) for each in judged]}


def _of_judged(judged: Judged) -> JudgedRow:
    return {
        "scenario": judged.scenario,
        "run_id": judged.run,
        "passed": judged.passed,
        "misses": list(judged.misses),
        "replayed": judged.replayed,
        "cost_usd": usd(judged.cost_nanousd),
    }
