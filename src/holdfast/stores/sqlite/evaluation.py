"""Evaluations that are kept.

Never here: what of one is remembered.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.nouns.evaluations import Evaluation, Judged
from holdfast.stores.row import decode_evaluation, decode_judged, encode
from holdfast.stores.sqlite.context import StorePort, rows


class Evaluations(StorePort):
    """Keeps ports.Evaluations."""

    async def add(self, evaluation: Evaluation, judged: Sequence[Judged]) -> None:
        kept = [self._sealing.seal(evaluation.tenant, encode(each)).decode() for each in (evaluation, tuple(judged))]
        columns = (evaluation.id, evaluation.tenant, evaluation.workflow, *kept)
        await self._writer.write(lambda db: rows(db, "add_evaluation", columns))

    async def found(self, id_: str) -> tuple[Evaluation, Sequence[Judged]] | None:
        for body, judged in await self._reader.ask(lambda db: rows(db, "evaluation", (id_,))):
            return decode_evaluation(self._sealing.open(body.encode())), decode_judged(self._sealing.open(judged.encode()))
        return None

    async def listed(self, tenant: str | None, workflow: str | None, before: str | None, limit: int) -> Sequence[Evaluation]:
        asked = (tenant, workflow, before, limit)
        found = await self._reader.ask(lambda db: rows(db, "evaluations", asked))
        opened = (self._sealing.readable(decode_evaluation, body.encode()) for body, *_ in found)
        return [each for each in opened if each is not None]
