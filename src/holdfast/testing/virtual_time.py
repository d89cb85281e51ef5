"""Time that the processes of a test or a rehearsal share, and that leaps: four days of waiting take no time.

It is the time of a store on SQLite; PostgreSQL tells its own. Never here: deciding when to leap.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from holdfast.ports import Store
from holdfast.stores.sqlite import SqliteStore

_AHEAD: Final = struct.Struct("=q")


class VirtualTime:
    """A clock for tests: the machine's time plus all leaps. Processes with the same `file` share it.

    Args:
        file: File that holds the leaps; it is created if it does not exist.
    """

    def __init__(self, file: Path | str) -> None:
        """Make the file if it is not there."""
        with Path(file).open("a+b") as opened:
            if opened.tell() == 0:
                opened.write(_AHEAD.pack(0))
                opened.flush()
            self._ahead = mmap.mmap(opened.fileno(), _AHEAD.size)

    def __call__(self) -> int:
        """Now, in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000 + int(_AHEAD.unpack_from(self._ahead)[0])

    def leap(self, seconds: float) -> None:
        """Move the clock forward.

        Args:
            seconds: Seconds to leap.

        Raises:
            ValueError: The number is negative.
        """
        if seconds < 0:
            raise ValueError(f"leap({seconds}): time does not go back")
        _AHEAD.pack_into(self._ahead, 0, int(_AHEAD.unpack_from(self._ahead)[0]) + int(seconds * 1000))

    def reach(self, at_ms: int) -> None:
        """Move the clock forward to a moment, unless it is past.

        Args:
            at_ms: Moment in Unix milliseconds.
        """
        self.leap(max(0, at_ms - self()) / 1000)

    @asynccontextmanager
    async def store(self, path: Path | str) -> AsyncIterator[Store]:
        """Open the SQLite store that uses this clock, for a block. All processes of the store must use it.

        Args:
            path: Path of the store's file.
        """
        opened = await SqliteStore.connect(Path(path), machine_ms=self)
        try:
            yield opened
        finally:
            await opened.aclose()
