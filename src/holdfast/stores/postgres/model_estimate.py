"""What models are like in practice.

Never here: what an estimate is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.nouns.model_estimates import MOST_ESTIMATES, ModelEstimate, ModelUse, learned
from holdfast.stores.postgres.context import StorePort
from holdfast.stores.row import astuple


class ModelEstimates(StorePort):
    """Keeps ports.ModelEstimates."""

    async def of(self, workflow: str) -> Sequence[ModelEstimate]:
        found = await self._db.fetch(self._sql["model_estimates"], workflow, MOST_ESTIMATES)
        return [ModelEstimate(*row) for row in found]

    async def learn(self, uses: Sequence[ModelUse]) -> None:
        if not uses:
            return
        kinds = _columns(sorted({kind for use in uses for kind in use.kinds}))
        async with self._db.writing() as db:
            await db.execute(self._sql["make_model_estimates"], *kinds)
            found = [ModelEstimate(*row) for row in await db.fetch(self._sql["lock_model_estimates"], *kinds)]
            new = learned({each.kind: each for each in found if each.samples}, uses)
            await db.execute(self._sql["put_model_estimates"], *_columns([astuple(each) for each in new.values()]))

    async def forget(self, before_ms: int) -> None:
        async with self._db.writing() as db:
            await db.execute(self._sql["forget_model_estimates"], before_ms)


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
