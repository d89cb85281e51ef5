"""The sinks that follow the tail: the progress of each, and the process that feeds it.

Never here: what is done with events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.core.values.ids import RunId
from holdfast.ports import ArchivedRun, FollowerRow
from holdfast.stores.nouns.tables import Noun

_MAX_FOLLOWERS: Final = 100


class Followers(Noun):
    """Keeps ports.Followers."""

    async def hold(self, name: str, holder: str, lease_ms: int) -> FollowerRow | None:
        now_ms = self._clock.now_ms()
        for row in await self._tables.change("hold_follower", name, holder, now_ms, now_ms + lease_ms):
            return FollowerRow(*row)
        return None

    async def begin(self, name: str, cursor: str) -> None:
        await self._tables.change("begin_follower", name, cursor, self._clock.now_ms())

    async def move(self, row: FollowerRow) -> bool:
        said = row.cursor, row.had_all_at_ms, row.waiting_since_ms, row.taken, row.dropped, row.problem
        return bool(await self._tables.change("move_follower", row.name, row.holder, *said))

    async def release(self, name: str, holder: str) -> None:
        await self._tables.change("release_follower", name, holder)

    async def archived(self, since_ms: int, after: RunId, until_ms: int, limit: int) -> Sequence[ArchivedRun]:
        return [ArchivedRun(*row) for row in await self._tables.ask("archived_since", since_ms, after, until_ms, limit)]

    async def listed(self) -> Sequence[FollowerRow]:
        return [FollowerRow(*row) for row in await self._tables.ask("followers", _MAX_FOLLOWERS)]
