"""Functions of users, called: plain ones in threads, async ones where they are awaited. What they raise is ordinary.

A thread cannot be stopped: one without a waiting caller still counts. Never here: a store.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import partial
from types import FunctionType
from typing import Any

from holdfast.platform.border import EscapedException, isolated, ordinary


def is_async(function: Callable[..., Any]) -> bool:
    """Return the answer of `inspect.iscoroutinefunction`, which is slow for nearly all functions."""
    inner = function.func if type(function) is partial else function
    if type(inner) is FunctionType:
        if inner.__code__.co_flags & inspect.CO_COROUTINE:
            return True
        if not inner.__dict__:  # nothing marks it as one
            return False
    return inspect.iscoroutinefunction(function)


class Threads:
    """At most `most` plain functions at once. `abandoned` of them have been given up by their callers.

    `on_return` is called, in the event loop, whenever an abandoned one has come back.
    """

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="holdfast-step")
        self.abandoned = 0
        self.on_return: Callable[[], None] = lambda: None

    async def run(self, function: Callable[..., Any], arguments: Mapping[str, Any], context: Context | None = None) -> Any:
        """Run `function` and return its result; if that is awaitable, await it. An async function needs no thread.

        It runs in `context`, or in a copy of the caller's; an async one without `context` runs in the caller's own. Raises the
        function's errors, as `border.ordinary` has them.
        """
        try:
            if is_async(function):
                code = function(**arguments)
                return await (code if context is None else isolated(code, context))
            work = self._pool.submit((copy_context() if context is None else context).run, outcome, function, arguments)
            try:
                problem, result = await asyncio.wrap_future(work)
            except asyncio.CancelledError:
                if not work.cancel():  # it has begun
                    self._abandon(work)
                raise
            if problem is not None:
                raise problem
            return await awaited(result, context) if inspect.isawaitable(result) else result
        except Exception:
            raise
        except BaseException as problem:  # noqa: BLE001 - it is raised as what it is on this side
            raise ordinary(problem) from None

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


def outcome(function: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[BaseException | None, Any]:
    """Return a plain function's exception or result as a value: not every exception can go through a future."""
    try:
        return None, function(**arguments)
    except KeyboardInterrupt as problem:
        return EscapedException(problem), None  # that of a terminal never comes to a thread
    except BaseException as problem:  # noqa: BLE001 - whatever it is, it is raised where it is waited for
        return ordinary(problem), None


async def awaited(result: Awaitable[Any], context: Context | None) -> Any:
    """Return the result of an awaitable that a plain function has returned."""
    return await (result if context is None else isolated(_coroutine(result), context))


async def _coroutine(result: Awaitable[Any]) -> Any:
    return await result
