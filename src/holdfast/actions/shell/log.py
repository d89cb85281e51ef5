"""The output of a script: cut into lines, masked, bounded. Lines that are not shown are counted, and the log reports the count.

A secret is masked before anything is cut, so that no cut leaves half of one behind. Never here: reading from anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

MAX_SECRET_BYTES: Final = 8192
"""The longest secret that a cut cannot halve."""


class LogBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of the shown output: the longest line, all lines together, and their number. `tail_bytes` of the end are kept
    besides."""

    line_bytes: int = 64 * 1024
    total_bytes: int = 16 * 1024 * 1024
    lines: int = 100_000
    tail_bytes: int = 16 * 1024


class LogCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The size of the output, and of the part that was not shown. `unread`: some process still held the log open, and was not
    waited for."""

    lines: int
    bytes: int
    dropped_lines: int
    dropped_bytes: int
    unread: bool = False


class Log:
    """The log of one script as it comes in."""

    def __init__(self, bounds: LogBounds, redact: Callable[[str], str]) -> None:
        self._bounds = bounds
        self._redact = redact
        self._line = bytearray()
        self._line_bytes = 0
        """Of the line that is coming in, also what is not kept of it."""
        self._tail = bytearray()
        self._bytes = self._newlines = self._shown_bytes = self._shown_lines = self._cut_bytes = 0
        self._is_open = False
        """Whether the last line so far has no newline."""

    def add(self, chunk: bytes) -> list[str]:
        """The lines that `chunk` has completed, as they may be shown."""
        self._bytes += len(chunk)
        self._newlines += chunk.count(b"\n")
        self._is_open = not chunk.endswith(b"\n") if chunk else self._is_open
        self._remember(chunk)
        shown: list[str] = []
        start = 0
        while not self._is_full():
            end = chunk.find(b"\n", start)
            if end < 0:
                self._append(chunk[start:])
                break
            self._append(chunk[start:end])
            shown.append(self._complete(ended=True))
            start = end + 1
        return shown

    def end(self) -> list[str]:
        """The last line, if no newline ended it, and what is to be said about what was not shown."""
        shown = [self._complete(ended=False)] if self._line_bytes else []
        dropped = self._lines - self._shown_lines
        if dropped:
            size = self._bytes - self._shown_bytes
            shown.append(f"… {dropped} more lines ({size} bytes) are not shown: {self._limit}.")
        return shown

    def counts(self, *, unread: bool) -> LogCounts:
        return LogCounts(
            lines=self._lines,
            bytes=self._bytes,
            dropped_lines=self._lines - self._shown_lines,
            dropped_bytes=self._bytes - self._shown_bytes + self._cut_bytes,
            unread=unread,
        )

    @property
    def tail(self) -> str:
        """The end of everything, masked as a whole. It begins with a whole line, unless that one alone is too long."""
        text = self._mask(bytes(self._tail[-self._kept_bytes :]))
        halved = MAX_SECRET_BYTES if self._bytes > self._kept_bytes else 0
        start = max(halved, len(text) - self._bounds.tail_bytes)
        if start <= 0:
            return text
        newline = text.find("\n", start - 1)
        return text[newline + 1 :] if 0 <= newline < len(text) - 1 else text[start:]

    @property
    def _lines(self) -> int:
        return self._newlines + self._is_open

    @property
    def _kept_bytes(self) -> int:
        return self._bounds.tail_bytes + MAX_SECRET_BYTES

    def _is_full(self) -> bool:
        return self._shown_bytes >= self._bounds.total_bytes or self._shown_lines >= self._bounds.lines

    @property
    def _limit(self) -> str:
        return f"a log is shown up to {self._bounds.total_bytes} bytes and {self._bounds.lines} lines"

    def _remember(self, chunk: bytes) -> None:
        self._tail += chunk[-self._kept_bytes :]
        if len(self._tail) > 2 * self._kept_bytes:
            del self._tail[: -self._kept_bytes]

    def _append(self, piece: bytes) -> None:
        room = self._bounds.line_bytes + MAX_SECRET_BYTES - len(self._line)
        self._line += piece[: max(0, room)]
        self._line_bytes += len(piece)

    def _complete(self, *, ended: bool) -> str:
        """The line as it may be shown. What is masked and then cut shows no secret whole, and no part of one."""
        raw, size = bytes(self._line), self._line_bytes
        self._line.clear()
        self._line_bytes = 0
        self._shown_lines += 1
        self._shown_bytes += size + ended
        text = self._mask(raw.removesuffix(b"\r"))
        if size <= self._bounds.line_bytes:
            return text
        if size > len(raw):
            text = text[: max(0, len(text) - MAX_SECRET_BYTES)]
        text = text[: self._bounds.line_bytes]
        cut = max(0, size - len(text.encode()))
        self._cut_bytes += cut
        return f"{text}… ({cut} bytes of this line are not shown)"

    def _mask(self, raw: bytes) -> str:
        return self._redact(raw.decode("utf-8", errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}"))
