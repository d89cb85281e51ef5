"""Scores of runs.

Never here: which of them count.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.nouns.scores import Score, ScoreMean
from holdfast.core.values.ids import RunId
from holdfast.ports import MOST_LISTED
from holdfast.stores.postgres.context import StorePort, is_run


class Scores(StorePort):
    """Keeps ports.Scores."""

    async def add(self, run: RunId, score: Score, most: int) -> bool:
        async with self._db.writing() as db:
            await db.execute(self._sql["lock_scores"], run)
            return await db.fetchval(self._sql["add_score"], run, most, *score) is not None

    async def given(self, run: RunId) -> Sequence[Score]:
        return [Score(*row) for row in await self._db.fetch(self._sql["scores"], run)] if is_run(run) else []

    async def means(
        self,
        *,
        tenant: str | None = None,
        name: str | None = None,
        workflow: str | None = None,
        since_ms: int = 0,
        limit: int = MOST_LISTED,
    ) -> Sequence[ScoreMean]:
        found = await self._db.fetch(self._sql["score_means"], tenant, name, workflow, since_ms, limit)
        return [ScoreMean(*row) for row in found]
