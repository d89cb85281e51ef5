"""The moment in which a process has nothing left to do: what it works on, what it could begin, what falls due for it soon, and
what others still do of its workflows; and the runs it leaves behind all the same.

Never here: running a step, letting the process end.
"""

from __future__ import annotations

import asyncio
from typing import Final, Literal, NamedTuple

import msgspec

from holdfast.core.facts.commands import Tick
from holdfast.core.values.ids import RunId
from holdfast.core.values.scopes import with_headroom
from holdfast.core.views.projection import RunRow
from holdfast.core.views.status import NOTHING, Wait
from holdfast.engine.background.stuck import UNENDED, is_stuck
from holdfast.engine.background.workflow_loader import WorkflowLoader
from holdfast.engine.capacity.placing import in_line
from holdfast.engine.capacity.stored_line import StoredLine
from holdfast.engine.steps.executor import Executor
from holdfast.ports import DueRun

_LOOK_EVERY_S: Final = 0.02
_LOOK_AT_OTHERS_EVERY_S: Final = 0.2
_SOON_MS: Final = 30_000
"""What falls due later than this does not keep a process waiting that was asked to stop when idle."""
_MAX_SOON: Final = 100
_PAGE: Final = 100
MAX_LEFT: Final = 500
"""Maximum number of runs left behind that are listed one by one."""


Why = Literal["workflow_missing", "damaged", "stuck"]


class StrandedRun(NamedTuple):
    """A run that could go on now, and that no process goes on with: no living process has its definition, or its history cannot
    be read, or what follows not be stored. Or one that is stuck: it waits for nothing, though it was looked at."""

    run: RunId
    workflow: str
    version: int
    graph_hash: str
    why: Why


class Idleness:
    """Of one process."""

    def __init__(self, executor: Executor, adoption: WorkflowLoader | None) -> None:
        """`adoption`: where the process also takes up what it learns from the store."""
        self._executor = executor
        self._runtime = executor.services.runtime
        self._adoption = adoption

    async def reached(self) -> list[StrandedRun]:
        """Wait until nothing of its workflows runs or will fall due soon, here or anywhere: all runs have ended or wait.
        The runs that are left behind, `MAX_LEFT` at most."""
        executor, runtime = self._executor, self._runtime
        while True:
            if runtime.membership.broken is not None:
                raise runtime.membership.broken
            pause_s = _LOOK_EVERY_S
            if not executor.at_work and not await self._work_soon():
                left = await self._left_behind()
                if await self._others_work(left):
                    pause_s = _LOOK_AT_OTHERS_EVERY_S
                elif not await self._work_soon() and not executor.at_work:
                    return left  # what began while the store was asked was no longer due, and is seen here
            await runtime.clock.sleep(pause_s)

    async def _left_behind(self) -> list[StrandedRun]:
        """Return the runs that no process goes on with. While a process lives that has their definition, it has runs of another
        one too."""
        runtime = self._runtime
        store = self._runtime.store
        now_ms = store.clock.now_ms()
        damaged = [await store.views.run(run) for run in runtime.runs.damaged]
        stranded = [(due, await store.views.run(due.run)) for due in await store.views.stranded(now_ms, MAX_LEFT)]
        missing = [row for due, row in stranded if row is not None and _is_work(due, row, now_ms)]
        found: list[tuple[RunRow | None, Why]] = [(row, "damaged") for row in damaged]
        found += [(row, "workflow_missing") for row in missing]
        found += [(row, "stuck") for row in await self._stuck()]
        return [
            StrandedRun(row.run, row.workflow, row.version, row.graph_hash, why)
            for row, why in found
            if row is not None and self._is_ours(row)
        ][:MAX_LEFT]

    async def _stuck(self) -> list[RunRow]:
        """The runs of its workflows that wait for nothing, and still do after a look at them, which has most of them go on."""
        runtime, found = self._runtime, list[RunRow]()
        for name in {workflow.name for workflow in runtime.catalog.workflows.values()}:
            before: RunId | None = None
            while page := await runtime.store.views.runs(workflow=name, status=UNENDED, before=before, limit=_PAGE):
                found += [row for row in page if is_stuck(row) and runtime.catalog.is_here(row)]
                before = page[-1].run
        for row in found:
            await runtime.runs.tick(row.run, Tick())
        again = [await runtime.store.views.run(row.run) for row in found]
        return [row for row in again if row is not None and is_stuck(row)]

    def _is_ours(self, row: RunRow) -> bool:
        """True if it is a run of this process's workflows and lane, of whatever definition."""
        runtime = self._runtime
        differs = self._adoption is not None and row.graph_hash in self._adoption.differing
        named = differs or any(each.name == row.workflow for each in runtime.catalog.workflows.values())
        return named and runtime.catalog.lanes.of(row.workflow, row.tenant, row.started_by) == runtime.catalog.lane

    async def _others_work(self, left: list[StrandedRun]) -> bool:
        """Return True if another process runs one of them, or has died and is not known to be dead yet."""
        known = {each.run for each in left}
        for name in {workflow.name for workflow in self._runtime.catalog.workflows.values()}:
            before: RunId | None = None
            while page := await self._runtime.store.views.runs(workflow=name, status="running", before=before, limit=_PAGE):
                if any(row.run not in known and self._is_ours(row) for row in page):
                    return True
                before = page[-1].run
        return False

    async def _may_place(self) -> bool:
        """Return True if a waiting step could have a place here, also one that the sweep has not reached yet."""
        executor, runtime = self._executor, self._runtime
        line = StoredLine(runtime.store.views, runtime.clock, runtime.catalog.is_here)
        found = await line.look()
        while True:
            executor.placing.find(in_line(found.runs))
            if found.all_since_s is not None:
                break
            found = await line.look()
        await asyncio.sleep(0)  # what can be placed is placed after this turn of the loop
        return executor.placing.reserved_slots > 0 or executor.placing.hopeful()

    async def _work_soon(self) -> bool:
        """Return True if a step of its workflows and its lane is lost, ready, or due soon; a reminder to a person is no
        work."""
        runtime = self._runtime
        store = self._runtime.store
        await store.sessions.expire()  # what a killed process left is work, even before the first sweep
        soon_ms = store.clock.now_ms() + _SOON_MS
        if self._adoption is not None:
            await self._adoption.turn(soon_ms)
        for due in filter(runtime.catalog.is_here, await store.views.due(soon_ms, runtime.catalog.hashes, _MAX_SOON)):
            row = await store.views.run(due.run)
            if row is None or _is_work(due, row, soon_ms):
                return True
        if await store.children.pending(store.clock.now_ms(), 1) or await store.conversations.due(1):
            return True
        if await store.supervisors.due(soon_ms, 1):
            return True
        if await self._may_place():
            return True
        rows = [await store.views.run(run) for run in with_headroom(await store.scopes.headroom(_MAX_SOON))]
        return any(row is not None and runtime.catalog.is_here(row) for row in rows)


def _is_work(due: DueRun, row: RunRow, by_ms: int) -> bool:
    """True if a step of the run is lost, ready, to be placed, or due by then; a reminder to a person is no work."""
    if due.dead or row.status == "running":
        return True
    return any(
        wait.kind in ("worker", NOTHING) if wait.due_at_ms is None else wait.kind != "gate" and wait.due_at_ms <= by_ms
        for wait in msgspec.json.decode(row.waiting_for, type=list[Wait])
    )
