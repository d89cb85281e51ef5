"""What jobs have printed, in pieces.

Never here: how much of it is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.values.ids import RunId
from holdfast.ports import LogPiece, LogPlace
from holdfast.stores.postgres.context import StorePort
from holdfast.stores.row import log_piece_of


class JobLogs(StorePort):
    """Keeps ports.JobLogs."""

    async def keep(self, pieces: Sequence[tuple[LogPlace, bytes, str]], cut: Sequence[LogPlace]) -> None:
        now_ms = self._clock.now_ms()
        rows = [(*place, now_ms, self._sealing.seal(tenant, content)) for place, content, tenant in pieces]
        async with self._db.writing() as db:
            if rows:
                await db.execute(self._sql["put_job_log"], *map(list, zip(*rows, strict=True)))
            if cut:
                await db.execute(self._sql["cut_job_log"], *map(list, zip(*cut, strict=True)))

    async def pieces(self, run: RunId) -> Sequence[LogPiece]:
        return [log_piece_of(run, *row) for row in await self._db.fetch(self._sql["job_logs"], run)]

    async def read(self, place: LogPlace) -> bytes:
        rows = await self._db.fetch(self._sql["job_log"], *place)
        return self._sealing.open(rows[0][0]) if rows else b""
