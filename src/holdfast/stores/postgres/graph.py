"""The graphs of workflows, beside the runs that follow them.

Never here: what a graph says.
"""

from __future__ import annotations

from holdfast.errors import NotFound
from holdfast.stores.postgres.room import Room


class Graphs(Room):
    """Keeps ports.Graphs."""

    async def put_graph(self, graph_hash: str, encoded: bytes) -> None:
        async with self._db.writing() as db:
            await db.execute(self._sql["put_graph"], graph_hash, encoded)

    async def graph(self, graph_hash: str) -> bytes:
        encoded: bytes | None = await self._db.value(self._sql["graph"], graph_hash)
        if encoded is None:
            raise NotFound(f"There is no graph {graph_hash} in this store.", graph_hash=graph_hash)
        return encoded
