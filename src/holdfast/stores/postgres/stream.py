"""The streams of runs, in pieces.

Never here: when something is written or let go of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from asyncpg import exceptions as pg

from holdfast.core.values.ids import RunId
from holdfast.errors import StoreBusy
from holdfast.ports import Chunk, Piece, StreamName, StreamUpdate
from holdfast.stores.nouns.beside_runs import StreamSizes
from holdfast.stores.nouns.tables import columns
from holdfast.stores.postgres.connection import LOST, durable, explain
from holdfast.stores.postgres.context import StorePort
from holdfast.stores.row import chunks_of, is_run

_MAX_TRIES: Final = 10
"""At pieces that others bring at the same moment: a step has one attempt, or two while the first is frozen."""


class Streams(StorePort, StreamSizes):
    """Keeps ports.Streams."""

    async def append(self, pieces: Sequence[Piece]) -> None:
        seal = self._sealing.seal
        given = columns([(*name, mark, size, seal(tenant, content)) for name, mark, size, content, tenant in pieces], 5)
        for _ in range(_MAX_TRIES):
            try:
                async with self._db.acquire() as db:
                    await durable(db, db.execute(self._sql["append_chunks"], *given, self._clock.now_ms()))
                return
            except pg.UniqueViolationError:
                continue
            except (*LOST, pg.PostgresError) as problem:
                raise explain(problem, self._db.address) from problem
        raise StoreBusy("Others bring the same pieces of a stream all the time; nothing was written.")

    async def chunks(
        self, runs: Collection[RunId], sizes: Mapping[StreamName, int], limit: int, only: str | None = None
    ) -> Sequence[Chunk]:
        asked = [run for run in runs if is_run(run)]
        beyond = columns([(*name, size) for name, size in sizes.items() if is_run(name.run)], 3)
        found = await self._db.fetch(self._sql["stream_chunks"], asked, *beyond, limit, only) if asked else []
        return [each for run, stream, *chunk in found for each in chunks_of(StreamName(run, stream), [chunk], self._sealing)]

    async def news(self, mark: str | None) -> StreamUpdate:
        (now, *_), *found = await self._db.fetch(self._sql["stream_news"], mark)
        return StreamUpdate(
            now,
            {StreamName(run, stream): size for _, run, stream, size in found if stream is not None},
            {run: size for _, run, stream, size in found if stream is None},
        )
