"""What of an evaluation is remembered."""

from __future__ import annotations

from holdfast.core.nouns.evaluations import (
    MAX_JUDGED,
    MAX_MISS_CHARACTERS,
    MAX_MISSES,
    ScenarioResult,
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
