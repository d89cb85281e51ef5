"""The roll-up of costs, and how far each run is in it.

Never here: what a call costs.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.facts.costs import BEFORE_ALL, Cost, CostKey, Uncounted
from holdfast.core.values.ids import RunId
from holdfast.stores.postgres.context import StorePort
from holdfast.stores.row import astuple


class Costs(StorePort):
    """Keeps ports.Costs."""

    async def uncounted(self, started_before_ms: int, after: RunId | None, limit: int) -> Sequence[Uncounted]:
        rows = await self._db.fetch(self._sql["uncounted"], after, started_before_ms, limit)
        return [Uncounted(*row) for row in rows]

    async def count(self, uncounted: Uncounted, costs: Sequence[Cost]) -> bool:
        async with self._db.writing() as db:
            moved = await db.fetchval(self._sql["put_counted"], uncounted.run, uncounted.counted, uncounted.seq)
            if moved is None:
                return False
            for cost in sorted(costs, key=astuple):
                await db.execute(self._sql["add_cost"], *astuple(cost))
        return True

    async def rollup(
        self,
        first_day: str,
        last_day: str,
        *,
        tenant: str | None = None,
        after: CostKey | None = None,
        limit: int | None = None,
    ) -> Sequence[Cost]:
        asked = (first_day, last_day, tenant, *(after or BEFORE_ALL), limit)
        return [Cost(*row) for row in await self._db.fetch(self._sql["costs"], *asked)]
