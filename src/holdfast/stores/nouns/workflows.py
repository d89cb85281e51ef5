"""Workflows as they were loaded last, and their graphs, beside the runs that follow them.

Never here: what a graph or a schema says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.errors import NotFound
from holdfast.ports import MAX_LISTED, WorkflowRecord
from holdfast.stores.nouns.tables import Noun, Steps, do
from holdfast.stores.row import astuple

_BEFORE_ALL: Final = ("", 2**63 - 1)
"""The place before that of every workflow: lists of them go by name, the highest version first."""


def no_workflow(name: str, version: int | None) -> NotFound:
    """The error where there is no such workflow."""
    which = f"workflow {name!r}" if version is None else f"version {version} of workflow {name!r}"
    return NotFound(
        f"There is no {which} in this store: `holdfast workflows list` shows those that are. One is there once a process has"
        " loaded its code.",
        workflow=name,
    )


class Graphs(Noun):
    """Keeps ports.Graphs."""

    async def put_workflow(self, loaded: WorkflowRecord, graph: bytes) -> None:
        *row, _, _ = astuple(loaded)
        now_ms = self._clock.now_ms()

        def steps() -> Steps[None]:
            yield do("put_graph", loaded.graph_hash, graph)
            yield do("put_workflow", *row, now_ms)

        ((is_known,),) = await self._tables.ask("is_workflow_known", *row)
        if not is_known:
            await self._tables.transact(steps)

    async def submit_workflow(self, submitted: WorkflowRecord, graph: bytes) -> bool:
        *row, _, tenant = astuple(submitted)
        now_ms = self._clock.now_ms()

        def steps() -> Steps[bool]:
            if code := (yield do("code_called", submitted.name)):
                return submitted.graph_hash in [hash_ for (hash_,) in code]
            yield do("put_graph", submitted.graph_hash, graph)
            yield do("submit_workflow", *row, now_ms, tenant)
            return True

        return await self._tables.transact(steps)

    async def workflow(self, name: str, version: int | None = None, *, tenant: str) -> WorkflowRecord:
        for row in await self._tables.ask("workflow", name, version, tenant):
            return WorkflowRecord(*row)
        raise no_workflow(name, version)

    async def workflows(
        self, *, tenant: str, after: tuple[str, int] | None = None, limit: int = MAX_LISTED
    ) -> Sequence[WorkflowRecord]:
        found = await self._tables.ask("workflows", *(after or _BEFORE_ALL), limit, tenant)
        return [WorkflowRecord(*row) for row in found]

    async def graph(self, graph_hash: str) -> bytes:
        for (encoded,) in await self._tables.ask("graph", graph_hash):
            return bytes(encoded)
        raise NotFound(f"There is no graph {graph_hash} in this store.", graph_hash=graph_hash)
