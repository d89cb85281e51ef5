"""An engine in a thread of its own, and its objects with methods that block: all made of the classes that await.

Editors and type checkers read `__init__.pyi`, which `make reference` writes from the same classes. Never here: a method that
the engine has.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from types import FunctionType, GenericAlias, TracebackType
from typing import Any, Final, NoReturn, Self, TypeVar
from weakref import WeakSet

from holdfast.compose.engine import Engine as AsyncEngine
from holdfast.errors import UsageError
from holdfast.platform.lasting_loop import LastingAsyncioLoop
from holdfast.platform.own_loop import Call, Entry, Stream
from holdfast.service.control.control import Control as AsyncControl
from holdfast.service.control.handle import Run as AsyncRun
from holdfast.service.control.supervisor import Supervisor as AsyncSupervisor

F = TypeVar("F", bound=Callable[..., Any])


class Facade:
    """An object of an engine, whose methods block."""

    _of: Any

    __class_getitem__: Any = classmethod(GenericAlias)

    def __init__(self, of: Any) -> None:
        self._of = of

    def __init_subclass__(cls, of: type[Any]) -> None:
        for name, member in public(of).items():
            setattr(cls, name, _blocking(name, member) if isinstance(member, FunctionType) else _attribute(name, member))

    def __repr__(self) -> str:
        return repr(self._of)

    def __await__(self) -> NoReturn:
        raise UsageError("Leave out `await`: a call of holdfast.sync has done its work when it returns.")


def public(of: type[Any]) -> dict[str, Any]:
    """Return the methods and attributes of a class that a facade has. What is entered belongs to servers, and is left out."""
    attributes = dict.fromkeys(inspect.get_annotations(of))
    members = {
        name: member
        for name, member in inspect.getmembers_static(of)
        if isinstance(member, FunctionType | property) and getattr(member, "through", None) is not Entry
    }
    return {name: member for name, member in (attributes | members).items() if not name.startswith("_")}


def _attribute(name: str, declared: property | None) -> property:
    return property(
        lambda self: getattr(self._of, name), doc=inspect.getdoc(declared) or f"The same as of what awaits: `{name}`."
    )


def _blocking(name: str, method: FunctionType) -> Callable[..., Any]:
    @functools.wraps(method)
    def blocking(self: Facade, *args: Any, **options: Any) -> Any:
        return _done(getattr(self._of, name)(*args, **options))

    return _signed(blocking, method)


def _signed(blocking: F, awaited: Callable[..., Any], returns: Any = None) -> F:
    """Have `help()` show what a call that blocks returns: an iterator where the other is an asynchronous one."""
    signature = inspect.signature(awaited)
    shown = re.sub(r"^AsyncGenerator\[(.+), None\]$", r"Iterator[\1]", str(signature.return_annotation))
    if returns is not None or shown != str(signature.return_annotation):
        setattr(blocking, "__signature__", signature.replace(return_annotation=returns or shown))  # noqa: B010 - no function declares it
    return blocking


def _done(result: Any) -> Any:
    """Return what a caller that blocks gets of a call's result."""
    match result:
        case Call():
            return _done(result.loop.awaited(result.take_coroutine()))
        case Stream():
            return _iterated(result)
        case _:
            facade = next((facade for kind, facade in _FACADES if isinstance(result, kind)), None)
            return result if facade is None else facade(result)


def _iterated(stream: Stream[Any]) -> Iterator[Any]:
    async def following() -> Any:
        return await anext(stream)

    async def close() -> None:
        await stream.aclose()

    try:
        with suppress(StopAsyncIteration):
            while True:
                yield stream.loop.awaited(following())
    finally:
        with suppress(UsageError):  # the engine was closed, and the stream with it
            stream.loop.awaited(close())


class Run(Facade, of=AsyncRun):
    """A handle on a run: ask it and wait for it, from any thread."""


class Supervisor(Facade, of=AsyncSupervisor):
    """A supervisor: takes tasks or refuses them, and says what became of those that it took."""


class Control(Facade, of=AsyncControl):
    """An engine in a trace, or for one tenant."""


class Engine(Control, of=AsyncEngine):
    """An engine in a thread of its own, open until it is closed. Any thread may call it, also at the same time."""

    def __init__(self, opening: AbstractAsyncContextManager[AsyncEngine]) -> None:
        self._loop = LastingAsyncioLoop()
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._opened: Future[AsyncEngine] = Future()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._live, args=(opening,), name="holdfast-engine", daemon=True)
        self._thread.start()
        try:
            super().__init__(self._opened.result())
        except BaseException:  # also Ctrl-C, while it opens
            self._end()
            raise
        _close_at_exit(self)

    def _live(self, opening: AbstractAsyncContextManager[AsyncEngine]) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._run(opening))
        except BaseException as problem:  # noqa: BLE001 - it is raised where the engine is opened, or closed
            if self._opened.done():
                self._problem = problem
            else:
                self._opened.set_exception(problem)

    async def _run(self, opening: AbstractAsyncContextManager[AsyncEngine]) -> None:
        self._task = asyncio.current_task()
        if self._closing.is_set():
            return
        async with opening as engine:
            self._opened.set_result(engine)
            await self._closing.wait()

    def close(self) -> None:
        """Close the engine, as the end of `async with Engine.open(...)` does. Closing it again does nothing. Raises UsageError
        in the engine's own thread, which cannot wait for its own end."""
        if threading.current_thread() is self._thread:
            raise UsageError("Close the engine in another thread: this code runs in the engine's own. Nothing was done.")
        self._end()
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def _end(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._stop)
        self._thread.join()

    def _stop(self) -> None:
        self._closing.set()
        if self._task is not None and not self._opened.done():
            self._task.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> NoReturn:
        self.close()
        raise UsageError("Write `with holdfast.sync.open(...)`, without `async`; with it, Engine.open(...).")

    async def __aexit__(self, *_: object) -> None: ...


_FACADES: Final[Sequence[tuple[type[Any], type[Facade]]]] = (
    (AsyncRun, Run),
    (AsyncSupervisor, Supervisor),
    (AsyncControl, Control),
)
"""What stands for an object that a call returns."""


@functools.wraps(AsyncEngine.open)
def open_engine(*args: Any, **options: Any) -> Engine:
    return Engine(AsyncEngine.open(*args, **options))


_signed(open_engine, AsyncEngine.open, Engine.__name__)


_left_open: Final[WeakSet[Engine]] = WeakSet()


def _close_at_exit(engine: Engine) -> None:
    """Have an engine that is left open be closed before Python ends the threads in which its steps run: a step that finds
    none would fail."""
    if not _left_open:
        threading._register_atexit(_close_all)  # type: ignore[attr-defined]
    _left_open.add(engine)


def _close_all() -> None:
    for engine in [*_left_open]:
        engine.close()
