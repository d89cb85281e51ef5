"""Places jobs with workers: of those that can run a job's workflow and have a slot free, the least loaded gets it.

Jobs of one workflow are placed in the order in which they came; those of a workflow that nobody can run, or whose
workers are busy, hold up no others.

Never here: whether a run really has something to do. A job is a hint, and whoever takes it looks.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.ids import RunId, SessionId
from holdfast.ports import Capacity, Handed

MOST_JOBS: Final = 100_000
"""What waits beyond that is dropped: the sweep finds it again when there is room."""


class Worker:
    """A worker as it last spoke, less what it has been given since."""

    __slots__ = ("free", "hashes", "heard_s", "slots")

    def __init__(self, capacity: Capacity, heard_s: float) -> None:
        self.hashes = frozenset(capacity.hashes)
        self.slots = capacity.slots
        self.free = capacity.free
        self.heard_s = heard_s


class Scheduler:
    """Jobs that wait, and workers with their free slots."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[RunId, Handed]] = {}
        self.workers: dict[SessionId, Worker] = {}
        self.jobs = 0
        """How many wait."""

    def offer(self, handed: Handed) -> bool:
        """A run wants a worker; one that waits already waits once. False where there are too many."""
        line = self._waiting.setdefault(handed.job.graph_hash, {})
        if handed.job.run not in line:
            if self.jobs >= MOST_JOBS:
                return False
            self.jobs += 1
        line[handed.job.run] = handed  # in its old place, if it had one
        return True

    def waits(self, run: RunId, graph_hash: str) -> bool:
        return run in self._waiting.get(graph_hash, ())

    def report(self, capacity: Capacity, now_s: float) -> None:
        """A worker says what it has free. Raises nothing: whoever speaks is a worker."""
        self.workers[capacity.worker] = Worker(capacity, now_s)

    def forget(self, worker: SessionId) -> None:
        self.workers.pop(worker, None)

    def silent(self, since_s: float) -> list[SessionId]:
        """Workers that have said nothing since then."""
        return [name for name, worker in self.workers.items() if worker.heard_s < since_s]

    def can_run(self, graph_hash: str) -> bool:
        """Whether any worker, busy or not, has that workflow."""
        return any(graph_hash in worker.hashes for worker in self.workers.values())

    def placements(self) -> dict[SessionId, list[Handed]]:
        """Place what can be placed; it waits no more."""
        placed: dict[SessionId, list[Handed]] = {}
        for graph_hash, line in list(self._waiting.items()):
            able = [name for name, worker in self.workers.items() if graph_hash in worker.hashes]
            while line and able:
                name = max(able, key=lambda each: self.workers[each].free)
                worker = self.workers[name]
                if worker.free <= 0:
                    break
                run = next(iter(line))
                placed.setdefault(name, []).append(line.pop(run))
                worker.free -= 1
                self.jobs -= 1
            if not line:
                del self._waiting[graph_hash]
        return placed
