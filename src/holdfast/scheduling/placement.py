"""The scheduler: jobs that wait, pools, workers; it places what can be placed, each job in one indivisible decision.

A decision has two stages. Of all the pools that a job wants there must be enough, or it takes of none and waits in the
lines of those it is short of. Then a worker must have what it needs, or the job waits in the line of its worker class; its
pools are taken only with a worker. Jobs that are alike wait as one queue, and only for what they are short of: whatever comes
back wakes the first in its line, and nothing else is looked at. What a placement costs therefore does not depend on
how many wait, but for the logarithm in the heaps.

Which job goes first is told in `wait_queue`, for which something is reserved in `pool` and `worker`.

Never here: I/O, a clock, a task. Times come in as `now_s`, on any clock that does not go backwards. Nothing in it must
last: it is built again from what waits, what is placed and what workers say.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, Literal

from holdfast.core.values.demand import Demand
from holdfast.scheduling.job import Capacity, Job, Key, Placement, PoolNeed, Reason, Strategy, Usage
from holdfast.scheduling.job_class import JobClass
from holdfast.scheduling.pool import Pool, chain
from holdfast.scheduling.queue import JobQueue
from holdfast.scheduling.reason import reason
from holdfast.scheduling.wait_queue import Queue, WaitQueue
from holdfast.scheduling.worker import Need, Worker, WorkerClass, need

MAX_JOBS: Final = 100_000
"""Maximum number of waiting jobs: a few hundred megabytes. A process that offers more gets an error, and keeps the job where it
is safe."""
_MAX_WOKEN: Final = 64
MAX_IDLE_CLASSES: Final = 100
"""Groups without jobs that are remembered, with the workers that suit them, because more of the kind often come."""


class Scheduler:
    """Places jobs with workers, for as many pools, tenants and kinds of workers as there are."""

    def __init__(self, strategy: Strategy = "least_loaded", *, tenants_apart: bool = False) -> None:
        """`tenants_apart`: not every worker may be given every tenant's jobs. If all may, tenants share their lines."""
        self._strategy = strategy
        self._tenants_apart = tenants_apart
        self._now_s = float("-inf")
        self._placed_s = float("-inf")
        """Up to when it has been seen what time alone brings."""
        self._queues: dict[Hashable, JobQueue] = {}
        self._waiting: dict[Key, JobQueue] = {}
        self._placed: dict[Key, Placement] = {}
        self._elsewhere: set[Key] = set()
        """Those that were not placed here. What they did not use of a rate was not taken from it here either."""
        self._pools: dict[str, Pool] = {}
        self._workers: dict[str, Worker] = {}
        self._worker_classes: dict[Need, WorkerClass] = {}
        self._job_classes: dict[tuple[Need, tuple[str, ...]], JobClass] = {}
        self._turns: dict[str, float] = {}
        self._ready = WaitQueue()
        """Queues that are to be looked at."""
        self._headless: dict[JobClass, None] = {}
        """Strands that may need another head."""
        self._to_offer: dict[Pool | WorkerClass, None] = {}
        """What may have something for the first of its line."""
        self._numbers = 0

    # --- jobs -------------------------------------------------------------------------------------------------------

    def submit(self, job: Job, now_s: float) -> bool:
        """A job waits from now on, if it does not yet. False if too many do: it was not taken."""
        if job.key in self._waiting or job.key in self._placed:
            return True
        if len(self._waiting) >= MAX_JOBS:
            return False
        queue = self._queue(job)
        self._numbers += 1
        queue.add(job, now_s, self._numbers)
        self._waiting[job.key] = queue
        if len(queue.jobs) == 1:
            self._look_at(queue)
        return True

    def cancel(self, key: Key) -> bool:
        """Forget a job. What it had is given back. False if it is not known."""
        queue = self._waiting.pop(key, None)
        if queue is None:
            return self._give_back(key, {})
        was_first = queue.first.key == key
        queue.remove(key)
        if not queue.jobs:
            self._drop(queue)
        elif was_first:
            for thing in list(queue.lines):
                self._leave(queue, thing)
            self._look_at(queue)
        return True

    def finish(self, key: Key, now_s: float, refund: Mapping[str, int] | None = None) -> bool:
        """A placed job has ended. Its slots and its part of the worker come back; of rates comes back what `refund` says
        it did not use. False if it is not placed."""
        self._set_time(now_s)
        return self._give_back(key, refund or {})

    def charge(self, key: Key, job: Job, worker: str) -> None:
        """A job was placed elsewhere or earlier. It counts as placed, even where that is more than there is; what it took
        of rates was spent there. The worker need not have joined."""
        placed = self._placed.get(key)
        if placed and placed.worker == worker:
            return
        self.cancel(key)
        pools = _amounts(job.demand)
        self._placed[key] = Placement(job, worker, pools)
        self._elsewhere.add(key)
        self._worker(worker).take(job)
        for name, amount in pools.items():
            self._pool(name).hold(key, amount)

    def set_weight(self, tenant: str, weight: float) -> None:
        """A tenant of weight 2 gets two turns where others get one. Raises ValueError unless it is above 0."""
        if not weight > 0:
            raise ValueError(f"tenant {tenant!r} cannot have weight {weight}: a weight is above 0, and 1 unless set")
        self._turns[tenant] = 1 / weight

    # --- workers ----------------------------------------------------------------------------------------------------

    def join(self, capacity: Capacity, now_s: float) -> None:
        """Set a worker's capacity, for the first time or again; the jobs that it has been given stay with it."""
        self._set_time(now_s)
        worker = self._worker(capacity.worker)
        lost = list(worker.worker_classes)
        for worker_class in lost:
            worker_class.remove(worker)
        worker.become(capacity)
        for worker_class in self._worker_classes.values():
            if worker.could_take(worker_class.need):
                worker_class.add(worker)
        self._note_loss(lost)
        self._note_release(worker)

    change = join

    def leave(self, name: str) -> list[Job]:
        """A worker is gone. Returns the jobs that were placed with it; what they had is given back, and it is for the
        caller to submit them again."""
        worker = self._workers.get(name)
        if worker is None:
            return []
        jobs = list(worker.jobs.values())
        lost = list(worker.worker_classes)
        for worker_class in lost:
            worker_class.remove(worker)
        for job in jobs:
            self._give_back(job.key, {})
        self._workers.pop(name, None)
        self._note_loss(lost)
        return jobs

    # --- pools ------------------------------------------------------------------------------------------------------

    def set_pool(
        self,
        name: str,
        kind: Literal["slots", "rate"],
        limit: int,
        now_s: float,
        *,
        per_s: float = 1.0,
        burst: int | None = None,
        level: float | None = None,
    ) -> None:
        """Declare a pool, or change it: of `slots` there are `limit` at a time; a `rate` refills `limit` in `per_s` seconds
        and holds `burst` at most (`limit` unless said). A new rate is full, unless `level` says what is in it. Where more
        is in use than there now is, nobody gets any until it fits. Raises ValueError for what no pool can be."""
        burst = limit if burst is None else burst
        if limit < 0 or (kind == "rate" and (not per_s > 0 or burst < 1)):
            raise ValueError(
                f"pool {name!r} cannot have limit {limit}, per_s {per_s} and burst {burst}: "
                "a limit is 0 or more; of a rate, per_s is above 0 and burst 1 or more"
            )
        self._set_time(now_s)
        pool = self._pool(name)
        pool.declare(kind, limit, per_s, burst, level, self._now_s)
        self._look_at_all(pool)

    def close_pool(self, name: str, until_s: float) -> None:
        """Close a pool until then: no job gets any of it before. Amounts in use stay so."""
        pool = self._pools.get(name)
        if pool is not None:
            pool.close(until_s)

    def drop_pool(self, name: str) -> None:
        """Undeclare a pool: no job gets any of it from now on."""
        pool = self._pools.get(name)
        if pool is not None:
            pool.withdraw()
            self._look_at_all(pool)
            self._forget(pool)

    # --- placing ----------------------------------------------------------------------------------------------------

    def place(self, now_s: float) -> list[Placement]:
        """Everything that can be placed now."""
        before_s = self._placed_s
        self._set_time(now_s)
        self._placed_s = self._now_s
        for pool in self._pools.values():
            has_opened = before_s < pool.closed_until_s <= self._now_s
            if pool.reserved_for and (pool.kind == "rate" or has_opened):
                self._to_offer[pool] = None
        placed = []
        while queue := self._next():
            worker = self._decide(queue)
            if worker:
                placed.append(self._give(queue, worker))
                self._thin_out()
        return placed

    @property
    def next_s(self) -> float | None:
        """The time at which time alone may make a job placeable; None if it cannot."""
        times_s = (pool.upcoming_s(self._now_s) for pool in self._pools.values())
        return min((at_s for at_s in times_s if at_s is not None), default=None)

    def refills(self) -> dict[str, float]:
        """Return the time at which each pool that jobs wait for has refilled enough for the next, where time alone helps."""
        times_s = {name: pool.upcoming_s(self._now_s) for name, pool in self._pools.items()}
        return {name: at_s for name, at_s in times_s.items() if at_s is not None}

    def _next(self) -> JobQueue | None:
        """Return the next queue to look at. Strands get their next heads before returned capacity is offered to others: these
        heads may be the first."""
        queue = self._ready.first()
        while self._headless or (queue is None and self._to_offer):
            things = self._headless or self._to_offer
            while things:
                thing, _ = things.popitem()
                upcoming = thing.upcoming(self._now_s)
                if upcoming:
                    self._look_at(upcoming)
            queue = self._ready.first()
        if queue:
            self._ready.discard(queue)
            queue.ready = False
        return queue

    def _thin_out(self) -> None:
        """A worker has one place less: of the few who were woken for it, those for whom there is none left wait on. To put
        them into an order first would cost more than all else."""
        if self._ready.count() > _MAX_WOKEN:
            return
        for queue in [each for each in self._ready if self._has_no_place(each)]:
            self._ready.discard(queue)
            queue.ready = False

    @staticmethod
    def _has_no_place(queue: JobQueue) -> bool:
        """Return True if the queue already waits for a worker, and none has room."""
        worker_class = queue.worker_class
        return worker_class in queue.lines and bool(worker_class.workers) and worker_class.full()

    def _decide(self, queue: JobQueue) -> Worker | None:
        """The worker that the first job of `queue` gets; None if it has to wait, and is in line for what it is short of."""
        job_class, worker_class = queue.job_class, queue.worker_class
        if self._has_no_place(queue):
            return None
        hopeless = [pool for pool, amount in queue.wants.items() if not pool.possible(amount)]
        if hopeless:
            self._wait(queue, hopeless)
            return None
        if job_class.refuses(queue):
            self._wait(queue, [job_class])
            return None
        if worker_class.workers and (short := self._short_of(queue)):
            self._lead(queue, short)
            return None
        if worker_class.line and worker_class.line.first() is not queue:
            self._lead(queue, [worker_class])
            if worker_class.line.first() is not queue:
                self._to_offer[worker_class] = None
                return None
        worker = worker_class.choose(queue, self._strategy)
        if worker is None:
            self._lead(queue, [worker_class])
        return worker

    def _short_of(self, queue: JobQueue) -> list[Pool]:
        """The pools that it has to wait for. To be asked may reserve another for it, and a queue with a reservation may
        pass where others may not."""
        had_some = bool(queue.reservations)
        short = [pool for pool in queue.wants if pool.refuses(queue, self._now_s)]
        if queue.reservations and not had_some:
            short = [pool for pool in short if pool.refuses(queue, self._now_s)]
        return short

    def _lead(self, queue: JobQueue, short: Sequence[Pool | WorkerClass]) -> None:
        """It waits as the head of its class, in the lines of what it is short of. If it has waited long it also reserves what
        it could have of its pools, provided that some worker can ever take it; else it lets go of that."""
        before, reserved, begins = queue.job_class.head, list[Pool](), False
        if queue.wants and queue.aged(self._now_s) and queue.worker_class.workers:
            reserved = [pool for pool in queue.wants if pool not in short and pool.may_be_reserved_for(queue)]
        self._wait(queue, [queue.job_class, *short, *reserved])
        queue.job_class.was_tried()
        for pool in queue.reservations:
            known = pool.tried
            if pool.was_tried(pool in short):
                self._to_offer[pool] = None
                begins |= not known
        if begins:
            self._to_offer |= dict.fromkeys(chain(queue))  # one of them may pass now
        if before and before is not queue:
            self._wait(before, [queue.job_class])

    def _wait(self, queue: JobQueue, things: Sequence[Pool | WorkerClass | JobClass]) -> None:
        """It stands in those lines and in no others."""
        for thing in [each for each in queue.lines if each not in things]:
            self._leave(queue, thing)
        for thing in things:
            if thing not in queue.lines:
                queue.lines[thing] = None
                thing.join(queue)

    def _leave(self, queue: JobQueue, thing: Pool | WorkerClass | JobClass) -> None:
        """Take the queue out of a line. Those after it may have a turn."""
        del queue.lines[thing]
        thing.leave(queue)
        if isinstance(thing, JobClass):
            self._headless[thing] = None
            return
        self._to_offer[thing] = None
        if isinstance(thing, WorkerClass) and not thing.line:
            self._open_up(thing)

    def _give(self, queue: JobQueue, worker: Worker) -> Placement:
        """The first job of `queue` gets a worker and its pools."""
        job, turn = queue.first, self._turn(queue.tenant)
        self._ready.charge(queue, turn)
        for thing in queue.lines:
            thing.line.charge(queue, turn)
        self._open_up(queue.worker_class)
        for pool, amount in queue.wants.items():
            pool.take(job.key, amount, self._now_s)
        worker.take(job)
        placement = Placement(job, worker.name, {pool.name: amount for pool, amount in queue.wants.items()})
        self._placed[job.key] = placement
        del self._waiting[job.key]
        queue.remove(job.key)
        if not queue.jobs:
            self._drop(queue)
        elif queue is queue.job_class.head:
            self._wait(queue, [queue.job_class])
            queue.job_class.fall_in(queue)
            self._headless[queue.job_class] = None
        else:
            self._wait(queue, [])
            self._look_at(queue)
        return placement

    def _give_back(self, key: Key, unused: Mapping[str, int]) -> bool:
        placement = self._placed.pop(key, None)
        if placement is None:
            return False
        spent = key not in self._elsewhere
        self._elsewhere.discard(key)
        for name in placement.pools:
            pool = self._pools[name]
            pool.give_back(key, unused.get(name, 0) if spent else 0)
            self._to_offer[pool] = None
            self._forget(pool)
        worker = self._workers[placement.worker]
        worker.give_back(key)
        self._note_release(worker)
        if worker.capacity is None and not worker.jobs:
            del self._workers[worker.name]
        return True

    def _note_release(self, worker: Worker) -> None:
        """Something of a worker came back."""
        for worker_class in worker.worker_classes:
            if worker_class.freed(worker, self._now_s):
                self._to_offer[worker_class] = None

    def _open_up(self, worker_class: WorkerClass) -> None:
        """No worker is reserved for it any more."""
        worker = worker_class.release()
        if worker is not None:
            self._note_release(worker)

    def _note_loss(self, worker_classes: Sequence[WorkerClass]) -> None:
        """A worker is none of theirs any more. A queue that waited for one that could take its job has nothing reserved if none
        is left."""
        impossible = {worker_class.need for worker_class in worker_classes if not worker_class.workers}
        for queue in self._queues.values():
            if queue.worker_class.need in impossible:
                self._look_at(queue)
        for worker_class in worker_classes:
            self._to_offer[worker_class] = None

    def _look_at(self, queue: JobQueue) -> None:
        if not queue.ready:
            queue.ready = True
            self._ready.add(queue)

    def _look_at_all(self, pool: Pool) -> None:
        """Look again at all queues that wait for a pool that changed for good: its change may free any of them."""
        for queue in [*pool.waiting(), *pool.hopeless]:
            self._leave(queue, pool)
            self._look_at(queue)

    # --- what there is ----------------------------------------------------------------------------------------------

    def explain(self, key: Key, now_s: float) -> Reason | None:
        """Why a job waits, and for what; None if it is not known. The cost grows with the line that it stands in."""
        placed = self._placed.get(key)
        if placed:
            return Reason("nothing", now_s, worker=placed.worker)
        queue = self._waiting.get(key)
        return reason(queue, key, self._workers.values(), self._turn, now_s) if queue else None

    def has_worker(self, key: Key) -> bool:
        """Return True if a worker, busy or not, could take the waiting job."""
        queue = self._waiting.get(key)
        return queue is not None and bool(queue.worker_class.workers)

    def placed(self, key: Key) -> Placement | None:
        return self._placed.get(key)

    def waiting(self) -> dict[str, int]:
        """Return the number of waiting jobs: `ready` to be looked at, for a `quota`, for a `worker`."""
        counts = {"ready": 0, "quota": 0, "worker": 0}
        for queue in self._queues.values():
            head = queue.job_class.head if queue.job_class in queue.lines else queue
            state = "ready" if not head or not head.lines else "worker" if head.worker_class in head.lines else "quota"
            counts[state] += len(queue.jobs)
        return counts

    def pools(self) -> dict[str, Usage]:
        """Return the amount taken of each declared pool, and the number of jobs that wait for it. For a rate it is the missing
        part of its burst."""
        found = {}
        for name, pool in self._pools.items():
            behind = [queue for head in pool.waiting() if pool.is_short_for(head) for queue in head.job_class.waiting()]
            waiting = sum(len(queue.jobs) for queue in [*behind, *pool.hopeless])
            if pool.kind == "rate":
                found[name] = Usage(pool.burst - int(pool.level(self._now_s)), pool.burst, waiting)
            elif pool.kind == "slots":
                found[name] = Usage(pool.in_use, pool.limit, waiting)
        return found

    def needs(self, now_s: float, limit: Mapping[str, int]) -> dict[str, PoolNeed]:
        """Return the demand for each pool that any queue has or wants, declared or not. It leaves out queues that no worker,
        busy or not, could run, and amounts above the most that there ever is (`limit`, by pool)."""
        waits: dict[Pool, int] = {}
        asked: set[Pool] = set()
        first: dict[Pool, tuple[float, int, tuple[str, ...]]] = {}
        for queue in self._queues.values():
            for pool, amount in queue.wants.items() if queue.worker_class.workers else ():
                asked.add(pool)
                if amount <= limit.get(pool.name, amount):
                    waits[pool] = waits.get(pool, 0) + amount * len(queue.jobs)
                    beside = tuple(sorted(each.name for each in queue.wants if each is not pool))
                    next_ = (queue.rank, amount, beside)
                    first[pool] = min(next_, first.get(pool, next_))
        found = {}
        for name, pool in self._pools.items():
            used = 0 if pool.kind == "rate" else pool.in_use
            owes = max(0, -int(pool.level(now_s))) if pool.kind == "rate" else 0
            if used or owes or pool in asked:
                _, amount, beside = first.get(pool, (0.0, 1, ()))
                found[name] = PoolNeed(used, waits.get(pool, 0), amount, owes, beside)
        return found

    def used(self) -> dict[str, int]:
        """Return the amount in use of each pool of slots."""
        return {name: pool.in_use for name, pool in self._pools.items() if pool.kind == "slots" and pool.in_use}

    def level(self, name: str, now_s: float) -> float:
        """Return the level of a rate; 0 if there is no such pool."""
        pool = self._pools.get(name)
        return pool.level(now_s) if pool is not None and pool.kind == "rate" else 0.0

    def workers(self) -> dict[str, Usage]:
        """Return the number of jobs and of slots of each worker."""
        return {
            name: Usage(len(worker.jobs), worker.capacity.slots if worker.capacity else 0)
            for name, worker in self._workers.items()
        }

    # --- what is remembered -----------------------------------------------------------------------------------------

    def _set_time(self, now_s: float) -> None:
        self._now_s = max(self._now_s, now_s)

    def _turn(self, tenant: str) -> float:
        return self._turns.get(tenant, 1.0)

    def _queue(self, job: Job) -> JobQueue:
        needed, demand = need(job, tenants_apart=self._tenants_apart), job.demand
        name = (needed, tuple(sorted(demand.pools.items())), job.tenant, demand.priority)
        queue = self._queues.get(name)
        if queue is None:
            wants = {self._pool(pool): amount for pool, amount in _amounts(demand).items()}
            job_class = self._job_class(needed, tuple(sorted(demand.pools)))
            queue = Queue(name, job.tenant, demand.priority, wants, self._worker_class(needed), job_class)
            self._queues[name] = queue
            queue.worker_class.queues += 1
            job_class.queues += 1
            for pool in wants:
                pool.queues += 1
        return queue

    def _drop(self, queue: JobQueue) -> None:
        """A queue without jobs."""
        for thing in list(queue.lines):
            self._leave(queue, thing)
        if queue.ready:
            self._ready.discard(queue)
        del self._queues[queue.name]
        queue.job_class.queues -= 1
        if not queue.job_class.queues:
            del self._job_classes[queue.job_class.name]
            self._headless.pop(queue.job_class, None)
        queue.worker_class.queues -= 1
        if not queue.worker_class.queues and len(self._worker_classes) > MAX_IDLE_CLASSES:
            self._forget_worker_class(queue.worker_class)
        for pool in queue.wants:
            pool.queues -= 1
            self._forget(pool)

    def _job_class(self, one_need: Need, pools: tuple[str, ...]) -> JobClass:
        name = (one_need, pools)
        job_class = self._job_classes.get(name)
        if job_class is None:
            job_class = self._job_classes[name] = JobClass(name)
        return job_class

    def _worker_class(self, one_need: Need) -> WorkerClass:
        worker_class = self._worker_classes.get(one_need)
        if worker_class is None:
            worker_class = self._worker_classes[one_need] = WorkerClass(one_need)
            for worker in self._workers.values():
                if worker.could_take(one_need):
                    worker_class.add(worker)
        return worker_class

    def _forget_worker_class(self, worker_class: WorkerClass) -> None:
        for worker in list(worker_class.workers):
            worker_class.remove(worker)
        del self._worker_classes[worker_class.need]
        self._to_offer.pop(worker_class, None)

    def _worker(self, name: str) -> Worker:
        worker = self._workers.get(name)
        if worker is None:
            worker = self._workers[name] = Worker(name)
        return worker

    def _pool(self, name: str) -> Pool:
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = Pool(name)
        return pool

    def _forget(self, pool: Pool) -> None:
        """Forget a pool that is not declared, and that no job has or wants."""
        if pool.kind is None and not pool.queues and not pool.holders:
            self._pools.pop(pool.name, None)
            self._to_offer.pop(pool, None)


def _amounts(demand: Demand) -> dict[str, int]:
    """Raises ValueError where an amount is still to be estimated."""
    amounts = {}
    for name, amount in demand.pools.items():
        if amount is None:
            raise ValueError(f"of pool {name!r} it wants what earlier steps used; put the estimate in before it is placed")
        amounts[name] = amount
    return amounts
