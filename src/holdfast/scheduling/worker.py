"""Workers: what they have free, and which of those that can take a job gets it.

Jobs that need the same of a worker have a *worker class*. It knows the workers that could take one of them when idle, those
that may have room now, and the line of jobs that wait for room. A class whose first job has waited long reserves one worker for
itself, which then fills up with nobody else's jobs.

Never here: pools.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.values.demand import Demand
from holdfast.scheduling.job import Capacity, Job, Key, Strategy
from holdfast.scheduling.wait_queue import AnyQueue, WaitQueue


class Need(NamedTuple):
    """A job's requirements for its worker, beside one slot."""

    able: str
    labels: frozenset[str]
    tags: frozenset[str]
    cpu_m: int
    memory_mb: int
    gpus: int
    tenant: str | None = None
    """Tenant whose job it is, if not every worker may get every tenant's."""


def need(job: Job, *, tenants_apart: bool) -> Need:
    demand = job.demand
    return Need(
        job.able,
        frozenset(demand.labels),
        frozenset(demand.tags),
        demand.cpu_m,
        demand.memory_mb,
        demand.gpus,
        job.tenant if tenants_apart else None,
    )


class Worker:
    """A worker, what is placed with it and what that leaves free. One that only has jobs, and has not yet said what it
    can, has no `capacity`."""

    __slots__ = (
        "_cpu_m",
        "_gpus",
        "_memory_mb",
        "_slots",
        "capacity",
        "jobs",
        "load",
        "name",
        "reserved_for",
        "worker_classes",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.capacity: Capacity | None = None
        self.jobs: dict[Key, Job] = {}
        self.worker_classes: dict[WorkerClass, None] = {}
        """Those whose jobs it could take when idle."""
        self.reserved_for: WorkerClass | None = None
        self.load = 1.0
        """The part of it that is taken: of its slots, cores, memory or GPUs, whichever is most."""
        self._slots = self._cpu_m = self._memory_mb = self._gpus = 0

    def become(self, capacity: Capacity) -> None:
        before = self.capacity
        self.capacity = capacity
        self._slots += capacity.slots - capacity.busy - (before.slots - before.busy if before else 0)
        self._cpu_m += capacity.cpu_m - (before.cpu_m if before else 0)
        self._memory_mb += capacity.memory_mb - (before.memory_mb if before else 0)
        self._gpus += capacity.gpus - (before.gpus if before else 0)
        self._weigh()

    def could_take(self, need: Need) -> bool:
        """Return True if the worker, when idle, has everything that is needed."""
        has = self.capacity
        return has is not None and not any(lacking(has, need))

    def has_room(self, need: Need) -> bool:
        return self._slots >= 1 and self._cpu_m >= need.cpu_m and self._memory_mb >= need.memory_mb and self._gpus >= need.gpus

    def take(self, job: Job) -> None:
        self.jobs[job.key] = job
        self._change(job.demand, -1)

    def give_back(self, key: Key) -> None:
        self._change(self.jobs.pop(key).demand, 1)

    def left(self, need: Need) -> float:
        """The part of it that is free after a job is placed: of its slots, cores, memory or GPUs, whichever is most."""
        has = self.capacity
        if has is None:
            return 0.0
        left = (self._slots - 1) / has.slots
        if has.cpu_m:
            left = max(left, (self._cpu_m - need.cpu_m) / has.cpu_m)
        if has.memory_mb:
            left = max(left, (self._memory_mb - need.memory_mb) / has.memory_mb)
        if has.gpus:
            left = max(left, (self._gpus - need.gpus) / has.gpus)
        return left

    def short_of(self, need: Need) -> float:
        """Return how far the worker is from having room: the largest part of any of its capacities that must come back
        first."""
        has = self.capacity
        if has is None:
            return 1.0
        short = max(0.0, (1 - self._slots) / has.slots)
        if has.cpu_m:
            short = max(short, (need.cpu_m - self._cpu_m) / has.cpu_m)
        if has.memory_mb:
            short = max(short, (need.memory_mb - self._memory_mb) / has.memory_mb)
        if has.gpus:
            short = max(short, (need.gpus - self._gpus) / has.gpus)
        return short

    def _change(self, demand: Demand, sign: int) -> None:
        self._slots += sign
        self._cpu_m += sign * demand.cpu_m
        self._memory_mb += sign * demand.memory_mb
        self._gpus += sign * demand.gpus
        self._weigh()

    def _weigh(self) -> None:
        has = self.capacity
        if has is None or not has.slots:
            self.load = 1.0
            return
        load = 1 - self._slots / has.slots
        if has.cpu_m:
            load = max(load, 1 - self._cpu_m / has.cpu_m)
        if has.memory_mb:
            load = max(load, 1 - self._memory_mb / has.memory_mb)
        if has.gpus:
            load = max(load, 1 - self._gpus / has.gpus)
        self.load = load


def lacking(has: Capacity, need: Need) -> list[str]:
    """Return the things that a worker lacks for a job, in words for people."""
    found = [] if need.able in has.able else [f"able {need.able}"]
    found += [f"label {label}" for label in sorted(need.labels - has.labels)]
    found += [f"tag {tag}" for tag in sorted(need.tags - has.tags)]
    if has.tenants is not None and need.tenant not in has.tenants:
        found.append(f"tenant {need.tenant}")
    asked = (
        ("slots", has.slots, 1),
        ("cpu_m", has.cpu_m, need.cpu_m),
        ("memory_mb", has.memory_mb, need.memory_mb),
        ("gpus", has.gpus, need.gpus),
    )
    return found + [f"{what} {wanted}" for what, total, wanted in asked if wanted > total]


class WorkerClass:
    """Jobs that need the same of a worker, and the workers that could take them."""

    __slots__ = ("line", "need", "open", "queues", "reserved", "workers")

    def __init__(self, need: Need) -> None:
        self.need = need
        self.workers: dict[Worker, None] = {}
        """Those that could take one of them when idle."""
        self.open: dict[Worker, None] = {}
        """Those that may have room now; no other has."""
        self.line = WaitQueue()
        self.reserved: Worker | None = None
        """The worker that is reserved for the first in line."""
        self.queues = 0
        """How many queues need this, in line or not."""

    def add(self, worker: Worker) -> None:
        self.workers[worker] = None
        worker.worker_classes[self] = None
        self.open[worker] = None

    def remove(self, worker: Worker) -> None:
        del self.workers[worker], worker.worker_classes[self]
        self.open.pop(worker, None)
        if self.reserved is worker:
            self.reserved = worker.reserved_for = None

    def join(self, queue: AnyQueue) -> None:
        self.line.add(queue)

    def leave(self, queue: AnyQueue) -> None:
        self.line.discard(queue)

    def freed(self, worker: Worker, now_s: float) -> bool:
        """Note that something of a worker came back, and return True if the first in line has to be looked at. If that has
        waited long and it is still too little, a worker is reserved for it: by itself there might never be enough."""
        first = self.line.first()
        if worker.has_room(self.need):
            self.open[worker] = None
            return first is not None and self._may_use(worker, first)
        if first is not None and self.reserved is None and first.aged(now_s):
            self._reserve()
        return False

    def upcoming(self, now_s: float) -> AnyQueue | None:
        """Return the queue to look at, because a worker may have room for it; None if no worker has."""
        return self.line.first() if self.open else None

    def full(self) -> bool:
        """Return True if no worker has room."""
        for worker in list(self.open):
            if worker.has_room(self.need):
                return False
            del self.open[worker]
        return True

    def choose(self, queue: AnyQueue, strategy: Strategy) -> Worker | None:
        """The worker that gets the job, if any has room."""
        need, best, least, full = self.need, None, 0.0, []
        for worker in self.open:
            if not worker.has_room(need):
                full.append(worker)
            elif worker.reserved_for is None or self._may_use(worker, queue):
                value = worker.load if strategy == "least_loaded" else worker.left(need)
                if best is None or value < least:
                    best, least = worker, value
        for worker in full:
            del self.open[worker]
        return best

    def release(self) -> Worker | None:
        """No worker is reserved any more; the one that was, if any. Next time others are asked first whether they want it."""
        worker = self.reserved
        if worker is not None:
            self.reserved = worker.reserved_for = None
            del worker.worker_classes[self]
            worker.worker_classes[self] = None
        return worker

    def _reserve(self) -> None:
        """Reserve the worker that has to wait for least before it has room."""
        free = [worker for worker in self.workers if worker.reserved_for is None]
        if free:
            self.reserved = min(free, key=lambda worker: worker.short_of(self.need))
            self.reserved.reserved_for = self

    def _may_use(self, worker: Worker, queue: AnyQueue) -> bool:
        if worker.reserved_for is None or worker.reserved_for is self:
            return True
        owner = worker.reserved_for.line.first()
        return owner is None or (owner.priority != queue.priority and queue.outranks(owner))
