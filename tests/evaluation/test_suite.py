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
