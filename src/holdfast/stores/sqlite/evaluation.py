"""Evaluations that are kept.

Never here: what of one is remembered.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.evaluations import Evaluation, Judged
from holdfast.stores.row import decode_evaluation, decode_judged, encode
from holdfast.stores.sqlite.context import StorePort, rows


class Evaluations(StorePort):
    """Keeps ports.Evaluations."""

    async def add(self, evaluation: Evaluation, judged: Sequence[Judged]) -> None:
        kept = encode(evaluation).decode(), encode(tuple(judged)).decode()
        columns = (evaluation.id, evaluation.tenant, evaluation.workflow, *kept)
        await self._writer.write(lambda db: rows(db, "add_evaluation", columns))

    async def found(self, id_: str) -> tuple[Evaluation, Sequence[Judged]] | None:
        for body, judged in await self._reader.ask(lambda db: rows(db, "evaluation", (id_,))):
            return decode_evaluation(body), decode_judged(judged)
        return None

    async def listed(
        self, tenant: str | None, workflow: str | None, before: str | None, limit: int
    ) -> Sequence[Evaluation]:  # fmt: skip
        asked = (tenant, workflow, before, limit)
        return [decode_evaluation(row[0]) for row in await self._reader.ask(lambda db: rows(db, "evaluations", asked))]
