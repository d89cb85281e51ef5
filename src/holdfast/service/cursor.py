"""Cursors of lists that hide rows: sealed, so that the place where a page ended tells nothing of what stands there.

A sealed cursor is made with a secret of the store, so every process takes those of the others, also after a restart. It is for
one list of one tenant. The same place is the same cursor: one is encrypted with a stream that follows from its own HMAC (as in
RFC 5297), and padded, so its length says little. Never here: which rows are hidden (permission).
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from itertools import count
from typing import Final

from holdfast.errors import CursorLost, HoldfastError, InvalidInput

_SEALED: Final = "~"
"""How a sealed cursor begins; no name of a run, gate or call does."""
_TAG_BYTES: Final = 16
_STEP_BYTES: Final = 64
"""Places are padded to a multiple of this."""
_MAX_CHARACTERS: Final = 8_192
_SHOWN: Final = 20
"""Where a message has so many signs of a place, or all of a shorter one, it shows it."""


def seal(key: bytes, of: str, place: str) -> str:
    """Return a cursor that stands for a place in the list `of`."""
    text = place.encode("utf-8", "surrogateescape") + b"\x01"
    text += bytes(-len(text) % _STEP_BYTES)
    tag = _tag(key, of, text)
    return _SEALED + urlsafe_b64encode(tag + _hidden(key, tag, text)).decode().rstrip("=")


def open_(key: bytes, of: str, cursor: str) -> str:
    """Return the place that a cursor stands for. Raises InvalidInput for one of another list or another tenant, and for an
    invented one: trying places would show how many rows of others stand between."""
    if not is_sealed(cursor):
        raise no_cursor(cursor)
    sealed = cursor[len(_SEALED) :]
    try:
        raw = urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4)) if len(sealed) <= _MAX_CHARACTERS else b""
    except ValueError:
        raw = b""
    tag, text = raw[:_TAG_BYTES], _hidden(key, raw[:_TAG_BYTES], raw[_TAG_BYTES:])
    if not hmac.compare_digest(tag, _tag(key, of, text)):
        raise no_cursor(cursor)
    return text.rstrip(b"\0")[:-1].decode("utf-8", "surrogateescape")


def is_sealed(cursor: str) -> bool:
    """True for what looks like a sealed cursor."""
    return cursor.startswith(_SEALED)


def no_cursor(cursor: str) -> InvalidInput:
    """Return the error for a cursor that no list ended with."""
    return InvalidInput(f"{cursor!r:.80} is no cursor of this list; say the one that the page before ended with.")


def problem_of_cursor(problem: HoldfastError, cursor: str, place: str) -> HoldfastError:
    """Return the message of a problem for the sender of `cursor`, without the place that it stands for."""
    if isinstance(problem, CursorLost):
        return CursorLost(
            f"What came after the cursor {cursor!r:.80} is not known any more. Begin again from the start, and skip by run and"
            " seq what you have already."
        )
    return no_cursor(cursor) if place != cursor and place[:_SHOWN] in problem.message else problem


def _tag(key: bytes, of: str, text: bytes) -> bytes:
    return hmac.digest(key, b"tag\0" + of.encode() + b"\0" + text, "sha256")[:_TAG_BYTES]


def _hidden(key: bytes, tag: bytes, text: bytes) -> bytes:
    """The text with the stream of its tag; twice is the text again."""
    stream = b""
    for number in count():
        if len(stream) >= len(text):
            return bytes(one ^ other for one, other in zip(text, stream, strict=False))
        stream += hmac.digest(key, b"stream\0" + tag + number.to_bytes(4, "big"), "sha256")
    raise AssertionError  # count() has no end
