"""Large payloads whose place has been changed: what is new goes to the new one, what is older is still found.

Never here: copying from one to the other.
"""

from __future__ import annotations

from holdfast.errors import NotFound
from holdfast.ports import Blobs


class FallbackBlobs:
    """Keeps ports.Blobs in `now`, and finds what was put into `before`."""

    def __init__(self, now: Blobs, before: Blobs) -> None:
        self._now = now
        self._before = before

    async def put(self, tenant: str, month: str, content: bytes) -> str:
        return await self._now.put(tenant, month, content)

    async def get(self, tenant: str, month: str, sha256: str) -> bytes:
        try:
            return await self._now.get(tenant, month, sha256)
        except NotFound:
            pass
        try:
            return await self._before.get(tenant, month, sha256)
        except NotFound:
            raise NotFound(
                f"The blob {sha256}, kept for tenant {tenant!r} since {month}, is neither in {self._now!r} nor in the"
                " store's own table. If it was stored when HOLDFAST_BLOBS named another place, copy what is there to"
                " this one: the names are the same.",
                sha256=sha256,
            ) from None
