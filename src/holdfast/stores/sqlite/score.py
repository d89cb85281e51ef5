"""Scores of runs.

Never here: which of them count.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.nouns.scores import Score, ScoreMean
from holdfast.core.values.ids import RunId
from holdfast.ports import MOST_LISTED
from holdfast.stores.sqlite.context import StorePort, rows, value


class Scores(StorePort):
    """Keeps ports.Scores."""

    async def add(self, run: RunId, score: Score, most: int) -> bool:
        return await self._writer.write(lambda db: value(db, "add_score", (run, most, *score))) is not None

    async def given(self, run: RunId) -> Sequence[Score]:
        return [Score(*row) for row in await self._reader.ask(lambda db: rows(db, "scores", (run,)))]

    async def means(
        self,
        *,
        tenant: str | None = None,
        name: str | None = None,
        workflow: str | None = None,
        since_ms: int = 0,
        limit: int = MOST_LISTED,
    ) -> Sequence[ScoreMean]:
        asked = (tenant, name, workflow, since_ms, limit)
        return [ScoreMean(*row) for row in await self._reader.ask(lambda db: rows(db, "score_means", asked))]
