"""Evaluations that were kept. Never here: printing, who may see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.core.values.money import usd
from holdfast.service.view.plain import iso

if TYPE_CHECKING:
    from holdfast.core.nouns.evaluations import Evaluation, Judged


def of_evaluation(evaluation: Evaluation, judged: Sequence[Judged] | None = None) -> dict[str, Any]:
    """What a suite came to; with its runs, `judged`, where these were asked for."""
    found = {
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


def _of_judged(judged: Judged) -> dict[str, Any]:
    return {
        "scenario": judged.scenario,
        "run_id": judged.run,
        "passed": judged.passed,
        "misses": list(judged.misses),
        "replayed": judged.replayed,
        "cost_usd": usd(judged.cost_nanousd),
    }
