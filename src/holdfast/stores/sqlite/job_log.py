"""What jobs have printed, in pieces.

Never here: how much of it is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from holdfast.core.values.ids import RunId
from holdfast.ports import LogPiece, LogPlace
from holdfast.stores.row import log_piece_of
from holdfast.stores.sqlite.context import SQL, StorePort, rows, value


class JobLogs(StorePort):
    """Keeps ports.JobLogs."""

    async def keep(self, pieces: Sequence[tuple[LogPlace, bytes, str]], cut: Sequence[LogPlace]) -> None:
        now_ms = self._clock.now_ms()
        kept = [(*place, now_ms, self._sealing.seal(tenant, content)) for place, content, tenant in pieces]

        def write(db: apsw.Connection) -> None:
            db.executemany(SQL["put_job_log"], kept)
            db.executemany(SQL["cut_job_log"], [tuple(place) for place in cut])

        await self._writer.write(write)

    async def pieces(self, run: RunId) -> Sequence[LogPiece]:
        found = await self._reader.ask(lambda db: rows(db, "job_logs", (run,)))
        return [log_piece_of(run, *row) for row in found]

    async def read(self, place: LogPlace) -> bytes:
        return self._sealing.open(await self._reader.ask(lambda db: value(db, "job_log", tuple(place))) or b"")
