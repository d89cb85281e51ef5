"""Workflows as they were loaded last, and their graphs, beside the runs that follow them.

Never here: what a graph or a schema says.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import msgspec

from holdfast.errors import NotFound
from holdfast.ports import MOST_LISTED, WorkflowRecord
from holdfast.stores.row import BEFORE_ALL, no_workflow
from holdfast.stores.sqlite.context import StorePort, rows, value


class Graphs(StorePort):
    """Keeps ports.Graphs."""

    async def put_workflow(self, loaded: WorkflowRecord, graph: bytes) -> None:
        row = msgspec.structs.asdict(loaded) | {"loaded_at_ms": self._clock.now_ms()}
        if await self._reader.ask(lambda db: value(db, "is_workflow_known", row)):
            return

        def write(db: apsw.Connection) -> None:
            rows(db, "put_graph", (loaded.graph_hash, graph))
            rows(db, "put_workflow", row)

        await self._writer.write(write)

    async def submit_workflow(self, submitted: WorkflowRecord, graph: bytes) -> bool:
        row = msgspec.structs.asdict(submitted) | {"loaded_at_ms": self._clock.now_ms()}

        def write(db: apsw.Connection) -> bool:
            if code := [hash_ for (hash_,) in rows(db, "code_called", {"name": submitted.name})]:
                return submitted.graph_hash in code
            rows(db, "put_graph", (submitted.graph_hash, graph))
            rows(db, "submit_workflow", row)
            return True

        return await self._writer.write(write)

    async def workflow(self, name: str, version: int | None = None, *, tenant: str) -> WorkflowRecord:
        sought = {"name": name, "version": version, "tenant": tenant}
        found = await self._reader.ask(lambda db: rows(db, "workflow", sought))
        if not found:
            raise no_workflow(name, version)
        return WorkflowRecord(*found[0])

    async def workflows(
        self, *, tenant: str, after: tuple[str, int] | None = None, limit: int = MOST_LISTED
    ) -> Sequence[WorkflowRecord]:
        name, version = after or BEFORE_ALL
        sought = {"name": name, "version": version, "most": limit, "tenant": tenant}
        return [WorkflowRecord(*row) for row in await self._reader.ask(lambda db: rows(db, "workflows", sought))]

    async def graph(self, graph_hash: str) -> bytes:
        encoded: bytes | None = await self._reader.ask(lambda db: value(db, "graph", (graph_hash,)))
        if encoded is None:
            raise NotFound(f"There is no graph {graph_hash} in this store.", graph_hash=graph_hash)
        return encoded
