"""A coroutine in a context of its own, inside a task that goes on with others afterwards.

What user code sets in a `contextvars` variable is gone with its step, as if each step had a task of its own; what the task
is to asyncio (whom to cancel, whose time is over) stays the same. Never here: what is run.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextvars import Context, ContextVar
from types import coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

is_closed: Final[ContextVar[bool]] = ContextVar("holdfast_closed", default=False)
"""True in the context of code that its event loop closes: a GeneratorExit there comes from Python."""


@coroutine
def isolated(code: Coroutine[Any, Any, T], context: Context) -> Generator[Any, Any, T]:
    """Return the result of `code`, which runs with the variables in `context` and changes them there."""
    resume, given = code.send, None
    while True:
        try:
            awaited = context.run(resume, given)
        except StopIteration as done:
            result: T = done.value
            return result
        try:
            given = yield awaited
            resume = code.send
        except GeneratorExit:
            context.run(is_closed.set, True)
            context.run(code.close)
            raise
        except BaseException as problem:  # noqa: BLE001 - it is for the code to say what becomes of it
            resume, given = code.throw, problem
