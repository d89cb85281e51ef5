"""The scheduler's inputs and outputs as values: jobs, workers' capacities, placements, reasons to wait.

Never here: a rule.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from holdfast.core.values.demand import Demand

AGE_S: Final = 60.0
"""Who has waited so long goes before who has just come with a priority one higher."""
PATIENCE_S: Final = 30.0
"""After so long a job also reserves what it is not short of, pools and the best worker: in time it has all at once. Long
enough for what is short of one thing only to come and go before, short beside the minutes for which people wait."""
MAX_HOLDERS: Final = 10
"""So many of those who have of a pool are named; more would be a page, not an answer."""

Key = tuple[str, ...]
Strategy = Literal["least_loaded", "best_fit"]


class Job(msgspec.Struct, frozen=True):
    """Something to be placed. `able` is what its worker must be able to run: a graph's hash,
    its scripts, or a task (lane_workers)."""

    key: Key
    able: str
    tenant: str
    demand: Demand


class Capacity(msgspec.Struct, frozen=True):
    """A worker's abilities, labels and total resources, in the units of a Demand. `busy` of its slots are taken by work that
    was not placed with it here."""

    worker: str
    able: frozenset[str]
    labels: frozenset[str]
    tags: frozenset[str]
    slots: int
    cpu_m: int = 0
    memory_mb: int = 0
    gpus: int = 0
    busy: int = 0
    tenants: frozenset[str] | None = None
    """Tenants whose jobs it may get; None for all."""


class Placement(msgspec.Struct, frozen=True):
    """A job has a worker and its parts of `pools`, until it is finished."""

    job: Job
    worker: str
    pools: dict[str, int]


class Reason(msgspec.Struct, frozen=True):
    """Why a job is where it is.

    `waits_for` is `turn` (it has not been looked at), `slot` (it demands nothing else), `pool`, `worker` or `nothing` (it is
    placed, with `worker`).
    `place` in that line is 1 for the next. `possible` is False where nothing that ends will help: somebody must declare
    or enlarge a pool, or start another worker.

    Of slots: their number as `limit`, how many are `in_use`, and the `holders`. Of a pool: its name, `limit`, what is `in_use`
    or for a rate its `level`, and the `holders`, the longest first. Of a worker: what all of them lack in `lacking`, like
    `label gpu`; or, where one that has it all is only busy, `capacity`, and the `holders` of those that have it.
    `kept_for` is the job for which what there is is reserved.
    """

    waits_for: Literal["turn", "slot", "pool", "worker", "nothing"]
    since_s: float
    place: int = 0
    possible: bool = True
    pool: str | None = None
    limit: int | None = None
    in_use: int | None = None
    level: float | None = None
    holders: tuple[Key, ...] = ()
    lacking: str | None = None
    kept_for: Key | None = None
    worker: str | None = None


class PoolNeed(msgspec.Struct, frozen=True):
    """The demand for a pool. `used` of its slots are in use; all queues that wait want `waits` more, and the `next` of them
    wants that much. A rate is `owes` below empty. `beside` are the other pools that the next queue wants something of."""

    used: int
    waits: int
    next: int
    owes: int
    beside: tuple[str, ...] = ()


class Usage(msgspec.Struct, frozen=True):
    """The usage of a pool or a worker: the amount taken, and its limit."""

    in_use: int
    limit: int
    waiting: int = 0
