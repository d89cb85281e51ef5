"""Lines: who of those who wait for one thing goes first. Queues of jobs that are alike stand in them.

Jobs that ask for the same, of one tenant and priority, make a queue: where its first job cannot go, none of it can, so it
stands in lines as one, in as many as there are things that it is short of.

Whose turn it is in a line, in three steps:

1. The priority. Each second of waiting counts, `AGE_S` of them as one priority more; the longest wait among the queues of
   a priority decides for all of them. A job's rank is constant, so that nothing is sorted again as time goes by.
2. Of that priority, the tenant that has had least of it for its weight: start-time fair queueing (Goyal, Vin, Cheng 1996).
   A tenant's tag rises by 1/weight with each job that is placed; who comes anew starts where the line is, so nobody saves
   up turns. Age does not count here: a tenant with the longest line would always have the oldest jobs.
3. Of that tenant, the queue whose first job has waited longest.

Never here: what a queue waits for, a clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Final, Generic, TypeAlias, TypeVar

from holdfast.scheduling.job import AGE_S, PATIENCE_S, Job, Key

P = TypeVar("P")
G = TypeVar("G")
S = TypeVar("S")

_SLACK: Final = 16
"""So many entries of a heap may be out of date, and as many as it has valid ones, before it is built anew."""


class Queue(Generic[P, G, S]):
    """Jobs of one tenant and priority that ask for the same, in the order in which they came; `wants` of pools `P`, of workers
    as their worker class `G` says, and beside others of their job class `S`. What these are a line need not know."""

    __slots__ = (
        "job_class",
        "jobs",
        "lines",
        "name",
        "number",
        "priority",
        "ready",
        "reservations",
        "since_s",
        "tenant",
        "wants",
        "worker_class",
    )

    def __init__(self, name: Hashable, tenant: str, priority: int, wants: dict[P, int], worker_class: G, job_class: S) -> None:
        self.name = name
        self.tenant = tenant
        self.priority = priority
        self.wants = wants
        self.worker_class = worker_class
        self.job_class = job_class
        self.jobs: OrderedDict[Key, tuple[Job, float, int]] = OrderedDict()
        self.since_s = 0.0
        """Since when its first job has been waiting."""
        self.number = 0
        """When its first job came, among those of one moment."""
        self.lines: dict[P | G | S, None] = {}
        """What it waits for."""
        self.reservations: dict[P, None] = {}
        """Pools that are reserved for it."""
        self.ready = False
        """It is to be looked at."""

    @property
    def first(self) -> Job:
        return next(iter(self.jobs.values()))[0]

    @property
    def rank(self) -> float:
        """Lower goes first, among different priorities."""
        return self.since_s - self.priority * AGE_S

    @property
    def aged_s(self) -> float:
        """The time from which its wait counts as long."""
        return self.since_s + PATIENCE_S

    def aged(self, now_s: float) -> bool:
        return now_s >= self.aged_s

    def outranks(self, other: AnyQueue) -> bool:
        return (self.rank, self.number) < (other.rank, other.number)

    def add(self, job: Job, since_s: float, number: int) -> None:
        if not self.jobs:
            self.since_s, self.number = since_s, number
        self.jobs[job.key] = (job, since_s, number)

    def remove(self, key: Key) -> None:
        del self.jobs[key]
        if self.jobs:
            _, self.since_s, self.number = next(iter(self.jobs.values()))


AnyQueue: TypeAlias = Queue[Any, Any, Any]
"""One of which a line knows its place, and nothing of what it waits for."""


class AgeHeap:
    """Queues by how long their first jobs have waited. (A queue's first job changes to a younger one only.)"""

    __slots__ = ("_heap", "members")

    def __init__(self) -> None:
        self.members: dict[AnyQueue, int] = {}
        """Each with the number under which it is in the heap."""
        self._heap: list[tuple[float, int, AnyQueue]] = []

    def add(self, queue: AnyQueue) -> None:
        if len(self._heap) > 2 * len(self.members) + _SLACK:
            self.members = {each: each.number for each in self.members}
            self._heap = [(each.since_s, each.number, each) for each in self.members]
            heapify(self._heap)
        self.members[queue] = queue.number
        heappush(self._heap, (queue.since_s, queue.number, queue))

    def discard(self, queue: AnyQueue) -> None:
        self.members.pop(queue, None)

    def first(self) -> AnyQueue:
        """Raises IndexError if the heap is empty."""
        while True:
            _, number, queue = self._heap[0]
            if self.members.get(queue) != number:
                heappop(self._heap)
            elif queue.number != number:
                self.members[queue] = queue.number
                heapreplace(self._heap, (queue.since_s, queue.number, queue))
            else:
                return queue


class Flow:
    """One tenant's queues of one priority in a line."""

    __slots__ = ("entered", "queues", "tag", "tenant")

    def __init__(self, tenant: str, tag: float) -> None:
        self.tenant = tenant
        self.tag = tag
        self.entered: float | None = None
        """The tag under which it is in its level's heap."""
        self.queues = AgeHeap()


class Level:
    """The queues of one priority in a line; tenants take turns."""

    __slots__ = ("_arrivals", "_bound", "_clock", "_flows", "_turns", "by_age")

    def __init__(self) -> None:
        self.by_age = AgeHeap()
        self._flows: dict[str, Flow] = {}
        self._turns: list[tuple[float, int, Flow]] = []
        self._clock = 0.0
        """Virtual time: the tag of whose turn it was last."""
        self._arrivals = 0
        self._bound = _SLACK

    def add(self, queue: AnyQueue) -> None:
        flow = self._flows.get(queue.tenant)
        if flow is None:
            self._forget()
            flow = self._flows[queue.tenant] = Flow(queue.tenant, self._clock)
        elif not flow.queues.members:
            flow.tag = max(flow.tag, self._clock)
        flow.queues.add(queue)
        self.by_age.add(queue)
        self._enter(flow)

    def discard(self, queue: AnyQueue) -> None:
        self.by_age.discard(queue)
        self._flows[queue.tenant].queues.discard(queue)

    def first(self) -> AnyQueue:
        """Raises IndexError if the level is empty."""
        while True:
            tag, _, flow = self._turns[0]
            if tag == flow.tag and flow.queues.members:
                return flow.queues.first()
            heappop(self._turns)
            if tag == flow.entered:
                flow.entered = None
                if flow.queues.members:
                    self._enter(flow)

    def charge(self, tenant: str, turn: float) -> None:
        """A job of `tenant` was placed; it costs a part of a turn."""
        flow = self._flows.get(tenant)
        if flow is None:
            flow = self._flows[tenant] = Flow(tenant, self._clock)
        start = max(flow.tag, self._clock) if not flow.queues.members else flow.tag
        self._clock = max(self._clock, start)
        flow.tag = start + turn
        if flow.queues.members:
            self._enter(flow)

    def _enter(self, flow: Flow) -> None:
        if flow.entered != flow.tag:
            self._arrivals += 1
            flow.entered = flow.tag
            heappush(self._turns, (flow.tag, self._arrivals, flow))

    def _forget(self) -> None:
        """Tenants that have left and would start where the line is, whether they are known or not."""
        if len(self._flows) >= self._bound:
            self._flows = {
                tenant: flow for tenant, flow in self._flows.items() if flow.queues.members or flow.tag > self._clock
            }
            self._bound = 2 * len(self._flows) + _SLACK


class WaitQueue:
    """Queues that wait for one thing."""

    __slots__ = ("_levels",)

    def __init__(self) -> None:
        self._levels: dict[int, Level] = {}

    def __bool__(self) -> bool:
        return any(level.by_age.members for level in self._levels.values())

    def __iter__(self) -> Iterator[AnyQueue]:
        for level in self._levels.values():
            yield from level.by_age.members

    def count(self) -> int:
        return sum(len(level.by_age.members) for level in self._levels.values())

    def add(self, queue: AnyQueue) -> None:
        level = self._levels.get(queue.priority)
        if level is None:
            if len(self._levels) > _SLACK:
                self._levels = {priority: each for priority, each in self._levels.items() if each.by_age.members}
            level = self._levels[queue.priority] = Level()
        level.add(queue)

    def discard(self, queue: AnyQueue) -> None:
        self._levels[queue.priority].discard(queue)

    def first(self) -> AnyQueue | None:
        """Return the queue whose turn it is; None if none waits."""
        levels = [each for each in self._levels.values() if each.by_age.members]
        if len(levels) > 1:
            return min(levels, key=lambda each: each.by_age.first().rank).first()
        return levels[0].first() if levels else None

    def charge(self, queue: AnyQueue, turn: float) -> None:
        level = self._levels.get(queue.priority)
        if level is not None:
            level.charge(queue.tenant, turn)
