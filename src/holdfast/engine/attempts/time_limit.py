"""The time limit of an attempt, or of a function that it calls.

Never here: what follows for an attempt that took longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.errors import HoldfastError
from holdfast.platform.border import text_of


@asynccontextmanager
async def within(limit_s: float | None, name: str) -> AsyncIterator[None]:
    """Inside, `name` may take so long. Raises TimeoutError, which says so, also where its clean-up has raised something else.

    What is raised before the time is up passes; so does what Holdfast itself raises.
    """
    timer = asyncio.timeout(limit_s)
    try:
        async with timer:
            yield
    except Exception as problem:
        if not timer.expired() or issubclass(type(problem), HoldfastError):
            raise
        more = "" if type(problem) is TimeoutError else f"; it was cut off, and raised {text_of(problem)}"
        raise TimeoutError(f"{name} took longer than its timeout_s={limit_s:g}{more}") from None
