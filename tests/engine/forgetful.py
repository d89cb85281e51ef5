"""An engine that forgets: after every commit whatever it keeps only to be fast is gone, and must be found in the store."""

from __future__ import annotations

import asyncio

import msgspec

from holdfast import Engine
from holdfast.core.facts.state import FOLD_VERSION
from holdfast.engine.runs.mailbox import Flush
from holdfast.ports import Append, SnapshotRecord


class ForgetfulFlush(Flush):
    """Commits like its parent; then the run's folded state and the blobs in memory are dropped, before anybody hears of
    the commit. `forgotten` counts how often. With `snapshots` the state is written down before, so that nothing is ever
    folded twice: what a snapshot leaves out is gone."""

    def __init__(self, engine: Engine, snapshots: bool) -> None:
        super().__init__(engine.runtime.store.log, engine.runtime.clock)
        self._engine = engine
        self._snapshots = snapshots
        self.forgotten = 0

    def append(self, append: Append, *, patient: bool = False) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._forget(append, super().append(append, patient=patient)))

    async def _forget(self, append: Append, committed: asyncio.Future[None]) -> None:
        await committed
        mailbox = self._engine.runtime.runs.mailbox(append.run)
        if self._snapshots and (state := mailbox.state) is not None:
            record = SnapshotRecord(state.seq, FOLD_VERSION, msgspec.json.encode(state))
            await self._engine.runtime.store.log.snapshot(append.run, record)
        mailbox.state = None
        self._engine.payloads._cache.clear()
        self._engine.payloads._cached_bytes = 0
        self.forgotten += 1


def forgetful(engine: Engine, *, snapshots: bool = False) -> ForgetfulFlush:
    """Make `engine` forget from now on."""
    flush = engine.runtime.runs.flush = ForgetfulFlush(engine, snapshots)
    return flush
