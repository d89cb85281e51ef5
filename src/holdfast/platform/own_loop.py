"""The event loop that an engine was opened in. A call from another loop or thread is carried there, and its outcome back.

Whatever an engine has in memory belongs to this loop. A class that derives from `OfLoop` need say nothing of it: each of its
public async methods, async iterators and async contexts is such a call. Never here: what is called.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import os
import sys
from asyncio import AbstractEventLoop, Task, _get_running_loop
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from contextvars import ContextVar
from threading import get_ident
from time import monotonic
from types import TracebackType
from typing import Any, ClassVar, Final, Generic, NoReturn, TypeVar
from weakref import WeakSet

from holdfast.errors import UsageError

T = TypeVar("T")

_LOOK_S: Final = 5.0
"""How often a caller elsewhere looks whether the loop still exists: one that is closed completes no call."""
_LAST_S: Final = 10.0
"""How long a caller that Ctrl-C interrupts waits for the end of its call."""
_NOTHING: Final = "Nothing was done."
_TOO_LATE: Final = (
    "Call it again, or give it more time: the call was cancelled at the end of its holdfast.sync.timeout. What it asked for may"
    " have been done; a run goes on."
)
_until: ContextVar[float] = ContextVar("holdfast_until", default=math.inf)
"""When a caller that blocks stops to wait, by the clock of this process."""


@contextmanager
def timeout(seconds: float) -> Iterator[None]:
    """Bound the calls of holdfast.sync inside, as `asyncio.timeout` does. The call that waits when the time is over is
    cancelled, and raises TimeoutError. A limit around this one counts as well."""
    token = _until.set(min(_until.get(), monotonic() + seconds))
    try:
        yield
    finally:
        _until.reset(token)


class OwnLoop:
    """The loop that runs where this is made, and its process."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._runs = self._loop.is_running
        self._thread: int | None = get_ident()
        """None once the engine is closed, and in a fork: then nothing runs here."""
        self._is_closed = False
        self._pid = os.getpid()
        self._sent: set[Task[Any]] = set()
        """What was sent here and has not ended."""
        _loops.add(self)

    @property
    def is_here(self) -> bool:
        """True if this loop runs the caller, and the engine is open. Python itself finds the running loop by a look at the
        process's id, which costs more than all the rest of a call."""
        return get_ident() == self._thread and self._runs()

    async def carried(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in this loop for a caller in another. Cancelling it cancels the work, and waits for its end. Raises
        UsageError where this loop runs no more, and where none runs here."""
        if _get_running_loop() is None:
            work.close()
            raise UsageError(f"Await it in an asyncio event loop, or use holdfast.sync: no such loop runs here. {_NOTHING}")
        sent = self._send(work)
        ended = asyncio.wrap_future(sent.ended)
        cancelled: asyncio.CancelledError | None = None
        while not ended.done():
            try:
                await asyncio.wait((ended,), timeout=_LOOK_S)
            except asyncio.CancelledError as problem:
                cancelled = problem
                sent.cancel()
            sent.expect_loop()
        if cancelled is not None and sent.task.cancelled():
            raise cancelled
        return sent.outcome()

    def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in this loop for a caller that blocks its thread. Ctrl-C cancels the work. Raises UsageError where this
        loop runs no more, and in its own thread, which would wait for itself."""
        if self.is_here:
            work.close()
            raise UsageError(
                "Use holdfast.sync in a plain `def` step, or in another thread: this code runs in the engine's own event loop,"
                f" which would wait for itself. {_NOTHING}"
            )
        sent, until = self._send(work), _until.get()
        try:
            while not sent.has_ended(min(_LOOK_S, max(0.0, until - monotonic()))):
                sent.expect_loop()
                if monotonic() >= until:
                    raise TimeoutError(_TOO_LATE)
        except BaseException:
            sent.cancel()
            sent.has_ended(_LAST_S)
            raise
        return sent.outcome()

    async def close(self) -> None:
        """Take no more calls, and call off those that were sent here and have not ended."""
        self._thread, self._is_closed = None, True
        for task in self._sent:
            task.cancel()
        if self._sent:
            await asyncio.wait(self._sent)

    def _send(self, work: Coroutine[Any, Any, T]) -> _Sent[T]:
        try:
            self._expect_open()
            sent = _Sent(work, self._loop, self._sent)
            self._loop.call_soon_threadsafe(sent.begin)
        except BaseException:
            work.close()
            raise
        return sent

    def _expect_open(self) -> None:
        """Raise UsageError where the loop can do nothing for this caller."""
        if os.getpid() != self._pid:
            raise UsageError(
                f"Open an engine in this process: this one belongs to process {self._pid}, of which this is a fork. {_NOTHING}"
            )
        if self._is_closed:
            raise UsageError(f"Open the engine again, or close it later: it is closed. {_NOTHING}")
        if not self._loop.is_running() and not getattr(self._loop, "lasts", False):  # of a LastingLoop
            raise UsageError(
                "Open the engine in an event loop that runs as long as it is used, or with holdfast.sync.open(...): the loop"
                f" that it was opened in {'is closed' if self._loop.is_closed() else 'does not run'}. {_NOTHING}"
            )


_loops: Final[WeakSet[OwnLoop]] = WeakSet()


def _forked() -> None:
    """A fork has the thread of its parent that made it, and not what runs there."""
    for each in _loops:
        each._thread = None


os.register_at_fork(after_in_child=_forked)


class _Sent(Generic[T]):
    """Work that was sent to a loop, as its caller waits for it."""

    task: Task[T]

    def __init__(self, work: Coroutine[Any, Any, T], loop: AbstractEventLoop, under_way: set[Task[Any]]) -> None:
        self._work = work
        self._loop = loop
        self._under_way = under_way
        self.ended: Future[None] = Future()

    def begin(self) -> None:
        self.task = self._loop.create_task(self._work)
        self._under_way.add(self.task)
        self.task.add_done_callback(self._end)

    def _end(self, task: Task[T]) -> None:
        self._under_way.discard(task)
        self.ended.set_result(None)

    def cancel(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, so the work has ended
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self.task.cancel()  # `begin`, which makes it, was called before

    def has_ended(self, within_s: float) -> bool:
        with suppress(TimeoutError):
            self.ended.result(within_s)
        return self.ended.done()

    def expect_loop(self) -> None:
        """Raise UsageError where the loop is closed, so that the work will never end."""
        if self._loop.is_closed() and not self.ended.done():
            raise _closed()

    def outcome(self) -> T:
        if self.task.cancelled():
            raise _closed()
        return self.task.result()


def _closed() -> UsageError:
    return UsageError(
        "Keep the engine open until its calls have returned: it was closed while this one went on. What the call asked for may"
        " have been done."
    )


class OfLoop:
    """The base of classes that belong to an engine's loop, which is their `_loop`."""

    _loop: OwnLoop
    _word: ClassVar[str]
    """How a user names one, in an error: `engine`."""

    def __init_subclass__(cls, called: str | None = None) -> None:
        super().__init_subclass__()
        if called is not None or OfLoop in cls.__bases__:
            cls._word = called or cls.__name__.lower()
        for name, method in [*vars(cls).items()]:
            if not name.startswith("_") and (kind := _kind(method)) is not None:
                setattr(cls, name, _through(method, kind))


def _kind(method: Any) -> type[Any] | None:
    """Return what a call of a method gives; None where it needs no loop."""
    if inspect.iscoroutinefunction(method):
        return Call
    if inspect.isasyncgenfunction(method):
        return Stream
    returns = str(getattr(method, "__annotations__", {}).get("return"))
    return Entry if returns.startswith("AbstractAsyncContextManager") else None


def _through(method: Callable[..., Any], kind: type[Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def called(self: Any, *args: Any, **value: Any) -> Any:
        return kind(self, method(self, *args, **value), method.__name__)

    called.through = kind  # type: ignore[attr-defined]
    if kind is Call:
        _mark_async(called)
    return called


def _mark_async(function: Any) -> None:
    """Have `iscoroutinefunction` answer as for the method itself, as mocks ask it."""
    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(function)
    else:
        function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]


class Call(Coroutine[Any, Any, T]):
    """A call of an async method, to be awaited: a coroutine, which says so to those who use it as its result."""

    __slots__ = ("__weakref__", "_chosen", "_code", "_name", "_of")

    def __init__(self, of: OfLoop, code: Coroutine[Any, Any, T], name: str) -> None:
        self._of = of
        self._code = code
        self._name = name
        self._chosen: Coroutine[Any, Any, T] | None = None

    @property
    def loop(self) -> OwnLoop:
        return self._of._loop

    def __await__(self) -> Generator[Any, Any, T]:
        return (self._code if self._of._loop.is_here else self._here()).__await__()

    def send(self, value: Any) -> Any:
        return self._here().send(value)

    def throw(self, *problem: Any) -> Any:
        if self._chosen is None:  # cancelled before it began
            self._chosen = self._code
        return self._chosen.throw(*problem)

    def close(self) -> None:
        (self._chosen or self._code).close()

    def take_coroutine(self) -> Coroutine[Any, Any, T]:
        """The coroutine itself, for one who brings it to its loop."""
        return self._code

    def _here(self) -> Coroutine[Any, Any, T]:
        """Return the coroutine that runs the call on the caller's side."""
        if self._chosen is None:
            loop = self._of._loop
            self._chosen = self._code if loop.is_here else loop.carried(self._code)
        return self._chosen

    def __repr__(self) -> str:
        return f"<{self._of._word}.{self._name}(...), to be awaited>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("cr_", "__")):  # what is asked of any coroutine
            return getattr(self._code, name)
        raise AttributeError(f"{self._slip}, and has no {name!r}.")

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self._slip}, and cannot be iterated.")

    @property
    def _slip(self) -> str:
        written = f"{self._of._word}.{self._name}(...)"
        return f"Write `await {written}`: without `await` it is a coroutine, which has done nothing yet"


class Stream(AsyncGenerator[T, None]):
    """A call of a method that yields as it goes on, for `async for`."""

    def __init__(self, of: OfLoop, stream: AsyncGenerator[T, None], name: str) -> None:
        self._of = of
        self._stream = stream
        self._name = name

    @property
    def loop(self) -> OwnLoop:
        return self._of._loop

    def __anext__(self) -> Any:
        return self._here(self._stream.__anext__)

    def asend(self, value: None) -> Any:
        return self._here(self._stream.asend, value)

    def athrow(self, *problem: Any) -> Any:
        return self._here(self._stream.athrow, *problem)

    def aclose(self) -> Any:
        return self._here(self._stream.aclose)

    def _here(self, method: Callable[..., Any], *args: Any) -> Any:
        loop = self._of._loop
        return method(*args) if loop.is_here else loop.carried(_begun(method, *args))

    def __repr__(self) -> str:
        return f"<{self._of._word}.{self._name}(...), for `async for`>"


class Entry(AbstractAsyncContextManager[T]):
    """A call of a method whose result is entered."""

    def __init__(self, of: OfLoop, entered: AbstractAsyncContextManager[T], name: str) -> None:
        self._of = of
        self._entered = entered

    async def __aenter__(self) -> T:
        entered: T = await self._here(self._entered.__aenter__())
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        swallowed: bool | None = await self._here(self._entered.__aexit__(kind, problem, trace))
        return swallowed

    def _here(self, work: Any) -> Coroutine[Any, Any, Any]:
        loop = self._of._loop
        return work if loop.is_here else loop.carried(work)


async def _begun(method: Callable[..., Any], *args: Any) -> Any:
    """Begin where the work is done: an async generator belongs to the loop that it is first asked in."""
    return await method(*args)
