"""Who leads a lane of the fleet.

A lane is a row that names a session, and is free when that session is dead. Never here: what a leader does.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.ids import SessionId
from holdfast.stores.postgres.context import StorePort


class Leadership(StorePort):
    """Keeps ports.Leadership."""

    async def lead(self, lane: str, session: SessionId) -> bool:
        async with self._db.writing() as db:
            await db.execute(self._sql["bury_leader"], lane)
            return await db.fetchval(self._sql["lead"], lane, session) is not None

    async def is_led(self, lane: str) -> bool:
        led: bool = await self._db.value(self._sql["is_led"], lane)
        return led

    async def unended_hashes(self) -> Sequence[str]:
        return [row[0] for row in await self._db.fetch(self._sql["unended_hashes"])]
