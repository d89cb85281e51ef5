"""This process's part in a fleet: it tells others of runs that it will not take up itself, and takes up what it is given.

Everything that is said here is a hint. What is not said, not heard or lost is found in the store by a sweep.

Never here: deciding who gets a job (scheduling does), anything that must last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import msgspec

from holdfast.core.facts.commands import Tick
from holdfast.core.facts.state import State
from holdfast.core.values.ids import RunId, Seq, SessionId
from holdfast.core.views.status import may_start
from holdfast.engine.capacity.placing import unplaced_of
from holdfast.engine.runs.background_loop import BackgroundLoop, end
from holdfast.engine.steps.executor import Executor
from holdfast.errors import HoldfastError, StoreError, UnknownCommit
from holdfast.platform.log_ids import outside
from holdfast.ports import DeliveredJob, Job, Queue, Report

log = logging.getLogger("holdfast")

REPORT_EVERY_S: Final = 1.0
"""A worker speaks at least so often; one that has been silent for three times as long is not given anything."""
_SHORTEST_S: Final = 0.005
"""Between two words to others: what happens meanwhile goes out together."""
_SESSION_S: Final = 0.1
_LAST_WORDS_S: Final = 2.0


class Dispatch:
    """Keeps executor.FleetNotifier."""

    def __init__(self, executor: Executor, queue: Queue) -> None:
        self._executor = executor
        self._runtime = executor.services.runtime
        self._queue = queue
        self._offers: dict[str, dict[RunId, Job]] = {}
        """What wants a worker, by lane."""
        self._news: dict[RunId, Seq] = {}
        self._reported: Report | None = None
        self._reported_s = 0.0
        self._woken = asyncio.Event()
        self._loops: list[BackgroundLoop] = []
        self._looks: set[asyncio.Task[None]] = set()
        self._taken = 0
        """Jobs that this process has been given so far."""
        self._taking = 0
        """Those of them that it has not looked at yet: each may need a slot."""

    def start(self) -> None:
        membership, clock = self._runtime.membership, self._runtime.clock
        turns = [self._speak, self._receive, *([self._take] if membership.works else [])]
        fault = "holdfast can no longer speak with the rest of the fleet"
        self._loops = [
            BackgroundLoop(f"holdfast-dispatch-{number}", turn, clock, membership.give_up, fault=fault)
            for number, turn in enumerate(turns)
        ]
        for loop in self._loops:
            loop.start()

    async def aclose(self) -> None:
        """Say what is still to be said (that this process takes nothing more, too) and leave."""
        await asyncio.gather(*(loop.aclose() for loop in self._loops), end([*self._looks]))
        try:
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._say()
        except TimeoutError:
            log.warning("holdfast could not tell its last words to the others; they find them in the store.")

    # --- What the executor tells ----------------------------------------------------------------------------------------

    def committed(self, state: State, *, here: bool) -> None:
        """A run has gone on. `here`: this process takes up what is ready in it."""
        wants = may_start(state) or (bool(state.asked) and not state.phase and not state.ended)
        # The tasks of connected workers are found by the process that they are connected to; a leader knows none of these.
        waits = () if self._executor.places(state) else unplaced_of(state)
        steps = tuple(each for each in waits if not each.demand.is_remote)
        if (wants and not here) or steps:
            lane = self._runtime.catalog.lanes.of(state.workflow, state.tenant, state.by)
            self._offers.setdefault(lane, {})[state.run] = Job(
                state.run, state.graph_hash, tenant=state.tenant, steps=steps, looks=wants and not here
            )
        if not self._runtime.membership.works or state.ended or not (state.active or wants or steps):
            self._news[state.run] = state.seq  # others may wait for what was sent, or for where it rests
        self._woken.set()

    def wake(self) -> None:
        """Slots have been taken or freed."""
        self._woken.set()

    # --- Speaking -----------------------------------------------------------------------------------------------------

    async def _speak(self) -> float:
        try:
            async with asyncio.timeout(REPORT_EVERY_S):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()
        await self._say()
        return _SHORTEST_S

    async def _say(self) -> None:
        offers, self._offers = self._offers, {}
        news, self._news = self._news, {}
        for lane, jobs in offers.items():
            await self._queue.offer(list(jobs.values()), lane)
        await self._queue.notify(news)
        await self._report()

    async def _report(self) -> None:
        executor, runtime = self._executor, self._runtime
        if runtime.membership.session is None or not runtime.membership.works:
            return
        free = max(0, executor.room - self._taking)
        said = executor.offer(runtime.membership.session, free, self._taken)
        now_s = runtime.clock.monotonic_s()
        if said != self._reported or now_s - self._reported_s >= REPORT_EVERY_S:
            self._reported, self._reported_s = said, now_s
            await self._queue.report(msgspec.structs.replace(said, at_ms=runtime.store.clock.now_ms()))

    # --- Hearing ------------------------------------------------------------------------------------------------------

    async def _receive(self) -> float:
        """Bring up to date what others have changed of runs in memory, and tell those who wait here."""
        runtime, seqs = self._runtime, await self._queue.news()
        for run, seq in seqs.items():
            known = runtime.runs.state_in_memory(run)
            if known is not None and known.seq < seq:
                self._begin(self._look(Job(run, "")))
        runtime.runs.notify(seqs or None)  # of no runs in particular, where it is unknown what was missed
        return 0.0

    async def _take(self) -> float:
        executor, runtime = self._executor, self._runtime
        session = runtime.membership.session
        if session is None or not runtime.membership.alive() or runtime.membership.closing:
            return _SESSION_S
        handed = await self._queue.placed(session)
        if handed:
            # What it holds and how much it has taken are sent together: it would seem to be done with the one otherwise.
            now_ms = runtime.store.clock.now_ms()
            for each in handed:
                if not each.job.until_ms or now_ms <= each.job.until_ms:
                    executor.placing.accept(each.job.steps)
            self._taken += len(handed)
            self._taking += _slots(handed)
            self._begin(self._take_up(session, handed))
        return 0.0

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, context=outside())
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    async def _take_up(self, session: SessionId, deliveries: Sequence[DeliveredJob]) -> None:
        """Look at the runs that were given to this process; they are its own once that is durable."""
        try:
            await asyncio.gather(*(self._take_one(each.job) for each in deliveries))
        finally:
            self._taking -= _slots(deliveries)
            self._woken.set()
        await self._queue.acknowledge(session, deliveries)

    async def _take_one(self, job: Job) -> None:
        """Look at a run that was given to this process, and with it at those of its steps that were placed here and have
        come in time; the others stand in line in the store."""
        try:
            await self._look(job)
        finally:
            if job.steps:
                self._executor.placing.settle(job.run, [each.step for each in job.steps])

    async def _look(self, job: Job) -> None:
        try:
            await self._runtime.runs.tick(job.run, Tick(job.dead))
        except StoreError as problem:
            if isinstance(problem, UnknownCommit):
                self._executor.placing.doubt(job.run, [each.step for each in job.steps])
            log.warning(
                "holdfast could not look at run %s, and finds it again later: %s", job.run, problem, extra={"run_id": job.run}
            )
        except HoldfastError:
            pass  # it is found again, too


def _slots(deliveries: Sequence[DeliveredJob]) -> int:
    """Return how many of these may need a slot that is not kept for them: one is kept for each placed step."""
    return sum(each.job.looks for each in deliveries)
