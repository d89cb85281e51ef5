"""Scenarios and how many of them must pass."""

from __future__ import annotations

from holdfast.evaluation import Scenario, Suite


def test_a_share_is_met_by_as_many_as_it_says() -> None:
    """0.07 of a hundred are seven, whatever the product of the two is in a machine's numbers."""
    scenarios = [Scenario(id=str(number)) for number in range(100)]
    for share in range(1, 101):
        suite = Suite(workflow="case.py:wf", scenarios=scenarios, min_passed=float(f"{share / 100:.2f}"))
        assert suite.is_met_by(share)
        assert not suite.is_met_by(share - 1)


def test_of_recorded_runs_each_counts() -> None:
    suite = Suite(workflow="case.py:wf", scenarios=[Scenario(id="all", records="cases.jsonl")], min_passed=0.5)
    assert suite.is_met_by(50, 100)
    assert not suite.is_met_by(49, 100)
