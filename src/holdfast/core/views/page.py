"""A page of rows in the order of the events with which they began. Never here: a cursor as callers write it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol, TypeVar


class OfEvent(Protocol):
    """A row that began with an event."""

    @property
    def seq(self) -> int: ...


R = TypeVar("R", bound=OfEvent)


def rows_after(rows: Sequence[R], seq: int = 0, limit: int | None = None) -> Sequence[R]:
    """Return the rows of events after `seq`: at most `limit`, but all of the last one's event.

    Args:
        rows: Rows in the order of their events.
    """
    begin = bisect_right(rows, seq, key=lambda row: row.seq)
    end = len(rows) if limit is None else min(begin + limit, len(rows))
    while begin < end < len(rows) and rows[end].seq == rows[end - 1].seq:
        end += 1
    return rows[begin:end]
