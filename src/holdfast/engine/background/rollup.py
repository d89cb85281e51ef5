"""Brings the roll-up of costs up to date: run by run, each from where it was counted last.

It may stop anywhere and be done by several at once: a run's part is added only if no other has counted it meanwhile. Never
here: what a cost is.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.facts.costs import Tally, UncountedRun
from holdfast.core.facts.extra_costs import ExtraTally
from holdfast.core.values.ids import RunId
from holdfast.ports import Clock, Costs, Log, StoreClock

MAX_RUNS: Final = 20
"""One step; who has other things to do goes on with the next later."""
_EVENTS: Final = 1000
"""Of a history, at a time."""


_BEFORE_S: Final = 60.0
"""After the start of a process: one that only runs something and ends has no time for it."""
_DAY_MS: Final = 86_400_000


class Daily:
    """Counts, once a day and some runs a turn, what calls have cost in the runs that began before today."""

    def __init__(self, costs: Costs, log: Log, store_clock: StoreClock, clock: Clock) -> None:
        self._costs = costs
        self._log = log
        self._store_clock = store_clock
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self._counted: RunId | None = None
        """Up to which run it has come, while it is under way."""
        self._counted_day = 0

    async def turn(self) -> None:
        if self._clock.monotonic_s() - self._began_s < _BEFORE_S:
            return
        today = self._store_clock.now_ms() // _DAY_MS
        if self._counted is None and today == self._counted_day:
            return
        self._counted = await count_some(self._costs, self._log, today * _DAY_MS, self._counted)
        self._counted_day = today


async def count_some(costs: Costs, log: Log, started_before_ms: int, after: RunId | None) -> RunId | None:
    """Count the next runs after `after`; the last of them, None when there are no more."""
    found = await costs.uncounted(started_before_ms, after, MAX_RUNS)
    for each in found:
        await _count(costs, log, each)
    return found[-1].run if len(found) == MAX_RUNS else None


async def _count(costs: Costs, log: Log, uncounted: UncountedRun) -> None:
    tally, extra, seq = Tally(uncounted.counted), ExtraTally(uncounted.counted), 0
    while seq < uncounted.seq:
        events = await log.events(uncounted.run, seq, min(_EVENTS, uncounted.seq - seq))
        tally.take(events)
        extra.take(events)
        seq += len(events)
    await costs.count(uncounted, tally.costs(), extra.costs(), tally.total_nanousd)
