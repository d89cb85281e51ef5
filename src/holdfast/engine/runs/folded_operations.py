"""The operations of the runs that were asked for latest, kept as far as their histories were read: a page, or another look at a
run that goes on, reads only what is new.

Never here: the fold itself (core.views.operations), who may see it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from holdfast.core.values.ids import RunId
from holdfast.core.views.operations import OperationRow, Operations
from holdfast.ports import Log

MAX_RUNS: Final = 8
"""Runs of a log whose operations are kept in memory."""


class FoldedOperations:
    """The operations of some runs of one log."""

    def __init__(self) -> None:
        self._runs: OrderedDict[RunId, Operations] = OrderedDict()

    async def of(self, log: Log, run: RunId) -> list[OperationRow]:
        """Return the operations of a run, in the order in which they began."""
        folded = self._runs.setdefault(run, Operations())
        self._runs.move_to_end(run)
        if len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)
        for recorded in await log.events(run, folded.state.seq):
            if recorded.seq > folded.state.seq:  # another caller may have added it meanwhile
                folded.add(recorded)
        return [msgspec.structs.replace(row) for row in folded.rows()]


_OF_LOGS: Final[WeakKeyDictionary[Log, FoldedOperations]] = WeakKeyDictionary()


async def operations_of(log: Log, run: RunId) -> list[OperationRow]:
    """Return the operations of a run, of whose history only the new events are read."""
    return await _OF_LOGS.setdefault(log, FoldedOperations()).of(log, run)
