"""A program's output on its way to this process's own, byte by byte, and line by line to a log.

Where this process writes to a terminal, the program does so too: to one of its own, of the same size, that changes nothing.
Never here: a process, what lines are kept for.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import termios
import threading
from collections.abc import Callable
from typing import Final

from holdfast.actions.shell.log import Log

_CHUNK_BYTES: Final = 64 * 1024
_OUTPUT_FLAGS: Final = 1
"""The place of a terminal's output flags among its attributes."""


class Passage:
    """The way of one stream. The program writes to `entry`, which is closed here once it has started."""

    def __init__(self, exit_: int, log: Log, on_lines: Callable[[list[str]], None]) -> None:
        """Output goes to the descriptor `exit_`. `on_lines` gets its lines as the log shows them, in a thread."""
        self._exit = exit_
        self._log = log
        self._on_lines = on_lines
        self._is_terminal = os.isatty(exit_)
        self._reading, self.entry = os.openpty() if self._is_terminal else os.pipe()
        if self._is_terminal:
            attributes = termios.tcgetattr(self.entry)
            attributes[_OUTPUT_FLAGS] &= ~termios.OPOST  # the terminal itself does that
            termios.tcsetattr(self.entry, termios.TCSANOW, attributes)
            self.resize()
        self._thread = threading.Thread(target=self._carry, name="holdfast-output", daemon=True)

    def start(self) -> None:
        """Begin to carry output; the program has its end of the way."""
        os.close(self.entry)
        self._thread.start()

    def abandon(self) -> None:
        """Close a way whose program has not started."""
        os.close(self.entry)
        os.close(self._reading)

    def resize(self) -> None:
        """Give the program's terminal the size of this process's."""
        if self._is_terminal:
            with contextlib.suppress(OSError):  # the program has ended
                size = fcntl.ioctl(self._exit, termios.TIOCGWINSZ, b"\0" * 8)
                fcntl.ioctl(self._reading, termios.TIOCSWINSZ, size)

    def join(self, limit_s: float) -> None:
        """Wait until everything has been carried, at most `limit_s`. Blocks."""
        self._thread.join(limit_s)

    def _carry(self) -> None:
        is_read = True
        try:
            while is_read and (chunk := self._read()):
                is_read = self._write(chunk)
                self._on_lines(self._log.add(chunk))
            self._on_lines(self._log.end())
        finally:
            os.close(self._reading)  # a program that goes on writing learns that its reader has left

    def _read(self) -> bytes:
        try:
            return os.read(self._reading, _CHUNK_BYTES)
        except OSError:  # a terminal whose last writer has gone
            return b""

    def _write(self, chunk: bytes) -> bool:
        """False if the reader of this process's output has left."""
        rest = memoryview(chunk)
        while rest:
            try:
                rest = rest[os.write(self._exit, rest) :]
            except OSError:
                return False
        return True
