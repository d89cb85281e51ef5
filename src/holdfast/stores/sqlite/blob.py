"""Large payloads in a table, once each, by what they contain, and for whom they are kept.

Never here: what they mean, or when they may go.
"""

from __future__ import annotations

import hashlib

import apsw

from holdfast.errors import NotFound
from holdfast.stores.sqlite.context import StorePort, rows, value


class Blobs(StorePort):
    """Keeps ports.Blobs."""

    async def put(self, tenant: str, month: str, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()

        def write(db: apsw.Connection) -> None:
            rows(db, "put_blob", (sha256, content))
            rows(db, "put_blob_home", (tenant, month, sha256))

        await self._writer.write(write)
        return sha256

    async def get(self, tenant: str, month: str, sha256: str) -> bytes:
        asked = {"tenant": tenant, "month": month, "sha256": sha256}
        content: bytes | None = await self._reader.ask(lambda db: value(db, "blob", asked))
        if content is None:
            raise NotFound(f"There is no blob {sha256} of tenant {tenant!r} in this store.", sha256=sha256)
        return content
