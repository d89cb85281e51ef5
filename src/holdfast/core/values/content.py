"""Content parts: what a message holds besides its text, known by the hash of its bytes.

The bytes are a blob, so that a picture of ten messages is kept once, and neither a history nor a request that is compared
with one holds them. Never here: reading or writing a blob, what a provider makes of a part.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["image", "audio", "document"]

MAX_BYTES: Final = 20 * 1024 * 1024
"""Of a part."""
MAX_PARTS: Final = 20
"""Of a message."""
_SHOWN_DIGITS: Final = 12


class ContentPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """An image, a recording or a document. Its bytes are kept for the run's tenant and for `month`; `content` has them only in
    a request that is about to leave."""

    type: Kind
    media_type: str
    sha256: str
    size_bytes: int
    month: str = ""
    content: bytes = b""

    def __str__(self) -> str:
        """`[image image/png 120 kB sha256:0a1b2c3d4e5f]`"""
        return f"[{self.type} {self.media_type} {_size(self.size_bytes)} sha256:{self.sha256[:_SHOWN_DIGITS]}]"


Piece: TypeAlias = ContentPart | str
"""Of what a person says: a part, or words between two."""


def parts_of(pieces: Iterable[Piece]) -> list[ContentPart]:
    return [piece for piece in pieces if not isinstance(piece, str)]


def are_same(some: Sequence[ContentPart], others: Sequence[ContentPart]) -> bool:
    """True if they have the same bytes, wherever these are kept."""
    return [(each.type, each.sha256) for each in some] == [(each.type, each.sha256) for each in others]


def labelled(value: Any) -> Any:
    """Plain JSON data for a person to read: each content part in it, whether its bytes stand there or their hash, as its
    label."""
    if isinstance(value, list):
        return [labelled(each) for each in value]
    if not isinstance(value, dict):
        return value
    part = _part_in(value)
    return {name: labelled(each) for name, each in value.items()} if part is None else str(part)


def _part_in(value: dict[str, Any]) -> ContentPart | None:
    found = value
    with suppress(KeyError, TypeError, ValueError):
        if "data" in value:
            content = b64decode(value["data"], validate=True)
            known = {"sha256": sha256(content).hexdigest(), "size_bytes": len(content)}
            found = {"type": value["type"], "media_type": value["media_type"], **known}
    try:
        return msgspec.convert(found, ContentPart)
    except msgspec.ValidationError:
        return None


def _size(size_bytes: int) -> str:
    return f"{size_bytes} B" if size_bytes < 1000 else f"{size_bytes / 1000:,.0f} kB"
