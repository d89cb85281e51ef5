"""Brings the roll-up of costs up to date: the runs of the events that came since it was last, each from where it was counted.

A roll-up that has not begun, or has lost its place among the events, looks at all runs once, the newest first. It may stop
anywhere and be done by several at once: a run's part is added only if no other has counted it meanwhile.

Never here: what a cost is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.core.facts.costs import CostProgress, Tally, UncountedRun
from holdfast.core.facts.extra_costs import ExtraTally, RunCosts
from holdfast.core.values.ids import RunId
from holdfast.errors import CursorLost, KeyMissing, NotFound
from holdfast.ports import Clock, Log, Store

MAX_EVENTS: Final = 250
"""One step is what these change; who has other things to do goes on with the next later."""
_MAX_RUNS: Final = 100
"""Of all runs, at a step; and of those that a transaction counts."""
_EVENTS: Final = 1000
"""Of a history, at a time."""
_TRIES: Final = 10

_BEFORE_S: Final = 60.0
"""After the start of a process: one that only runs something and ends has no time for it."""
_EVERY_S: Final = 300.0
"""A run that goes on is read again each time."""


class RegularCount:
    """Counts every few minutes, some runs a turn, what calls have cost."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._next_s = clock.monotonic_s() + _BEFORE_S

    async def turn(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s >= self._next_s and await count_some(self._store):
            self._next_s = now_s + _EVERY_S


async def count_some(store: Store) -> bool:
    """Count the next runs. Return True if everything that was committed by then is counted."""
    before, runs = await store.costs.progress(), list[RunId]()
    if before is None:
        after, is_all = CostProgress(await store.tail.end(), RunId("")), False
    elif before.before is not None:
        rows = await store.views.runs(before=before.before or None, limit=_MAX_RUNS)
        runs = [row.run for row in rows]
        after, is_all = before._replace(before=runs[-1] if len(runs) == _MAX_RUNS else None), False
    else:
        try:
            found, cursor, is_all = await store.tail.runs(before.cursor, MAX_EVENTS)
            runs, after = [*found], CostProgress(cursor)
        except CursorLost:
            after, is_all = CostProgress(await store.tail.end(), RunId("")), False
    if not await _count(store, runs):
        return False
    return (after == before or await store.costs.move(before, after)) and is_all


async def _count(store: Store, runs: Sequence[RunId]) -> bool:
    """Count runs up to where they are. Return False if others counted some meanwhile again and again."""
    for _ in range(_TRIES):
        open_ = await store.costs.uncounted(runs)
        pieces = [open_[first : first + _MAX_RUNS] for first in range(0, len(open_), _MAX_RUNS)]
        late: list[RunId] = []
        for piece in pieces:
            costs = [found for each in piece if (found := await _costs(store.log, each)) is not None]
            counted = set(await store.costs.count(costs)) if costs else set()
            late += [each.uncounted.run for each in costs if each.uncounted.run not in counted]
        if not late:
            return True
        runs = late
    return False


async def _costs(log: Log, uncounted: UncountedRun) -> RunCosts | None:
    """Return the costs of a run; None where its history was removed for good or cannot be read any more."""
    tally, extra, seq = Tally(uncounted.counted), ExtraTally(uncounted.counted), 0
    try:
        while seq < uncounted.seq:
            events = await log.events(uncounted.run, seq, min(_EVENTS, uncounted.seq - seq))
            tally.take(events)
            extra.take(events)
            seq += len(events)
    except (KeyMissing, NotFound):
        return None
    return RunCosts(uncounted, tally.costs(), extra.costs(), tally.total_nanousd)
