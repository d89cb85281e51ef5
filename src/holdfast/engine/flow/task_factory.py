"""Tasks that the code of a step makes itself: what they raise is an error of the step, never the end of the process.

asyncio lets a SystemExit of any task out of the event loop, awaited or not, and all other runs of the process end with it. So
while an engine executes, the loop's task factory makes an ordinary error of it. A callback that exits
(`loop.call_soon(sys.exit)`) ends a process whose loop is not ours (lasting_loop): a loop has no such place for callbacks. Never
here: waiting for a task, what becomes of one that is left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context, ContextVar
from typing import Any, Final, Self, TypeVar

from holdfast.platform.border import EscapedException, is_signal

T = TypeVar("T")

is_step: Final[ContextVar[bool]] = ContextVar("holdfast_is_step", default=False)
"""True in the context of a step's code, and of the tasks that it makes."""


class TaskFactory:
    """The task factory of an event loop, for as long as an engine executes there; around the factory that was set before."""

    def __init__(self, loop: asyncio.AbstractEventLoop, inner: Any) -> None:
        self._loop = loop
        self._inner = inner
        self._engines = 0

    @classmethod
    def of_loop(cls) -> AbstractContextManager[Any]:
        """Return that of the running loop: the one which an earlier engine has set, or a new one."""
        loop = asyncio.get_running_loop()
        try:
            known = loop.get_task_factory()
        except NotImplementedError:  # some loops of other libraries make their tasks themselves
            return nullcontext()
        return known if isinstance(known, cls) else cls(loop, known)

    def __enter__(self) -> Self:
        self._loop.set_task_factory(self)
        self._engines += 1
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the earlier factory with the last engine, unless another was set meanwhile, which may call this one."""
        self._engines -= 1
        if self._engines == 0 and self._loop.get_task_factory() is self:
            self._loop.set_task_factory(self._inner)

    def __call__(self, loop: asyncio.AbstractEventLoop, code: Any, **options: Any) -> Any:
        context: Context | None = options.get("context")
        is_of_step = is_step.get() if context is None else context.get(is_step, False)
        if is_of_step and isinstance(code, Coroutine):
            code = _Contained(code)
        return asyncio.Task(code, loop=loop, **options) if self._inner is None else self._inner(loop, code, **options)


class _Contained(Coroutine[Any, Any, T]):
    """A coroutine that raises ordinary errors, with the attributes of the one inside. Unlike an `async def` around that, it
    leaves no coroutine that was never awaited where its task is cancelled before it begins."""

    __slots__ = ("_code",)

    def __init__(self, code: Coroutine[Any, Any, T]) -> None:
        self._code = code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._code, name)

    def __await__(self) -> Generator[Any, Any, T]:
        return self._code.__await__()

    def send(self, value: Any, /) -> Any:
        try:
            return self._code.send(value)
        except (SystemExit, KeyboardInterrupt) as problem:
            raise _ordinary(problem) from None

    def throw(self, *problem: Any) -> Any:
        try:
            return self._code.throw(*problem)
        except (SystemExit, KeyboardInterrupt) as raised:
            raise _ordinary(raised) from None

    def close(self) -> None:
        self._code.close()


def _ordinary(problem: BaseException) -> BaseException:
    return problem if is_signal(problem) else EscapedException(problem)
