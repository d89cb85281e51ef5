"""The metrics of a process: what it counts, what it has, and what the store has where this process is to look.

Never here: a metric's name (observe.metrics), a format, a port.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import holdfast
from holdfast.compose.engine import Engine, label
from holdfast.compose.from_settings import secrets_of
from holdfast.observe import metrics
from holdfast.observe.meter import Meter
from holdfast.observe.store_look import StoreLook
from holdfast.ports.metric import Metric, Sample
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.engine.fleet.leader import Leader
    from holdfast.wire.registry import WorkerRegistry


class ProcessMetrics:
    """The metrics of one process. `parts` return its gauges, at the moment of the call."""

    def __init__(self, meter: Meter, parts: Iterable[Callable[[], Iterable[Sample]]], looks: Iterable[StoreLook] = ()) -> None:
        self.meter = meter
        self._parts = [*parts]
        self._looks = [*looks]

    async def samples(self) -> list[Sample]:
        """Return what is known now, in the order of the metrics."""
        found = [Sample(metrics.BUILD, (holdfast.__version__,), 1), *self.meter.samples()]
        for part in self._parts:
            found += part()
        for look in self._looks:
            found += await look.samples()
        return found

    async def aclose(self) -> None:
        """Give up looks into the store that are being taken."""
        for look in self._looks:
            await look.aclose()


@asynccontextmanager
async def pushing(
    metrics_: ProcessMetrics, settings: Settings, location: str, now_ms: Callable[[], int]
) -> AsyncIterator[None]:
    """Push the metrics of a process on the store at `location` inside a block, if `[telemetry]` says so; at its end they are
    closed. `now_ms` is the time of the store."""
    rules, secrets = settings.telemetry, secrets_of(settings, location)
    push = None
    try:
        if rules is not None and rules.metrics_every_s is not None:
            from holdfast.compose.telemetry import metrics_push

            push = metrics_push(settings, rules, secrets, rules.metrics_every_s, metrics_, label(), now_ms)
            push.start()
        yield
    finally:
        if push is not None:
            await push.aclose()
        await metrics_.aclose()


def look_of_engine(engine: Engine) -> StoreLook:
    """Return the look of a process with an engine, which a leader takes from it."""
    runtime = engine.runtime
    return StoreLook(runtime.store, runtime.clock, lambda: not engine._sweep.is_led)


def look_of_leader(leader: Leader) -> StoreLook:
    """Return the look of a process that leads, while it does."""
    return StoreLook(leader.store, leader.clock, leader.leads.is_set)


def of_engine(engine: Engine) -> Iterator[Sample]:
    """Return the gauges of a process with an engine. One that executes nothing has no slots."""
    executor, membership = engine.executor, engine.runtime.membership
    works = membership.works
    yield _gauge(metrics.WORKER_SLOTS, executor.slots.most if works else 0)
    yield _gauge(metrics.WORKER_FREE, executor.room if works else 0)
    yield _gauge(metrics.WORKER_STEPS, executor.working)
    yield _gauge(metrics.WORKER_LINE, executor.runs_in_line)
    if works:
        yield from _of_lease(membership.lease_age_s)
        yield _gauge(metrics.SWEEP_AGE, engine._sweep.age_s)


def of_leader(leader: Leader) -> Iterator[Sample]:
    """Return the gauges of a process that leads a lane, or waits to."""
    yield _gauge(metrics.LEADS, float(leader.leads.is_set()))
    yield _gauge(metrics.JOBS_WAITING, leader.jobs)
    yield _gauge(metrics.WORKERS, leader.workers)
    yield _gauge(metrics.SLOTS, leader.slots)
    yield _gauge(metrics.SLOTS_FREE, leader.free)
    yield from _of_lease(leader.lease_age_s)
    yield _gauge(metrics.SWEEP_AGE, leader.age_s)


def of_registry(registry: WorkerRegistry) -> Iterator[Sample]:
    """Return the gauges of the workers that are connected to a process."""
    connections = registry.connections
    yield _gauge(metrics.CONNECTED, len(connections))
    yield _gauge(metrics.CONNECTED_SLOTS, sum(each.offer.slots for each in connections))
    yield _gauge(metrics.CONNECTED_JOBS, sum(len(each.jobs) for each in connections))


def _of_lease(age_s: float | None) -> Iterator[Sample]:
    if age_s is not None:
        yield _gauge(metrics.LEASE_AGE, age_s)


def _gauge(metric: Metric, value: float, *labels: str) -> Sample:
    return Sample(metric, labels, value)
