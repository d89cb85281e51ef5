"""Snapshots: those of many runs that are to be kept at the same time are written together.

Never here: when to take one, what is in it.
"""

from __future__ import annotations

import asyncio

from holdfast.core.ids import RunId
from holdfast.ports import SnapshotRecord
from holdfast.stores.postgres.context import StoreContext, StorePort


class Snapshots(StorePort):
    """What the log has of them."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._gathered: dict[RunId, SnapshotRecord] = {}
        self._next: asyncio.Task[None] | None = None
        """The writing that takes along what is gathered until it begins."""
        self._one_at_a_time = asyncio.Lock()

    async def keep(self, run: RunId, record: SnapshotRecord) -> None:
        self._gathered[run] = record
        if self._next is None:
            self._next = asyncio.create_task(self._write_gathered(), name="holdfast-snapshots")
        await asyncio.shield(self._next)

    async def _write_gathered(self) -> None:
        async with self._one_at_a_time:
            gathered, self._gathered, self._next = self._gathered, {}, None
            # In the order of their runs, so that two processes wait for each other's rows one way round only.
            rows = [(run, each.seq, each.fold_version, each.state) for run, each in sorted(gathered.items())]
            await self._db.execute(self._sql["put_snapshots"], *zip(*rows, strict=True))
