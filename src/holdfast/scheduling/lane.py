"""The work that waits in one lane of a fleet, and its placement on workers: runs for a worker to look at, and steps to place.

A run waits once, with everything that is known of it. Never here: a queue, a store, a clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from holdfast.core.values.demand import NOTHING
from holdfast.core.values.ids import RunId, SessionId
from holdfast.ports import DeliveredJob, Job, PlacedStep
from holdfast.scheduling import job as scheduling
from holdfast.scheduling.job import Key
from holdfast.scheduling.lane_workers import LaneWorkers, job_of
from holdfast.scheduling.placement import Scheduler

_LOOK: Final = "look"
"""What a look at a run is called in the scheduler, in the place of a step."""


class Lane:
    """The jobs of one lane, and its workers."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.workers = LaneWorkers(scheduler)
        self._runs: dict[RunId, tuple[Key, DeliveredJob]] = {}
        """The runs that wait for a worker to look at them, and under which key in the scheduler."""
        self._steps: dict[Key, PlacedStep] = {}
        self._since_s: dict[Key, float] = {}
        self._looks = itertools.count(1)

    @property
    def waiting(self) -> int:
        """The number of runs and steps that wait."""
        return len(self._runs) + len(self._steps)

    def offer(self, delivery: DeliveredJob, now_s: float) -> DeliveredJob | None:
        """A run wants a worker to look at it. One that waits already waits once. Returns what is of no more use, if
        anything is."""
        if not delivery.job.looks:
            return delivery
        run = delivery.job.run
        if run in self._runs:
            key, waits = self._runs[run]
            both = msgspec.structs.replace(waits.job, dead=waits.job.dead | delivery.job.dead)
            self._runs[run] = key, DeliveredJob(both, waits.receipt or delivery.receipt)
            return delivery if waits.receipt and delivery.receipt not in ("", waits.receipt) else None
        key = (run, _LOOK, str(next(self._looks)))  # it may be wanted again while it is on its way to a worker
        if not self.scheduler.submit(scheduling.Job(key, delivery.job.graph_hash, delivery.job.tenant, NOTHING), now_s):
            return delivery
        self._runs[run] = key, delivery
        return None

    def find(self, steps: Iterable[PlacedStep], now_s: float) -> None:
        """Steps that wait for a place. One that waits already goes to the scheduler all the same, which may have lost it to
        a worker that said it holds it and is gone."""
        for each in steps:
            key = (each.run, each.step)
            if not self.workers.has(key) and self.scheduler.submit(job_of(each), now_s):
                self._steps[key] = each
                self._since_s.setdefault(key, now_s)

    def forget_others(self, runs: Collection[RunId], since_s: float) -> None:
        """All who stood in line in the store at that time are these: a job that still waits here was started elsewhere."""
        for key in [key for key, at_s in self._since_s.items() if at_s < since_s and key[0] not in runs]:
            self.scheduler.cancel(key)
            del self._steps[key], self._since_s[key]

    def clear(self) -> list[DeliveredJob]:
        """Forget what waits, because another process leads. Return the runs that waited here."""
        left = [handed for _, handed in self._runs.values()]
        for key in [*(key for key, _ in self._runs.values()), *self._steps]:
            self.scheduler.cancel(key)
        self._runs.clear()
        self._steps.clear()
        self._since_s.clear()
        return left

    def placements(self, now_s: float, until_ms: int) -> dict[SessionId, list[DeliveredJob]]:
        """Return the jobs that can be placed now, by worker, and remove them from the lane. Steps begin there until `until_ms`
        or not at all."""
        placed: dict[SessionId, list[DeliveredJob]] = {}
        for each in self.scheduler.place(now_s):
            key = each.job.key
            self.workers.give(each, until_ms, holds=key in self._steps)
            placed.setdefault(SessionId(each.worker), []).append(self._take_out(key, until_ms))
        return placed

    def _take_out(self, key: Key, until_ms: int) -> DeliveredJob:
        if key in self._steps:
            step = self._steps.pop(key)
            del self._since_s[key]
            job = Job(step.run, step.graph_hash, tenant=step.tenant, steps=(step,), looks=False, until_ms=until_ms)
            return DeliveredJob(job, "")
        return self._runs.pop(RunId(key[0]))[1]
