"""The workers that are connected to this process, as its scheduler knows them.

Never here: a connection (wire), what they do (remote), which step goes where (scheduling).
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from holdfast.core.values.demand import SHELL, Resources
from holdfast.core.values.ids import SessionId
from holdfast.ports import Clock, Report
from holdfast.scheduling.job import Capacity, Job
from holdfast.scheduling.lane_workers import able_to
from holdfast.scheduling.placement import Scheduler


class ConnectedWorkers:
    """The connected workers, with the abilities each has reported and what follows from them."""

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._scripts: frozenset[str] = frozenset()
        self._offers: dict[str, Capacity] = {}
        """What they have said that they can."""
        self._known: dict[str, Capacity] = {}
        """The same, with what follows from it."""

    def run_scripts_of(self, workflows: Collection[str]) -> None:
        """A worker with a shell can run the scripts of these workflows from now on."""
        if frozenset(workflows) != self._scripts:
            self._scripts = frozenset(workflows)
            for offer in [*self._offers.values()]:
                self.join(offer)

    def join(self, capacity: Capacity) -> None:
        """One can be given steps, or has something else to give than before."""
        self._offers[capacity.worker] = capacity
        if able_to(SHELL) in capacity.able:
            capacity = msgspec.structs.replace(capacity, able=capacity.able | self._scripts)
        self._known[capacity.worker] = capacity
        self._scheduler.join(capacity, self._clock.monotonic_s())

    def leave(self, worker: str) -> list[Job]:
        """One is gone; the jobs that it had."""
        self._offers.pop(worker, None)
        self._known.pop(worker, None)
        return self._scheduler.leave(worker)

    def reports(self) -> tuple[Report, ...]:
        """Return the reports of the workers about themselves."""
        used = {name: usage.in_use for name, usage in self._scheduler.workers().items()}
        return tuple(
            Report(
                SessionId(each.worker),
                tuple(sorted(each.able)),
                each.slots,
                max(0, each.slots - used.get(each.worker, 0)),
                0,
                tuple(sorted(each.labels)),
                Resources(tags=tuple(sorted(each.tags)), cpu_m=each.cpu_m, memory_mb=each.memory_mb, gpus=each.gpus),
                tenants=None if each.tenants is None else tuple(sorted(each.tenants)),
                working=used.get(each.worker, 0),
            )
            for each in self._known.values()
        )
