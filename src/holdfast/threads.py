"""Plain functions of users, run in threads. A thread cannot be stopped: one that nobody waits for any more still counts.

Never here: an async function, a store.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import FunctionType
from typing import Any


def _is_async(function: Callable[..., Any]) -> bool:
    """What `inspect.iscoroutinefunction` says, which takes its time about nearly all functions."""
    if type(function) is FunctionType and function.__code__.co_flags & inspect.CO_COROUTINE:
        return True
    return inspect.iscoroutinefunction(function)


class Threads:
    """At most `most` plain functions at once. `abandoned` of them have been given up by their callers.

    `on_return` is called, in the event loop, whenever an abandoned one has come back.
    """

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="holdfast-step")
        self.abandoned = 0
        self.on_return: Callable[[], None] = lambda: None

    async def run(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """What `function` returns; awaited too where that is awaitable. An async function needs no thread."""
        if _is_async(function):
            return await function(**arguments)
        context = copy_context()
        work = self._pool.submit(context.run, lambda: function(**arguments))
        try:
            result = await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            if not work.cancel():  # it has begun
                self._abandon(work)
            raise
        return await result if inspect.isawaitable(result) else result

    def close(self) -> None:
        """Begin nothing more. What still runs is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _abandon(self, work: Future[Any]) -> None:
        loop = asyncio.get_running_loop()
        self.abandoned += 1

        def returned(_: Future[Any]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._back)

        work.add_done_callback(returned)

    def _back(self) -> None:
        self.abandoned -= 1
        self.on_return()
