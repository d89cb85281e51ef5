"""Holdfast's errors as gRPC's status codes, with the same words, and back; and methods whose errors end their calls so.

Never here: when something is refused.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

import grpc

from holdfast import errors
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast")

NAME: Final = "holdfast-error"
"""The trailing metadata that names an error's class."""
_MAX_BYTES: Final = 4000
"""Words travel in a header, and all headers together have 8 KiB."""

_CODES: Final[tuple[tuple[type[HoldfastError], grpc.StatusCode], ...]] = (
    (errors.UsageError, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.NotPermitted, grpc.StatusCode.PERMISSION_DENIED),
    (errors.NotFound, grpc.StatusCode.NOT_FOUND),
    (errors.TooMuch, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (errors.TooManyRuns, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (errors.KeyReused, grpc.StatusCode.ALREADY_EXISTS),
    (errors.Conflict, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.Suspended, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.Unstorable, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.StoreError, grpc.StatusCode.UNAVAILABLE),
)
"""The first that fits."""


_USAGE: Final = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


def code(problem: BaseException) -> grpc.StatusCode:
    return next((known for kind, known in _CODES if isinstance(problem, kind)), grpc.StatusCode.INTERNAL)


def words(problem: BaseException) -> str:
    """Return the error's message, shortened if it is too long. Of an unexpected error only the kind is shown, because its
    message may name private data."""
    text = problem.message if isinstance(problem, HoldfastError) else f"{type(problem).__name__} in the server; see its log."
    raw = text.encode()
    if len(raw) <= _MAX_BYTES:
        return text
    return f"{raw[:_MAX_BYTES].decode(errors='ignore')} … ({len(raw) - _MAX_BYTES} bytes more)"


def unary(name: str, method: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    """Return a method that answers with one message, and whose errors end its call in words.

    A call that is ended so stays in memory for a while, with the exception that ends it and all that stands around that. So it
    is ended where nothing stands of what was sent, and of the error that it is ended for.
    """

    async def answer(messages: AsyncIterator[bytes], context: Any) -> Any:
        try:
            return await method(messages, context)
        except grpc.aio.AbortError as ended:
            raise ended.with_traceback(None) from None
        except Exception as problem:  # noqa: BLE001 - whatever it is, the caller gets it
            ending = _ending(name, problem)
        return await context.abort(*ending)

    return answer


def streaming(name: str, method: Callable[[Any, Any], AsyncGenerator[Any, None]]) -> Callable[[Any, Any], AsyncIterator[Any]]:
    """Return the same of a method that answers with a stream."""

    async def answer(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        try:
            async with aclosing(method(requests, context)) as messages:
                async for message in messages:
                    yield message
            return
        except grpc.aio.AbortError as ended:
            raise ended.with_traceback(None) from None
        except Exception as problem:  # noqa: BLE001 - whatever it is, the caller gets it
            ending = _ending(name, problem)
        await context.abort(*ending)

    return answer


def _ending(name: str, problem: Exception) -> tuple[grpc.StatusCode, str, tuple[tuple[str, str], ...]]:
    """Return the status, message and metadata that end a call for an error; an unexpected error is logged."""
    if not isinstance(problem, HoldfastError):
        log.error("holdfast could not answer %s: %s", name, problem, exc_info=problem)
    return code(problem), words(problem), ((NAME, type(problem).__name__),)


def error_of(problem: Any) -> HoldfastError:
    """The error that a server ended a call with, of its own class where that can be made of words alone."""
    said = dict(problem.trailing_metadata() or ())
    kind = getattr(errors, str(said.get(NAME, "")), None)
    told = problem.details() or f"The server gave no details beyond {problem.code().name}."
    if isinstance(kind, type) and issubclass(kind, HoldfastError) and kind.__init__ is HoldfastError.__init__:
        return kind(told)
    if problem.code() in _USAGE:
        return errors.UsageError(told)
    return HoldfastError(f"{problem.code().name}: {told}")
