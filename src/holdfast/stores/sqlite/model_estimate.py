"""What models are like in practice.

Never here: what an estimate is worth.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from holdfast.core.nouns.model_estimates import MOST_ESTIMATES, ModelEstimate, ModelUse, learned
from holdfast.stores.row import astuple
from holdfast.stores.sqlite.context import SQL, StorePort, rows


class ModelEstimates(StorePort):
    """Keeps ports.ModelEstimates."""

    async def of(self, workflow: str) -> Sequence[ModelEstimate]:
        asked = {"workflow": workflow, "limit": MOST_ESTIMATES}
        return [ModelEstimate(*row) for row in await self._reader.ask(lambda db: rows(db, "model_estimates", asked))]

    async def learn(self, uses: Sequence[ModelUse]) -> None:
        kinds = {kind for use in uses for kind in use.kinds}

        def write(db: apsw.Connection) -> None:
            found = [ModelEstimate(*row) for kind in kinds for row in rows(db, "model_estimate", kind)]
            new = learned({each.kind: each for each in found}, uses)
            db.executemany(SQL["put_model_estimate"], [astuple(each) for each in new.values()])

        await self._writer.write(write)

    async def forget(self, before_ms: int) -> None:
        await self._writer.write(lambda db: rows(db, "forget_model_estimates", (before_ms,)))
