"""The reason why a job waits, for people: what it is short of, its place among those who wait for that, who has it.

Never here: anything that changes what is asked about. It looks at all who wait, which placing never does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from holdfast.scheduling.job import MAX_HOLDERS, Key, Reason
from holdfast.scheduling.pool import Pool
from holdfast.scheduling.queue import JobQueue
from holdfast.scheduling.worker import Worker, WorkerClass, lacking

Turn = Callable[[str], float]
"""What a job costs its tenant, in turns."""


def reason(queue: JobQueue, key: Key, workers: Iterable[Worker], turn: Turn, now_s: float) -> Reason:
    """Why the job of `key` in `queue` waits; `workers` are all there are."""
    since_s = queue.jobs[key][1]
    head = queue.job_class.head if queue.job_class in queue.lines else queue
    for thing in head.lines if head else ():
        if isinstance(thing, Pool) and thing.is_short_for(queue):
            return _for_pool(thing, queue, key, turn, now_s)
    if head and queue.worker_class in head.lines:
        return _for_worker(queue.worker_class, key, since_s, workers, turn)
    return Reason("turn", since_s)


def _for_pool(pool: Pool, queue: JobQueue, key: Key, turn: Turn, now_s: float) -> Reason:
    possible = queue not in pool.hopeless
    kept_for = pool.reserved_for.first.key if possible and pool.reserved_for else None
    return Reason(
        "pool",
        queue.jobs[key][1],
        place=_place(key, pool.waiting(), pool.reserved_for, turn) if possible else 0,
        possible=possible,
        pool=pool.name,
        limit=pool.limit if pool.kind else None,
        in_use=pool.in_use if pool.kind == "slots" else None,
        level=pool.level(now_s) if pool.kind == "rate" else None,
        holders=tuple(islice(pool.holders, MAX_HOLDERS)),
        kept_for=kept_for if kept_for != key else None,
    )


def _for_worker(worker_class: WorkerClass, key: Key, since_s: float, workers: Iterable[Worker], turn: Turn) -> Reason:
    if not worker_class.workers:
        lacks = [lacking(worker.capacity, worker_class.need) for worker in workers if worker.capacity]
        closest = min(lacks, key=len, default=["a worker"])
        return Reason("worker", since_s, possible=False, lacking=", ".join(closest))
    owners = (worker.reserved_for.line.first() for worker in worker_class.workers if worker.reserved_for)
    kept_for = next((owner.first.key for owner in owners if owner), None)
    return Reason(
        "worker",
        since_s,
        place=_place(key, worker_class.line, worker_class.line.first(), turn),
        lacking="capacity",
        holders=tuple(islice((key for worker in worker_class.workers for key in worker.jobs), MAX_HOLDERS)),
        kept_for=kept_for if kept_for != key else None,
    )


def _place(key: Key, heads: Iterable[JobQueue], first: JobQueue | None, turn: Turn) -> int:
    """Return the place of a job among all who wait behind `heads`, as they will go without newcomers: `first` is the next, then
    priorities, and of each the tenants take turns from now on."""
    waits: dict[tuple[int, str], list[tuple[float, int, Key]]] = {}
    ranks: dict[int, float] = {}
    next_key = first.first.key if first else None
    for queue in (queue for head in heads for queue in head.job_class.waiting()):
        ranks[queue.priority] = min(queue.rank, ranks.get(queue.priority, queue.rank))
        jobs = waits.setdefault((queue.priority, queue.tenant), [])
        jobs += [(since_s, number, each) for each, (_, since_s, number) in queue.jobs.items() if each != next_key]
    order = []
    for (priority, tenant), jobs in waits.items():
        rank, step = ranks[priority], turn(tenant)
        order += [(rank, turns * step, since_s, number, each) for turns, (since_s, number, each) in enumerate(sorted(jobs))]
    keys = [*([next_key] if next_key else []), *(each for *_, each in sorted(order))]
    return keys.index(key) + 1
