"""Goes through those who stand in line in the store to be placed: bit by bit, and again after a pause.

Placement hears of most of them as they come; this finds the rest. Never here: placing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from holdfast.core.values.ids import RunId
from holdfast.ports import Clock, UnplacedRun, Views

MAX_AT_ONCE: Final = 500
_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
"""Between two times that all are gone through; longer the more they are."""


class LineReading(NamedTuple):
    """The result of a look. `all_since_s`: since then all who stood in line were seen; `everybody` are their names."""

    runs: Sequence[UnplacedRun]
    all_since_s: float | None
    everybody: frozenset[RunId]


_NOTHING: Final = LineReading((), None, frozenset())


class StoredLine:
    """The steps in line of which `counts` is true."""

    def __init__(self, views: Views, clock: Clock, counts: Callable[[UnplacedRun], bool]) -> None:
        self._views = views
        self._clock = clock
        self._counts = counts
        self._seen: set[RunId] = set()
        self._at = 0
        self._began_s = self._again_s = -math.inf

    async def look(self) -> LineReading:
        """The next of them; nothing while it is too early to begin again. Raises StoreError."""
        now_s = self._clock.monotonic_s()
        if not self._at:
            if now_s < self._again_s:
                return _NOTHING
            self._began_s, self._seen = now_s, set()
        page = await self._views.unplaced(self._at, MAX_AT_ONCE)
        found = [each for each in page if self._counts(each)]
        self._seen.update(each.run for each in found)
        if len(page) == MAX_AT_ONCE:
            self._at = page[-1].place
            return LineReading(found, None, frozenset())
        self._at = 0
        pages = 1 + len(self._seen) // MAX_AT_ONCE
        self._again_s = now_s + min(_PAUSE_S * pages, _LONGEST_PAUSE_S)
        return LineReading(found, self._began_s, frozenset(self._seen))
