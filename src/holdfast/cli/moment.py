"""Times as people and programs read them. Never here: a clock."""

from __future__ import annotations

import datetime
from typing import Final

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def iso(at_ms: int | None) -> str | None:
    """A time in UTC: `2026-03-01T09:30:00.250Z`."""
    if at_ms is None:
        return None
    moment = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(at_ms: int) -> str:
    """A time in UTC, to the second, for people."""
    return datetime.datetime.fromtimestamp(at_ms // 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def span(ms: int) -> str:
    """How long something takes, in one unit: `2 d`, `3 h`, `40 min`, `2.5 s`."""
    seconds = abs(ms) / 1000
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def around(at_ms: int, now_ms: int) -> str:
    """A time with how far it is from now: `2026-03-01 09:30:00Z (in 2 d)`."""
    far = span(at_ms - now_ms)
    return f"{clock(at_ms)} ({f'in {far}' if at_ms > now_ms else f'{far} ago'})"
