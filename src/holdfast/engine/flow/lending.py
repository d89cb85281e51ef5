"""The parts of the engine's event loop that a flow's loop borrows: connections, threads and whatever else comes from outside.

It has them while none of its tasks waits for what is recorded. Nothing of it is recorded, so each replay does it again, as
ordinary code.

Never here: tasks, timers, operations (loop).
"""

from __future__ import annotations

import asyncio
import logging
import sys
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from holdfast.engine.attempts.cursor import Refusal, Suspension
from holdfast.platform.border import is_ours, text_of

log = logging.getLogger("holdfast")

T = TypeVar("T")

AT_ONCE: Final = (
    "Put it into a step: the flow itself uses a connection, a process, a thread or another event loop while another of its"
    " tasks waits for an operation or sleeps. What comes of it is not recorded, so a replay could go another way"
)
FROM_OUTSIDE: Final = (
    "Make a step of what calls into the flow: a thread or a connection did so while one of its tasks waits for an operation or"
    " sleeps. The moment is not recorded, so a replay could go another way"
)
NO_CONTEXT: Final = Context()


class FlowFuture(asyncio.Future[Any]):
    """A future of a flow, with a hash that a replay gives it again."""

    def __init__(self, loop: LendingLoop) -> None:
        loop.made += 1
        self._number = loop.salt + loop.made
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _Handle:
    """A callback in the queue; what asyncio.Handle is, without its debugging."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None) -> None:
        self._callback = callback
        self._args = args
        self._context = copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled


if TYPE_CHECKING:

    class _Loop(asyncio.BaseEventLoop):
        """The loop as a type checker sees it: the methods that the engine's loop lends are set below."""

else:
    _Loop = asyncio.AbstractEventLoop


class LendingLoop(_Loop):
    """The futures and callbacks of one flow, and what comes to it from outside."""

    unfinished = 0
    """How many of its tasks are not over."""

    def __init__(self, run: str, moved: Callable[[], None]) -> None:
        """`moved` is called when something from outside is ready."""
        self._ready: deque[Any] = deque()
        self.salt = zlib.crc32(run.encode()) << 24
        self.made = 0
        """How many objects have a number, which is their hash: `salt` and how many were before. A replay gives the same; other
        flows have others, lest asyncio's own sets degenerate."""
        self._moved = moved
        self._host = asyncio.get_running_loop()
        self._is_inside = False
        self._is_gone = False
        self._lent = 0
        """Futures that something outside of the flow sets."""
        self._opened: list[Any] = []
        """Transports that it has opened: connections, pipes, processes."""
        self._arriving: set[_Handle] = set()
        """What threads have asked to be called."""
        self.closing: set[AsyncGenerator[Any, Any]] = set()
        """The asynchronous generators that were left before their ends, and are not closed yet."""
        self.left: Suspension | None = None
        self.handler: Callable[[Any, dict[str, Any]], object] | None = None
        """Who of the flow's own code hears of the errors of callbacks."""

    @property
    def is_recording(self) -> bool:
        """True while a task waits for what is recorded: an operation, or the end of asyncio.sleep."""
        raise NotImplementedError

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        pass

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._host.is_closed()

    def create_future(self) -> asyncio.Future[Any]:
        if self.left is not None and self._is_gone:
            raise self.left
        future = FlowFuture(self)
        if sys._getframe(1).f_code is asyncio.wrap_future.__code__:  # a thread will set it
            self._await_outside(future)
        return future

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, context)
        if self._is_inside:
            self._ready.append(handle)
        else:
            self._come(handle)
        return handle  # type: ignore[return-value]

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call it in the flow."""
        if asyncio._get_running_loop() is self:
            return self.call_soon(callback, *args, context=context)

        def arrived() -> None:
            self._arriving.discard(handle)
            if not handle.cancelled():
                self._come(handle)

        handle = _Handle(callback, args, context)
        self._arriving.add(handle)
        self._host.call_soon_threadsafe(arrived)
        return handle  # type: ignore[return-value]

    def _come(self, handle: Any) -> None:
        """Take a callback that comes from outside."""
        if self._mixes:
            self.left = self.left or Refusal(self.worded(FROM_OUTSIDE))
        else:
            self._ready.append(handle)
        self._moved()

    @property
    def _mixes(self) -> bool:
        """True if what comes from outside could come before or after what is recorded."""
        return self.unfinished > 1 and self.is_recording

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Do nothing: when Python's collector comes past must not matter. Errors that no code took are seen at the end."""

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        pass

    def set_exception_handler(self, handler: Callable[[Any, dict[str, Any]], object] | None) -> None:
        """Have a callback's error come to this. An error of a task that no code takes is the flow's, as without it."""
        self.handler = handler

    def get_exception_handler(self) -> Callable[[Any, dict[str, Any]], object] | None:
        return self.handler

    def _tell(self, problem: BaseException) -> None:
        """Have the error of a callback heard of."""
        about = {"message": "A callback of a flow failed.", "exception": problem}
        try:
            if self.handler is not None:
                self.handler(self, about)
                return
        except Exception as another:  # noqa: BLE001 - the user's own code: asyncio logs this too
            problem = another
        log.error("holdfast: a callback of a flow failed: %s", text_of(problem), exc_info=problem)

    def get_task_factory(self) -> None:
        return None

    def close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Close an asynchronous generator that nothing refers to any more, as asyncio does; here in the loop that lends."""

        def begin() -> None:
            self._host.create_task(generator.aclose()).add_done_callback(over)

        def over(task: asyncio.Task[Any]) -> None:
            self.closing.discard(generator)
            problem = None if task.cancelled() else task.exception()
            if problem is not None and not is_ours(problem):
                log.error("holdfast: a generator of a flow failed to close: %s", text_of(problem), exc_info=problem)
            self._moved()

        if not self._host.is_closed():
            self.closing.add(generator)
            self._host.call_soon_threadsafe(begin)  # Python's collector comes past in any thread

    async def shutdown_asyncgens(self) -> None:
        pass

    def refuse(self, words: str) -> NoReturn:
        """Have the flow fail with these words, whatever its code makes of what is raised here."""
        self.left = self.left or Refusal(self.worded(words))
        raise self.left

    def worded(self, words: str) -> str:
        """Add to the words of a refusal the user's line that runs, or those at which the tasks wait."""
        return f"{words}."

    @property
    def has_lent(self) -> bool:
        """True if the flow waits for something that comes from outside, and is no operation."""
        return bool(self._lent or self._arriving)

    @property
    def is_connected(self) -> bool:
        """True while something may come by a connection, a pipe or a process that the flow has opened."""
        self._opened = [each for each in self._opened if not each.is_closing()]
        return bool(self._opened)

    def expect_unmixed(self) -> None:
        """Refuse what is recorded while another task waits for something from outside."""
        if self.unfinished > 1 and self.has_lent:
            self.refuse(AT_ONCE)

    def lend(self, foreign: asyncio.Future[Any]) -> asyncio.Future[Any]:
        """A future of this loop that is done when one of another loop is."""
        if self._mixes:
            self.refuse(AT_ONCE)
        own = FlowFuture(self)
        self._await_outside(own)

        def arrived(_: asyncio.Future[Any]) -> None:
            if not foreign.cancelled():
                foreign.exception()  # seen, as asyncio asks: a flow that was left meanwhile does not look
            if not own.done():
                own.set_result(None)

        def cancelled(_: asyncio.Future[Any]) -> None:
            if own.cancelled() and not foreign.done():
                foreign.cancel()

        foreign.add_done_callback(arrived)
        own.add_done_callback(cancelled)
        foreign._asyncio_future_blocking = False
        own._asyncio_future_blocking = True
        return own

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call it in a thread that knows of which flow it is, as asyncio.to_thread does: a step there is refused."""
        if self._mixes:
            self.refuse(AT_ONCE)
        if executor is None or hasattr(executor, "_threads"):  # and not of processes, to which no context can be sent
            return self._host.run_in_executor(executor, partial(copy_context().run, func, *args))
        return self._host.run_in_executor(executor, func, *args)

    def _await_outside(self, future: asyncio.Future[Any]) -> None:
        """Count a future that something outside of the flow sets."""
        self._lent += 1

        def over(_: asyncio.Future[Any]) -> None:
            self._lent -= 1

        future.add_done_callback(over, context=NO_CONTEXT)


_LENT: Final = (
    "set_default_executor",
    "getaddrinfo",
    "getnameinfo",
    "create_server",
    "create_unix_server",
    "sendfile",
    "sock_recv",
    "sock_recv_into",
    "sock_recvfrom",
    "sock_recvfrom_into",
    "sock_sendall",
    "sock_sendto",
    "sock_connect",
    "sock_accept",
    "sock_sendfile",
    "add_reader",
    "remove_reader",
    "add_writer",
    "remove_writer",
    "_add_reader",
    "_remove_reader",
    "add_signal_handler",
    "remove_signal_handler",
)
"""Methods that a flow uses of the loop that carries it, as ordinary code does, again in each replay."""
_OPENING: Final = (
    "create_connection",
    "create_unix_connection",
    "create_datagram_endpoint",
    "start_tls",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "subprocess_exec",
    "subprocess_shell",
)
"""The same, of what returns a transport, alone or with its protocol."""


def _forward_to_host(name: str) -> Callable[..., Any]:
    def method(self: LendingLoop, *args: Any, **value: Any) -> Any:
        if self._mixes:
            self.refuse(AT_ONCE)
        return getattr(self._host, name)(*args, **value)

    return method


def _opening(name: str) -> Callable[..., Any]:
    begin = _forward_to_host(name)

    async def method(self: LendingLoop, *args: Any, **value: Any) -> Any:
        opened = await begin(self, *args, **value)
        self._opened.append(opened[0] if isinstance(opened, tuple) else opened)
        return opened

    return method


for _name in _LENT:
    setattr(LendingLoop, _name, _forward_to_host(_name))
for _name in _OPENING:
    setattr(LendingLoop, _name, _opening(_name))


def _absent(name: str) -> Callable[..., Any]:
    def method(self: LendingLoop, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(
            f"Write `await`, and leave out loop.{name}(...): the flow's event loop runs already, and ends with the flow."
            if name in _RUNS
            else f"Leave out loop.{name}(...), or use it in a step: the event loop of a flow has no such method."
        )

    return method


_RUNS: Final = frozenset({"run_until_complete", "run_forever", "stop", "close", "shutdown_default_executor"})
for _name, _member in vars(asyncio.AbstractEventLoop).items():
    if not _name.startswith("_") and callable(_member) and _name not in vars(LendingLoop):
        setattr(LendingLoop, _name, _absent(_name))
