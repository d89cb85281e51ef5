"""Evaluations that are kept: what a suite of scenarios came to, when and by whom, and how much of it is remembered.

Never here: judging a path, where they are kept (ports.evaluation).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

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
