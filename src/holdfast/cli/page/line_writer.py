"""A stream of lines for a log, written so that a slow reader stops no run. Lines that it cannot take now wait, up to a bound;
further ones are dropped, counted, and reported once it reads again.

Never here: what a line says.
"""

from __future__ import annotations

import io
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

MAX_LINES: Final = 10_000
MAX_BYTES: Final = 8 * 1024 * 1024
"""Lines that wait for the reader, and their size: some seconds of a busy process."""
_AT_ONCE: Final = select.PIPE_BUF
"""Bytes that a pipe takes without waiting if it takes any."""
_IDLE_S: Final = 1.0
"""Time after which a thread without lines ends."""
_GATHER_S: Final = 0.01
"""Lines that come faster are written together: a write of each costs more than to make it."""
_MAX_WRITE: Final = 256 * 1024


class LineWriter:
    """A writer of whole lines. Safe to use in several threads; nothing is raised."""

    def __init__(self, stream: Callable[[], Any], report: Callable[[int], str]) -> None:
        """`stream` returns where lines go now. `report` returns the line that says how many were dropped."""
        self._stream = stream
        self._report = report
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._written_s = 0.0
        self._hurried = threading.Event()
        self._thread: threading.Thread | None = None
        self._unreported = 0
        self.dropped = 0
        """Number of lines that were given up."""

    def write(self, line: str, *, gathers: bool = False) -> None:
        """Write a line, at once if that takes no waiting; one that `gathers` waits for those that follow it at once."""
        stream = self._stream()
        try:
            if type(stream) is not io.TextIOWrapper:  # a display at a terminal or a test shows it
                if stream is not None:
                    stream.write(f"{line}\n")
                    stream.flush()
                return
            place = stream.fileno()
        except (OSError, ValueError):  # full, broken or closed
            self.dropped += 1
            return
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        with self._lock:
            now_s = time.monotonic()
            is_due = not gathers or now_s - self._written_s >= _GATHER_S
            if is_due and not self._waiting and len(data) <= _AT_ONCE and _takes(place):
                self._written_s = now_s
                self._put(place, data)
            elif len(self._waiting) >= MAX_LINES or self._bytes + len(data) > MAX_BYTES:
                self.dropped += 1
                self._unreported += 1
            else:
                self._waiting.append((place, data))
                self._bytes += len(data)
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=self._go_on, name="holdfast-log", daemon=True)
                    self._thread.start()
                elif len(self._waiting) == 1:
                    self._changed.notify_all()

    def flush(self, within_s: float) -> None:
        """Wait until all that waits is written, not longer than the given time."""
        self._hurried.set()
        with self._lock:
            self._changed.wait_for(lambda: not self._waiting, within_s)

    def _go_on(self) -> None:
        while True:
            with self._lock:
                if not self._changed.wait_for(lambda: bool(self._waiting), _IDLE_S):
                    self._thread = None
                    return
            self._hurried.wait(_GATHER_S)
            with self._lock:
                place, lines, size = self._waiting[0][0], list[bytes](), 0
                for where, data in self._waiting:
                    if where != place or (lines and size + len(data) > _MAX_WRITE):
                        break
                    lines.append(data)
                    size += len(data)
            self._put(place, b"".join(lines))  # without the lock: it may wait as long as the reader does
            with self._lock:
                for _ in lines:
                    self._waiting.popleft()
                self._bytes -= size
                self._written_s = time.monotonic()
                if self._unreported and not self._waiting:
                    self._waiting.append((place, f"{self._report(self._unreported)}\n".encode("utf-8", "backslashreplace")))
                    self._bytes, self._unreported = len(self._waiting[0][1]), 0
                self._changed.notify_all()

    def _put(self, place: int, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(place, data) :]
        except OSError:  # its reader is gone
            self.dropped += 1


def _takes(place: int) -> bool:
    """True if a file, a pipe or a terminal takes a short line now."""
    asked = select.poll()
    asked.register(place, select.POLLOUT)
    return bool(asked.poll(0))
