"""Histories that have been archived, found where the tables no longer hold them.

Never here: archiving (see retention).
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.values.ids import RunId
from holdfast.stores.postgres.blob import Blobs
from holdfast.stores.postgres.context import StoreContext, StorePort
from holdfast.stores.row import Row
from holdfast.stores.shelf import Shelf


class Archives(StorePort):
    """A room whose histories may have been archived."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        own = Blobs(context)
        places = (own,) if context.elsewhere is None else (context.elsewhere, own)
        self._shelf = Shelf(places, self._archive_row, self._clock)

    async def _archive_row(self, run: RunId) -> Sequence[Row]:
        return await self._db.fetch(self._sql["archive"], run)
