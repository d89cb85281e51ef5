"""Shared values, as they are read; who waits for one, and who gives a lock back.

Never here: writing and finding them, which each store does in its own way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.core.nouns.shared_values import SharedValue
from holdfast.ports import SharedArrival, SharedEntry
from holdfast.stores.nouns.tables import Noun
from holdfast.stores.row import Row, shared_value_of


class ValuesRead(Noun):
    """Keeps that part of ports.SharedValues."""

    async def find(self, tenant: str, space: str, key: str) -> SharedValue | None:
        for _, body in await self._tables.ask("shared_value", tenant, space, key):
            return shared_value_of(body, self._sealing)
        return None

    async def versions(self, tenant: str, space: str, key: str) -> Sequence[SharedValue]:
        found = await self._tables.ask("shared_versions", tenant, space, key)
        return [shared_value_of(body, self._sealing) for (body,) in found]

    async def page(
        self, tenant: str | None, space: str | None, after: tuple[str, str, str] | None, limit: int
    ) -> Sequence[SharedEntry]:
        found = await self._tables.ask("shared_values", tenant, space, *(after or ("", "", "")), limit)
        return [SharedEntry(*row) for row in self._opened(found)]

    async def arrivals(self, name: tuple[str, str, str] | None, limit: int) -> Sequence[SharedArrival]:
        found = await self._tables.ask("shared_arrivals", *(name or (None, None, None)), limit)
        return [SharedArrival(*row) for row in self._opened(found)]

    async def unlock(self, tenant: str, space: str, key: str, fence: int) -> None:
        await self._tables.change("free_shared_lock", tenant, space, key, fence)

    def _opened(self, rows: Iterable[Row]) -> Iterable[Row]:
        return ((*row, shared_value_of(body, self._sealing)) for *row, body in rows)
