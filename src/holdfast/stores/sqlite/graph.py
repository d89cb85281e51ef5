"""The graphs of workflows, beside the runs that follow them.

Never here: what a graph says.
"""

from __future__ import annotations

import apsw

from holdfast.errors import NotFound
from holdfast.stores.sqlite.room import Room, rows, value


class Graphs(Room):
    """Keeps ports.Graphs."""

    async def put_graph(self, graph_hash: str, encoded: bytes) -> None:
        def write(db: apsw.Connection) -> None:
            rows(db, "put_graph", (graph_hash, encoded))

        await self._writer.write(write)

    async def graph(self, graph_hash: str) -> bytes:
        encoded: bytes | None = await self._reader.ask(lambda db: value(db, "graph", (graph_hash,)))
        if encoded is None:
            raise NotFound(f"There is no graph {graph_hash} in this store.", graph_hash=graph_hash)
        return encoded
