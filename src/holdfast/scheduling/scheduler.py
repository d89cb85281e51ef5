"""Places jobs with workers: of those that can run a job's workflow and have a slot free, the least loaded gets it.

Jobs of one workflow are placed in the order in which they came. Workflows take turns: one with a long line, with busy
workers or with none at all holds up no other.

Never here: whether a run really has something to do. A job is a hint, and whoever takes it looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.core.ids import RunId, SessionId
from holdfast.ports import Capacity, Handed, Job

MOST_JOBS: Final = 100_000
"""What waits beyond that is dropped: the sweep finds it again when there is room."""
ON_ITS_WAY_S: Final = 2.0
"""A worker that has not taken what was placed with it for so long has never got it."""


class Worker:
    """A worker as it last spoke, less what it has been given since."""

    __slots__ = ("free", "given", "given_s", "hashes", "heard_s", "slots")

    def __init__(self, capacity: Capacity, heard_s: float) -> None:
        self.given = capacity.taken
        """How many jobs it has been given, by its own count."""
        self.given_s = heard_s
        self.hear(capacity, heard_s)

    def hear(self, capacity: Capacity, heard_s: float) -> None:
        """What it says may be older than what it was given last: that much less is free."""
        if capacity.taken > self.given or heard_s - self.given_s > ON_ITS_WAY_S:
            self.given = capacity.taken
        self.hashes = frozenset(capacity.hashes)
        self.slots = capacity.slots
        self.free = capacity.free - (self.given - capacity.taken)
        self.heard_s = heard_s

    def give(self, now_s: float) -> None:
        self.given += 1
        self.given_s = now_s
        self.free -= 1


class Scheduler:
    """Jobs that wait, and workers with their free slots."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[RunId, Handed]] = {}
        """A line for each workflow; the first is the one whose turn it is."""
        self.workers: dict[SessionId, Worker] = {}
        self.jobs = 0
        """How many wait."""

    def offer(self, handed: Handed) -> Handed | None:
        """A run wants a worker; one that waits already waits once. Returns what is of no more use, if anything is."""
        line = self._waiting.get(handed.job.graph_hash, {})
        waits = line.get(handed.job.run)
        if waits is None:
            if self.jobs >= MOST_JOBS:
                return handed
            self._waiting.setdefault(handed.job.graph_hash, line)[handed.job.run] = handed
            self.jobs += 1
            return None
        both = Job(waits.job.run, waits.job.graph_hash, waits.job.dead | handed.job.dead)
        line[handed.job.run] = Handed(both, waits.receipt or handed.receipt)
        return handed if waits.receipt and handed.receipt not in ("", waits.receipt) else None

    def clear(self) -> list[Handed]:
        """Forget the jobs: somebody else leads. Returns them."""
        left = [handed for line in self._waiting.values() for handed in line.values()]
        self._waiting.clear()
        self.jobs = 0
        return left

    def report(self, capacity: Capacity, now_s: float) -> None:
        """A worker says what it has free. Raises nothing: whoever speaks is a worker."""
        known = self.workers.get(capacity.worker)
        if known is None:
            self.workers[capacity.worker] = Worker(capacity, now_s)
        else:
            known.hear(capacity, now_s)

    def forget(self, worker: SessionId) -> None:
        self.workers.pop(worker, None)

    def silent(self, since_s: float) -> list[SessionId]:
        """Workers that have said nothing since then."""
        return [name for name, worker in self.workers.items() if worker.heard_s < since_s]

    def can_run(self, graph_hash: str) -> bool:
        """Whether any worker, busy or not, has that workflow."""
        return any(graph_hash in worker.hashes for worker in self.workers.values())

    def placements(self, now_s: float) -> dict[SessionId, list[Handed]]:
        """Place what can be placed; it waits no more."""
        placed: dict[SessionId, list[Handed]] = {}
        able = {
            graph_hash: [name for name, worker in self.workers.items() if graph_hash in worker.hashes]
            for graph_hash in self._waiting
        }
        turns = [graph_hash for graph_hash, names in able.items() if names]
        while turns:
            turns = [
                graph_hash for graph_hash in turns if self._place_first(graph_hash, able[graph_hash], placed, now_s)
            ]
        return placed

    def _place_first(
        self, graph_hash: str, able: Sequence[SessionId], placed: dict[SessionId, list[Handed]], now_s: float
    ) -> bool:
        """Place the first job of one line, which is then the last to have its turn; False if nothing more of it can be."""
        name = max(able, key=lambda each: self.workers[each].free)
        if self.workers[name].free <= 0:
            return False
        line = self._waiting.pop(graph_hash)
        placed.setdefault(name, []).append(line.pop(next(iter(line))))
        self.workers[name].give(now_s)
        self.jobs -= 1
        if line:
            self._waiting[graph_hash] = line
        return bool(line)
