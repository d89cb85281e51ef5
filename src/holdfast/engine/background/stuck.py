"""Finds runs that wait for nothing and are not due: early versions left such runs, and their rows list no wait.

It reads the rows of waiting runs page by page, all of them once an hour. Never here: what makes a step stuck (waking),
starting it (core.tick).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from holdfast.core.values.ids import RunId, StepId
from holdfast.core.views.projection import RunRow
from holdfast.core.views.status import NOTHING, Wait, waiting_for, waits_for_nothing
from holdfast.engine.runs.mailbox import RunHistory
from holdfast.ports import Clock, Store, Views

_PAGE: Final = 500
_EVERY_S: Final = 3600.0
"""A run that is found is a fault, or was left meanwhile by a process of an early version."""
UNENDED: Final = ("waiting", "requires_attention", "budget_blocked", "paused")
"""The statuses of runs that have not ended and are not at work."""

_decode_waits = msgspec.json.Decoder(list[Wait]).decode


def is_stuck(row: RunRow) -> bool:
    """True if a run's row says that the run, or a step of it, waits for nothing."""
    return waits_for_nothing(row.status, _decode_waits(row.waiting_for))


class StuckRun(NamedTuple):
    """A run that has not ended, and of which these steps wait for nothing; without steps the run itself does."""

    run: RunId
    workflow: str
    version: int
    tenant: str
    status: str
    since_ms: int
    steps: tuple[StepId, ...]


async def check(store: Store) -> tuple[list[StuckRun], int]:
    """Read the history of every run that has not ended and is not at work: those that are stuck, and how many were read.

    Raises CorruptHistory, StoreError.
    """
    found, read, before = list[StuckRun](), 0, None
    while page := await store.views.runs(status=UNENDED, before=before, limit=_PAGE):
        for row in page:
            state = await RunHistory(row.run, store.log).load()
            waits = [wait for wait in waiting_for(state) if wait.kind == NOTHING]
            if waits:
                steps = tuple(StepId(wait.step) for wait in waits if wait.step is not None)
                since_ms = min(wait.since_ms for wait in waits)
                found.append(StuckRun(row.run, row.workflow, row.version, row.tenant, row.status, since_ms, steps))
        read, before = read + len(page), page[-1].run
    return found, read


class StuckRuns:
    """The look of one process at the rows of waiting runs."""

    def __init__(self, views: Views, clock: Clock) -> None:
        self._views = views
        self._clock = clock
        self._before: RunId | None = None
        """The last run of the page before, where a pass is under way."""
        self._passed_s = -math.inf

    async def look(self) -> Sequence[RunRow]:
        """Return the stuck runs of the next page; none while no pass is due."""
        now_s = self._clock.monotonic_s()
        if self._before is None and now_s - self._passed_s < _EVERY_S:
            return []
        page = await self._views.runs(status="waiting", before=self._before, limit=_PAGE)
        self._before = page[-1].run if len(page) == _PAGE else None
        if self._before is None:
            self._passed_s = now_s
        return [row for row in page if is_stuck(row)]
