"""The hints between the processes of a fleet, and what workers say of themselves.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from holdfast.core.capacity.lanes import DEFAULT
from holdfast.core.values.demand import Demand, Resources
from holdfast.core.values.ids import RunId, Seq, SessionId, StepId


class PlacedStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that is to be placed, or was; then all amounts of pools in its demand are known."""

    run: RunId
    step: StepId
    tenant: str
    workflow: str
    graph_hash: str
    demand: Demand


class Job(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run with something to do for processes that can run its workflow; `dead` are dead sessions that it still waits for.

    Offered, `steps` are to be placed; handed to a worker, they were placed with it, and begin there only if it takes them up
    until `until_ms` (store time). `looks`: the run has something to do besides them.
    """

    run: RunId
    graph_hash: str
    dead: frozenset[SessionId] = frozenset()
    tenant: str = ""
    steps: tuple[PlacedStep, ...] = ()
    looks: bool = True
    until_ms: int = 0


class Stall(msgspec.Struct, frozen=True):
    """A run that a process cannot go on with for now, why, and since when."""

    run: RunId
    reason: str
    since_ms: int


class WaitingCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model call of a step that waits for `amounts` of pools since `since_ms` (store time)."""

    run: RunId
    step: StepId
    path: str
    tenant: str
    workflow: str
    model: str
    amounts: dict[str, int]
    since_ms: int


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """A worker's report: the workflows it can run, its slots, and how many of them are free. Slots kept for jobs it has taken
    do not count as free. `taken` counts all of these so far. A job placed with the worker but not among them is still on its
    way, and needs a slot too. `held` are the placed steps that it has and is not done with. `connected` are the workers that
    do steps for it, with the tasks that they offer as their `hashes`. `at_ms` is the time of the report (store time).

    Only what its session keeps has more: how many steps it is `working` at, the first of them in `steps`, the times at
    which pools that steps wait for here have `refilled` (store time), the first `calls` of models that wait for pools here,
    and how many wait for each."""

    worker: SessionId
    hashes: tuple[str, ...]
    slots: int
    free: int
    taken: int = 0
    labels: tuple[str, ...] = ()
    resources: Resources = Resources()
    held: tuple[PlacedStep, ...] = ()
    connected: tuple[Report, ...] = ()
    lane: str = DEFAULT
    at_ms: int = 0
    stalls: tuple[Stall, ...] = ()
    tenants: tuple[str, ...] | None = None
    """Tenants whose jobs a connected worker may get; None for all."""
    working: int = 0
    steps: tuple[tuple[RunId, StepId], ...] = ()
    """The steps of the run that it has worked at longest come first."""
    refilled: dict[str, int] = {}
    calls: tuple[WaitingCall, ...] = ()
    """Sorted by their wait, the longest first."""
    calls_waiting: dict[str, int] = {}


class DeliveredJob(msgspec.Struct, frozen=True):
    """A job in a process's hands, to be acknowledged by its `receipt`; none if the leader found it by itself."""

    job: Job
    receipt: str


class Queue(Protocol):
    """Hints between the processes of a fleet. Any of them may be lost, late or sent twice: the store has the truth, and the
    sweep finds there what no hint announced. So nothing here raises for a queue that cannot be reached.

    A process that leads or works belongs to one lane. Jobs go to the lane's leader, from there to workers; each is kept until
    it is acknowledged, and comes to others when its holder is dead. News of runs go to all.
    """

    async def offer(self, jobs: Sequence[Job], lane: str = DEFAULT) -> None:
        """Tell the leader of a lane of runs that want a worker."""
        ...

    async def report(self, report: Report) -> None:
        """Tell the leader what a worker has free."""
        ...

    async def notify(self, seqs: Mapping[RunId, Seq]) -> None:
        """Announce to all processes how far these runs are, because another may wait for it."""
        ...

    async def news(self) -> Mapping[RunId, Seq]:
        """Wait for what others tell; empty when some of it may have been missed."""
        ...

    async def offered(self, leader: SessionId) -> Sequence[DeliveredJob]:
        """Wait for jobs, as the lane's leader; first those that the leader before it has left."""
        ...

    async def reported(self) -> Sequence[Report]:
        """Wait for what workers say of themselves; first the latest of each."""
        ...

    async def place(self, worker: SessionId, deliveries: Sequence[DeliveredJob]) -> None:
        """Hand jobs on to a worker: from now on they are its own to acknowledge."""
        ...

    async def drop(self, useless: Sequence[DeliveredJob]) -> None:
        """These that were offered need no worker: their run waits already, or there is no room for them."""
        ...

    async def placed(self, worker: SessionId) -> Sequence[DeliveredJob]:
        """Wait for jobs, as a worker."""
        ...

    async def acknowledge(self, worker: SessionId, deliveries: Sequence[DeliveredJob]) -> None:
        """These were taken up, durably, or there was nothing to take up."""
        ...

    async def reclaim(self, worker: SessionId) -> Sequence[Job]:
        """Return the jobs that a dead or departed worker has not acknowledged. No other caller gets them."""
        ...

    async def aclose(self) -> None: ...
