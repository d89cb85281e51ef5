"""What every place for large payloads promises (holdfast.ports.Blobs), as tests; see test_blob_conformance.

Two places that come from the same `connect` are two processes, as far as these tests can tell.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

import pytest

from holdfast.errors import NotFound
from holdfast.ports import BlobPlace, Blobs

Connect = Callable[[], Awaitable[Blobs]]
ConnectPlace = Callable[[], BlobPlace]

MONTH = "2026-11"
TENANTS = [
    "acme",
    "Acme",
    "ACME",
    "ac/me",
    "../acme",
    ".",
    "..",
    "",
    "a" * 300,
    "a" * 301,
    "%2E%2E",
    "%",
    "äöü 🙂",
    "a\nb",
    "a\\b",
    "con",
    "acme/2026-11",
]


class BlobConformance:
    """Every test is a promise; `connect` is the place's."""

    @pytest.mark.parametrize("content", [b"", b"\0\xff not text", b"x" * 12_000_000], ids=["empty", "bytes", "12 MB"])
    async def test_a_blob_comes_back_by_the_hash_of_its_content(self, connect: Connect, content: bytes) -> None:
        mine, theirs = await connect(), await connect()
        sha256 = await mine.put("acme", MONTH, content)
        assert sha256 == hashlib.sha256(content).hexdigest()
        assert await theirs.get("acme", MONTH, sha256) == content

    async def test_the_same_content_may_be_put_again_and_by_many_at_once(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        content = b"the same" * 1000
        hashes = await asyncio.gather(*(each.put("acme", MONTH, content) for each in (mine, theirs) * 8))
        assert len(set(hashes)) == 1
        assert await mine.get("acme", MONTH, hashes[0]) == content
        assert await theirs.put("acme", "2026-12", content) == hashes[0]
        assert await mine.get("acme", "2026-12", hashes[0]) == content

    async def test_what_was_not_put_is_not_found(self, connect: Connect) -> None:
        place = await connect()
        sha256 = await place.put("acme", MONTH, b"content")
        for month, asked in [(MONTH, "0" * 64), ("2026-12", sha256), (MONTH, f"../{MONTH}/{sha256}"), (MONTH, "")]:
            with pytest.raises(NotFound):
                await place.get("acme", month, asked)

    async def test_no_tenant_is_given_what_only_another_has_put(self, connect: Connect) -> None:
        """Whatever they are called: a name that is a path, or like another but for case, is a name like any other."""
        place = await connect()
        hashes = {}
        for tenant in TENANTS:
            with pytest.raises(NotFound):
                await place.get(tenant, MONTH, hashlib.sha256(repr(TENANTS).encode()).hexdigest())
            hashes[tenant] = await place.put(tenant, MONTH, f"of {tenant!r}".encode())
        for tenant, sha256 in hashes.items():
            assert await place.get(tenant, MONTH, sha256) == f"of {tenant!r}".encode()
            for other in TENANTS:
                if other != tenant:
                    with pytest.raises(NotFound):
                        await place.get(other, MONTH, sha256)


class PlaceConformance:
    """What every place beside the store's tables promises on top (holdfast.ports.BlobPlace)."""

    async def test_old_months_go_but_for_what_is_still_meant(self, connect_place: ConnectPlace) -> None:
        place = connect_place()
        old = {tenant: await place.put(tenant, "2026-08", b"old of " + repr(tenant).encode()) for tenant in TENANTS}
        older = await place.put("acme", "2025-12", b"older")
        kept = await place.put("acme", "2026-08", b"still meant")
        new = await place.put("acme", "2026-09", b"new")
        sizes = sum(len(b"old of " + repr(tenant).encode()) for tenant in TENANTS)
        assert await place.prune("2026-09", {kept}) == sizes + len(b"older")
        for tenant, sha256 in old.items():
            with pytest.raises(NotFound):
                await place.get(tenant, "2026-08", sha256)
        with pytest.raises(NotFound):
            await place.get("acme", "2025-12", older)
        assert await place.get("acme", "2026-08", kept) == b"still meant"
        assert await place.get("acme", "2026-09", new) == b"new"
        assert await place.prune("2026-09", {kept}) == 0

    async def test_a_place_with_nothing_in_it_has_nothing_to_let_go_of(self, connect_place: ConnectPlace) -> None:
        assert await connect_place().prune("2026-09", ()) == 0
