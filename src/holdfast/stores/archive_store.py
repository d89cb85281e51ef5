"""The archives of a store: the places to which they go, and from which they are read.

Never here: when a run may be archived (retention), what an archive looks like (archive).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from holdfast import ports
from holdfast.core.values.ids import RunId
from holdfast.errors import CorruptHistory, NotFound
from holdfast.stores.archive import Archive, pack, unpack
from holdfast.stores.month import Month
from holdfast.stores.nouns.blobs import Blobs
from holdfast.stores.nouns.tables import StoreParts

P = ParamSpec("P")
T = TypeVar("T")


class ArchiveStore:
    """The archives of one store."""

    def __init__(self, ground: StoreParts) -> None:
        own = Blobs(ground)
        self._places: Sequence[ports.Blobs] = (own,) if ground.elsewhere is None else (ground.elsewhere, own)
        """They go to the first of these, and are looked for in all of them."""
        self._tables = ground.tables
        self._clock = ground.clock
        self._alone = asyncio.Lock()
        self._last: tuple[str, Archive] | None = None
        """The archive that was read last, and its blob: a long history is read page by page."""

    def now_ms(self) -> int:
        """The store's time."""
        return self._clock.now_ms()

    def this_month(self) -> Month:
        return Month.at(self.now_ms())

    async def archive(self, run: RunId) -> Archive | None:
        """The archive of `run`, None if there is none. Raises NotFound for one that was removed for good."""
        if run >= self.this_month().first:
            return None  # nothing of a month is archived before it is over
        found = await self._tables.ask("archive", run)
        if not found:
            return None
        ((tenant, sha256, pruned_at_ms),) = found
        if sha256 is None:
            raise NotFound(
                f"The history of run {run} was removed for good by `holdfast store prune` ({Month.at(pruned_at_ms)}); only"
                " its row in lists is left.",
                run=run,
            )
        if self._last is None or self._last[0] != sha256:
            self._last = sha256, await self.read(run, tenant, sha256)
        return self._last[1]

    async def put(self, archive: Archive) -> tuple[str, int]:
        """Put `archive` where archives go, read it back from there and compare; its hash and its size. Raises CorruptHistory
        where it did not come back whole."""
        run, tenant = archive.run, archive.tenant
        packed = await self._aside(pack, run, tenant, archive.events, archive.effects)
        sha256 = await self._places[0].put(tenant, str(Month.of(run)), packed)
        if not await self._aside(_holds, await _packed(self._places[:1], run, tenant, sha256), archive):
            raise CorruptHistory(f"The archive of run {run} is not what was written. Nothing was removed.", run=run)
        return sha256, len(packed)

    async def read(self, run: RunId, tenant: str, sha256: str) -> Archive:
        """The archive of `run`, out of the first of the places that has it. Raises CorruptHistory."""
        return await self._aside(unpack, run, await _packed(self._places, run, tenant, sha256))

    async def _aside(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `work`, off the event loop: a history may be long. One runs at a time: many threads at work
        would each keep everything else here from Python's lock."""
        async with self._alone:
            return await asyncio.to_thread(work, *args, **kwargs)


def _holds(packed: bytes, archive: Archive) -> bool:
    return unpack(archive.run, packed) == archive


async def _packed(places: Sequence[ports.Blobs], run: RunId, tenant: str, sha256: str) -> bytes:
    for place in places:
        try:
            packed = await place.get(tenant, str(Month.of(run)), sha256)
        except NotFound:
            continue
        if hashlib.sha256(packed).hexdigest() == sha256:
            return packed
    raise CorruptHistory(
        f"The archive of run {run} (blob {sha256} of tenant {tenant}, {Month.of(run)}) is missing or damaged. Other runs"
        " are not affected; restore the blob from a backup.",
        run=run,
    )
