"""What is on its way to one worker over one stream. Bounded: a worker that does not read is not waited for.

Never here: what is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from holdfast.wire import wire_pb2 as wire


class Line:
    """From the stream's beginning to its end."""

    def __init__(self, most: int) -> None:
        """`most` messages may be on their way."""
        self._queue: asyncio.Queue[wire.ToWorker | None] = asyncio.Queue()
        self._most = most
        self._closed = False

    def say(self, message: wire.ToWorker) -> bool:
        """Send it after all others; False where the line is closed or full."""
        if self._closed or self._queue.qsize() >= self._most:
            return False
        self._queue.put_nowait(message)
        return True

    def close(self) -> None:
        """Say what is on its way, and no more."""
        if not self._closed:
            self._closed = True
            self._queue.put_nowait(None)

    async def messages(self) -> AsyncIterator[wire.ToWorker]:
        """Everything that is said, until the line is closed."""
        while (message := await self._queue.get()) is not None:
            yield message
