"""The event loop of a process or thread of ours: a callback that exits does not end it.

asyncio lets a SystemExit of a callback (`loop.call_soon(sys.exit)`) out of the loop, and every run there would end with it.
What is ready stays ready, so the loop is run again. Only the task that the loop runs for may end it, and a signal. Never here:
tasks that the code of a step makes (engine/flow/task_factory), the loop of a program that only uses an engine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.platform.border import is_signal, text_of

if TYPE_CHECKING:
    _Loop = asyncio.AbstractEventLoop
else:
    _Loop = object

log = logging.getLogger("holdfast")

EXITED: Final = (
    "holdfast: raise an error in the step itself: a callback of the event loop has raised what would end the process"
    " (%s). The process goes on, and so does the step."
)


class LastingLoop(_Loop):
    """A mixin before the class of an event loop, which runs on after a callback has raised SystemExit or KeyboardInterrupt."""

    _main: asyncio.Future[Any] | None = None
    lasts = False
    """True while it runs, or will at once again: between the callback that exits and what is next, `is_running` says no."""

    def run_until_complete(self, future: Any) -> Any:
        self._main = main = asyncio.ensure_future(future, loop=self)
        try:
            return super().run_until_complete(main)
        finally:
            self._main = None

    def run_forever(self) -> None:
        self.lasts = True
        try:
            self._run_on()
        finally:
            self.lasts = False

    def _run_on(self) -> None:
        while True:
            try:
                super().run_forever()
            except (SystemExit, KeyboardInterrupt) as problem:
                main = self._main
                if main is None or is_signal(problem) or _has_raised(main, problem):
                    raise
                log.error(EXITED, text_of(problem), exc_info=problem)
                if main.done():
                    return
            else:
                return


class LastingAsyncioLoop(LastingLoop, asyncio.SelectorEventLoop):
    """The loop of the standard library."""


def _has_raised(main: asyncio.Future[Any], problem: BaseException) -> bool:
    return main.done() and not main.cancelled() and main.exception() is problem


def fastest() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the class of uvloop's loop where that is installed (the extra `fleet`), or of the standard library's."""
    try:
        from uvloop import Loop  # noqa: PLC0415 - of an extra
    except ImportError:
        return LastingAsyncioLoop
    return type("LastingUvloop", (LastingLoop, Loop), {})
