"""What runs say meanwhile, in pieces.

Never here: when something is written or let go of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from holdfast.core.ids import RunId
from holdfast.ports import Chunk, Piece, StreamName
from holdfast.stores.postgres.context import StorePort, is_run


class Streams(StorePort):
    """Keeps ports.Streams."""

    async def append(self, pieces: Sequence[Piece]) -> None:
        rows = [(*name, mark, size, content) for name, mark, size, content in pieces]
        async with self._db.writing() as db:
            # By a statement of its own: what is seen after it is as the streams are while nobody else adds to them.
            await db.execute(self._sql["lock_streams"], *_columns({name for name, *_ in pieces}, 2))
            await db.execute(self._sql["put_chunks"], *_columns(rows, 5), self._clock.now_ms())

    async def chunks(self, runs: Collection[RunId], known: Mapping[StreamName, int], limit: int) -> Sequence[Chunk]:
        asked = [run for run in runs if is_run(run)]
        beyond = _columns([(*name, size) for name, size in known.items() if is_run(name.run)], 3)
        found = await self._db.fetch(self._sql["stream_chunks"], asked, *beyond, limit) if asked else []
        return [Chunk(StreamName(run, stream), *chunk) for run, stream, *chunk in found]

    async def sizes(self, runs: Collection[RunId]) -> Mapping[StreamName, int]:
        asked = [run for run in runs if is_run(run)]
        found = await self._db.fetch(self._sql["stream_sizes"], asked)
        return {StreamName(run, stream): size for run, stream, size in found}

    async def forget(self, names: Collection[StreamName]) -> None:
        async with self._db.writing() as db:
            told = _columns(sorted(names), 2)
            await db.execute(self._sql["forget_streams"], *told)  # first: whoever adds to one waits for its row
            await db.execute(self._sql["forget_chunks"], *told)


def _columns(rows: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    columns = [list(column) for column in zip(*rows, strict=True)]
    return columns or [[] for _ in range(width)]
