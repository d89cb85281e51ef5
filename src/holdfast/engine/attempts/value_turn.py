"""The order in which the steps of one process write a shared value: one after the other, as they come.

So a process never gets in its own way, however many of its runs write one value. Never here: another process, which has the
store's lock for that (shared_lock), or a version (shared_space).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class _Turn:
    """A value that is being written, and how many are at it or wait."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.present = 0


class ValueTurns:
    """The queued writers of each value. A value without writers takes no room."""

    def __init__(self) -> None:
        self._turns: dict[tuple[str, str, str], _Turn] = {}

    @asynccontextmanager
    async def at(self, tenant: str, space: str, key: str) -> AsyncIterator[None]:
        """Wait for one's turn at a value, and have it for the length of the block."""
        name = (tenant, space, key)
        turn = self._turns.setdefault(name, _Turn())
        turn.present += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.present -= 1
            if not turn.present:
                del self._turns[name]
