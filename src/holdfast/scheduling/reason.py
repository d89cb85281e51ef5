"""Why a job waits, for people: which thing it is short of, its place in that line, who has it.

Never here: anything that changes what is asked about. It looks at a whole line, which placing never does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from holdfast.scheduling.job import MOST_HOLDERS, Key, Reason
from holdfast.scheduling.line import Queue
from holdfast.scheduling.pool import Pool
from holdfast.scheduling.worker import Group, Worker, lacking

Turn = Callable[[str], float]
"""What a job costs its tenant, in turns."""


def reason(queue: Queue, key: Key, workers: Iterable[Worker], turn: Turn, now_s: float) -> Reason:
    """Why the job of `key` in `queue` waits; `workers` are all there are."""
    for thing in queue.lines:
        if isinstance(thing, Pool) and thing.is_short_for(queue):
            return _for_pool(thing, queue, key, turn, now_s)
    if queue.group in queue.lines:
        return _for_worker(queue.group, queue, key, workers, turn)
    return Reason("turn", queue.jobs[key][1])


def _for_pool(pool: Pool, queue: Queue, key: Key, turn: Turn, now_s: float) -> Reason:
    possible = pool.possible(queue.wants[pool])
    keeper = pool.keeper
    return Reason(
        "pool",
        queue.jobs[key][1],
        place=pool.line.order(turn, keeper).index(key) + 1 if possible else 0,
        possible=possible,
        pool=pool.name,
        limit=pool.limit if pool.kind else None,
        in_use=pool.taken if pool.kind == "slots" else None,
        level=pool.level(now_s) if pool.kind == "rate" else None,
        holders=tuple(islice(pool.holders, MOST_HOLDERS)),
        kept_for=keeper.first.key if possible and keeper and keeper is not queue else None,
    )


def _for_worker(group: Group, queue: Queue, key: Key, workers: Iterable[Worker], turn: Turn) -> Reason:
    since_s = queue.jobs[key][1]
    if not group.workers:
        lacks = [lacking(worker.capacity, group.need) for worker in workers if worker.capacity]
        closest = min(lacks, key=len, default=["worker"])
        return Reason("worker", since_s, possible=False, lacking=", ".join(closest))
    keepers = [worker.kept_by for worker in group.workers if worker.kept_by not in (None, group)]
    kept_for = next((first.first.key for each in keepers if each and (first := each.line.first())), None)
    place = group.line.order(turn).index(key) + 1
    return Reason("worker", since_s, place=place, lacking="capacity", kept_for=kept_for)
