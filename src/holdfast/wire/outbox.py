"""The messages on their way to the other end of a stream. Those of one moment share a message, because each message costs both
ends more than its content. Bounded: a peer that does not read is not waited for.

Never here: what is said.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, Generic, TypeVar

from holdfast.wire import wire_pb2 as wire

Message = TypeVar("Message", wire.FromWorker, wire.ToWorker)

_TOGETHER: Final = 100
_TOGETHER_BYTES: Final = 64 * 1024
"""More than this is no longer dear because of its parts."""
_LATEST_S: Final = 0.05
"""What is not urgent waits so long for something to go with."""


class Outbox(Generic[Message]):
    """From a stream's beginning to its end."""

    def __init__(self, limit: int) -> None:
        """`limit` messages may be on their way."""
        self._waiting: deque[Message] = deque()
        self._most = limit
        self._stirred = asyncio.Event()
        self._sent = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def say(self, message: Message, *, urgent: bool = True) -> bool:
        """Send it after all others; False where the outbox is closed or full."""
        if self._closed or len(self._waiting) >= self._most:
            return False
        self._waiting.append(message)
        if urgent:
            self._stirred.set()
        elif len(self._waiting) == 1:
            asyncio.get_running_loop().call_later(_LATEST_S, self._stirred.set)
        return True

    async def has_room(self, limit: int) -> bool:
        """Wait until fewer than `limit` messages are on their way; False where the outbox is closed."""
        while len(self._waiting) >= limit and not self._closed:
            self._sent.clear()
            await self._sent.wait()
        return not self._closed

    def close(self) -> None:
        """Say what is on its way, and no more."""
        self._closed = True
        self._stirred.set()
        self._sent.set()

    async def messages(self) -> AsyncIterator[Message]:
        """Yield every message, until the outbox is closed."""
        while True:
            await self._stirred.wait()
            await asyncio.sleep(0)  # what this turn of the loop still has to say goes along
            self._stirred.clear()
            while self._waiting:
                yield self._breath()
                self._sent.set()
            if self._closed:
                return

    def _breath(self) -> Message:
        """The next message, and as many after it as go well together."""
        first = self._waiting.popleft()
        size = first.ByteSize()
        for _ in range(_TOGETHER):
            if not self._waiting or (size := size + self._waiting[0].ByteSize()) > _TOGETHER_BYTES:
                break
            first.more.append(self._waiting.popleft())
        return first
