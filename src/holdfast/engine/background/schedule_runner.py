"""Fires the schedules of the store that are due: writes down what is to be started, starts it, and writes down that it is.

After a crash in between the next process starts it again, and meets the existing run under the start key of the time. Never
here: which times are due (core.nouns.schedules).
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import Final

import msgspec

from holdfast.core.facts import commands as cmd
from holdfast.core.facts.contribution import of_claim
from holdfast.core.nouns import schedules
from holdfast.core.nouns.schedules import Schedule
from holdfast.core.values.actor import NOBODY, Actor
from holdfast.core.values.ids import RunId
from holdfast.core.values.payload import Payload, digest
from holdfast.engine.runs.runtime import Runtime
from holdfast.engine.runs.starting import NewRun, scopes_of_run, start_once
from holdfast.errors import Conflict, HoldfastError, NotFound, StoreError
from holdfast.ports import KeptSchedule

log = logging.getLogger("holdfast")

MAX_SCHEDULES: Final = 100
"""Of one turn; the rest is fired by the next."""
_LONGEST_PAUSE_S: Final = 5.0
"""After so long a schedule is noticed that another process has made, or changed."""
_TRY_AGAIN_MS: Final = 60_000
"""After a firing that could start nothing: its workflow is not known, or its input can be no more."""


class ScheduleRunner:
    """Of one process, for the schedules of its lane."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._next_s = -math.inf

    async def turn(self) -> None:
        """Fire what is due. Asks the store no more than once in a while where nothing is. Raises StoreError."""
        store, clock = self._runtime.store, self._runtime.clock
        if clock.monotonic_s() < self._next_s:
            return
        now_ms = store.clock.now_ms()
        due = await store.schedules.due(now_ms, MAX_SCHEDULES)
        mine = [kept for kept in due if self._is_here(kept.schedule)]
        for kept in mine:
            await self._fire(kept, now_ms)
        next_ms = await store.schedules.next_due_ms()
        until_s = _LONGEST_PAUSE_S if next_ms is None else (next_ms - store.clock.now_ms()) / 1000
        if not mine and until_s <= 0:
            until_s = _LONGEST_PAUSE_S  # those of other lanes are due, and stay so for a moment
        self._next_s = clock.monotonic_s() + min(until_s, _LONGEST_PAUSE_S)

    def _is_here(self, schedule: Schedule) -> bool:
        catalog = self._runtime.catalog
        return catalog.lanes.of(schedule.workflow, schedule.tenant, schedules.claim_of(schedule).name) == catalog.lane

    async def _fire(self, stored: KeptSchedule, now_ms: int) -> None:
        schedule, revision = stored
        changed = self._runtime.store.schedules.replace
        if not schedule.pending:
            last_has_ended = await self._has_ended(schedule.last_run)
            schedule = schedules.turn(schedule, now_ms, last_has_ended=last_has_ended).after
            if not await changed(schedule, revision):
                return  # another has, or a person has changed it
            revision += 1
        if schedule.pending:
            await changed(await self._begun(schedule, now_ms), revision)  # else the change has left it pending

    async def _begun(self, schedule: Schedule, now_ms: int) -> Schedule:
        """The schedule with its pending times begun."""
        runs: list[RunId] = []
        try:
            for at_ms in schedule.pending:
                run = await start(self._runtime, schedule, at_ms)
                if schedule.overlap == "cancel" and schedule.last_run is not None and schedule.last_run != run:
                    await self._cancel(schedule.last_run, schedule.name)
                runs.append(run)
        except StoreError:
            raise
        except HoldfastError as problem:
            if schedule.problem != str(problem):
                log.warning("holdfast could not start what schedule %s asks for: %s", schedule.name, problem)
            return schedules.hindered(schedules.begun(schedule, runs), str(problem), now_ms + _TRY_AGAIN_MS)
        return schedules.begun(schedule, runs)

    async def _has_ended(self, run: RunId | None) -> bool:
        row = None if run is None else await self._runtime.store.views.run(run)
        return row is None or row.ended_at_ms is not None

    async def _cancel(self, run: RunId, name: str) -> None:
        try:
            await self._runtime.runs.send(run, cmd.CancelRun(f"schedule {name} begins again", Actor(f"schedule {name}")))
        except (Conflict, NotFound):
            log.debug("run %s of schedule %s had ended already", run, name, extra={"run_id": run})


async def start(runtime: Runtime, schedule: Schedule, nominal_ms: int, by: Actor = NOBODY) -> RunId:
    """The run of a nominal time, started now unless it is there: also one that was started before the schedule was changed.
    `by` makes up for that time, and so contributes to its run.
    Raises NotFound for a workflow that the store does not know, InvalidInput for a team budget that does not know its agent."""
    make = partial(_new_run, runtime, schedule, nominal_ms, by)
    return (await start_once(runtime, schedule.tenant, schedules.key_of(schedule, nominal_ms), make)).run


async def _new_run(runtime: Runtime, schedule: Schedule, nominal_ms: int, by: Actor) -> NewRun:
    given = schedules.input_of(schedule, nominal_ms)
    record = await runtime.store.graphs.workflow(schedule.workflow, schedule.version, tenant=schedule.tenant)
    graph = await runtime.catalog.graph_of(record.graph_hash)
    shared = await scopes_of_run(runtime.store, schedule.tenant, schedule.team_budget, schedule.agent, graph)
    start = cmd.StartRun(
        RunId(""),
        schedule.tenant,
        Payload(json=msgspec.Raw(given)),
        digest([schedule.workflow, given.decode()]),
        schedule.limit_nanousd,
        by=schedules.claim_of(schedule),
        team=schedule.team,
        queue=True,
        shared=shared,
        agent=schedule.agent,
        contributors=tuple(dict.fromkeys((*schedule.authors, *of_claim(schedule.by), *of_claim(by)))),
    )
    return NewRun(graph, start)
