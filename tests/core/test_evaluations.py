"""What of an evaluation is remembered."""

from __future__ import annotations

import pytest

from holdfast.core.nouns.evaluations import (
    MAX_JUDGED,
    MAX_MISS_CHARACTERS,
    MAX_MISSES,
    Evaluation,
    ScenarioResult,
    by_version,
    newest_of_suites,
    remembered,
    spent_nanousd,
)


def test_a_replay_spends_nothing() -> None:
    assert (
        spent_nanousd([ScenarioResult("a", "r1", cost_nanousd=3), ScenarioResult("b", "r2", cost_nanousd=5, replayed=True)])
        == 3
    )


def test_evaluations_remember_failures_before_passes_and_keep_their_order() -> None:
    few = [ScenarioResult("a", "r1"), ScenarioResult("a", "r2", ("It failed.",))]
    assert remembered(few) == tuple(few)
    many = [
        ScenarioResult("a", f"r{number}", ("It failed.",) if number > MAX_JUDGED else ()) for number in range(MAX_JUDGED + 3)
    ]
    assert remembered(many) == tuple(many[: MAX_JUDGED - 2] + many[-2:])


def test_what_a_run_missed_has_a_bound() -> None:
    [kept] = remembered([ScenarioResult("a", "r1", ("x" * 10_000,) * 100)])
    assert kept.misses == ("x" * MAX_MISS_CHARACTERS,) * MAX_MISSES


def kept(id_: str, version: int, passed: int, suite: str = "a.yaml") -> Evaluation:
    return Evaluation(
        id=id_,
        tenant="default",
        suite=suite,
        workflow="case",
        version=version,
        graph_hash=f"hash{version}",
        scenarios=10,
        passed=passed,
        replayed=0,
        min_passed=0.9,
        met=passed >= 9,
        cost_nanousd=0,
        at_ms=0,
    )


def test_results_are_grouped_by_version_with_the_change_from_the_one_before() -> None:
    newest_first = [kept("e5", 3, 8), kept("e4", 2, 9), kept("e3", 2, 7), kept("e2", 1, 6), kept("e1", 1, 3, "b.yaml")]
    found = [(each.newest.id, each.evaluations, each.mean_pass_rate, each.change) for each in by_version(newest_first)]
    assert found == [
        ("e5", 1, 0.8, pytest.approx(-0.1)),
        ("e4", 2, 0.8, pytest.approx(0.3)),
        ("e2", 1, 0.6, None),
        ("e1", 1, 0.3, None),
    ]
    assert [each.id for each in newest_of_suites(newest_first)] == ["e5", "e1"]
