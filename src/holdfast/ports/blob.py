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
        """What was put there; no tenant is given what only another has put. The caller checks it against its hash.

        Raises NotFound where there is none, StoreError where nobody can know for now.
        """
        ...


class BlobPlace(Blobs, Protocol):
    """A place for large payloads beside the store's own tables. It belongs to one store."""

    async def prune(self, before: str, kept: Collection[str]) -> int:
        """Remove what is kept for the months before `before` (`2026-09`), but for the hashes `kept`; how many bytes that
        were. It may be interrupted anywhere and be done again; what is no payload is left alone. Raises StoreError."""
        ...
