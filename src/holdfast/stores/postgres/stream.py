"""The streams of runs, in pieces.

Never here: when something is written or let go of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from asyncpg import exceptions as pg

from holdfast.core.values.ids import RunId
from holdfast.errors import StoreBusy
from holdfast.ports import Chunk, Piece, StreamName, StreamUpdate
from holdfast.stores.postgres.connection import LOST, durable, explain
from holdfast.stores.postgres.context import StorePort
from holdfast.stores.row import chunks_of, is_run

_MAX_TRIES: Final = 10
"""At pieces that others bring at the same moment: a step has one attempt, or two while the first is frozen."""


class Streams(StorePort):
    """Keeps ports.Streams."""

    async def append(self, pieces: Sequence[Piece]) -> None:
        seal = self._sealing.seal
        columns = _columns([(*name, mark, size, seal(tenant, content)) for name, mark, size, content, tenant in pieces], 5)
        for _ in range(_MAX_TRIES):
            try:
                async with self._db.acquire() as db:
                    await durable(db, db.execute(self._sql["append_chunks"], *columns, self._clock.now_ms()))
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
        beyond = _columns([(*name, size) for name, size in sizes.items() if is_run(name.run)], 3)
        found = await self._db.fetch(self._sql["stream_chunks"], asked, *beyond, limit, only) if asked else []
        return [each for run, stream, *chunk in found for each in chunks_of(StreamName(run, stream), [chunk], self._sealing)]

    async def news(self, mark: str | None) -> StreamUpdate:
        (now, *_), *found = await self._db.fetch(self._sql["stream_news"], mark)
        return StreamUpdate(
            now,
            {StreamName(run, stream): size for _, run, stream, size in found if stream is not None},
            {run: size for _, run, stream, size in found if stream is None},
        )

    async def sizes(self, runs: Collection[RunId]) -> Mapping[StreamName, int]:
        asked = [run for run in runs if is_run(run)]
        found = await self._db.fetch(self._sql["stream_sizes"], asked)
        return {StreamName(run, stream): size for run, stream, size in found}

    async def forget(self, names: Collection[StreamName]) -> None:
        async with self._db.writing() as db:
            told = _columns(sorted(names), 2)
            await db.execute(self._sql["forget_streams"], *told)  # first: a writer that adds to one waits for its row
            await db.execute(self._sql["forget_chunks"], *told)


def _columns(rows: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    columns = [list(column) for column in zip(*rows, strict=True)]
    return columns or [[] for _ in range(width)]
