"""The runs of one lane of a fleet that a leader must look at, as the store has them.

Never here: who looks at them, which of them are in hand already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.engine.runs.catalog import Catalog
from holdfast.ports import Clock, DueRun, Leadership, Views

_HASHES_EVERY_S: Final = 1.0


class LaneDue:
    """The due runs of the lane of a catalog, of any workflow."""

    def __init__(self, leadership: Leadership, views: Views, catalog: Catalog, clock: Clock) -> None:
        self._leadership = leadership
        self._views = views
        self._catalog = catalog
        self._clock = clock
        self._hashes: Sequence[str] = ()
        self._hashes_s = -_HASHES_EVERY_S

    async def refresh(self) -> bool:
        """Ask the store, once a second, of which workflows there are runs; whether it was asked."""
        now_s = self._clock.monotonic_s()
        if now_s - self._hashes_s < _HASHES_EVERY_S:
            return False
        self._hashes, self._hashes_s = await self._leadership.unended_hashes(), now_s
        return True

    async def find(self, now_ms: int, can_run: Callable[[str], bool], most: int) -> list[DueRun]:
        """Return the runs that are due by then. Runs that no worker can take stay due meanwhile: they are read apart, at most
        `most` of each kind, so that the others are found however many they are."""
        found: list[DueRun] = []
        lanes, lane = self._catalog.lanes, self._catalog.lane
        names = {graph_hash: (await self._catalog.graph_of(graph_hash)).definition.name for graph_hash in self._hashes}
        able = {graph_hash: can_run(graph_hash) for graph_hash, name in names.items() if lanes.may_have(lane, name)}
        for runnable in (True, False):
            hashes = [graph_hash for graph_hash in able if able[graph_hash] is runnable]
            if hashes:
                due = await self._views.due(now_ms, hashes, most)
                found += [each for each in due if lanes.of(names[each.graph_hash], each.tenant, each.started_by) == lane]
        return found

    async def next_ms(self) -> int | None:
        """Return when something of it will be due next."""
        return await self._views.next_due_ms(self._hashes)
