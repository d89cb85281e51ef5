"""A reply that comes in pieces: server-sent events off the bytes of a body, and what an assembly of them has to do.

The format of the events: html.spec.whatwg.org, "Server-sent events"; lines end as both providers end them, in LF or CRLF.

Never here: a connection, a provider's format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec

from holdfast.ports import ModelDelta

REPLY_BYTES: Final = 4 * 1024 * 1024
"""Of a reply, unpacked: several times the longest answer that a model gives, and no longer to read than others may wait."""
COLLECTIONS: Final = 50_000
"""Lists and objects in a reply, and brackets in its words: what is made of them takes a hundred times their bytes."""
STREAM_BYTES: Final = 16 * REPLY_BYTES
"""Of a reply in pieces: an event wraps a word of it in some two hundred bytes."""


class ReplyTooLarge(Exception):
    """There is too much of something in a reply; its words say of what."""


def expect_little(size: int, brackets: int) -> None:
    """Raises Excess."""
    if size > REPLY_BYTES:
        raise ReplyTooLarge(f"it has more than {REPLY_BYTES // 1024 // 1024} MiB")
    if brackets > COLLECTIONS:
        raise ReplyTooLarge(f"it has more than {COLLECTIONS:,} lists and objects")


class Allowance:
    """The room left in one reply, however small its pieces are."""

    def __init__(self) -> None:
        self._size = self._brackets = 0

    def take(self, piece: str) -> str:
        """`piece`, counted. Raises Excess."""
        self._size += len(piece.encode())
        self._brackets += piece.count("[") + piece.count("{")
        expect_little(self._size, self._brackets)
        return piece


class Assembly(Protocol):
    """Makes a provider's whole reply of its events."""

    def add(self, data: bytes) -> Sequence[ModelDelta]:
        """Return the deltas of an event that are worth passing on at once. Raises UnusableReply, Excess, and the errors that
        data in another format than the provider's leads to."""
        ...

    def is_complete(self) -> bool:
        """Return True if the provider has marked the reply as complete."""
        ...

    def body(self) -> dict[str, Any]:
        """The JSON of the reply, as it would have come whole."""
        ...


class Events:
    """The events of a body, as far as it has come."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The data of those that `piece` completes. Raises Excess."""
        *lines, rest = piece.split(b"\n")
        for line in lines:
            self._line += line
            whole, self._line = bytes(self._line), bytearray()
            if (data := self._end_of(whole.removesuffix(b"\r"))) is not None:
                yield data
        self._line += rest
        expect_little(len(self._line) + self._size, 0)

    def _end_of(self, line: bytes) -> bytes | None:
        """Return the data of the event that ends with this line; None if none ends here."""
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
            self._size += len(value)
            expect_little(self._size, 0)
        if line or not self._data:
            return None
        data, self._data, self._size = b"\n".join(self._data), [], 0
        return data


def decoded(data: bytes) -> Any:
    """An event's JSON. Raises Excess, DecodeError."""
    expect_little(len(data), data.count(b"[") + data.count(b"{"))
    return msgspec.json.decode(data)


def parsed_object(text: str) -> dict[str, Any] | None:
    """The object that a tool is called with; None where the text that has come is none, as when it was cut short."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
