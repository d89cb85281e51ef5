"""Days on which business is done. Pure. Never here: how long anything takes."""

from __future__ import annotations

import datetime
from collections.abc import Collection

SATURDAY = 5
NEW_YEAR = datetime.date(2027, 1, 1)
CHRISTMAS = (datetime.date(2026, 12, 25), datetime.date(2026, 12, 26))
HOLIDAYS = frozenset({*CHRISTMAS, NEW_YEAR})
"""Of the buyer; a real one is read from where the company keeps it."""


def is_business_day(day: datetime.date, holidays: Collection[datetime.date] = HOLIDAYS) -> bool:
    return day.weekday() < SATURDAY and day not in holidays


def after(begin: datetime.datetime, days: int, holidays: Collection[datetime.date] = HOLIDAYS) -> datetime.datetime:
    """The same time of day `days` business days later. What begins at a weekend begins on the next business day."""
    moment = begin
    while not is_business_day(moment.date(), holidays):
        moment += datetime.timedelta(days=1)
    for _ in range(days):
        moment += datetime.timedelta(days=1)
        while not is_business_day(moment.date(), holidays):
            moment += datetime.timedelta(days=1)
    return moment
