"""Evaluations that are kept.

Never here: what of one is remembered.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.evaluations import Evaluation, Judged
from holdfast.stores.postgres.context import StorePort
from holdfast.stores.row import decode_evaluation, decode_judged, encode


class Evaluations(StorePort):
    """Keeps ports.Evaluations."""

    async def add(self, evaluation: Evaluation, judged: Sequence[Judged]) -> None:
        kept = encode(evaluation).decode(), encode(tuple(judged)).decode()
        await self._db.execute(
            self._sql["add_evaluation"], evaluation.id, evaluation.tenant, evaluation.workflow, *kept
        )

    async def found(self, id_: str) -> tuple[Evaluation, Sequence[Judged]] | None:
        for body, judged in await self._db.fetch(self._sql["evaluation"], id_):
            return decode_evaluation(body), decode_judged(judged)
        return None

    async def listed(
        self, tenant: str | None, workflow: str | None, before: str | None, limit: int
    ) -> Sequence[Evaluation]:  # fmt: skip
        found = await self._db.fetch(self._sql["evaluations"], tenant, workflow, before, limit)
        return [decode_evaluation(row[0]) for row in found]
