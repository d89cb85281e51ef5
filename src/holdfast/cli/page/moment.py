"""Times as people read and write them. Never here: a clock, times for programs (service.view)."""

from __future__ import annotations

import datetime
import re
import time
from typing import Final

from holdfast.errors import UsageError

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))
_AGO: Final = re.compile(r"(?P<count>\d{1,6}) ?(?P<unit>s|min|m|h|d|w)")
_SECONDS: Final = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def ms(at: str) -> int:
    """A time as the views have it, in milliseconds."""
    return round(datetime.datetime.fromisoformat(at).timestamp() * 1000)


def maybe_ms(at: str | None) -> int | None:
    return None if at is None else ms(at)


def clock(at_ms: int) -> str:
    """A time in UTC, to the second, for people."""
    return datetime.datetime.fromtimestamp(at_ms // 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def second(at: str | None) -> str:
    """A time as the views have it, to the second, for people; `-` for none."""
    return "-" if at is None else f"{at[:10]} {at[11:19]}Z"


def span(ms: int) -> str:
    """Return a duration in one unit: `2 d`, `3 h`, `40 min`, `2.5 s`."""
    seconds = abs(ms) / 1000
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def around(at_ms: int, now_ms: int) -> str:
    """A time with how far it is from now: `2026-03-01 09:30:00Z (in 2 d)`."""
    far = span(at_ms - now_ms)
    return f"{clock(at_ms)} ({f'in {far}' if at_ms > now_ms else f'{far} ago'})"


def ago(at_ms: int | None, now_ms: int) -> str:
    """Return how long ago that was, as short as a table needs; `-` for never."""
    return "-" if at_ms is None else span(now_ms - at_ms)


def age(at: str | None) -> str:
    """Return how long ago a view's time was, by the clock of this process; `-` for never."""
    return ago(maybe_ms(at), now_ms())


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def due(at_ms: int | None, now_ms: int) -> str:
    """Return how far off a deadline is, as short as a table needs: `in 2 d`, `3 h over`."""
    if at_ms is None:
        return "-"
    return f"in {span(at_ms - now_ms)}" if at_ms > now_ms else f"{span(now_ms - at_ms)} over"


def parse_time(text: str, option: str, now_ms: int) -> int:
    """The time that a person wrote: so long ago (`90s`, `15min`, `2h`, `3d`, `1w`), or a day or time, in UTC unless it says
    where. Raises UsageError."""
    if (matched := _AGO.fullmatch(text)) is not None:
        return now_ms - int(matched["count"]) * _SECONDS[matched["unit"]] * 1000
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is not a time. Write a time span before now, like 15min, 2h or 3d, or a date, like 2026-11-21"
            " or 2026-11-21T09:30. Nothing was done."
        ) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp() * 1000)
