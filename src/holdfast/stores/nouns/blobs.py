"""Large payloads in a table, once each, by what they contain, and for whom they are kept.

Never here: what they mean, or when they may go.
"""

from __future__ import annotations

import hashlib

from holdfast.errors import NotFound
from holdfast.stores.nouns.tables import Noun, Steps, do


class Blobs(Noun):
    """Keeps ports.Blobs."""

    async def put(self, tenant: str, month: str, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()

        def steps() -> Steps[None]:
            yield do("put_blob", sha256, content)
            yield do("put_blob_home", tenant, month, sha256)

        await self._tables.transact(steps)
        return sha256

    async def get(self, tenant: str, month: str, sha256: str) -> bytes:
        for (content,) in await self._tables.ask("blob", tenant, month, sha256):
            return bytes(content)
        raise NotFound(f"There is no blob {sha256} of tenant {tenant!r} in this store.", sha256=sha256)
