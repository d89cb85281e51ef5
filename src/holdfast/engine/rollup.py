"""Brings the roll-up of costs up to date: run by run, each from where it was counted last.

It may stop anywhere and be done by several at once: a run's part is added only if nobody has counted it meanwhile.
Never here: what a cost is.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.costs import Tally, Uncounted
from holdfast.core.ids import RunId
from holdfast.ports import Store

MOST_RUNS: Final = 20
"""One step; who has other things to do goes on with the next later."""
_EVENTS: Final = 1000
"""Of a history, at a time."""


async def count_some(store: Store, started_before_ms: int, after: RunId | None) -> RunId | None:
    """Count the next runs after `after`; the last of them, None when there are no more."""
    found = await store.uncounted(started_before_ms, after, MOST_RUNS)
    for each in found:
        await _count(store, each)
    return found[-1].run if len(found) == MOST_RUNS else None


async def _count(store: Store, uncounted: Uncounted) -> None:
    tally, seq = Tally(uncounted.counted), 0
    while seq < uncounted.seq:
        events = await store.events(uncounted.run, seq, min(_EVENTS, uncounted.seq - seq))
        tally.take(events)
        seq += len(events)
    await store.count(uncounted, tally.costs())
