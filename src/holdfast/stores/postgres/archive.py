"""Histories that have been archived, found where the tables no longer hold them.

Never here: archiving (see retention).
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence

from holdfast.core.ids import RunId
from holdfast.errors import CorruptHistory, NotFound
from holdfast.ports import Blobs
from holdfast.stores.archive import Archive, unpack
from holdfast.stores.postgres.blob import Blobs as Table
from holdfast.stores.postgres.partition import Month
from holdfast.stores.postgres.room import Ground, Room


class Archives(Room):
    """A room whose histories may have been archived."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        own = Table(ground)
        self._last: tuple[str, Archive] | None = None
        """The archive that was read last, and its blob: a long history is read page by page."""
        self._elsewhere = ground.elsewhere
        self._places: Sequence[Blobs] = (own,) if ground.elsewhere is None else (ground.elsewhere, own)

    async def _archive(self, run: RunId) -> Archive | None:
        """The archive of `run`, None if there is none. Raises NotFound for one that was removed for good."""
        if uuid.UUID(run) >= Month.at(self._clock.now_ms()).first:
            return None  # nothing of a month is archived before it is over
        rows = await self._db.fetch(self._sql["archive"], run)
        if not rows:
            return None
        ((tenant, sha256, pruned_at_ms),) = rows
        if sha256 is None:
            raise NotFound(
                f"The history of run {run} was removed for good by `holdfast store prune` ({Month.at(pruned_at_ms)}); only"
                " its row in lists is left.",
                run=run,
            )
        if self._last is None or self._last[0] != sha256:
            self._last = sha256, await read(self._places, run, tenant, sha256)
        return self._last[1]


async def read(places: Sequence[Blobs], run: RunId, tenant: str, sha256: str) -> Archive:
    """The archive of `run`, out of the first of these places that has it. Raises CorruptHistory."""
    for place in places:
        try:
            packed = await place.get(tenant, str(Month.of(run)), sha256)
        except NotFound:
            continue
        if hashlib.sha256(packed).hexdigest() == sha256:
            return unpack(run, packed)
    raise CorruptHistory(
        f"The archive of run {run} (blob {sha256} of tenant {tenant}, {Month.of(run)}) is missing or damaged. Other runs"
        " are not affected; restore the blob from a backup.",
        run=run,
    )
