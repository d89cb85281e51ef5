"""Evaluations that are kept: what a suite of scenarios came to, when and by whom, how much of it is remembered, and which
versions are held back because of them.

Never here: judging a path, where they are kept (ports.evaluation).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core.values.money import usd

MAX_JUDGED: Final = 1_000
"""Runs of an evaluation that are remembered one by one; all are counted."""
MAX_MISSES: Final = 20
"""Of a run."""
MAX_MISS_CHARACTERS: Final = 500


class ScenarioResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one run of a scenario: what it missed, in sentences. The cost of a recorded run that was `replayed` was not
    spent again."""

    scenario: str
    run: str
    misses: tuple[str, ...] = ()
    cost_nanousd: int = 0
    replayed: bool = False

    @property
    def passed(self) -> bool:
        return not self.misses


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a suite. `suite` is its file as it was named; `cost_nanousd` is the cost of its live runs. `met`: at least
    the share `min_passed` of the scenarios passed. The person who kept it is as in core.values.claim."""

    id: str
    tenant: str
    suite: str
    workflow: str
    version: int
    graph_hash: str
    scenarios: int
    passed: int
    replayed: int
    min_passed: float
    met: bool
    cost_nanousd: int
    at_ms: int
    by: str = ""
    os_user: str = ""
    client: str = ""

    @property
    def pass_rate(self) -> float:
        """The share of its scenarios that passed, from 0 to 1."""
        return self.passed / self.scenarios


class VersionResult(NamedTuple):
    """The results of a suite with a version of a workflow: the newest, how many there are, the mean of their pass rates, and
    the `change` of the newest from that of the version before; None where it is the first."""

    newest: Evaluation
    evaluations: int
    mean_pass_rate: float
    change: float | None


def newest_of_suites(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the first of each suite; given the newest first, the newest."""
    found: dict[str, Evaluation] = {}
    for each in evaluations:
        found.setdefault(each.suite, each)
    return [*found.values()]


def by_version(evaluations: Sequence[Evaluation]) -> list[VersionResult]:
    """Return the results of each suite with each version, of evaluations with the newest first; by tenant, workflow and suite,
    the highest version first."""
    groups: dict[tuple[str, str, str], dict[int, list[Evaluation]]] = {}
    for each in evaluations:
        versions = groups.setdefault((each.tenant, each.workflow, each.suite), {})
        versions.setdefault(each.version, []).append(each)
    found: list[VersionResult] = []
    for _, versions in sorted(groups.items()):
        results, before = list[VersionResult](), None
        for _, kept in sorted(versions.items()):
            rate = kept[0].pass_rate
            mean = sum(each.pass_rate for each in kept) / len(kept)
            results.append(VersionResult(kept[0], len(kept), mean, None if before is None else rate - before))
            before = rate
        found += reversed(results)
    return found


def spent_nanousd(judged: Sequence[ScenarioResult]) -> int:
    """Return what was really spent."""
    return sum(each.cost_nanousd for each in judged if not each.replayed)


def remembered(judged: Sequence[ScenarioResult]) -> tuple[ScenarioResult, ...]:
    """The runs that are remembered one by one, in their order: where there are too many, those that missed something go
    before those that passed."""
    first = sorted(range(len(judged)), key=lambda at: judged[at].passed)[:MAX_JUDGED]
    return tuple(_short(judged[at]) for at in sorted(first))


def _short(judged: ScenarioResult) -> ScenarioResult:
    misses = tuple(miss[:MAX_MISS_CHARACTERS] for miss in judged.misses[:MAX_MISSES])
    return msgspec.structs.replace(judged, misses=misses)


# --- Holding a version back -------------------------------------------------------------------------------------------

_ROUNDING: Final = 1e-9
"""Two shares that differ by less are equal."""


class HoldBack(msgspec.Struct, frozen=True):
    """The rule for new versions of a workflow: each needs a result of `suite` over `min_scenarios` or more, with enough passed,
    and a pass rate that is at most `max_drop` below that of the version before. Otherwise `reviewers` are asked."""

    suite: str
    min_scenarios: int = 1
    max_drop: float = 0.0
    reviewers: tuple[str, ...] = ()


class HeldVersion(msgspec.Struct, frozen=True):
    """The question that a run of a held version asks before it begins: what it shows, and whom it asks."""

    shown: dict[str, Any]
    reviewers: tuple[str, ...] = ()


class Release(msgspec.Struct, frozen=True):
    """The release of a version by a person, at the gate of a run."""

    workflow: str
    version: int
    gate: str
    by: str
    at_ms: int


def held_version(
    rule: HoldBack, workflow: str, version: int, graph_hash: str, evaluations: Iterable[Evaluation], released: Collection[str]
) -> HeldVersion | None:
    """Return the question about an unreleased version; None if its result is good enough. The evaluations are
    the newest first; `released` are graph hashes."""
    newest: dict[str, Evaluation] = {}
    for each in evaluations:
        if each.suite == rule.suite:
            newest.setdefault(each.graph_hash, each)
    own, before = newest.get(graph_hash), _good_before(rule, version, newest.values(), released)
    why = _reason_to_hold(rule, own, before)
    if why is None:
        return None
    shown = {
        "title": f"Start version {version} of {workflow}?",
        "message": f"Version {version} of {workflow!r} is held back: {why}. The run has not begun",
        "workflow": workflow,
        "version": version,
        "graph_hash": graph_hash,
        "suite": rule.suite,
        "min_scenarios": rule.min_scenarios,
        "max_drop": rule.max_drop,
        "result": None if own is None else _result_of(own),
        "before": None if before is None else _result_of(before),
        "answers": {
            "approve": "release the version: this run, those that wait like it and all later ones begin",
            "reject": "fail this run; the version stays held back",
        },
    }
    return HeldVersion(shown, rule.reviewers)


def _good_before(rule: HoldBack, version: int, results: Iterable[Evaluation], released: Collection[str]) -> Evaluation | None:
    """Return the result of the nearest lower version that is not held back itself."""
    good = None
    for each in sorted(results, key=lambda each: (each.version, each.id)):
        is_good = each.graph_hash in released or _reason_to_hold(rule, each, good) is None
        if each.version < version and is_good:
            good = each
    return good


def _reason_to_hold(rule: HoldBack, own: Evaluation | None, before: Evaluation | None) -> str | None:
    """Return why a version is held back, in words; None if it is not."""
    if own is None:
        return f"no result of {rule.suite} with this code is saved"
    if own.scenarios < rule.min_scenarios:
        return f"its result is of {own.scenarios} scenarios, and the rule asks for {rule.min_scenarios}"
    if not own.met:
        return f"{own.passed} of {own.scenarios} scenarios passed, too few for {own.min_passed:.0%}"
    if before is not None and own.pass_rate < before.pass_rate - rule.max_drop - _ROUNDING:
        return (
            f"{own.pass_rate:.1%} of {own.scenarios} scenarios passed, and {before.pass_rate:.1%} of {before.scenarios} with"
            f" version {before.version}"
        )
    return None


def _result_of(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "version": evaluation.version,
        "scenarios": evaluation.scenarios,
        "passed": evaluation.passed,
        "pass_rate": evaluation.pass_rate,
        "cost_usd": usd(evaluation.cost_nanousd),
        "evaluation_id": evaluation.id,
        "by": evaluation.by or None,
    }
