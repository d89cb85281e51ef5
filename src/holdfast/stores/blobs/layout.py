"""The name of a payload in a folder or a bucket: TENANT/MONTH/SHA256, the same in both, so that one can be copied to the
other.

Never here: reading or writing.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Collection
from typing import Final

_PLAIN: Final = frozenset((string.ascii_lowercase + string.digits + "_-").encode())
_MONTH: Final = re.compile(r"\d{4}-\d{2}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_LONGEST: Final = 200
"""Bytes of one part; file systems take 255."""


def place(tenant: str, month: str, sha256: str) -> tuple[str, str, str]:
    """The three parts of the name. Different tenants never share the first, whatever they are called."""
    return part(tenant), part(month), part(sha256)


def is_old(parts: tuple[str, ...], before: str, referenced: Collection[str]) -> bool:
    """Return True if this names a payload of a month before `before` that is not one of `referenced`."""
    if len(parts) != 3 or _MONTH.fullmatch(parts[1]) is None or _SHA256.fullmatch(parts[2]) is None:
        return False
    return parts[1] < before and parts[2] not in referenced


def part(name: str) -> str:
    """`name` as one part of a path: percent-encoded but for a-z, 0-9, `_` and `-`.

    So no name is `..` or holds a `/`, and names that differ in case only differ on every file system. The empty name is
    `%`; one that would be too long is `%.` with its SHA-256. No encoded name looks like either.
    """
    encoded = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in name.encode())
    if len(encoded) > _LONGEST:
        return f"%.{hashlib.sha256(name.encode()).hexdigest()}"
    return encoded or "%"
