"""When a process has nothing left to do: what it works on, what it could begin, and what falls due for it soon.

Never here: running a step, letting the process end.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from holdfast.core.scopes import with_room
from holdfast.core.status import Wait
from holdfast.engine.adoption import Adoption
from holdfast.engine.driver import Driver
from holdfast.engine.placing import in_line
from holdfast.engine.stored_line import StoredLine

_LOOK_EVERY_S: Final = 0.02
_SOON_MS: Final = 30_000
"""What falls due later than this does not keep a process waiting that was asked to stop when idle."""
_MOST_SOON: Final = 100


class Idleness:
    """Of one process."""

    def __init__(self, driver: Driver, adoption: Adoption | None) -> None:
        """`adoption`: where the process also takes up what it learns from the store."""
        self._driver = driver
        self._adoption = adoption

    async def reached(self) -> None:
        """Wait until it has nothing to do and nothing will fall due soon: all runs have ended or wait."""
        driver = self._driver
        while True:
            if driver.broken is not None:
                raise driver.broken
            if not driver.at_work and not await self._work_soon() and not driver.at_work:
                return  # what began while the store was asked was no longer due, and is seen here
            await driver.clock.sleep(_LOOK_EVERY_S)

    async def _may_place(self) -> bool:
        """Whether a step that waits for a place could have one here, also one that the sweep has not come by yet."""
        driver = self._driver
        line = StoredLine(driver.store, driver.clock, driver.is_here)
        found = await line.look()
        while True:
            driver.placing.find(in_line(found.runs))
            if found.all_since_s is not None:
                break
            found = await line.look()
        await asyncio.sleep(0)  # what can be placed is placed after this turn of the loop
        return driver.placing.kept > 0 or driver.placing.hopeful()

    async def _work_soon(self) -> bool:
        """Whether a step of its workflows and its lane is lost, ready, or due soon; that a person is to be reminded is no
        work."""
        driver, store = self._driver, self._driver.store
        await store.bury()  # what a killed process left is work, even before the sweep has come by for the first time
        soon_ms = store.now_ms() + _SOON_MS
        if self._adoption is not None:
            await self._adoption.turn(soon_ms)
        for due in filter(driver.is_here, await store.due(soon_ms, driver.hashes, _MOST_SOON)):
            row = await store.run(due.run)
            if due.dead or row is None or row.status == "running":
                return True
            waits = msgspec.json.decode(row.waiting_for, type=list[Wait])
            if any(wait.kind != "gate" and wait.due_at_ms is not None and wait.due_at_ms <= soon_ms for wait in waits):
                return True
        if await self._may_place():
            return True
        rows = [await store.run(run) for run in with_room(await store.room(_MOST_SOON))]
        return any(row is not None and driver.is_here(row) for row in rows)
