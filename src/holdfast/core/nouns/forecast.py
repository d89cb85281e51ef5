"""Forecasts of what a day or a month will have cost, from what earlier days have cost.

The method is one of three, and each forecast names it. `weekday_mean`: a day will cost what the same weekdays of the last 28
days have cost on average. `daily_mean`, where less than 14 days are known: as the days since the first that has cost
something. `today`, where only today is known: as today so far. Within a day costs are taken to be even. Never here: what has
been spent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias

from holdfast.core.values.scopes import DAY_MS

Method: TypeAlias = Literal["weekday_mean", "daily_mean", "today"]

DAYS: Final = 28
"""Whole days before today that count: four of each weekday."""
_WEEKS: Final = 14
"""Days in which each weekday is twice."""
_LEAST_MS: Final = 3_600_000
"""Of a day that is younger, what it has cost so far is taken as an hour's."""


class Forecast(NamedTuple):
    """The expected amount at the end of a period, and the moment at which a limit is reached; None if not within it. `days` is
    the number of whole days from which it was made."""

    expected: int
    reached_at_ms: int | None
    method: Method
    days: int


def forecast(now_ms: int, end_ms: int, used: int, limit: int | None, spent: Mapping[str, int]) -> Forecast:
    """Return what will have been used at `end_ms`. `spent` has what days like `2026-11-21` have cost, in the same unit."""
    today = datetime.fromtimestamp(now_ms // 1000, UTC).date()
    known = [today - timedelta(days=ago) for ago in range(1, DAYS + 1)]
    first = min((day for day in known if spent.get(day.isoformat())), default=today)
    known = [day for day in known if day >= first]
    method: Method = "weekday_mean" if len(known) >= _WEEKS else "daily_mean" if known else "today"

    def rate(day: date) -> int:
        """The cost of a whole day."""
        if method == "today":
            return spent.get(today.isoformat(), 0) * DAY_MS // max(_LEAST_MS, now_ms % DAY_MS)
        like = [each for each in known if method == "daily_mean" or each.weekday() == day.weekday()]
        return sum(spent.get(each.isoformat(), 0) for each in like) // len(like)

    expected, at_ms = used, now_ms
    reached_at_ms = now_ms if limit is not None and used >= limit else None
    while at_ms < end_ms:  # a month has 31 days at most
        until_ms = min(end_ms, at_ms - at_ms % DAY_MS + DAY_MS)
        daily = rate(datetime.fromtimestamp(at_ms // 1000, UTC).date())
        part = daily * (until_ms - at_ms) // DAY_MS
        if limit is not None and reached_at_ms is None and expected + part >= limit:
            reached_at_ms = min(until_ms, at_ms + -(-(limit - expected) * DAY_MS // daily))
        expected, at_ms = expected + part, until_ms
    return Forecast(expected, reached_at_ms, method, len(known))
