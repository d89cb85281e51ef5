"""Has the tasks of supervisors done: starts their runs, hears of their ends, cancels what takes too long.

The process that submits a task does so, and the one that ends a run of a task; what they left undone is found in the store. All
is written down before it is done, so doing it twice is doing it once. Never here: which worker takes a task
(core.nouns.supervision), when a supervisor is looked after (engine.background.consequences).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from holdfast.core.facts import commands as cmd
from holdfast.core.nouns import supervision as rule
from holdfast.core.nouns.supervision import Accepted, Active, Change, Fate, Rejected, Supervisor, Task, TaskOutcome
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import RunId
from holdfast.core.values.payload import digest
from holdfast.core.views.projection import RunRow
from holdfast.engine.runs.background_tasks import BackgroundTasks
from holdfast.engine.runs.payloads import Payloads
from holdfast.engine.runs.runtime import Runtime
from holdfast.engine.runs.starting import NewRun, start_once, workflow_of
from holdfast.errors import Conflict, CorruptHistory, HoldfastError, NotFound, StoreError
from holdfast.models.gateway import Gateway

log = logging.getLogger("holdfast")

_MOST: Final = 100
"""Supervisors of one look; the rest is the next one's."""
_TRIES: Final = 20
"""Of a change that other processes have come before."""
_TURNS: Final = 10_000
"""Of one supervisor in one go: what it has to do ends long before."""
_PAUSE_S: Final = 0.002
_CONTENDED_S: Final = 1.0
_FATES: Final[dict[str, Fate]] = {"completed": "completed", "failed": "failed", "cancelled": "cancelled"}


class Supervising:
    """Of one process, for those of the store. In it only one at a time changes a supervisor; other processes are met in the
    store."""

    def __init__(self, runtime: Runtime, payloads: Payloads, gateway: Gateway | None = None) -> None:
        """`gateway`: whose prices the runs are held to, where the process has one."""
        self._runtime = runtime
        self._payloads = payloads
        self._gateway = gateway
        self._supervisors = runtime.store.supervisors
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def look(self, background_tasks: BackgroundTasks) -> int:
        """Look after those that need it; how many they were. Raises StoreError."""
        due = await self._supervisors.due(self._runtime.store.clock.now_ms(), _MOST)
        for each in due:
            background_tasks.soon(self.carry_on(*each))
        return len(due)

    async def submit(self, tenant: str, name: str, task: Task) -> Accepted | Rejected:
        """Take a task, or not, and have it begin if it can: the same one again is the same. Raises NotFound, InvalidInput for a
        type that no worker takes, and Conflict if another task has its id."""
        answer = await self._accept(tenant, name, task)
        if isinstance(answer, Accepted) and answer.worker is not None:
            with contextlib.suppress(StoreError):  # it is taken, and what is left undone is found in the store
                await self.carry_on(tenant, name)
        return answer

    async def _accept(self, tenant: str, name: str, task: Task) -> Accepted | Rejected:
        async with self._turn(tenant, name):
            for attempt in range(_TRIES):
                supervisor = await self._supervisors.find(tenant, name)
                if supervisor is None:
                    raise no_supervisor(name)
                known = await self._supervisors.task(tenant, name, task.id)
                if known is not None:
                    return _again(supervisor, known, task)
                now_ms = self._runtime.store.clock.now_ms()
                answer, after = rule.submitted(supervisor, task, now_ms)
                if isinstance(answer, Rejected):
                    return answer
                if await self._supervisors.put(Change(after, (task,))):
                    return answer
                await self._runtime.clock.sleep(_PAUSE_S * attempt)
        return Rejected("overloaded", _CONTENDED_S)  # so many submit elsewhere that this one never was first

    async def carry_on(self, tenant: str, name: str) -> None:
        """Do what can be done now."""
        async with self._turn(tenant, name):
            for _ in range(_TURNS):
                supervisor = await self._supervisors.find(tenant, name)
                if supervisor is None:
                    return
                change, late = await self._next(supervisor)
                if change.supervisor == supervisor:
                    return
                if await self._supervisors.put(change):
                    for each in late:
                        await self._call_off(supervisor, each)
                else:  # another was first
                    await self._runtime.clock.sleep(_PAUSE_S)

    def _turn(self, tenant: str, name: str) -> asyncio.Lock:
        return self._turns.setdefault((tenant, name), asyncio.Lock())

    async def _next(self, supervisor: Supervisor) -> tuple[Change, list[Active]]:
        """Return the supervisor with what became of the tasks at work, and those that begin now; and the tasks to call off once
        that is kept."""
        after, tasks = supervisor, list[Task]()
        news = await asyncio.gather(*(self._news(supervisor, active) for active in supervisor.active))
        for active, what in zip(supervisor.active, news, strict=True):
            task = None if what is None else await self._task(supervisor, active)
            if what is None or task is None:
                continue
            now_ms = self._runtime.store.clock.now_ms()
            if isinstance(what, TaskOutcome):
                after, task = rule.ended(after, task, what, now_ms)
            else:
                after, task = rule.begun(after, active.task, what), msgspec.structs.replace(task, run=what)
            tasks.append(task)
        now_ms = self._runtime.store.clock.now_ms()
        late = list(rule.overdue(after, now_ms))
        after = rule.dispatched(rule.called_off(after, late, now_ms), now_ms)
        return Change(after, tuple(tasks)), late

    async def _news(self, supervisor: Supervisor, active: Active) -> RunId | TaskOutcome | None:
        """Return the news of a task at work: its run exists, or has ended, or cannot exist."""
        if active.run is not None:
            return await self._end_of(active.run, active)
        task = await self._task(supervisor, active)
        return None if task is None else await self._start(supervisor, active, task)

    async def _task(self, supervisor: Supervisor, active: Active) -> Task | None:
        """Return a task; None if it has ended so long ago that it is no longer known: what was seen of its supervisor is as
        old."""
        return await self._supervisors.task(supervisor.tenant, supervisor.name, active.task)

    async def _end_of(self, run: RunId, active: Active) -> TaskOutcome | None:
        """Return the end of a run; None while it goes on."""
        row = await self._runtime.store.views.run(run)
        if row is None or row.ended_at_ms is None:
            return None
        fate = _FATES[row.status]
        error = None if fate == "completed" else await self._reason(row)
        return TaskOutcome(fate, max(0, row.ended_at_ms - active.began_ms), error)

    async def _reason(self, row: RunRow) -> str:
        try:
            state = await self._runtime.runs.state(row.run)
        except (CorruptHistory, NotFound) as lost:  # for good, and the others go on all the same
            return f"Run {row.run} {row.status}, and why cannot be read. {lost.message}"
        return state.error.message if state.error is not None else state.reason or row.status

    async def _start(self, supervisor: Supervisor, active: Active, task: Task) -> RunId | TaskOutcome:
        """The run of a task, started now unless it is there. One that cannot be started has failed."""
        key = rule.key_of(supervisor, active.task)
        try:
            make = partial(self._new_run, supervisor, active, task)
            return (await start_once(self._runtime, supervisor.tenant, key, make)).run
        except StoreError:
            raise  # the outcome is unknown: it stays to be started
        except HoldfastError as refused:
            log.warning("holdfast cannot have task %s of %s done: %s", active.task, supervisor.name, refused)
            return TaskOutcome("failed", 0, refused.message)

    async def _new_run(self, supervisor: Supervisor, active: Active, task: Task) -> NewRun:
        runtime, tenant = self._runtime, supervisor.tenant
        name = next(each.workflow for each in supervisor.workers if each.name == active.worker)
        workflow = await workflow_of(runtime, tenant, name)
        valid = workflow.validated_input(msgspec.json.decode(task.payload))
        start = cmd.StartRun(
            RunId(""),
            tenant,
            await self._payloads.keep(valid, tenant, runtime.store.clock.now_ms()),
            digest([name, bytes(task.payload).decode()]),
            by=task.by,
            team=supervisor.team,
            queue=True,
            shared=supervisor.shared,
            agent=active.worker if supervisor.shared else None,
            price_fingerprint=None if self._gateway is None else self._gateway.price_fingerprint,
        )
        return NewRun(workflow.graph, start)

    async def _call_off(self, supervisor: Supervisor, active: Active) -> None:
        assert active.run is not None
        took_s = (active.deadline_ms - active.began_ms) / 1000
        by = Actor(f"supervisor {supervisor.name}")
        try:
            await self._runtime.runs.send(active.run, cmd.CancelRun(f"it took longer than {took_s:g} s", by))
        except Conflict:
            log.debug("run %s of supervisor %s is ending already", active.run, supervisor.name, extra={"run_id": active.run})


def _again(supervisor: Supervisor, former: Task, task: Task) -> Accepted:
    """The answer to one who submits what was submitted before."""
    if (former.task_type, bytes(former.payload)) != (task.task_type, bytes(task.payload)):
        raise Conflict(f"Supervisor {supervisor.name!r} has another task {task.id!r}. Nothing was submitted: use another id.")
    found = rule.accepted(supervisor, task.id)
    return found if former.fate is None else found._replace(worker=former.worker)


def no_supervisor(name: str) -> NotFound:
    return NotFound(f"There is no supervisor {name!r:.130} in this store; `holdfast supervisors list` shows those that are.")
