"""Large payloads, by the hash of their content.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol


class Blobs(Protocol):
    """Large payloads, each kept for a tenant and a month, by the sha256 of its content."""

    async def put(self, tenant: str, month: str, content: bytes) -> str:
        """Store `content` durably, before any event names it; what is there already is not stored again. Returns its hash.

        Raises StoreError: then nothing may name it.
        """
        ...

    async def get(self, tenant: str, month: str, sha256: str) -> bytes:
        """Return the stored bytes. A tenant never gets bytes that only another tenant has stored. The caller checks them
        against their hash.

        Raises NotFound if there are none, StoreError if that cannot be known for now.
        """
        ...


class BlobPlace(Blobs, Protocol):
    """A place for large payloads beside the store's own tables. It belongs to one store."""

    async def prune(self, before: str, referenced: Collection[str]) -> int:
        """Remove what is kept for the months before `before` (`2026-09`), but for the hashes `referenced`; how many bytes that
        were. It may be interrupted anywhere and be done again; what is no payload is left alone. Raises StoreError."""
        ...
