"""Money is exact, and the books of a run never promise more than its limit."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.values.money import NANOUSD_PER_USD, Budget, nanousd, usd


@pytest.mark.parametrize(
    ("given_usd", "expected"),
    [("0.50", 500_000_000), (0.1, 100_000_000), (2, 2_000_000_000), (Decimal("1e-9"), 1), ("0", 0), (1e-7, 100)],
)
def test_dollars_become_whole_nano_dollars(given_usd: object, expected: int) -> None:
    assert nanousd(given_usd) == expected


def test_parts_of_a_nano_dollar_are_rounded_up() -> None:
    assert nanousd("0.0000000001") == 1
    assert nanousd("1.0000000001") == 1_000_000_001


@pytest.mark.parametrize("wrong", ["", "a lot", "-1", -0.5, float("nan"), float("inf"), "sNaN", "9000000001", "1e999", True])
def test_what_is_no_amount_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="not an amount of dollars"):
        nanousd(wrong)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "0.00"),
        (500_000_000, "0.50"),
        (135_000, "0.000135"),
        (1, "0.000000001"),
        (-1_500_000_000, "-1.50"),
        (12_345_678_901, "12.345678901"),
    ],
)
def test_dollars_are_shown_exactly(amount: int, shown: str) -> None:
    assert usd(amount) == shown


@given(st.integers(0, 9_000_000_000 * NANOUSD_PER_USD))
def test_what_is_shown_is_what_was_meant(amount: int) -> None:
    assert nanousd(usd(amount)) == amount


def test_a_hold_must_fit_beside_all_that_is_committed() -> None:
    books = Budget(100, settled_nanousd=20, held_nanousd=30, in_doubt_nanousd=10)
    assert books.committed_nanousd == 60
    assert books.available_nanousd == 40
    assert books.fits(40)
    assert not books.fits(41)


def test_only_what_is_in_flight_may_come_back() -> None:
    books = Budget(100, settled_nanousd=20, held_nanousd=30, in_doubt_nanousd=10)
    assert books.could_fit_later(70)
    assert not books.could_fit_later(71)


def test_without_a_limit_everything_fits() -> None:
    books = Budget(settled_nanousd=10**18)
    assert books.available_nanousd is None
    assert books.fits(10**18)
    assert books.could_fit_later(10**18)
