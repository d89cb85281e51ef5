"""Workflows as they were loaded last, and their graphs, beside the runs that follow them.

Never here: what a graph or a schema says.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import NotFound
from holdfast.ports import MOST_LISTED, WorkflowRecord
from holdfast.stores.postgres.context import StorePort
from holdfast.stores.row import BEFORE_ALL, astuple, no_workflow


class Graphs(StorePort):
    """Keeps ports.Graphs."""

    async def put_workflow(self, loaded: WorkflowRecord, graph: bytes) -> None:
        *said, _, _ = astuple(loaded)
        if await self._db.value(self._sql["is_workflow_known"], *said):
            return
        async with self._db.writing() as db:
            await db.execute(self._sql["put_graph"], loaded.graph_hash, graph)
            await db.execute(self._sql["put_workflow"], *said, self._clock.now_ms())

    async def submit_workflow(self, submitted: WorkflowRecord, graph: bytes) -> bool:
        *said, _, tenant = astuple(submitted)
        if code := await self._db.fetch(self._sql["code_called"], submitted.name):
            return submitted.graph_hash in [hash_ for (hash_,) in code]
        async with self._db.writing() as db:
            await db.execute(self._sql["put_graph"], submitted.graph_hash, graph)
            await db.execute(self._sql["submit_workflow"], *said, self._clock.now_ms(), tenant)
        return True

    async def workflow(self, name: str, version: int | None = None, *, tenant: str) -> WorkflowRecord:
        found = await self._db.fetch(self._sql["workflow"], name, version, tenant)
        if not found:
            raise no_workflow(name, version)
        return WorkflowRecord(*found[0])

    async def workflows(
        self, *, tenant: str, after: tuple[str, int] | None = None, limit: int = MOST_LISTED
    ) -> Sequence[WorkflowRecord]:
        name, version = after or BEFORE_ALL
        return [WorkflowRecord(*row) for row in await self._db.fetch(self._sql["workflows"], name, version, limit, tenant)]

    async def graph(self, graph_hash: str) -> bytes:
        encoded: bytes | None = await self._db.value(self._sql["graph"], graph_hash)
        if encoded is None:
            raise NotFound(f"There is no graph {graph_hash} in this store.", graph_hash=graph_hash)
        return encoded
