"""A supervisor among the faults: somebody declares it and submits tasks, wherever a process answers; and who judges what becomes of
them.

Never here: who takes a task; the judge counts, and has nothing of the rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from typing import Any, Final

from holdfast.authoring.context import Context
from holdfast.authoring.flow import flow
from holdfast.compose import Engine
from holdfast.core.nouns.supervision import KEPT_MS, Accepted, Change, Rejected, Task
from holdfast.core.values.ids import RunId
from holdfast.service.control.supervisor import WorkerAgent
from tests.simulation.books import Books
from tests.simulation.chance import spread_s

NAME: Final = "a desk"
KEYS: Final = "supervisor/"
_ENDS: Final = {"completed": "RunCompleted", "failed": "RunFailed", "timed_out": "RunCancelled", "cancelled": "RunCancelled"}
_TRIES: Final = 3
_DAY_S: Final = 86_400.0

Ask = Callable[[Callable[[Engine], Awaitable[Any]]], Awaitable[Any]]


@flow(name="chore")
async def chore(ctx: Context, given: dict[str, Any]) -> str:
    """Goes on for a while, and fails if it is to."""
    await ctx.sleep(given["takes_s"])
    if given["fails"]:
        raise ValueError("a chore that fails")
    return str(given["id"])


class Desk:
    """The supervisor of a program, if it has one, and its books."""

    def __init__(
        self,
        stream: Random,
        tenant: str,
        runs: Mapping[str, Books],
        fault: Callable[[str, str, str], None],
        clocks_agree: Callable[[], bool],
    ) -> None:
        self._stream = stream
        self._tenant = tenant
        self._books = runs
        self._fault = fault
        self._clocks_agree = clocks_agree
        self._workers = [
            WorkerAgent("ann", chore, ["sweep"], stream.choice((1, 3)), stream.choice((5.0, 60.0, 3_600.0))),
            WorkerAgent("bob", chore, ["sweep", "wash"], stream.choice((1, 2))),
        ]
        self._how: dict[str, Any] = {
            "max_queue": stream.choice((0, 2, 100)),
            "threshold": stream.choice((None, None, 0.5, 0.8)),
            "cool_down_s": stream.choice((5.0, 30.0)),
        }
        self._fails = stream.choice((0.0, 0.2, 0.9))
        self.accepted: set[str] = set()
        """The tasks of which somebody was told that they will be done."""
        self._tasks: dict[str, Task] = {}
        self._standing: set[str] = set()
        self._forgotten = 0
        """Tasks that have counted, and were submitted again when nobody knew of them any more."""

    # --- Who has it ---------------------------------------------------------------------------------------------------

    async def live(self, ask: Ask) -> None:
        """Declare it, submit to it, and wait until it has nothing to do."""
        await ask(partial(Engine.set_supervisor, name=NAME, workers=self._workers, tenant=self._tenant, **self._how))
        await asyncio.gather(*(self._submit(ask, number) for number in range(self._stream.choice((1, 4, 12)))))
        pause_s = 20.0
        while True:
            found = await ask(lambda engine: engine.supervisor(NAME, tenant=self._tenant).dashboard())
            if not found.queue_size and not found.system_load:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _DAY_S)

    async def _submit(self, ask: Ask, number: int) -> None:
        stream, task = self._stream, f"task-{number}"
        await asyncio.sleep(spread_s(stream, 0.01, 300.0))
        given = {"id": task, "takes_s": spread_s(stream, 0.1, 100.0), "fails": stream.random() < self._fails}
        how: dict[str, Any] = {"priority": stream.choice((0, 0, -1, 5)), "timeout_s": stream.choice((None, None, 2.0))}
        task_type = stream.choice(("sweep", "wash"))
        for _ in range(_TRIES):
            answer: Accepted | Rejected = await ask(
                lambda engine: engine.supervisor(NAME, tenant=self._tenant).submit(task_type, given, task_id=task, **how)
            )
            if isinstance(answer, Accepted):
                self.accepted.add(task)
                return
            if task in self.accepted:
                self._fault("a task that was accepted stays so", "?", f"{task}: {answer}")
            await asyncio.sleep(answer.retry_after_s)

    # --- Its judge ----------------------------------------------------------------------------------------------------

    def started(self, run: RunId, key: str) -> None:
        """A run has begun under a key."""
        task = key.rpartition("/")[2]
        if key.startswith(KEYS) and task not in self._standing:
            self._fault("a run is started for a task that was taken", run, key)

    def changed(self, change: Change) -> None:
        """The supervisor is as this says from now on."""
        now = change.supervisor
        for worker in now.workers:
            own = [each for each in now.active if each.worker == worker.name]
            if len(own) > worker.max_concurrent or sum(each.probe for each in own) > 1:
                self._fault("no worker has more than it may", "?", f"{worker.name}: {own}")
        if len(now.queue) > now.max_queue:
            self._fault("no more wait than there is room for", "?", f"{len(now.queue)} of {now.max_queue}")
        names = [*(each.task for each in now.active), *(each.task for each in now.queue)]
        if len(set(names)) < len(names):
            self._fault("a task stands in one place", "?", f"{names}")
        for task in change.tasks:
            self._task(task)
        over = {name for name, each in self._tasks.items() if each.fate is not None}
        if {*self._tasks} - over != {*names}:
            self._fault("no task is lost, and none is done for ever", "?", f"{names}, not {sorted(self._tasks)}")
        counted = sum(each.completed + each.errors for each in now.workers)
        if counted != self._forgotten + sum(_counts(each) for each in self._tasks.values()):
            self._fault("each task is counted once", "?", f"{counted}: {now}")
        self._standing = {*names}

    def _task(self, new: Task) -> None:
        old = self._tasks.get(new.id)
        if old is not None and old.ended_ms is not None:
            is_forgotten = not self._clocks_agree() or new.at_ms >= old.ended_ms + KEPT_MS
            if new.fate is not None or not is_forgotten:
                self._fault("a task ends once", new.run or "?", f"{old} became {new}")
            self._forgotten += _counts(old)
        elif old is not None and old.run is not None and new.run != old.run:
            self._fault("one run does a task", new.run or "?", f"{old} became {new}")
        if new.fate is not None and (new.run is None or not self._books[new.run].kinds[_ENDS[new.fate]]):
            self._fault("a task is over as its run is", new.run or "?", f"{new}")
        self._tasks[new.id] = new

    def close(self, *, over: bool) -> None:
        """With `over` all of it has been done by now."""
        for task in sorted(self.accepted):
            known = self._tasks.get(task)
            if known is None:
                self._fault("what was accepted is kept", "?", task)
            elif over and known.fate is None:
                self._fault("what was accepted is done", known.run or "?", f"{known}")


def _counts(task: Task) -> bool:
    """Whether it says something of its worker."""
    return task.fate not in (None, "cancelled")
