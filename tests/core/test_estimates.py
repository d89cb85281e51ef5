"""What steps are thought to take: too much rather than too little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.capacity.estimates import Estimate, Report, Use, first_guess, learned, reported
from holdfast.core.capacity.lending import DeclaredPool
from holdfast.core.values.demand import MAX_AMOUNT

KIND = ("report", "write", "TPM")


def after(*amounts: int) -> Estimate:
    return learned({}, [Use(*KIND, amount) for amount in amounts])[KIND]


def test_a_larger_use_counts_at_once() -> None:
    assert after(10, 1000).amount == 1000


def test_a_smaller_use_is_believed_slowly() -> None:
    assert after(1000, 0).amount == 900
    assert after(1000, *[0] * 7).amount < 500


@pytest.mark.parametrize("low", [0, 1, 3])
def test_small_amounts_come_down_all_the_way(low: int) -> None:
    assert after(4, *[low] * 200).amount == low


@given(st.lists(st.integers(0, MAX_AMOUNT), min_size=1, max_size=30))
def test_an_estimate_is_never_below_the_latest_use_nor_above_the_largest(amounts: list[int]) -> None:
    found = after(*amounts)
    assert amounts[-1] <= found.amount <= max(amounts)
    assert found.samples == len(amounts)


def test_what_is_known_goes_on_and_what_was_not_used_stays() -> None:
    known = {KIND: after(1000), ("report", "read", "TPM"): Estimate("report", "read", "TPM", 1, 1)}
    assert learned(known, [Use(*KIND, 0)]) == {KIND: after(1000, 0)}


def test_a_use_that_no_number_can_hold_is_cut() -> None:
    assert after(10**30).amount == MAX_AMOUNT
    assert after(-5).amount == 0


@pytest.mark.parametrize(
    ("pool", "guess"),
    [
        (DeclaredPool("P", "slots", 5), 1),
        (DeclaredPool("P", "rate", 5, 1, 2, "requests", "openai"), 1),
        (DeclaredPool("P", "rate", 200_000, 60, 20_000, "tokens", "openai"), 4000),
        (DeclaredPool("P", "rate", 200_000, 60, 20_000, "input_tokens", "openai"), 3000),
        (DeclaredPool("P", "rate", 200_000, 60, 20_000, "output_tokens", "openai"), 1000),
        (DeclaredPool("P", "rate", 6_000, 60, 600, "tokens", "openai"), 600),
    ],
)
def test_the_first_guess_fits_into_the_pool(pool: DeclaredPool, guess: int) -> None:
    assert first_guess(pool) == guess


def test_use_reported_by_branches_adds_up_for_rates_and_peaks_for_slots() -> None:
    rate, slots = DeclaredPool("R", "rate", 10, per_s=1), DeclaredPool("S", "slots", 10)
    said = [(0, 2), (0, 3), (1, 5), (2, 1), (3, 0)]  # of four branches, two of which run at once
    reports = [Report(pool, amount, branch, 2) for pool in "RST" for branch, amount in said]
    assert dict(reported(reports, [rate, slots, DeclaredPool("U", "slots", 1)])) == {"R": 11, "S": 8}
