"""Histories, read together: what is asked for at the same time is one statement. A burst of runs that begin in another process,
or are taken over from one that died, is a few round trips.

Never here: what a row means; what an archive holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from holdfast.core.values.ids import RunId
from holdfast.stores.postgres.context import StoreContext, StorePort

MAX_EVENTS: Final = 100
"""Of one run in such a statement; there may be more, which only a reading of that run alone finds."""
_MAX_RUNS: Final = 32
"""In one statement: with events of 64 KiB each they all fit into the memory."""


class HistoryRequest(NamedTuple):
    """The events of a run after a seq, or, without one, its snapshot of a fold and the events after that."""

    run: RunId
    after: int | None
    fold_version: int = 0


class HistoryRows(NamedTuple):
    """The rows of a history in the tables: (seq, state) and (seq, at_ms, payload, trace_id), in order."""

    snapshot: tuple[int, bytes] | None
    events: Sequence[tuple[Any, ...]]


class Histories(StorePort):
    """One statement at a time; what is asked for meanwhile goes with the next."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._asked: dict[HistoryRequest, asyncio.Future[HistoryRows]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def read(self, request: HistoryRequest) -> HistoryRows:
        """At most MAX_EVENTS events, as they are from now on. Raises StoreError."""
        told = self._asked.get(request)
        if told is None:
            told = self._asked[request] = asyncio.get_running_loop().create_future()
            told.add_done_callback(_is_heard)
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_all(), name="holdfast-histories")
        return await asyncio.shield(told)

    async def _read_all(self) -> None:
        try:
            while self._asked:
                batch = {asked: self._asked.pop(asked) for asked in [*islice(self._asked, _MAX_RUNS)]}
                try:
                    for told, read in zip(batch.values(), await self._read([*batch]), strict=True):
                        told.set_result(read)
                except Exception as problem:  # noqa: BLE001 - all who asked get it
                    for told in batch.values():
                        told.set_exception(problem)
                except asyncio.CancelledError:
                    for told in (*batch.values(), *self._asked.values()):
                        told.cancel()
                    raise
        finally:
            self._reading = None

    async def _read(self, batch: Sequence[HistoryRequest]) -> list[HistoryRows]:
        rows = await self._db.fetch(self._sql["histories"], *zip(*batch, strict=True), MAX_EVENTS)
        snapshots: dict[int, tuple[int, bytes]] = {}
        events: list[list[tuple[Any, ...]]] = [[] for _ in batch]
        for place, is_snapshot, seq, *event in rows:
            if is_snapshot:
                snapshots[place - 1] = (seq, event[1])
            else:
                events[place - 1].append((seq, *event))
        return [HistoryRows(snapshots.get(place), sorted(each)) for place, each in enumerate(events)]


def _is_heard(result: asyncio.Future[HistoryRows]) -> None:
    """Mark the error of a read as seen. The caller may have been cancelled, and then nothing else reads it."""
    if not result.cancelled():
        result.exception()
