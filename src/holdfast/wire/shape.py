"""The number of fields in a message, counted from its bytes: a message with too many is never built. Two bytes on the wire may
be an object in memory, and a message of 4 MiB two million of them.

Never here: what a field means.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from holdfast.errors import InvalidInput

MAX_FIELDS: Final = 30_000
"""Of one message, with all that it holds: more than the largest registration has, and looked through in ten milliseconds."""

_MAX_SHIFT: Final = 63


def decode(kind: Any, raw: bytes) -> Any:
    """The message of the class `kind` that `raw` is. Raises InvalidInput for what is none, and for one of too many fields."""
    try:
        few = _has_few_fields(kind.DESCRIPTOR, raw)
        message = kind.FromString(raw) if few else None
    except Exception as problem:  # noqa: BLE001 - whatever the decoder says of bytes that are none of its messages
        raise InvalidInput(f"This is no {kind.DESCRIPTOR.name}: {problem}. Nothing was done.") from None
    if message is None:
        raise InvalidInput(
            f"This {kind.DESCRIPTOR.name} has more than {MAX_FIELDS} fields in all, and no message may. Nothing was done: say"
            " it in several."
        )
    return message


def _has_few_fields(descriptor: Any, raw: bytes) -> bool:
    """Raises ValueError, IndexError for bytes that are no message."""
    waiting, seen = [(descriptor, 0, len(raw))], 0
    while waiting:
        of, at, end = waiting.pop()
        messages = _messages(of)
        while at < end:
            seen += 1
            if seen > MAX_FIELDS:
                return False
            tag, at = raw[at], at + 1
            if tag >= 0x80:  # few tags and lengths have more than one byte
                tag, at = _varint(raw, at - 1)
            length = 0
            match tag & 7:
                case 0:
                    _, at = _varint(raw, at)
                case 1 | 5 as kind:
                    length = 8 if kind == 1 else 4
                case 2:
                    length, at = raw[at], at + 1
                    if length >= 0x80:
                        length, at = _varint(raw, at - 1)
                    inner = messages.get(tag >> 3)
                    if inner is not None:
                        waiting.append((inner, at, at + length))
                case 3 | 4:
                    pass  # the bounds of a group, which none of our messages has
                case kind:
                    raise ValueError(f"a field is of the kind {kind}")
            at += length
            if at > end:
                raise ValueError("it ends too early")
    return True


@lru_cache(maxsize=256)
def _messages(descriptor: Any) -> dict[int, Any]:
    """The fields of a message that are messages themselves: the descriptor of each by its number."""
    return {field.number: field.message_type for field in descriptor.fields if field.message_type is not None}


def _varint(raw: bytes, offset: int) -> tuple[int, int]:
    """A number, and where what follows it begins."""
    value = shift = 0
    while True:
        byte = raw[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7
        if shift > _MAX_SHIFT:
            raise ValueError("a number has more than 64 bits")
