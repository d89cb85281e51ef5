"""Leads a lane of the fleet: finds the runs that are due, and hands them to workers.

It holds a session of its own that names the lane. When it dies, another leads: from the store, and from the reports of workers;
runs in flight go on meanwhile. A run whose workflow no worker has gets its tick here, so that its timers and gates depend on no
user's code.

Never here: which worker gets a job (scheduling does), what a tick finds (core does).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from holdfast.core.facts.commands import Tick
from holdfast.core.values.ids import RunId, SessionId
from holdfast.core.values.scopes import with_headroom
from holdfast.engine.background.rounds import Rounds
from holdfast.engine.capacity.lane_due import LaneDue
from holdfast.engine.capacity.placing import in_line, refilled_ms
from holdfast.engine.capacity.pool_client import PoolClient
from holdfast.engine.capacity.stored_line import StoredLine
from holdfast.engine.fleet.dispatch import REPORT_EVERY_S
from holdfast.engine.runs.background_loop import BackgroundLoop, Outage
from holdfast.engine.runs.runtime import Runtime, WatchOnlyWork
from holdfast.errors import StoreError
from holdfast.ports import Clock, DeliveredJob, Job, Leadership, PlacedStep, Queue, Report, Store
from holdfast.scheduling.job import Strategy
from holdfast.scheduling.lane import Lane
from holdfast.scheduling.lane_workers import ON_ITS_WAY_MS
from holdfast.scheduling.placement import Scheduler

log = logging.getLogger("holdfast")

LEASE_S: Final = 2.0
"""A leader's lease: five renewals, one every 0.4 s. Another leads within three seconds of its death: the lease, the next
look of a process that waits to lead, and the first sweep."""
CLAIM_EVERY_S: Final = 0.4
MAX_RUNS: Final = 2_000
"""Of one sweep; the rest is found by the next, which follows at once."""
SHORTEST_PAUSE_S: Final = 0.02
BUSY_PAUSE_S: Final = 0.1
"""Between two turns that find only what a worker is to take up."""
LONGEST_PAUSE_S: Final = 1.0
_PATIENCE_S: Final = 2.0
"""How long a worker has to take up what it was given, before the sweep offers it again."""
_SILENT_S: Final = 3 * REPORT_EVERY_S
_AWAY_S: Final = 0.5
_NO_WEIGHTS: Final[Mapping[str, float]] = {}
_OUTLIVES_S: Final = 600.0
"""What was placed goes on when the leader dies. Its part of a pool is the next leader's, or stays taken for so long."""


class _Leading(WatchOnlyWork):
    """The work of a process that leads: it executes nothing, and knows when pools refill for the steps that it places."""

    def __init__(self, runtime: Runtime, refilled: Callable[[], dict[str, int]]) -> None:
        super().__init__(runtime.runs, runtime.catalog)
        self._refilled = refilled

    def report(self, session: SessionId) -> Report:
        return msgspec.structs.replace(super().report(session), refilled=self._refilled())


_decode_report = msgspec.json.Decoder(Report).decode


class Leader:
    """The scheduler of one lane, while this process leads it; otherwise it waits to."""

    def __init__(
        self,
        runtime: Runtime,
        leadership: Leadership,
        queue: Queue,
        strategy: Strategy = "least_loaded",
        weights: Mapping[str, float] = _NO_WEIGHTS,
        rounds: Rounds | None = None,
    ) -> None:
        self._runtime = runtime
        self._store = store = runtime.store
        runtime.membership.work = _Leading(runtime, self._refilled)
        self._described_s = -math.inf
        self._leadership = leadership
        self._queue = queue
        self.lane = runtime.catalog.lane
        self.leads = asyncio.Event()
        self._awake = asyncio.Event()
        self._jobs = Lane(Scheduler(strategy))
        for tenant, weight in weights.items():
            self._jobs.scheduler.set_weight(tenant, weight)
        self._pool_client = PoolClient(
            store.lending,
            store.sessions,
            runtime.clock,
            f"lane/{self.lane}",
            lambda: self._session,
            self._jobs.scheduler,
            outlives_s=_OUTLIVES_S,
        )
        self._pool_client.on_more = self._awake.set
        self._line = StoredLine(
            store.views,
            runtime.clock,
            lambda each: runtime.catalog.lanes.of(each.workflow, each.tenant, each.started_by) == runtime.catalog.lane,
        )
        self._offered_s: dict[RunId, float] = {}
        self._all_in_hand = False
        self._session: SessionId | None = None
        """The one with which it leads. Another session of this process leads nothing until the store says so: what it took of
        pools in the lane's name, it would keep for as long as it lives."""
        self._led_s = 0.0
        """Since when it leads."""
        self._knows = False
        """Whether it has heard of every worker what that has, since it leads."""
        self._looked_s = runtime.clock.monotonic_s()
        self._rounds = rounds
        self._due = LaneDue(leadership, store.views, runtime.catalog, runtime.clock)
        self._unclaimed = Outage(f"holdfast cannot lead lane {self.lane} for now: %s", CLAIM_EVERY_S)
        outage = Outage("holdfast cannot look into the store and tries again: %s", _AWAY_S)
        turns = ((self._claim, None), (self._receive_jobs, None), (self._receive_reports, None), (self._look, outage))
        self._loops = [
            BackgroundLoop(
                f"holdfast-leader-{number}",
                turn,
                runtime.clock,
                runtime.membership.give_up,
                fault="holdfast can no longer lead",
                outage=known,
            )
            for number, (turn, known) in enumerate((*turns, (self._place, None)))
        ]

    @property
    def store(self) -> Store:
        return self._store

    @property
    def clock(self) -> Clock:
        return self._runtime.clock

    @property
    def jobs(self) -> int:
        """Return how many jobs wait for a worker: runs to be looked at, and steps."""
        return self._jobs.waiting

    @property
    def workers(self) -> int:
        return len(self._jobs.workers)

    @property
    def slots(self) -> int:
        return self._jobs.workers.slots

    @property
    def free(self) -> int:
        """Return how many workers are free, as far as is known here."""
        return self._jobs.workers.free

    @property
    def lease_age_s(self) -> float | None:
        """Return the time since its lease was last known to be renewed; None without one."""
        return self._runtime.membership.lease_age_s

    @property
    def age_s(self) -> float:
        """Return the time since it last finished a turn; 0 while another process leads."""
        return self._runtime.clock.monotonic_s() - self._looked_s if self.leads.is_set() else 0.0

    @property
    def broken(self) -> BaseException | None:
        """Why this process can no longer work, if so."""
        return self._runtime.membership.broken

    async def reach(self) -> None:
        """Ask the store something. Raises StoreError where it cannot be reached."""
        await self._leadership.is_led(self.lane)

    def _refilled(self) -> dict[str, int]:
        """Return the times at which rates that steps wait for have refilled."""
        times_s = self._jobs.scheduler.refills()
        return refilled_ms(times_s, self._runtime.clock.monotonic_s(), self._store.clock.now_ms()) if times_s else {}

    def start(self) -> None:
        self._pool_client.start(self._runtime.membership.give_up)
        for loop in self._loops:
            loop.start()

    async def aclose(self) -> None:
        await asyncio.gather(*(loop.aclose() for loop in self._loops))
        await self._pool_client.aclose()

    # --- Leading ------------------------------------------------------------------------------------------------------

    async def _claim(self) -> float:
        try:
            await self._runtime.membership.hold()
            session = self._runtime.membership.session
            if session is not None and not await self._leadership.lead(self.lane, session):
                session = None
            await self._describe()
            self._unclaimed.ends()
        except StoreError as problem:
            # No other can have led before the lease is over.
            session = self._session if self._runtime.membership.alive() else None
            self._unclaimed.goes_on(problem)
        if session is not None and session != self._session:
            self._looked_s = self._runtime.clock.monotonic_s()
            log.info("holdfast leads lane %s as %s", self.lane, session)
            self._session = session
            self._led_s, self._knows = self._runtime.clock.monotonic_s(), False
            self.leads.set()
        elif session is None and self._session is not None:
            log.warning("holdfast leads lane %s no more", self.lane)
            self._session = None
            self.leads.clear()
            self._offered_s.clear()
            await self._queue.drop(self._jobs.clear())
        return CLAIM_EVERY_S

    async def _describe(self) -> None:
        """Have the session say which pools refill when, for those who ask why steps wait."""
        now_s = self._runtime.clock.monotonic_s()
        if now_s - self._described_s >= REPORT_EVERY_S and await self._runtime.membership.describe():
            self._described_s = now_s

    async def _receive_jobs(self) -> float:
        await self.leads.wait()
        session = self._session
        if session is None:
            return CLAIM_EVERY_S
        useless = [self._offer(handed) for handed in await self._queue.offered(session)]
        if any(useless):
            await self._queue.drop([handed for handed in useless if handed is not None])
        return 0.0

    async def _receive_reports(self) -> float:
        reports, now_s, workers = (await self._queue.reported(), self._runtime.clock.monotonic_s(), self._jobs.workers)
        for report in reports:
            workers.report(report, now_s)
        if not self.leads.is_set():  # no process tidies here; a silent worker is looked for in the store (_living)
            for worker in workers.silent(now_s - _SILENT_S):
                workers.forget(worker)
        self._awake.set()
        return 0.0

    def _offer(self, delivery: DeliveredJob) -> DeliveredJob | None:
        """Have a run placed, or steps of it, or both. Returns what was offered in vain."""
        now_s = self._runtime.clock.monotonic_s()
        self._find(delivery.job.steps)
        if delivery.job.looks:
            self._offered_s[delivery.job.run] = now_s
        self._awake.set()
        return self._jobs.offer(delivery, now_s)

    def _find(self, steps: Iterable[PlacedStep]) -> None:
        """Steps that stand in line, with what they take of pools."""
        known = [self._pool_client.resolve_amounts(step, lambda again: self._find([again])) for step in steps]
        self._jobs.find([step for step in known if step is not None], self._runtime.clock.monotonic_s())
        self._awake.set()

    async def _place(self) -> float:
        next_s = self._jobs.scheduler.next_s
        pause_s = None if next_s is None else max(0.0, next_s - self._runtime.clock.monotonic_s())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):  # until a pool has refilled
                await self._awake.wait()
        self._awake.clear()
        if not (self.leads.is_set() and self._knows):
            return 0.0
        until_ms = self._store.clock.now_ms() + ON_ITS_WAY_MS
        placed = self._jobs.placements(self._runtime.clock.monotonic_s(), until_ms)
        if placed:
            self._pool_client.placed()
        self._pool_client.tell_soon()
        for worker, handed in placed.items():
            await self._queue.place(worker, handed)
        await asyncio.sleep(0)
        return 0.0

    # --- Looking ------------------------------------------------------------------------------------------------------

    async def _look(self) -> float:
        await self.leads.wait()
        return await self._pause_s(await self.turn())

    async def turn(self) -> int:
        """Have every run that is due go on; how many they were, without those that are in hand already."""
        store, now_s = self._store, self._runtime.clock.monotonic_s()
        dead = await store.sessions.expire()
        await self._get_to_know(now_s)
        if await self._due.refresh():
            await self._tidy(now_s)
        line = await self._line.look()
        self._find(in_line(line.runs))
        if line.all_since_s is not None:
            self._jobs.forget_others(line.everybody, line.all_since_s)
        due = await self._due.find(store.clock.now_ms(), self._jobs.workers.can_run, MAX_RUNS)
        waiting = with_headroom(await store.scopes.headroom(MAX_RUNS))
        handed_on, ticks = 0, []
        for each in due:
            if each.run in self._runtime.runs.damaged or self._is_in_hand(each.run, now_s):
                continue
            if self._jobs.workers.can_run(each.graph_hash):
                self._offer(DeliveredJob(Job(each.run, each.graph_hash, each.dead, each.tenant), ""))
                handed_on += 1
            else:
                ticks.append(self._tick(each.run, Tick(each.dead)))
        for run, scopes in waiting.items():
            if run not in self._runtime.runs.damaged and not self._is_in_hand(run, now_s):
                ticks.append(self._tick(run, Tick(headroom=scopes)))
        await asyncio.gather(*ticks)
        if self._rounds is not None:
            await self._rounds.turn(died=bool(dead))
        self._all_in_hand = bool(due) and not ticks
        self._looked_s = self._runtime.clock.monotonic_s()
        return handed_on + len(ticks)

    async def _living(self) -> dict[SessionId, Report]:
        """The workers of this lane that live, and what the store knows of them: a second ago, or less."""
        found = map(_decode_report, await self._store.sessions.described())
        return {report.worker: report for report in found if report.lane == self.lane and report.hashes}

    async def _get_to_know(self, now_s: float) -> None:
        """Place nothing before it is known what every living worker has: another leader may have given it that. The store has
        the work of a silent one: it has got nothing since."""
        if self._knows:
            return
        workers = self._jobs.workers
        living = await self._living()
        unheard = [report for worker, report in living.items() if not workers.has_reported_since(worker, self._led_s)]
        if unheard and now_s - self._led_s <= _SILENT_S:
            return
        for report in unheard:
            workers.report(report, now_s)
            workers.mute(report.worker, now_s)
        self._knows = True
        self._awake.set()

    def _is_in_hand(self, run: RunId, now_s: float) -> bool:
        return now_s - self._offered_s.get(run, -_PATIENCE_S) < _PATIENCE_S

    async def _tick(self, run: RunId, tick: Tick) -> None:
        """Send a run its tick from here. If that has changed something, a worker may have something to do by now."""
        self._offered_s[run] = self._runtime.clock.monotonic_s()
        if await self._runtime.runs.tick(run, tick):
            self._offered_s.pop(run, None)

    async def _tidy(self, now_s: float) -> None:
        """Forget what is long past, and workers that are dead. Those that say nothing are given nothing; what they have not
        taken is offered to others, and what they have is theirs."""
        self._offered_s = {run: at_s for run, at_s in self._offered_s.items() if now_s - at_s < _PATIENCE_S}
        silent = self._jobs.workers.silent(now_s - _SILENT_S)
        living = await self._living() if silent else {}
        for worker in silent:
            if worker in living:
                self._jobs.workers.mute(worker, now_s)
            else:
                self._jobs.workers.forget(worker)
            for job in await self._queue.reclaim(worker):
                self._offer(DeliveredJob(job, ""))

    async def _pause_s(self, count: int) -> float:
        """Until there may be more to find than the turn before has `count`."""
        if count >= MAX_RUNS:
            return SHORTEST_PAUSE_S
        if self._all_in_hand or not self._knows:
            return BUSY_PAUSE_S  # what is due stays so until a worker has taken it up; and workers are about to speak
        due_ms = await self._due.next_ms()
        if due_ms is None:
            return LONGEST_PAUSE_S
        until_s = (due_ms - self._store.clock.now_ms()) / 1000
        return min(max(until_s, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)
