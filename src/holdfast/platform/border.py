"""The border between the engine and the code that it calls for users: what that code raises is an ordinary error on this side,
and what it sets in a `contextvars` variable is gone with its step, as if each step had a task of its own.

Everything that users hand over (steps, tasks, tools, guards, lookups, models, observers) may raise anything. An exception
that is no `Exception` would end the process, or be lost on its way through a future, so it becomes an `EscapedException`. To
look at an exception calls the user's code again (`__str__`, properties), so it is done here, where nothing is raised.

Never here: what an error means for a step or an effect, a record of one.
"""

from __future__ import annotations

import asyncio
import asyncio.runners
import dis
from collections.abc import Awaitable, Coroutine, Generator, Iterable
from contextvars import Context, ContextVar
from types import coroutine
from typing import Any, Final, TypeVar

from pydantic_core import ValidationError

from holdfast.errors import HoldfastError
from holdfast.platform.masking import validation_in_words

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


MAX_LEAVES: Final = 100
"""Members of an exception group that are looked at: enough to judge it, and no more of a group that holds a million."""
_SHOWN_LEAVES: Final = 3
_NO_TEXT: Final = "its text cannot be had"
_RAISE: Final = dis.opmap["RAISE_VARARGS"]


class HandlerExit(BaseException):
    """The engine's own way out of a handler; user code does not raise it. Not an Exception, so that a handler's
    `except Exception` lets it through."""


class EscapedException(Exception):
    """An exception of user code that is no Exception, as an ordinary error. `problem` is what was raised."""

    def __init__(self, problem: BaseException) -> None:
        super().__init__(text_of(problem))
        self.problem = problem


# --- What comes over ------------------------------------------------------------------------------------------------------


def is_ours(problem: BaseException) -> bool:
    """Return True if `problem` is the engine's, asyncio's or the process's own way to end this code, which goes on its way.

    A CancelledError is one only where this task was cancelled: user code meets those of tasks of its own.
    """
    kind = type(problem)
    if issubclass(kind, HandlerExit):
        return True
    if issubclass(kind, asyncio.CancelledError):
        return is_cut_off()
    if issubclass(kind, KeyboardInterrupt):
        return is_signal(problem)
    return issubclass(kind, GeneratorExit) and is_closed.get()


def is_signal(problem: BaseException) -> bool:
    """Return True for a KeyboardInterrupt that comes of a signal: no `raise` of user code has raised it."""
    trace = fact(problem, "__traceback__")
    if not issubclass(type(problem), KeyboardInterrupt) or trace is None:
        return issubclass(type(problem), KeyboardInterrupt)
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    is_raised = code.co_code[trace.tb_lasti] == _RAISE
    return not is_raised or code.co_filename == asyncio.runners.__file__  # that of `asyncio.run` is a handler of the signal


def is_cut_off() -> bool:
    """Return True where this task was cancelled: what its code raises now may come from its clean-up."""
    task = _task()
    return task is not None and task.cancelling() > 0


def ordinary(problem: BaseException) -> BaseException:
    """Return the exception to raise on this side of the border in the place of one that user code has raised."""
    kind = type(problem)
    if is_ours(problem) or (issubclass(kind, Exception) and not issubclass(kind, StopIteration | StopAsyncIteration)):
        return problem
    return EscapedException(problem)


async def contained(code: Awaitable[T]) -> T:
    """Return what user code comes to; what it raises is ordinary."""
    try:
        return await code
    except Exception:
        raise
    except BaseException as problem:  # noqa: BLE001 - it is raised as what it is on this side
        raise ordinary(problem) from None


def _task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # a thread without an event loop
        return None


# --- What it says ---------------------------------------------------------------------------------------------------------


def bare(problem: BaseException) -> BaseException:
    """Return what was raised: without the engine's wrapper, and without groups that have one member."""
    for _ in range(MAX_LEAVES):
        if type(problem) is EscapedException:
            problem = problem.problem
        elif len(inner := members(problem)) == 1:
            problem = inner[0]
        else:
            break
    return problem


def members(problem: BaseException) -> tuple[BaseException, ...]:
    """Return the members of an exception group, the first of very many; nothing where it is none."""
    if not issubclass(type(problem), BaseExceptionGroup):
        return ()
    found: tuple[BaseException, ...] = BaseExceptionGroup.exceptions.__get__(problem)
    return found[:MAX_LEAVES]


def leaves(problem: BaseException) -> tuple[BaseException, ...]:
    """Return the exceptions at the ends of a group, in their order; the exception itself where it is none."""
    found: list[BaseException] = []
    left = [bare(problem)]
    while left and len(found) < MAX_LEAVES:
        each = left.pop()
        if inner := members(each):
            left.extend(bare(one) for one in reversed(inner))
        else:
            found.append(each)
    return tuple(found)


def fact(problem: object, name: str) -> Any:
    """Return an attribute of an exception; None where it has none, or looking at it raises."""
    try:
        return getattr(problem, name, None)
    except BaseException:  # noqa: BLE001 - a user's property may raise anything
        return None


def name_of(kind: type) -> str:
    """Return the name of an exception's class."""
    name = type.__dict__["__name__"].__get__(kind)
    return str.__str__(name)


def words_of(problem: BaseException) -> str:
    """Return what an exception says of itself; nothing where it says nothing. Raises nothing."""
    kind = type(problem)
    try:
        if issubclass(kind, HoldfastError):
            return str.__str__(problem.message)  # type: ignore[attr-defined]
        if issubclass(kind, SystemExit):
            return _exit_of(problem)
        if kind is ValidationError:
            return validation_in_words(problem)  # type: ignore[arg-type]
        return str.__str__(str(problem)).strip()
    except BaseException:  # noqa: BLE001 - `__str__` is the user's
        return _NO_TEXT


def text_of(problem: BaseException) -> str:
    """Return an exception in words: its class and what it says, or of a group what its first members say. Raises nothing."""
    problem = bare(problem)
    if members(problem):
        return joined([text_of(each) for each in leaves(problem)])
    kind, words = type(problem), words_of(problem)
    if issubclass(kind, HoldfastError | SystemExit) and words != _NO_TEXT:
        return words
    return f"{name_of(kind)}: {words}" if words else name_of(kind)


def joined(texts: Iterable[str]) -> str:
    """Return what several errors say as one text, which names the first three."""
    said = [*texts]
    more = f"; and {len(said) - _SHOWN_LEAVES} more" if len(said) > _SHOWN_LEAVES else ""
    return f"{len(said)} errors at once: {'; '.join(said[:_SHOWN_LEAVES])}{more}"


def _exit_of(problem: Any) -> str:
    code = problem.code
    status = 0 if code is None else code if isinstance(code, int) else 1
    said = f" ({str(code).strip()})" if isinstance(code, str) and code.strip() else ""
    return f"its code asked the process to exit with {status}{said}"
