"""The streams of runs, in pieces.

Never here: when something is written or let go of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import apsw

from holdfast.core.values.ids import RunId
from holdfast.ports import Chunk, Piece, StreamName, StreamUpdate
from holdfast.stores.nouns.beside_runs import StreamSizes
from holdfast.stores.row import chunks_of, encode
from holdfast.stores.sqlite.context import SQL, StorePort, rows, value


class Streams(StorePort, StreamSizes):
    """Keeps ports.Streams."""

    async def append(self, pieces: Sequence[Piece]) -> None:
        now_ms, seal = self._clock.now_ms(), self._sealing.seal

        def write(db: apsw.Connection) -> None:
            sizes: dict[StreamName, int] = {}
            for name, mark, size, content, tenant in pieces:
                first = sizes[name] if name in sizes else value(db, "stream_size", name) or 0
                is_new = value(db, "put_chunk", (*name, first, mark, size, now_ms, seal(tenant, content))) is not None
                sizes[name] = first + size * is_new
            moved = value(db, "move_streams")
            db.executemany(SQL["put_stream"], [(*name, size, moved) for name, size in sizes.items()])

        await self._writer.write(write)

    async def chunks(
        self, runs: Collection[RunId], sizes: Mapping[StreamName, int], limit: int, only: str | None = None
    ) -> Sequence[Chunk]:
        def read(db: apsw.Connection) -> list[Chunk]:
            found: list[Chunk] = []
            for name, size in _sizes(db, runs).items():
                if len(found) < limit and size > sizes.get(name, 0) and only in (None, name.stream):
                    asked = (*name, sizes.get(name, 0), limit - len(found))
                    found += chunks_of(name, rows(db, "stream_chunks", asked), self._sealing)
            return found

        return await self._reader.ask(read)

    async def news(self, mark: str | None) -> StreamUpdate:
        def read(db: apsw.Connection) -> StreamUpdate:
            ((moved, place),) = rows(db, "stream_news_end")  # first: what comes meanwhile is sent twice
            after = (moved, place) if mark is None else tuple(map(int, mark.split("-")))
            streams = rows(db, "streams_moved", after[:1])
            sizes = {StreamName(run, stream): size for run, stream, size in streams}
            return StreamUpdate(f"{moved}-{place}", sizes, dict(rows(db, "runs_moved", after[1:])))

        return await self._reader.ask(read)


def _sizes(db: apsw.Connection, runs: Collection[RunId]) -> dict[StreamName, int]:
    found = rows(db, "stream_sizes", (encode([*runs]).decode(),))
    return {StreamName(run, stream): size for run, stream, size in found}
