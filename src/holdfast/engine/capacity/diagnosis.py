"""The reasons why a step waits for its place: computed from what the store has of workers, pools and those who wait.

No placing process is asked, so it also works if none places. Reports of processes may be a second old.

Never here: placing anything, words for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from holdfast.core.capacity.estimates import first_guess
from holdfast.core.capacity.lending import DeclaredPool, own_pools
from holdfast.core.values.ids import RunId, StepId
from holdfast.core.views.status import Wait
from holdfast.engine.capacity.placing import in_line
from holdfast.ports import Lending, PlacedStep, Report, Sessions, Views
from holdfast.scheduling.job import Capacity, Reason
from holdfast.scheduling.lane_workers import job_of
from holdfast.scheduling.placement import Scheduler

MOST_IN_LINE: Final = 100_000
_PAGE: Final = 500

_decode_waits = msgspec.json.Decoder(list[Wait]).decode
_decode_report = msgspec.json.Decoder(Report).decode


class WaitReason(NamedTuple):
    """A step that waits for its place since `since_ms`, and why. `workers` is how many processes live that could be given
    steps."""

    step: PlacedStep
    since_ms: int
    reason: Reason
    workers: int


async def line(views: Views) -> Sequence[PlacedStep]:
    """The steps that wait for their place, longest first."""
    found: list[PlacedStep] = []
    after = 0
    while len(found) < MOST_IN_LINE:
        page = await views.unplaced(after, _PAGE)
        found += in_line(page)
        if len(page) < _PAGE:
            break
        after = page[-1].place
    return found


async def waits_of(
    views: Views, lending: Lending, sessions: Sessions, run: RunId, step: StepId | None = None
) -> list[WaitReason]:
    """Return what the steps of a run wait for, or one of them. Empty if none waits for a place."""
    scheduler = Scheduler(tenants_apart=True)
    workers = await _join(sessions, scheduler)
    pools = {pool.name: pool for pool in await lending.pools()}
    for pool in pools.values():
        short = pool.kind == "rate" and any(share.is_short for share in await lending.pool_shares(pool.name))
        scheduler.set_pool(
            pool.name,
            pool.kind,
            pool.limit,
            0.0,
            per_s=pool.per_s or 1.0,
            burst=pool.burst or pool.limit,
            level=0.0 if short else None,
        )
    asked: list[PlacedStep] = []
    for each in await line(views):
        known = _with_amounts(each, pools)
        scheduler.submit(job_of(known), 0.0)
        if known.run == run and step in (None, known.step):
            asked.append(known)
    scheduler.place(0.0)  # who is left has a reason
    row = await views.run(run)
    waits = {wait.step: wait.since_ms for wait in _decode_waits(row.waiting_for)} if row is not None else {}
    reasons = ((each, scheduler.why((each.run, each.step), 0.0)) for each in asked)
    return [
        WaitReason(each, waits[each.step], reason, workers)
        for each, reason in reasons
        if reason is not None and each.step in waits
    ]


async def _join(sessions: Sessions, scheduler: Scheduler) -> int:
    """Have those join who live, with what they hold; how many they are."""
    said = [_decode_report(each) for each in await sessions.described()]
    reports = [*said, *(connected for each in said for connected in each.connected)]
    for report in reports:
        own = report.resources
        scheduler.join(
            Capacity(
                report.worker,
                frozenset(report.hashes),
                frozenset(report.labels),
                frozenset(own.tags),
                report.slots,
                own.cpu_m,
                own.memory_mb,
                own.gpus,
                tenants=None if report.tenants is None else frozenset(report.tenants),
            ),
            0.0,
        )
        for held in report.held:
            scheduler.charge((held.run, held.step), job_of(held), report.worker)
    return len(reports)


def _with_amounts(step: PlacedStep, pools: dict[str, DeclaredPool]) -> PlacedStep:
    """With a guess at what it did not say, and of its tenant's own pools where there are any."""
    guesses = {
        name: amount if amount is not None else first_guess(pools[name]) if name in pools else 1
        for name, amount in own_pools(step.demand.pools, step.tenant, pools).items()
    }
    return msgspec.structs.replace(step, demand=msgspec.structs.replace(step.demand, pools=guesses))
