"""Workflows that a process learns from the store: those of runs with something to do, whose graph says all there is to know.

Never here: which graphs those are (whoever restores workflows knows that), the runs themselves (the sweep finds them).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from holdfast.authoring.workflow import Workflow
from holdfast.core.graph import Definition
from holdfast.engine.driver import Driver

log = logging.getLogger("holdfast")

MOST_ADOPTED: Final = 256
"""How many are kept: what programs write is a new workflow every time. One that was let go is learned again when a run of
it has something to do."""

Restore = Callable[[Definition], Workflow | None]
"""The workflow that has this definition, if that is all there is to know about it."""


class Adoption:
    """What one process has learned so, those first that were wanted longest ago."""

    def __init__(self, driver: Driver, restore: Restore, *, most: int = MOST_ADOPTED) -> None:
        self._driver = driver
        self._restore = restore
        self._most = most
        self._turning = asyncio.Lock()
        self._adopted: dict[str, None] = {}
        self._foreign: set[str] = set()
        """Of those that are wanted, what cannot be restored here."""
        self.differing: set[str] = set()
        """Of these, what another version has stored, and would do something else here."""

    async def turn(self, before_ms: int) -> None:
        """Be able to run whatever is due by then or waits for a place, as far as it can be restored."""
        async with self._turning:  # the sweep is not the only one who asks
            await self._learn(before_ms)
            for graph_hash in list(self._adopted)[: max(0, len(self._adopted) - self._most)]:
                if await self._driver.forget(graph_hash):
                    del self._adopted[graph_hash]

    async def _learn(self, before_ms: int) -> None:
        wanted = set(await self._driver.store.wanted_hashes(before_ms))
        self._foreign &= wanted
        self.differing &= wanted
        for graph_hash in sorted(wanted - self._foreign):
            if graph_hash in self._adopted:
                del self._adopted[graph_hash]
                self._adopted[graph_hash] = None
            elif graph_hash not in self._driver.workflows:
                await self._adopt(graph_hash)

    async def _adopt(self, graph_hash: str) -> None:
        definition = (await self._driver.graph_of(graph_hash)).definition
        workflow = self._restore(definition)
        if workflow is not None and workflow.hash != graph_hash:
            log.warning(
                "holdfast leaves the runs of %s %d (graph %.12s) to others: another version has stored it, and would do"
                " something else.", definition.name, definition.version, graph_hash,
            )  # fmt: skip
            self.differing.add(graph_hash)
            workflow = None
        if workflow is None:
            self._foreign.add(graph_hash)
            return
        await self._driver.add(workflow)
        self._adopted[graph_hash] = None
