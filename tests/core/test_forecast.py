"""What a budget will have spent at its end, and when it is reached: by a method that the forecast names."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.nouns.forecast import DAYS, forecast

DAY_MS = 86_400_000
NOON_MS = int(datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()) * 1000  # a Wednesday
MIDNIGHT_MS = NOON_MS + DAY_MS // 2
MONTH_MS = int(datetime(2026, 12, 1, tzinfo=UTC).timestamp()) * 1000


def before(days: int, cost: int = 100) -> dict[str, int]:
    """The same cost on each of so many days before this one."""
    return {(date(2026, 11, 18) - timedelta(days=ago)).isoformat(): cost for ago in range(1, days + 1)}


def test_few_days_are_averaged_and_half_a_day_is_half_a_days_cost() -> None:
    assert forecast(NOON_MS, MIDNIGHT_MS, 30, None, before(3)) == (80, None, "daily_mean", 3)
    assert forecast(NOON_MS, MONTH_MS, 1_000, None, before(3)) == (1_000 + 50 + 12 * 100, None, "daily_mean", 3)


def test_a_day_without_cost_after_the_first_with_one_counts() -> None:
    spent = {"2026-11-14": 400}
    assert forecast(NOON_MS, MIDNIGHT_MS, 0, None, spent) == (50, None, "daily_mean", 4)


def test_from_two_weeks_on_each_weekday_has_its_own_mean() -> None:
    spent = before(DAYS)
    for day in spent:
        if date.fromisoformat(day).weekday() >= 5:
            spent[day] = 10
    found = forecast(NOON_MS, MONTH_MS, 0, None, spent)
    assert found == (50 + 8 * 100 + 4 * 10, None, "weekday_mean", DAYS)  # 4 days of weekends are left of the month


def test_of_a_first_day_what_it_has_cost_so_far_goes_on() -> None:
    assert forecast(NOON_MS, MIDNIGHT_MS, 40, None, {"2026-11-18": 40}) == (80, None, "today", 0)
    early_ms = MIDNIGHT_MS - DAY_MS + 60_000
    assert forecast(early_ms, MIDNIGHT_MS, 40, None, {"2026-11-18": 40}).expected < 40 * 25
    assert forecast(NOON_MS, MIDNIGHT_MS, 0, 10, {}) == (0, None, "today", 0)


def test_a_limit_is_reached_within_the_day_whose_cost_passes_it() -> None:
    assert forecast(NOON_MS, MONTH_MS, 0, 75, before(3)).reached_at_ms == MIDNIGHT_MS + DAY_MS // 4
    assert forecast(NOON_MS, MONTH_MS, 0, 50, before(3)).reached_at_ms == MIDNIGHT_MS
    assert forecast(NOON_MS, MIDNIGHT_MS, 0, 51, before(3)).reached_at_ms is None
    assert forecast(NOON_MS, MIDNIGHT_MS, 60, 50, before(3)).reached_at_ms == NOON_MS


@given(
    st.integers(0, DAY_MS * 12), st.integers(0, 10**15), st.integers(0, 10**15), st.integers(1, DAYS), st.integers(0, 10**14)
)
def test_a_limit_is_reached_exactly_where_as_much_is_expected(
    after_ms: int, used: int, limit: int, days: int, cost: int
) -> None:
    found = forecast(NOON_MS + after_ms, MONTH_MS, used, limit, before(days, cost))
    assert found.expected >= used
    assert (found.reached_at_ms is not None) == (found.expected >= limit)
    assert found.reached_at_ms is None or NOON_MS + after_ms <= found.reached_at_ms <= MONTH_MS
