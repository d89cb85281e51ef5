"""A stream that ends when its listener loses what it was opened with: a key that is revoked, a token that is over, a grant.

Never here: who a listener is (identity), what may be heard (permission), a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, TypeVar

AGAIN_S: Final = 7.0
"""How often a listener is checked: it hears nothing 15 s after the end of what allowed it, whatever is told meanwhile."""

QUIET_S: Final = 2.0
"""Silence after which a listener is sent a sign of life: one that waits for it notices a server that answers nothing."""

_Event = TypeVar("_Event")


async def while_permitted(
    events: AsyncGenerator[_Event, None], check: Callable[[], Awaitable[None]]
) -> AsyncGenerator[_Event | None, None]:
    """Yield the events for as long as `check` raises nothing, and None after each QUIET_S without one. `check` is called after
    each AGAIN_S, and before the next event is given. Raises what it raises."""
    loop, coming = asyncio.get_running_loop(), None
    checked_s = loop.time()
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(events))
            left_s = max(0.0, checked_s + AGAIN_S - loop.time())
            done, _ = await asyncio.wait([coming], timeout=min(QUIET_S, left_s))
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
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        await events.aclose()
