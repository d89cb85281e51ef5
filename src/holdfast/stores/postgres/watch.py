"""Hearing of other processes' commits.

Two snapshots tell exactly which commits have become visible in between, in whatever order their transactions began; a
sequence would not. Never here: what they wrote. It tells that somebody may have written, and the caller goes and looks.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from holdfast.stores.postgres.context import StoreContext, StorePort

POLL_S: Final = 0.2
"""How late another process's commit is heard of. The database wakes nobody: NOTIFY takes a lock that all commits share,
and LISTEN needs a connection that no pooler can lend."""


class Watch(StorePort):
    """Keeps ports.Watch, for one listener at a time."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._seen = context.snapshot

    async def changed(self, timeout_s: float) -> bool:
        until_s = time.monotonic() + timeout_s
        while True:
            ((snapshot, changed),) = await self._db.fetch(self._sql["changed"], self._seen, self._process)
            self._seen = snapshot
            if changed:
                return True
            remaining_s = until_s - time.monotonic()
            if remaining_s <= 0:
                return False
            await asyncio.sleep(min(POLL_S, remaining_s))
