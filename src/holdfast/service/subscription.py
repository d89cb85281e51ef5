"""A stream that ends when its listener loses what it was opened with: a key that is revoked, a token that is over, a grant.

Never here: who a listener is (identity), what may be heard (permission), a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, TypeVar

AGAIN_S: Final = 7.0
"""How often a listener is checked: it hears nothing 15 s after the end of what allowed it, whatever is told meanwhile."""

_Event = TypeVar("_Event")


async def while_permitted(
    events: AsyncGenerator[_Event, None], check: Callable[[], Awaitable[None]]
) -> AsyncGenerator[_Event | None, None]:
    """Yield the events for as long as `check` raises nothing, and None where there are none for a while. `check` is called
    after each AGAIN_S, and before the next event is given. Raises what it raises."""
    loop, coming = asyncio.get_running_loop(), None
    checked_s = loop.time()
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait([coming], timeout=max(0.0, checked_s + AGAIN_S - loop.time()))
            if loop.time() - checked_s >= AGAIN_S:
                await check()
                checked_s = loop.time()
                if not done:
                    yield None
            if not done:
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
