"""Evaluations that are kept.

Never here: what of one is remembered.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.nouns.evaluations import Evaluation, Judged
from holdfast.stores.postgres.context import StorePort
from holdfast.stores.row import decode_evaluation, decode_judged, encode


class Evaluations(StorePort):
    """Keeps ports.Evaluations."""

    async def add(self, evaluation: Evaluation, judged: Sequence[Judged]) -> None:
        kept = [self._sealing.seal(evaluation.tenant, encode(each)).decode() for each in (evaluation, tuple(judged))]
        await self._db.execute(self._sql["add_evaluation"], evaluation.id, evaluation.tenant, evaluation.workflow, *kept)

    async def found(self, id_: str) -> tuple[Evaluation, Sequence[Judged]] | None:
        for body, judged in await self._db.fetch(self._sql["evaluation"], id_):
            return decode_evaluation(self._sealing.open(body.encode())), decode_judged(self._sealing.open(judged.encode()))
        return None

    async def listed(self, tenant: str | None, workflow: str | None, before: str | None, limit: int) -> Sequence[Evaluation]:
        found = await self._db.fetch(self._sql["evaluations"], tenant, workflow, before, limit)
        opened = (self._sealing.readable(decode_evaluation, body.encode()) for body, *_ in found)
        return [each for each in opened if each is not None]
