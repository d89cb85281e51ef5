"""Evaluations that were kept. Never here: printing, who may see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypedDict, overload

from holdfast.core.values.money import usd
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Dollars, Time, iso

if TYPE_CHECKING:
    from holdfast.core.nouns.evaluations import Evaluation, ScenarioResult, VersionResult


class EvaluationRow(TypedDict):
    """A saved result of a suite of scenarios."""

    evaluation_id: Annotated[str, doc("Id of the evaluation.")]
    tenant: field.Tenant
    suite: Annotated[str, doc("The file of the suite.")]
    workflow: Annotated[str, doc("Name of the workflow that was evaluated.")]
    version: Annotated[int, doc("Version of the workflow that was evaluated.")]
    graph_hash: field.GraphHash
    met: Annotated[bool, doc("True if at least `min_passed` of the scenarios passed.")]
    min_passed: Annotated[float, doc("The share of scenarios that must pass, from 0 to 1.")]
    scenarios: Annotated[int, doc("Number of scenarios.")]
    passed: Annotated[int, doc("Number of them that passed.")]
    failed: Annotated[int, doc("Number of them that failed.")]
    replayed: Annotated[int, doc("Number of them that were replayed from recorded runs.")]
    cost_usd: Annotated[Dollars, doc("Dollars that its live runs cost.")]
    by: Annotated[str | None, doc("The person who saved it.")]
    by_os_user: Annotated[str | None, doc("The operating system's user who saved it.")]
    by_client: Annotated[str | None, doc("The token or key with which it was saved.")]
    at: Annotated[Time, doc("When it was saved.")]


class EvaluationVersionRow(TypedDict):
    """The results of a suite of scenarios with a version of a workflow."""

    tenant: field.Tenant
    workflow: Annotated[str, doc("Name of the workflow that was evaluated.")]
    suite: Annotated[str, doc("The file of the suite.")]
    version: field.Version
    graph_hash: field.GraphHash
    evaluations: Annotated[int, doc("Number of saved results.")]
    mean_pass_rate: Annotated[float, doc("Mean share of scenarios that passed, over the saved results, from 0 to 1.")]
    evaluation_id: Annotated[str, doc("Id of the newest result, of which the fields below are.")]
    scenarios: Annotated[int, doc("Number of scenarios.")]
    passed: Annotated[int, doc("Number of them that passed.")]
    pass_rate: Annotated[float, doc("Share of them that passed, from 0 to 1.")]
    change: Annotated[float | None, doc("Change of that share from the version before; null for the first.")]
    met: Annotated[bool, doc("True if enough of the scenarios passed.")]
    cost_usd: Annotated[Dollars, doc("Dollars that its live runs cost.")]
    at: Annotated[Time, doc("When it was saved.")]


class ScenarioRow(TypedDict):
    """The result of one scenario."""

    scenario: Annotated[str, doc("Name of the scenario.")]
    run_id: Annotated[str, doc("Id of its run.")]
    passed: Annotated[bool, doc("True if the run met everything that the scenario expects.")]
    misses: Annotated[list[str], doc("Expectations that the run did not meet, a sentence each.")]
    replayed: Annotated[bool, doc("True if a recorded run was replayed.")]
    cost_usd: Annotated[Dollars, doc("Dollars that the run cost; of a replayed run, when it was recorded.")]


class EvaluationWhole(EvaluationRow):
    """A saved result with each of its runs."""

    results: Annotated[list[ScenarioRow], doc("Results of the scenarios, one for each.")]


@overload
def of_evaluation(evaluation: Evaluation) -> EvaluationRow: ...
@overload
def of_evaluation(evaluation: Evaluation, results: Sequence[ScenarioResult]) -> EvaluationWhole: ...
def of_evaluation(evaluation: Evaluation, results: Sequence[ScenarioResult] | None = None) -> EvaluationRow | EvaluationWhole:
    """Return the row of a suite's evaluation; with its `results`, if these were requested."""
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
    return found if results is None else {**found, "results": [_of_result(each) for each in results]}


def of_version_result(result: VersionResult) -> EvaluationVersionRow:
    """Return the row of a version's results."""
    newest = result.newest
    return {
        "tenant": newest.tenant,
        "workflow": newest.workflow,
        "suite": newest.suite,
        "version": newest.version,
        "graph_hash": newest.graph_hash,
        "evaluations": result.evaluations,
        "mean_pass_rate": result.mean_pass_rate,
        "evaluation_id": newest.id,
        "scenarios": newest.scenarios,
        "passed": newest.passed,
        "pass_rate": newest.pass_rate,
        "change": result.change,
        "met": newest.met,
        "cost_usd": usd(newest.cost_nanousd),
        "at": iso(newest.at_ms),
    }


def _of_result(result: ScenarioResult) -> ScenarioRow:
    return {
        "scenario": result.scenario,
        "run_id": result.run,
        "passed": result.passed,
        "misses": list(result.misses),
        "replayed": result.replayed,
        "cost_usd": usd(result.cost_nanousd),
    }
