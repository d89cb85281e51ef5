"""The rows beside the history, as the sweep and people's lists ask for them.

Never here: a write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.rules.questions import WORKFLOW_MISSING
from holdfast.core.values.ids import RunId, SessionId
from holdfast.core.values.scopes import PLACEMENT
from holdfast.ports import DueRun, UnplacedRun
from holdfast.stores.archive_store import ArchiveStore
from holdfast.stores.nouns.lists import Lists
from holdfast.stores.postgres.context import StoreContext, StorePort


class Views(Lists, StorePort):
    """Keeps ports.Views."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._shelf = ArchiveStore(context.ground)

    async def due(self, now_ms: int, hashes: Sequence[str], limit: int) -> Sequence[DueRun]:
        return [_due(row) for row in await self._db.fetch(self._sql["due_runs"], list(hashes), now_ms, limit)]

    async def stranded(self, before_ms: int, limit: int) -> Sequence[DueRun]:
        rows = await self._db.fetch(self._sql["stranded_runs"], before_ms, limit, WORKFLOW_MISSING, PLACEMENT)
        return [_due(row) for row in rows]

    async def unplaced(self, after: int, limit: int) -> Sequence[UnplacedRun]:
        return [UnplacedRun(*row) for row in await self._db.fetch(self._sql["unplaced"], PLACEMENT, after, limit)]

    async def wanted_hashes(self, before_ms: int) -> Sequence[str]:
        return [row[0] for row in await self._db.fetch(self._sql["wanted_hashes"], before_ms, PLACEMENT)]

    async def next_due_ms(self, hashes: Sequence[str]) -> int | None:
        found: int | None = await self._db.value(self._sql["next_due_ms"], list(hashes))
        return found

    async def unended(self, hashes: Sequence[str]) -> int:
        found: int = await self._db.value(self._sql["unended"], list(hashes))
        return found


def _due(row: Any) -> DueRun:
    run, graph_hash, due_at_ms, tenant, started_by, dead = row
    lost = frozenset(SessionId(session) for session in dead)
    return DueRun(RunId(run), graph_hash, due_at_ms, tenant, started_by, lost)
