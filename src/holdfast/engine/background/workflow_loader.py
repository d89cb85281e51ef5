"""Workflows that a process learns from the store: those of runs with something to do, whose graph says all there is to know.

Never here: which graphs those are (the restorer of workflows knows that), the runs themselves (the sweep finds them).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from holdfast.authoring.workflow import Workflow
from holdfast.core.facts.graph import Definition, Graph
from holdfast.engine.runs.runtime import Runtime
from holdfast.ports import Threads

log = logging.getLogger("holdfast")

MAX_ADOPTED: Final = 256
"""How many are kept: what programs write is a new workflow every time. One that was let go is learned again when a run of
it has something to do."""
MAX_ADOPTED_BYTES: Final = 4 * 1024 * 1024
"""Of their graphs, as the store has them: in memory they are some fifty times as large. The latest is kept however large."""
_IN_THE_LOOP_BYTES: Final = 64 * 1024
"""A larger graph is read beside the event loop: it may take a second."""

Restore = Callable[[Definition], Workflow | None]
"""The workflow that has this definition, if that is all there is to know about it."""


class WorkflowLoader:
    """The workflows that one process has learned this way; those unused for longest come first."""

    def __init__(
        self,
        runtime: Runtime,
        threads: Threads,
        restore: Restore,
        *,
        most: int = MAX_ADOPTED,
        most_bytes: int = MAX_ADOPTED_BYTES,
    ) -> None:
        self._runtime = runtime
        self._threads = threads
        self._restore = restore
        self._most = most
        self._most_bytes = most_bytes
        self._turning = asyncio.Lock()
        self._adopted: dict[str, int] = {}
        """Of each how many bytes its graph has."""
        self._foreign: set[str] = set()
        """Of those that are wanted, what cannot be restored here."""
        self.differing: set[str] = set()
        """Of these, what another version has stored, and would do something else here."""

    async def turn(self, before_ms: int) -> None:
        """Be able to run whatever is due by then or waits for a place, as far as it can be restored."""
        async with self._turning:  # the sweep is not the only one who asks
            await self._learn(before_ms)
            await self._let_go()

    @asynccontextmanager
    async def borrow(self, workflow: Workflow) -> AsyncIterator[None]:
        """Count `workflow` as learned while a block starts runs of it: it is let go like those. A workflow that the process has
        anyway stays."""
        is_own = workflow.hash in self._runtime.catalog.workflows and workflow.hash not in self._adopted
        try:
            yield
        finally:
            if not is_own and workflow.hash in self._runtime.catalog.workflows:
                self._adopted.pop(workflow.hash, None)
                self._adopted[workflow.hash] = len(workflow.graph.encoded)
                async with self._turning:
                    await self._let_go()

    async def _let_go(self) -> None:
        """Of more than are kept, those that were wanted longest ago; but none of which a run is in memory."""
        count, size_bytes = len(self._adopted), sum(self._adopted.values())
        for graph_hash, bytes_ in list(self._adopted.items())[:-1]:
            if count <= self._most and size_bytes <= self._most_bytes:
                return
            if not self._runtime.runs.has_any_of(graph_hash):
                await self._runtime.catalog.forget(graph_hash)
                self._adopted.pop(graph_hash, None)
                count, size_bytes = count - 1, size_bytes - bytes_

    async def _learn(self, before_ms: int) -> None:
        wanted = set(await self._runtime.store.views.wanted_hashes(before_ms))
        self._foreign &= wanted
        self.differing &= wanted
        for graph_hash in sorted(wanted - self._foreign):
            if graph_hash in self._adopted:
                self._adopted[graph_hash] = self._adopted.pop(graph_hash)
            elif graph_hash not in self._runtime.catalog.workflows:
                await self._adopt(graph_hash)

    async def _adopt(self, graph_hash: str) -> None:
        graph = await self._runtime.catalog.graph_of(graph_hash)
        definition = graph.definition
        workflow = await self._restored(graph)
        if workflow is not None and workflow.hash != graph_hash:
            log.warning(
                "holdfast leaves the runs of %s %d (graph %.12s) to others: another version has stored it, and would do"
                " something else.",
                definition.name,
                definition.version,
                graph_hash,
            )
            self.differing.add(graph_hash)
            workflow = None
        if workflow is None:
            self._foreign.add(graph_hash)
            return
        await self._runtime.catalog.adopt(workflow, is_learned=True)
        self._adopted[graph_hash] = len(graph.encoded)

    async def _restored(self, graph: Graph) -> Workflow | None:
        def restore() -> Workflow | None:
            workflow = self._restore(graph.definition)
            if workflow is not None:
                workflow.graph  # noqa: B018 - it is compiled when it is first asked for
            return workflow

        if len(graph.encoded) <= _IN_THE_LOOP_BYTES:
            return restore()
        found: Workflow | None = await self._threads.run(restore, {})
        return found
