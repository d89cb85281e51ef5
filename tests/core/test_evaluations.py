"""What of an evaluation is remembered."""

from __future__ import annotations

import pytest

from holdfast.core.nouns.evaluations import (
    MAX_JUDGED,
    MAX_MISS_CHARACTERS,
    MAX_MISSES,
    Evaluation,
    HoldBack,
    ScenarioResult,
    by_version,
    held_version,
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


# --- Holding a version back -------------------------------------------------------------------------------------------

RULE = HoldBack("a.yaml", reviewers=("ann",))


def reason(rule: HoldBack, version: int, *newest_first: Evaluation, released: tuple[str, ...] = ()) -> str | None:
    """Return why a version is held back, as its gate says it; None if it is not."""
    held = held_version(rule, "case", version, f"hash{version}", newest_first, released)
    if held is None:
        return None
    assert held.reviewers == rule.reviewers
    return str(held.shown["message"]).partition("held back: ")[2].removesuffix(". The run has not begun")


def test_a_version_without_a_result_of_the_suite_is_held_back() -> None:
    assert reason(RULE, 1) == "no result of a.yaml with this code is saved"
    assert reason(RULE, 2, kept("e1", 1, 10)) == "no result of a.yaml with this code is saved"
    assert reason(RULE, 1, kept("e1", 1, 10, "b.yaml")) == "no result of a.yaml with this code is saved"


def test_a_version_starts_with_a_result_as_good_as_the_one_before() -> None:
    assert reason(RULE, 1, kept("e1", 1, 9)) is None
    assert reason(RULE, 2, kept("e2", 2, 9), kept("e1", 1, 9)) is None
    worse = kept("e2", 2, 9), kept("e1", 1, 10)
    assert reason(RULE, 2, *worse) == "90.0% of 10 scenarios passed, and 100.0% of 10 with version 1"
    assert reason(HoldBack("a.yaml", max_drop=0.1, reviewers=("ann",)), 2, *worse) is None


def test_a_result_that_is_too_small_or_not_met_holds_a_version_back() -> None:
    many = HoldBack("a.yaml", min_scenarios=11, reviewers=("ann",))
    assert reason(many, 1, kept("e1", 1, 10)) == "its result is of 10 scenarios, and the rule asks for 11"
    assert reason(RULE, 1, kept("e1", 1, 8)) == "8 of 10 scenarios passed, too few for 90%"


def test_the_newest_result_of_a_version_counts() -> None:
    assert reason(RULE, 1, kept("e2", 1, 8), kept("e1", 1, 10)) is not None
    assert reason(RULE, 1, kept("e2", 1, 10), kept("e1", 1, 8)) is None


def test_a_version_is_compared_with_the_last_that_was_not_held_back() -> None:
    bad = kept("e3", 3, 9), kept("e2", 2, 8), kept("e1", 1, 10)
    assert reason(RULE, 3, *bad) == "90.0% of 10 scenarios passed, and 100.0% of 10 with version 1"
    assert reason(RULE, 3, *bad, released=("hash2",)) is None
