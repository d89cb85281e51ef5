"""The months that histories are kept by: a run id begins with the time of its start, so it tells its month.

Never here: when a month may go, SQL.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Final, NamedTuple

from holdfast.core.values.ids import RunId
from holdfast.errors import Unstorable, UsageError

OPEN: Final = "open"
PARTLY: Final = "partly archived"
ARCHIVED: Final = "archived"
PRUNED: Final = "pruned"

_LAST_MS: Final = int(datetime(9998, 12, 1, tzinfo=UTC).timestamp() * 1000)


class Month(NamedTuple):
    """A month of UTC."""

    year: int
    month: int

    @classmethod
    def of(cls, run: RunId) -> Month:
        """The month in which `run` was started. Raises Unstorable for an id with no time that a calendar has."""
        return cls.at(uuid.UUID(run).int >> 80)

    @classmethod
    def at(cls, at_ms: int) -> Month:
        if not 0 <= at_ms < _LAST_MS:
            raise Unstorable(f"{at_ms} ms after 1970 is in no month that can be kept. Nothing was written.")
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
        return cls(moment.year, moment.month)

    @classmethod
    def parse(cls, text: str) -> Month:
        """`2026-09`. Raises UsageError."""
        try:
            moment = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
            if len(text) != len("2026-09"):
                raise ValueError(text)
            return cls.at(int(moment.timestamp() * 1000))
        except (ValueError, Unstorable):
            raise UsageError(f"{text!r} is no month; write it like 2026-09. Nothing was done.") from None

    @property
    def next(self) -> Month:
        return Month(self.year + self.month // 12, self.month % 12 + 1)

    @property
    def first(self) -> str:
        """The least id that a run of this month can have; ids sort by their text as by their time."""
        begins_ms = int(datetime(self.year, self.month, 1, tzinfo=UTC).timestamp() * 1000)
        return str(uuid.UUID(int=begins_ms << 80))

    def __str__(self) -> str:
        return f"{self.year:04d}-{self.month:02d}"


def state(runs: int, archived: int, pruned: int, *, is_in_tables: bool) -> str:
    """Return the state of a month, by its number of runs. `archived` of them are archived up to their last event, and `pruned`
    removed for good."""
    if not archived:
        return OPEN
    if archived < runs or is_in_tables:
        return PARTLY
    return PRUNED if pruned == runs else ARCHIVED
