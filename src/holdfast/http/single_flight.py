"""Reads shared by requests that ask for the same at the same moment: a thousand listeners of a run learn of its end in one
read.

The term is that of Go's package `singleflight`. Never here: what is read, and who may see it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class SingleFlight:
    """The reads that are under way, by key. A key names all that an answer depends on, also how new it has to be: a caller gets
    the answer of a read that may have begun earlier."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Task[Any]] = {}

    async def read(self, key: Hashable, reading: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `reading`, or raise its error. The read goes on if one of its waiters leaves."""
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(reading())
            task.add_done_callback(lambda _: self._under_way.pop(key))
        answer: T = await asyncio.shield(task)
        return answer
