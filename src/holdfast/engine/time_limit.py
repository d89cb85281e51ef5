"""How long an attempt, or a function that it calls, may take.

Never here: what becomes of what took longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def within(limit_s: float | None, what: str) -> AsyncIterator[None]:
    """Inside, `what` may take so long. Raises TimeoutError, which says so; others pass."""
    timer = asyncio.timeout(limit_s)
    try:
        async with timer:
            yield
    except TimeoutError:
        if timer.expired():
            raise TimeoutError(f"{what} took longer than its timeout_s={limit_s:g}") from None
        raise
