"""Fires the schedules of the store that are due: starts their runs, and writes down how far each has come.

A crash between the two, or another process that fires the same, meets the run that is there under the start key of the
time. Never here: which times are due (core.schedules).
"""

from __future__ import annotations

import logging
import math
from typing import Final

import msgspec

from holdfast.core import commands as cmd
from holdfast.core import schedules
from holdfast.core.claim import Claim
from holdfast.core.ids import RunId
from holdfast.core.payload import Payload, digest
from holdfast.core.schedules import Schedule
from holdfast.engine.runtime import Runtime
from holdfast.errors import Conflict, HoldfastError, KeyReused, NotFound, StoreError
from holdfast.ports import KeptSchedule

log = logging.getLogger("holdfast")

MOST_SCHEDULES: Final = 100
"""Of one turn; the rest is fired by the next."""
_LONGEST_PAUSE_S: Final = 5.0
"""After so long a schedule is noticed that another process has made, or changed."""
_TRY_AGAIN_MS: Final = 60_000
"""After a firing that could start nothing: its workflow is not known, or its input can be no more."""


class Firing:
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
        due = await store.schedules.due(now_ms, MOST_SCHEDULES)
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

    async def _fire(self, kept: KeptSchedule, now_ms: int) -> None:
        schedule, revision = kept
        turn = schedules.turn(schedule, now_ms, last_has_ended=await self._has_ended(schedule.last_run))
        after = turn.after
        try:
            for at_ms in turn.times:
                run = await start(self._runtime, schedule, at_ms)
                if schedule.overlap == "cancel" and schedule.last_run is not None and schedule.last_run != run:
                    await self._cancel(schedule.last_run, schedule.name)
                after = msgspec.structs.replace(
                    after, last_run=run, last_nominal_ms=at_ms, fired=after.fired + 1, problem=None
                )
        except StoreError:
            raise
        except HoldfastError as problem:
            after = msgspec.structs.replace(schedule, due_at_ms=now_ms + _TRY_AGAIN_MS, problem=str(problem))
            if schedule.problem != after.problem:
                log.warning("holdfast could not start what schedule %s asks for: %s", schedule.name, problem)
        await self._runtime.store.schedules.replace(after, revision)  # else another has, or a person has changed it

    async def _has_ended(self, run: RunId | None) -> bool:
        row = None if run is None else await self._runtime.store.views.run(run)
        return row is None or row.ended_at_ms is not None

    async def _cancel(self, run: RunId, name: str) -> None:
        try:
            await self._runtime.runs.send(run, cmd.CancelRun(f"schedule {name} begins anew", Claim(f"schedule {name}")))
        except (Conflict, NotFound):
            log.debug("run %s of schedule %s had ended already", run, name)


async def start(runtime: Runtime, schedule: Schedule, nominal_ms: int) -> RunId:
    """The run of a nominal time, started now unless it is there. Raises NotFound for a workflow that the store does not
    know, KeyReused where the time has had a run with another input."""
    key, given = schedules.key_of(schedule, nominal_ms), schedules.input_of(schedule, nominal_ms)
    input_digest = digest([schedule.workflow, given.decode()])
    if (known := await _of_key(runtime, schedule.tenant, key, input_digest)) is not None:
        return known
    record = await runtime.store.graphs.workflow(schedule.workflow, schedule.version)
    mailbox = runtime.runs.new(await runtime.catalog.graph_of(record.graph_hash))
    command = cmd.StartRun(
        mailbox.run, schedule.tenant, Payload(json=msgspec.Raw(given)), input_digest, schedule.limit_nanousd, key,
        schedules.claim_of(schedule), team=schedule.team, queue=True,
    )  # fmt: skip
    try:
        await mailbox.send(command)
    except KeyReused:
        known = await _of_key(runtime, schedule.tenant, key, input_digest)
        if known is None:
            raise
        return known
    return mailbox.run


async def _of_key(runtime: Runtime, tenant: str, key: str, input_digest: str) -> RunId | None:
    known = await runtime.store.log.run_of_key(tenant, key)
    if known is not None and known[1] != input_digest:
        raise KeyReused(f"The key {key!r} has started run {known[0]} with another input.", run=known[0])
    return None if known is None else known[0]
