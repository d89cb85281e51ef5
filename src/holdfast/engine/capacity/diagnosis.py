"""The reasons why a step waits for a slot, a worker or a pool: computed from what the store has of workers and who waits.

No placing process is asked, so it also works if none places. Reports of processes may be a second old.

Never here: placing anything, words for people.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from holdfast.core.capacity.estimates import first_guess
from holdfast.core.capacity.lending import DeclaredPool, own_pools
from holdfast.core.values.demand import Demand
from holdfast.core.values.ids import RunId, StepId
from holdfast.core.views.projection import RunRow
from holdfast.core.views.status import Wait
from holdfast.engine.capacity.placing import in_line
from holdfast.ports import Lending, PlacedStep, Report, Sessions, Views
from holdfast.scheduling.job import MAX_HOLDERS, Capacity, Reason
from holdfast.scheduling.lane_workers import job_of
from holdfast.scheduling.placement import Scheduler

MAX_IN_LINE: Final = 100_000
MAX_FOR_SLOTS: Final = 500
"""Runs that wait for slots and are looked at, those that have waited longest."""
MAX_LOST: Final = 100
"""Lost processes that are listed, the latest of them."""
_SLOT: Final = Demand()
_PICKUP_MS: Final = 1_000
"""A process that executes a run has so long to take its ready steps, before others look."""
_PAGE: Final = 500

_decode_waits = msgspec.json.Decoder(list[Wait]).decode
_decode_report = msgspec.json.Decoder(Report).decode


class Forecast(NamedTuple):
    """A step starts at about `at_ms` if nothing changes, as far as `steps` earlier steps tell; 0 where time alone tells."""

    at_ms: int
    steps: int


class WaitReason(NamedTuple):
    """A step that waits for a slot, its place or a pool since `since_ms`, and why. `workers` is how many processes live that
    could be given steps; the pool that it waits for has enough at `refills_at_ms`, if time alone brings that."""

    step: PlacedStep
    since_ms: int
    reason: Reason
    workers: int
    refills_at_ms: int | None = None
    starts: Forecast | None = None
    """When it starts, if nothing changes; None where that is not known."""
    model: str | None = None
    """The model whose call waits, within the step."""


class LinePlace(NamedTuple):
    """A place in the line of waiting steps, from which a list of it goes on: among those that wait `for_slots`, or before. `at`
    is a run's place, of which the first `within` steps are over; `ahead` steps stand before."""

    for_slots: bool = False
    at: int = 0
    within: int = 0
    ahead: int = 0


class StepInLine(NamedTuple):
    """A step that waits since `since_ms`, with how many are ahead of it, and where the list goes on after it."""

    step: PlacedStep
    since_ms: int
    ahead: int
    after: LinePlace


async def line(views: Views, now_ms: int, place: LinePlace | None = None) -> AsyncIterator[StepInLine]:
    """The steps that wait for their place, longest first; then those that wait for a slot, the runs that have waited longest
    first. From `place` on, `MAX_IN_LINE` at most."""
    place = place or LinePlace()
    if not place.for_slots:
        async for each in _unplaced_from(views, place):
            yield each
        place = LinePlace(for_slots=True)
    for ahead, (step, since_ms) in enumerate(await _slot_line(views, now_ms)):
        if ahead >= place.ahead:
            yield StepInLine(step, since_ms, ahead, LinePlace(for_slots=True, ahead=ahead + 1))


async def _unplaced_from(views: Views, place: LinePlace) -> AsyncIterator[StepInLine]:
    after, ahead, seen = max(0, place.at - 1), place.ahead, 0
    while seen < MAX_IN_LINE:
        page = await views.unplaced(after, _PAGE)
        for run in page:
            since_ms = {wait.step: wait.since_ms for wait in _decode_waits(run.waiting_for) if wait.demand is not None}
            for number, step in enumerate(in_line([run])):
                if run.place == place.at and number < place.within:
                    continue
                yield StepInLine(step, since_ms[step.step], ahead, LinePlace(at=run.place, within=number + 1, ahead=ahead + 1))
                ahead, seen = ahead + 1, seen + 1
        if len(page) < _PAGE:
            return
        after = page[-1].place


async def _slot_line(views: Views, now_ms: int) -> list[tuple[PlacedStep, int]]:
    until_ms = now_ms + _PICKUP_MS
    hashes = await views.wanted_hashes(until_ms)
    found = []
    due = [each.run for each in await views.due(until_ms, hashes, MAX_FOR_SLOTS)] if hashes else []
    rows = {row.run: row for row in await views.runs(ids=due, limit=len(due))} if due else {}
    for row in (rows[run] for run in due if run in rows):
        found += [
            (PlacedStep(row.run, StepId(wait.step), row.tenant, row.workflow, row.graph_hash, _SLOT), wait.since_ms)
            for wait in _decode_waits(row.waiting_for)
            if wait.kind == "slot" and wait.step is not None
        ]
    return found


async def _unplaced(views: Views) -> list[PlacedStep]:
    return [each.step async for each in _unplaced_from(views, LinePlace())]


async def waits_of(
    views: Views, lending: Lending, sessions: Sessions, now_ms: int, run: RunId, step: StepId | None = None
) -> list[WaitReason]:
    """Return what the steps of a run wait for, or one of them. Empty if none waits for a slot, a place or a pool."""
    row = await views.run(run)
    if row is None:
        return []
    waits = [wait for wait in _decode_waits(row.waiting_for) if wait.step is not None and step in (None, wait.step)]
    kinds = {wait.kind for wait in waits}
    described = [_decode_report(each) for each in await sessions.described()]
    reports, refills = _executing(described), _refills(described)
    found: list[WaitReason] = []
    if "slot" in kinds:
        found += await _for_slots(views, now_ms, row, waits, reports)
    if "worker" in kinds:
        found += await _for_places(views, lending, row, waits, reports, refills)
    if "pool" in kinds:
        found += await _for_calls(lending, row, waits, reports, refills)
    return [each._replace(refills_at_ms=refills.get(each.reason.pool or "")) for each in found]


class PoolWaiter(NamedTuple):
    """A step that asks for something of a pool since `since_ms`, with the amount in its demand; or a call of `model` that does,
    of a step under way."""

    step: PlacedStep
    since_ms: int
    model: str | None = None
    starts: Forecast | None = None
    """When it starts, where time alone tells that."""


class PoolUsers(NamedTuple):
    """The steps that hold something of a pool, with amounts; those that wait in line and ask for it, longest first; and the
    model calls that wait for it, longest first, the first of `calls_waiting`."""

    holders: Sequence[PlacedStep]
    waiting: Sequence[PoolWaiter]
    calls: Sequence[PoolWaiter]
    calls_waiting: int


async def users_of(views: Views, lending: Lending, sessions: Sessions, pool: str) -> PoolUsers:
    """Return who has of a pool and who asks for it."""
    pools = {each.name: each for each in await lending.pools()}
    described = [_decode_report(each) for each in await sessions.described()]
    reports, refills = _executing(described), _refills(described)
    held = [step for each in reports for report in (each, *each.connected) for step in report.held]
    holders = [known for each in held if pool in (known := _with_amounts(each, pools)).demand.pools]
    waiting: list[PoolWaiter] = []
    after = _Refill(pools.get(pool), refills.get(pool))
    async for each in _unplaced_from(views, LinePlace()):
        known = _with_amounts(each.step, pools)
        if pool in known.demand.pools:
            waiting.append(PoolWaiter(known, each.since_ms, None, after.start(known.demand.pools[pool] or 1)))
    calls = [found.waiter for found in await _calls_in_line(lending, pools, reports, refills) if found.pool == pool]
    is_whole = all(len(each.calls) >= max(each.calls_waiting.values(), default=0) for each in reports)
    counted = len(calls) if is_whole else sum(each.calls_waiting.get(pool, 0) for each in reports)
    return PoolUsers(holders, waiting, calls, counted)


class _Refill:
    """A rate that has enough for the first who waits at `at_ms`, and refills for one after the other."""

    def __init__(self, pool: DeclaredPool | None, at_ms: int | None) -> None:
        self._at_ms = at_ms
        self._ms_each = pool.per_s * 1000 / pool.limit if pool is not None and pool.kind == "rate" else 0.0
        self._owed = -1
        """The units that those in line take after the first has what it asks for."""

    def start(self, amount: int) -> Forecast | None:
        """Return when the next in line starts, who takes `amount`."""
        self._owed = 0 if self._owed < 0 else self._owed + amount
        return None if self._at_ms is None else Forecast(self._at_ms + round(self._owed * self._ms_each), 0)


class _CallInLine(NamedTuple):
    """A model call that waits, its `place` among those that wait for the same pool, and its path in its step."""

    waiter: PoolWaiter
    pool: str
    place: int
    path: str


async def _calls_in_line(
    lending: Lending, pools: Mapping[str, DeclaredPool], reports: Sequence[Report], refills: Mapping[str, int]
) -> list[_CallInLine]:
    """Return the model calls that processes describe, longest waiting first, each with the one of its pools that is short now,
    or the first."""
    calls = sorted((call for each in reports for call in each.calls), key=lambda call: call.since_ms)
    short = await _short(lending, {name for call in calls for name in call.amounts if name in pools}, refills)
    places: dict[str, int] = {}
    lines: dict[str, _Refill] = {}
    found = []
    for call in calls:
        pool = _blocking(call.amounts, short)
        places[pool] = places.get(pool, 0) + 1
        starts = lines.setdefault(pool, _Refill(pools.get(pool), refills.get(pool))).start(call.amounts[pool])
        demand = Demand(pools={pool: call.amounts[pool]})
        step = PlacedStep(call.run, call.step, call.tenant, call.workflow, "", demand)
        found.append(_CallInLine(PoolWaiter(step, call.since_ms, call.model, starts), pool, places[pool], call.path))
    return found


async def _short(lending: Lending, names: Iterable[str], refills: Mapping[str, int]) -> list[str]:
    """Return those of these pools that have not enough for a step that waits; rates that refill come first."""
    others = [name for name in sorted(names) if name not in refills]
    shares = [any(share.is_short for share in await lending.pool_shares(name)) for name in others]
    return [*refills, *(name for name, is_short in zip(others, shares, strict=True) if is_short)]


def _blocking(names: Collection[str], short: Sequence[str]) -> str:
    return next((name for name in short if name in names), next(iter(names)))


async def lost(sessions: Sessions, since_ms: int) -> list[tuple[Report, int]]:
    """Return the last reports of processes that executed steps and were found dead since then, each with the time."""
    found = [(_decode_report(said), at_ms) for said, at_ms in await sessions.lost(since_ms, MAX_LOST)]
    return [(report, at_ms) for report, at_ms in found if report.slots]


async def living(sessions: Sessions) -> list[Report]:
    """Return the reports of the processes that execute steps."""
    return _executing([_decode_report(each) for each in await sessions.described()])


def _executing(reports: Sequence[Report]) -> list[Report]:
    """Return those of processes that execute steps; a leader has no slots."""
    return [report for report in reports if report.slots]


def _refills(reports: Sequence[Report]) -> dict[str, int]:
    """Return when each pool first has enough for a process that waits for it."""
    found: dict[str, int] = {}
    for report in reports:
        for name, at_ms in report.refilled.items():
            found[name] = min(at_ms, found.get(name, at_ms))
    return found


async def _for_slots(
    views: Views, now_ms: int, row: RunRow, waits: Sequence[Wait], reports: Sequence[Report]
) -> list[WaitReason]:
    able = [each for each in reports if row.graph_hash in each.hashes]
    slots, free = sum(each.slots for each in able), sum(max(0, each.free) for each in able)
    hashes = sorted({hash_ for each in able for hash_ in each.hashes})
    due = await views.due(now_ms + _PICKUP_MS, hashes, MAX_FOR_SLOTS) if hashes else ()
    ahead = next((number for number, each in enumerate(due) if each.run == row.run), len(due))
    holders = tuple(islice((key for each in able for key in each.steps), MAX_HOLDERS))
    for_slots = [wait for wait in waits if wait.kind == "slot"]
    return [
        WaitReason(
            PlacedStep(row.run, StepId(wait.step or ""), row.tenant, row.workflow, row.graph_hash, _SLOT),
            wait.since_ms,
            Reason(
                "slot",
                0.0,
                place=ahead + number if free <= 0 else 1,
                possible=bool(able),
                limit=slots,
                in_use=slots - free,
                holders=holders,
            ),
            len(able),
        )
        for number, wait in enumerate(for_slots, 1)
    ]


async def _for_calls(
    lending: Lending, row: RunRow, waits: Sequence[Wait], reports: Sequence[Report], refills: Mapping[str, int]
) -> list[WaitReason]:
    """Return why model calls wait: of the pools of each, the one that is short now, or the first. The latest of them are in no
    report yet."""
    pools = {pool.name: pool for pool in await lending.pools()}
    described = {
        f"{each.waiter.step.step}:{each.path}": each
        for each in await _calls_in_line(lending, pools, reports, refills)
        if each.waiter.step.run == row.run
    }
    found = []
    for wait in waits:
        if wait.kind != "pool":
            continue
        names = (wait.about or "").split(", ")
        known = described.get(wait.id)
        name = known.pool if known else _blocking(names, await _short(lending, [n for n in names if n in pools], refills))
        pool = pools.get(name)
        used = sum(share.used for share in await lending.pool_shares(name) if share.life != "dead") if pool else 0
        reason = Reason(
            "pool",
            0.0,
            place=known.place if known else 0,
            pool=name,
            limit=pool.limit if pool is not None else None,
            in_use=used if pool is not None and pool.kind == "slots" else None,
        )
        demand = known.waiter.step.demand if known else _SLOT
        step = PlacedStep(row.run, StepId(wait.step or ""), row.tenant, row.workflow, row.graph_hash, demand)
        starts, model = (known.waiter.starts, known.waiter.model) if known else (None, None)
        found.append(WaitReason(step, wait.since_ms, reason, len(reports), starts=starts, model=model))
    return found


async def _for_places(
    views: Views, lending: Lending, row: RunRow, waits: Sequence[Wait], reports: Sequence[Report], refills: Mapping[str, int]
) -> list[WaitReason]:
    scheduler = Scheduler(tenants_apart=True)
    workers = _join(reports, scheduler)
    pools = {pool.name: pool for pool in await lending.pools()}
    since_ms = {wait.step: wait.since_ms for wait in waits if wait.kind == "worker"}
    for pool in pools.values():
        shares = await lending.pool_shares(pool.name) if pool.kind == "rate" and pool.name not in refills else ()
        short = pool.name in refills or any(share.is_short for share in shares)
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
    for each in await _unplaced(views):
        known = _with_amounts(each, pools)
        scheduler.submit(job_of(known), 0.0)
        if known.run == row.run and known.step in since_ms:
            asked.append(known)
    scheduler.place(0.0)  # who is left has a reason
    reasons = ((each, scheduler.explain((each.run, each.step), 0.0)) for each in asked)
    return [WaitReason(each, since_ms[each.step], reason, workers) for each, reason in reasons if reason is not None]


def _join(sessions: Sequence[Report], scheduler: Scheduler) -> int:
    """Have those join who live, with what they hold; how many they are."""
    reports = [*sessions, *(connected for each in sessions for connected in each.connected)]
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
