"""A process's readiness to work: it has not given up, and reaches its store.

The store is asked once a second at most, however many ask, and one answer is for all of them.

Never here: a port that tells it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

_WITHIN_S: Final = 5.0
"""A store that takes longer to answer is one that does not."""
_FRESH_S: Final = 1.0


class Readiness:
    """The readiness of one process."""

    def __init__(self, broken: Callable[[], BaseException | None], reach: Callable[[], Awaitable[object]]) -> None:
        """`broken` returns why the process has given up, if so. `reach` asks the store anything, and raises where it cannot be
        reached."""
        self._broken = broken
        self._reach = reach
        self._asking = asyncio.Lock()
        self._reaches = False
        self._until_s = 0.0

    @property
    def broken(self) -> BaseException | None:
        """Why the process can no longer do its work, if so."""
        return self._broken()

    async def is_ready(self) -> bool:
        """True while it can do its work."""
        return await self.reaches() and self.broken is None

    async def reaches(self) -> bool:
        """True while it reaches its store."""
        now_s = asyncio.get_running_loop().time
        async with self._asking:
            if now_s() >= self._until_s:
                self._reaches = await self._is_reached()
                self._until_s = now_s() + _FRESH_S
            return self._reaches

    async def _is_reached(self) -> bool:
        try:
            async with asyncio.timeout(_WITHIN_S):
                await self._reach()
        except Exception:  # noqa: BLE001 - whatever it is: not ready; the log says why
            return False
        return True
