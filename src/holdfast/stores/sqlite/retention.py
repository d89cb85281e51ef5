"""The removal of a month from the tables of this file. It goes run after run, a little in each transaction, because all writers
wait behind it. Its pages are used again; the file does not get smaller.

The order of commits keeps its gaps. A tail that stands before the last gap gets an error, because it may miss something. So
runs stay for as long as a tail may be late.

Never here: archives (see holdfast.stores.retention).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Final

import apsw

from holdfast.stores.month import Month
from holdfast.stores.retention import MAX_RUNS, Retention
from holdfast.stores.row import Row
from holdfast.stores.sqlite.context import StoreContext, as_bound, rows

_TOLD_FOR_MS: Final = 3 * 24 * 3600 * 1000
"""How late a tail may be: as on PostgreSQL."""
_MAX_EVENTS: Final = 500
"""Maximum number of events that leave in one transaction: some 5 ms. The ledger of a run goes at once, so that no reader finds
half of it."""


class SqliteRetention(Retention):
    """Archives and removes months of a SQLite store."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context.ground)
        self._writer = context.writer

    async def _holders(self, month: Month, most: int) -> Sequence[Row]:
        told_ms = self._clock.now_ms() - _TOLD_FOR_MS
        return await self._tables.ask("holders", month.first, month.next.first, most, told_ms)

    async def _let_go(self, month: Month) -> bool:
        """Delete the month's rows. From the moment of this look nothing can hold a run back that is still at the event at
        which it was archived then: every change of it is an event of it."""
        end = month.next.first
        if await self._tables.ask("unarchived", month.first, end, 1) or await self._holders(month, 1):
            return False
        after = month.first
        while batch := await self._tables.ask("archived_in_tables", after, end, MAX_RUNS):
            for runs in _portions(batch):
                while await self._writer.write(partial(_let_some_go, runs)) == _MAX_EVENTS:
                    pass
            after = batch[-1][0]
        return not await self._tables.ask("unarchived", month.first, end, 1)


def _portions(batch: Sequence[Row]) -> list[list[str]]:
    """Runs that leave together: as many as fit into a transaction, or one."""
    totals = itertools.accumulate(seq for _, seq in batch)
    numbers = [total // _MAX_EVENTS for total in totals]
    grouped = itertools.groupby(zip(numbers, batch, strict=True), key=lambda each: each[0])
    return [[run for _, (run, _) in group] for _, group in grouped]


def _let_some_go(runs: list[str], db: apsw.Connection) -> int:
    """Delete what the tables hold of those of `runs` that are still as they were archived, from the beginning of their
    histories: what is read meanwhile begins in the archive and goes on here. How many events that were."""
    (still,) = as_bound([[run for (run,) in rows(db, "archived_to_the_end", as_bound([runs]))]])
    rows(db, "delete_snapshots", (still,))
    rows(db, "delete_effects", (still,))
    gone = rows(db, "delete_events", (still, _MAX_EVENTS))
    if gone:
        place, at_ms = max(gone)
        rows(db, "put_gap", (place, at_ms))
    return len(gone)
