"""Server-sent events as a provider sent them, each with the line breaks that end it, and its data.

Never here: a connection, a provider's format.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.models.stream import STREAM_BYTES, ReplyTooLarge, expect_little

_ENDS: Final = ("\r\n\r\n", "\n\n", "\r\r")


class StreamEvent(NamedTuple):
    """One event. `data` is empty for a comment, which keeps a connection open."""

    text: str
    data: bytes


class EventSplitter:
    """The events of a body, as far as it has come. A character may be split between two pieces of it."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[StreamEvent]:
        """The events that `piece` completes. Raises ReplyTooLarge."""
        self._size += len(piece)
        if self._size > STREAM_BYTES:
            raise ReplyTooLarge(f"its stream has more than {STREAM_BYTES // 1024 // 1024} MiB")
        self._rest += self._decoder.decode(piece)
        while (end := self._end()) is not None:
            text, self._rest = self._rest[:end], self._rest[end:]
            yield StreamEvent(text, _data_of(text))
        expect_little(len(self._rest), 0)

    def rest(self) -> Iterator[StreamEvent]:
        """The event at the end of the body, if no empty line ends it."""
        text, self._rest = self._rest, ""
        if text.strip():
            yield StreamEvent(f"{text}\n\n", _data_of(text))

    def _end(self) -> int | None:
        found = [(at, len(end)) for end in _ENDS if (at := self._rest.find(end)) >= 0]
        return None if not found else sum(min(found))


def _data_of(text: str) -> bytes:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found = [line.removeprefix("data:").removeprefix(" ") for line in lines if line.startswith("data:")]
    return "\n".join(found).encode()
