"""Data of users' making inside events: JSON bytes kept as they were encoded, or the hash of a blob that holds them.

Never here: reading a blob, redacting, validating against a user's model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

INLINE_BYTES: Final = 64 * 1024
"""Larger payloads live in the blob store: an event stays small enough to be folded without a thought."""

_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode

SEALED: Final = "[sensitive:"
"""How a sensitive text begins that is sealed."""
SENSITIVE: Final = "x-holdfast-sensitive"
"""What the JSON Schema of a sensitive text has, for processes without the code that declares it."""


def is_sensitive(schema: Any) -> bool:
    """Return True if texts of a JSON Schema are stored sealed: then no error shows a value."""
    return isinstance(schema, Mapping) and SENSITIVE.encode() in msgspec.json.encode(schema)


class Payload(msgspec.Struct, frozen=True, omit_defaults=True):
    """One JSON value. Exactly one of `json` (its bytes) and `blob` (the sha256 of its bytes) is set.

    A blob is kept for the run's tenant and for `month` (`2026-11`), in which it was stored.
    """

    json: msgspec.Raw = msgspec.Raw()
    blob: str | None = None
    size_bytes: int = 0
    month: str = ""

    def value(self) -> Any:
        """The value of an inline payload. Raises LookupError for one that lives in a blob."""
        if self.blob is not None:
            raise LookupError(f"this payload of {self.size_bytes} bytes lives in the blob {self.blob}")
        return _decode(self.json)


def inline(value: Any) -> Payload:
    """`value`, which must be plain JSON data, as an inline payload."""
    return Payload(json=msgspec.Raw(msgspec.json.encode(value)))


NULL: Final = inline(None)


def digest(value: Any) -> str:
    """The sha256 of `value` in canonical form: equal data has equal digests, whatever the order of its keys."""
    return hashlib.sha256(_encode_sorted(value)).hexdigest()
