"""Large payloads in a table, once each, by what they contain, and for whom they are kept.

Never here: what they mean, or when they may go.
"""

from __future__ import annotations

import hashlib

from holdfast.errors import NotFound
from holdfast.stores.postgres.context import StorePort


class Blobs(StorePort):
    """Keeps ports.Blobs."""

    async def put(self, tenant: str, month: str, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        async with self._db.writing() as db:
            await db.execute(self._sql["put_blob"], sha256, content)
            await db.execute(self._sql["put_blob_home"], tenant, month, sha256)
        return sha256

    async def get(self, tenant: str, month: str, sha256: str) -> bytes:
        content: bytes | None = await self._db.value(self._sql["blob"], tenant, month, sha256)
        if content is None:
            raise NotFound(f"There is no blob {sha256} of tenant {tenant!r} in this store.", sha256=sha256)
        return content
