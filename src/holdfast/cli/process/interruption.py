"""Ctrl-C and SIGTERM during a command that works on a run: the first has it hand over its work and leave, the second ends it on
the spot, which costs nothing that was committed.

Never here: words about the run.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Self

from holdfast.cli.page import terminal
from holdfast.cli.page.exit_code import INTERRUPTED

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """`with Interruption(words):` a signal is never lost, and `words()` are always printed before the process ends by one.

    A handler of Python's own, not the event loop's: that one would not be called while a step keeps the loop busy.
    """

    def __init__(self, words: Callable[[], str]) -> None:
        self._words = words
        self._before: list[Any] = []
        self._stop: Callable[[], object] | None = None
        self._instead: Callable[[], object] | None = None
        self._is_told = False

    def __enter__(self) -> Self:
        self._before = [signal.signal(each, self._handle_signal) for each in _SIGNALS]
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_told:
            return  # the process leaves; one signal more while it does would be a traceback
        for each, before in zip(_SIGNALS, self._before, strict=True):
            signal.signal(each, before)

    def stops(self, task: asyncio.Task[Any]) -> None:
        """From now on the first signal cancels `task`, which is the running one."""
        loop = asyncio.get_running_loop()
        self._stop = lambda: loop.call_soon_threadsafe(task.cancel)

    def instead(self, call: Callable[[], object] | None) -> None:
        """The next Ctrl-C has the running loop do `call`, and nothing else; the one after it counts as the first. None: the
        next one does."""
        loop = asyncio.get_running_loop()
        self._instead = None if call is None else lambda: loop.call_soon_threadsafe(call)

    def over(self) -> None:
        """From now on a signal ends the process on the spot, as it does before `stops`."""
        self._stop = None

    def tell(self) -> None:
        """Print the words; no signal prevents that."""
        self._is_told = True
        for each in _SIGNALS:
            signal.signal(each, _ignored)
        terminal.say_at_once(self._words())

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        instead, self._instead = self._instead, None
        if instead is not None and number == signal.SIGINT:
            instead()
            return
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()
            return
        self.tell()
        os._exit(INTERRUPTED)


def _ignored(number: int, frame: FrameType | None) -> None:
    """Do nothing. If SIG_IGN took its place, Python would print a traceback for a signal that is on its way meanwhile."""
