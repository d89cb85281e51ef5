"""A leader's knowledge of the workers of a fleet: their own reports, and the jobs still on their way to them.

A worker's own report counts. It gives the free slots, the number of jobs taken so far, and the placed steps that it holds. So a
leader that has just begun knows what is in use, and nothing leaks when a message is lost.

Never here: who gets a job (placement), a queue.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.values.ids import SessionId
from holdfast.ports import PlacedStep, Report
from holdfast.scheduling.job import Capacity, Job, Key, Placement
from holdfast.scheduling.placement import Scheduler

ON_ITS_WAY_MS: Final = 2_000
"""A worker that takes up what was placed with it later than that does not begin it. One that says afterwards that it has
not taken it has never got it."""


def able_of(step: PlacedStep) -> str:
    """Return the ability that a worker needs to be given a step."""
    if step.demand.runs_scripts:
        return scripts_of(step.graph_hash)
    return step.graph_hash if step.demand.task is None else able_to(step.demand.task)


def able_to(task: str) -> str:
    """The same of a task, which connected workers offer."""
    return f"task:{task}"


def scripts_of(graph_hash: str) -> str:
    """The same of a workflow's scripts: a process that has the workflow may not want to run them, and a connected worker
    does without having it."""
    return f"scripts:{graph_hash}"


def job_of(step: PlacedStep) -> Job:
    return Job((step.run, step.step), able_of(step), step.tenant, step.demand)


class _Worker:
    __slots__ = ("arrived", "free", "given", "hashes", "heard_s", "holds", "on_its_way", "slots", "until_ms")

    def __init__(self, report: Report) -> None:
        self.given = report.taken
        """How many jobs it has been given, by its own count."""
        self.until_ms = 0
        """When it will begin nothing more of that which it has not taken yet."""
        self.hashes: frozenset[str] = frozenset()
        self.slots = self.free = 0
        self.heard_s = 0.0
        self.on_its_way: dict[Key, int] = {}
        """What it was given and has not said that it has, by the number of each."""
        self.holds: set[Key] = set()
        """Those of them that it will hold until they are over."""
        self.arrived: set[Key] = set()
        """The placed steps that it has said it holds."""


class LaneWorkers:
    """The workers of one lane, each with its place in the scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._workers: dict[SessionId, _Worker] = {}

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def slots(self) -> int:
        return sum(worker.slots for worker in self._workers.values())

    @property
    def free(self) -> int:
        """The number of free slots, as far as it is known here."""
        return sum(max(0, worker.free - len(worker.on_its_way)) for worker in self._workers.values())

    def has(self, key: Key) -> bool:
        """Return True if a placed step is at a worker, or on its way there."""
        return any(key in worker.on_its_way or key in worker.arrived for worker in self._workers.values())

    def can_run(self, graph_hash: str) -> bool:
        """Return True if any worker, busy or not, has that workflow."""
        return any(graph_hash in worker.hashes for worker in self._workers.values())

    def report(self, report: Report, now_s: float) -> None:
        """A worker says how it is."""
        worker = self._workers.get(report.worker)
        if worker is None:
            worker = self._workers[report.worker] = _Worker(report)
        self._take_in(worker, report, now_s)
        held = {(step.run, step.step): step for step in report.held}
        for key in [key for key in worker.arrived if key not in held]:
            worker.arrived.discard(key)
            self._scheduler.finish(key, now_s)
        for key, step in held.items():
            if key not in worker.arrived and key not in worker.on_its_way:
                worker.arrived.add(key)
                self._scheduler.charge(key, job_of(step), report.worker)
        worker.slots, worker.free, worker.heard_s = report.slots, report.free, now_s
        worker.hashes = frozenset(report.hashes)
        own, busy = report.resources, report.slots - report.free - len(worker.arrived)
        self._scheduler.join(
            Capacity(
                report.worker,
                worker.hashes,
                frozenset(report.labels),
                frozenset(own.tags),
                report.slots,
                own.cpu_m,
                own.memory_mb,
                own.gpus,
                max(0, busy),
            ),
            now_s,
        )

    def _take_in(self, worker: _Worker, report: Report, now_s: float) -> None:
        """Find out what has arrived. What has not by the time that it could begin is lost, and will be found in the store. What
        counts is when the worker reported it, not when that was heard."""
        lost = report.at_ms > worker.until_ms
        if report.taken > worker.given or lost:
            worker.given = report.taken
        for key, number in list(worker.on_its_way.items()):
            if number > report.taken and not lost:
                continue
            del worker.on_its_way[key]
            if key in worker.holds and number <= report.taken:
                worker.arrived.add(key)
            else:
                self._scheduler.finish(key, now_s)  # lost, or the worker's own affair by now
            worker.holds.discard(key)

    def give(self, placement: Placement, until_ms: int, *, holds: bool) -> None:
        """A job is on its way to its worker, which then `holds` it, or has only to look at it. After `until_ms` it does not
        begin it any more."""
        worker = self._workers[SessionId(placement.worker)]
        worker.given += 1
        worker.until_ms = until_ms
        worker.on_its_way[placement.job.key] = worker.given
        if holds:
            worker.holds.add(placement.job.key)

    def has_reported_since(self, worker: SessionId, since_s: float) -> bool:
        """Return True if a worker has reported since then."""
        known = self._workers.get(worker)
        return known is not None and known.heard_s >= since_s

    def silent(self, since_s: float) -> list[SessionId]:
        """Return the workers that have reported nothing since then."""
        return [name for name, worker in self._workers.items() if worker.heard_s < since_s]

    def mute(self, name: SessionId, now_s: float) -> None:
        """It says nothing, and lives: it is given nothing more, and what it has stays its own."""
        worker = self._workers[name]
        worker.slots = worker.free = 0
        worker.hashes = frozenset()
        self._scheduler.join(Capacity(name, frozenset(), frozenset(), frozenset(), 0), now_s)

    def forget(self, worker: SessionId) -> None:
        """It is gone, and what it had is free."""
        if self._workers.pop(worker, None) is not None:
            self._scheduler.leave(worker)
