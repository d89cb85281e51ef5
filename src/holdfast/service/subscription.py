"""A stream that ends when its listener loses what it was opened with (a key that is revoked, a token that is over, a grant), or
when its port stops.

Never here: who a listener is (identity), what may be heard (permission), a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, TypeVar

AGAIN_S: Final = 7.0
"""Seconds between two checks of a listener: it receives nothing 15 s after the end of what allowed it."""

QUIET_S: Final = 2.0
"""Silence after which a listener is sent a sign of life: one that waits for it notices a server that answers nothing."""

_Event = TypeVar("_Event")


class Ending:
    """The end of all streams of a port."""

    def __init__(self) -> None:
        self._streams: set[asyncio.Future[None]] = set()
        self._has_come = False

    def come(self) -> None:
        """End every stream, and those that are still opened."""
        self._has_come = True
        for each in self._streams:
            if not each.done():
                each.set_result(None)

    def of_stream(self) -> asyncio.Future[None]:
        """Return a future of one stream, done at the end. Cancel it when that stream is over."""
        future = asyncio.get_running_loop().create_future()
        if self._has_come:
            future.set_result(None)
        self._streams.add(future)
        future.add_done_callback(self._streams.discard)
        return future


async def while_permitted(
    events: AsyncGenerator[_Event, None], check: Callable[[], Awaitable[None]], ending: Ending | None = None
) -> AsyncGenerator[_Event | None, None]:
    """Yield the events for as long as `check` raises nothing, and None after each QUIET_S without one. `check` is called after
    each AGAIN_S, and before the next event is given. Raises what it raises. At `ending` it is over."""
    loop = asyncio.get_running_loop()
    coming: asyncio.Future[_Event] | None = None
    checked_s = loop.time()
    end = (ending or Ending()).of_stream()
    try:
        while not end.done():
            coming = coming or asyncio.ensure_future(anext(events))
            left_s = max(0.0, checked_s + AGAIN_S - loop.time())
            either: list[asyncio.Future[Any]] = [coming, end]
            done, _ = await asyncio.wait(either, timeout=min(QUIET_S, left_s), return_when=asyncio.FIRST_COMPLETED)
            if end.done():
                return
            if loop.time() - checked_s >= AGAIN_S:
                await check()
                checked_s = loop.time()
            if not done:
                yield None
                continue
            try:
                event = coming.result()
            except StopAsyncIteration:
                return
            coming = None
            yield event
    finally:
        end.cancel()
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        await events.aclose()
