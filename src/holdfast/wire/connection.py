"""A connected worker and the jobs that it is at, as the serving process knows them.

Never here: a timer, a decision about them (registry).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from typing import Final

from holdfast.core.values.demand import LABEL, MAX_NAMES
from holdfast.engine.capacity.placing import HERE
from holdfast.errors import StepError
from holdfast.ports import Work
from holdfast.scheduling.job import Capacity
from holdfast.scheduling.lane_workers import able_to
from holdfast.service.access.identity import ANYBODY, Holder, Scope
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.outbox import Outbox

MAX_SLOTS: Final = 10_000
MAX_TASKS: Final = 1_000
MAX_JOBS: Final = 2 * MAX_SLOTS
"""That a worker may say it is at: those at work, and as many that are done and not taken yet."""
MAX_INBOX: Final = 1_000
"""Messages of one job that may wait to be looked at."""

WorkerMessage = wire.Call | wire.Result | wire.Progress | BaseException


class Job:
    """Work at a worker, until its result is there."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.acknowledged = False
        self.over = False
        """Its worker has said what came of it, or is gone."""
        self.broken_off = 0
        """The question whose answer told it to do something that is no longer wanted; 0: none."""
        self.inbox: asyncio.Queue[WorkerMessage] = asyncio.Queue()
        self.failures: dict[int, StepError] = {}
        """Calls that failed, by number: the job's own failure may be one of them."""
        self.timer: asyncio.TimerHandle | None = None


class WorkerConnection:
    """A worker that has registered. Without an `outbox` it is away, and may come back within its lease."""

    def __init__(
        self, registration: wire.Register, outbox: Outbox[wire.ToWorker], now_s: float, holder: Holder = ANYBODY
    ) -> None:
        self.name = known_as(registration.name, holder)
        self.holder = holder
        self.instance = registration.instance
        self.offer = registration
        self.outbox: Outbox[wire.ToWorker] | None = outbox
        self.heard_s = now_s
        self.draining = False
        self.jobs: dict[str, Job] = {}
        self.timer: asyncio.TimerHandle | None = None

    @property
    def takes(self) -> bool:
        """True if the worker may be given more work."""
        return self.outbox is not None and not self.draining

    @property
    def capacity(self) -> Capacity:
        """The worker's capacity."""
        offer = self.offer
        return Capacity(
            worker=self.name,
            able=frozenset(map(able_to, offer.tasks)) if self.takes else frozenset(),
            labels=frozenset(offer.labels),
            tags=frozenset(offer.tags),
            slots=offer.slots,
            cpu_m=offer.cpu_m,
            memory_mb=offer.memory_mb,
            gpus=offer.gpus,
            tenants=self.holder.works.tenants if self.holder.works is not None else frozenset(),
        )

    def say(self, *, urgent: bool = True, **message: object) -> bool:
        """Send a message, and return False if the worker does not read. A worker that is away receives it when it is back."""
        return self.outbox is None or self.outbox.say(wire.ToWorker(**message), urgent=urgent)  # type: ignore[arg-type]


def known_as(name: str, holder: Holder) -> str:
    """Return what a worker is called here: one that is for some tenants only is called so of them, with blanks, which no worker
    calls itself by. So its name is taken from no other tenant's, and none tells that there is one."""
    tenants = holder.works.tenants if holder.works is not None else None
    return name if tenants is None else f"{name} of {', '.join(sorted(tenants)) or 'nobody'}"


def problems(registration: wire.Register, holder: Holder = ANYBODY) -> Iterator[str]:
    """Yield a message for each fault of a registration, of a worker with that token."""
    if not LABEL.fullmatch(registration.name) or registration.name == HERE:
        yield f"the name {registration.name!r:.130} must be 1 to 100 characters without blanks and commas, and not {HERE!r}"
    if not LABEL.fullmatch(registration.instance):
        yield "the instance must be 1 to 100 characters, the same for as long as the process lives"
    if not 1 <= registration.slots <= MAX_SLOTS:
        yield f"slots is {registration.slots}; it must be 1 to {MAX_SLOTS}"
    if not registration.tasks:
        yield "it offers no task"
    yield from _bad_names("tasks", registration.tasks, MAX_TASKS)
    yield from _bad_names("labels", registration.labels, MAX_NAMES)
    yield from _bad_names("tags", registration.tags, MAX_NAMES)
    if len(registration.jobs) > MAX_JOBS:
        yield f"jobs has {len(registration.jobs)} entries; at most {MAX_JOBS} are possible"
    scope = holder.works if holder.works is not None else Scope()
    for what in ("tasks", "labels", "tags"):
        allowed: frozenset[str] | None = getattr(scope, what)
        if allowed is not None and (other := sorted(set(getattr(registration, what)) - allowed)):
            these = ", ".join(sorted(allowed)) or "none"
            yield f"its token, {holder.name}, allows no {what[:-1]} {other[0]!r:.130}; it allows: {these}"


def _bad_names(noun: str, names: Collection[str], limit: int) -> Iterator[str]:
    if len(names) > limit:
        yield f"{noun} has {len(names)} entries; at most {limit} are possible"
    for name in names:
        if not LABEL.fullmatch(name):
            yield f"{noun} has {name!r:.130}; it must be 1 to 100 characters without blanks and commas"
            return
