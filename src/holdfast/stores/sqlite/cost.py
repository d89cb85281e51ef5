"""The roll-up of costs, and how far each run is in it.

Never here: what a call costs.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import msgspec

from holdfast.core.facts.costs import BEFORE_ALL, Cost, CostKey, Uncounted
from holdfast.core.values.ids import RunId
from holdfast.stores.sqlite.context import SQL, StorePort, rows, value


class Costs(StorePort):
    """Keeps ports.Costs."""

    async def uncounted(self, started_before_ms: int, after: RunId | None, limit: int) -> Sequence[Uncounted]:
        asked = {"before_ms": started_before_ms, "after": after or "", "most": limit}
        return [Uncounted(*row) for row in await self._reader.ask(lambda db: rows(db, "uncounted", asked))]

    async def count(self, uncounted: Uncounted, costs: Sequence[Cost]) -> bool:
        def write(db: apsw.Connection) -> bool:
            if (value(db, "counted", (uncounted.run,)) or 0) != uncounted.counted:
                return False
            db.executemany(SQL["add_cost"], [msgspec.structs.astuple(cost) for cost in costs])
            rows(db, "put_counted", (uncounted.run, uncounted.seq))
            return True

        return await self._writer.write(write)

    async def rollup(
        self,
        first_day: str,
        last_day: str,
        *,
        tenant: str | None = None,
        after: CostKey | None = None,
        limit: int | None = None,
    ) -> Sequence[Cost]:
        asked = (first_day, last_day, tenant, *(after or BEFORE_ALL), -1 if limit is None else limit)
        return [Cost(*row) for row in await self._reader.ask(lambda db: rows(db, "costs", asked))]
