"""Sends a tick to runs that fall due so soon that a sweep would come late.

Never here: what falls due, what a tick finds (core has both).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from holdfast.core.facts.commands import Tick
from holdfast.core.facts.events import Event
from holdfast.core.values.ids import RunId
from holdfast.engine.runs.mailbox import Mailbox, unheard
from holdfast.engine.runs.runtime import Runtime

_SOON_MS: Final = 1000
_MOST: Final = 10_000


class Reminders:
    """Those of one process, one for each run at most."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tasks: dict[RunId, asyncio.Task[None]] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def committed(self, mailbox: Mailbox, events: Sequence[Event]) -> None:
        """A run has gone on: see that it is looked at, if it falls due within a second."""
        if not events or mailbox.due_at_ms is None:
            return
        run, due_in_ms = mailbox.run, mailbox.due_at_ms - self._runtime.store.clock.now_ms()
        if not 0 < due_in_ms < _SOON_MS:
            return
        if (sooner := self._tasks.pop(run, None)) is not None:
            sooner.cancel()
        elif len(self._tasks) >= _MOST:
            return  # the sweep is good enough
        self._tasks[run] = asyncio.create_task(self._look_at(run, due_in_ms), name=f"holdfast-due-{run}")

    async def _look_at(self, run: RunId, due_in_ms: int) -> None:
        await self._runtime.clock.sleep((due_in_ms + 1) / 1000)
        del self._tasks[run]
        self._runtime.runs.mailbox(run).post(Tick()).add_done_callback(unheard)

    async def aclose(self) -> None:
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
