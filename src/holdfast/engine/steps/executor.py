"""Executes the steps of runs in this process: an attempt for each that runs here, and slots for all of them.

After each commit it does what follows: starts attempts, asks guards, tells the rest of the fleet. Nothing in it is
load-bearing: what is lost with the process is found again by the sweep. Never here: a rule, an adapter.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Protocol

import msgspec

from holdfast.authoring.workflow import Workflow
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.commands import Worker
from holdfast.core.facts.events import Event
from holdfast.core.facts.graph import Graph
from holdfast.core.facts.state import OpenCall, State
from holdfast.core.values.demand import Resources
from holdfast.core.values.ids import CallId, RunId, SessionId, StepId
from holdfast.core.values.policies import ERROR, ErrorRecord
from holdfast.core.views.status import may_be_placed, may_start
from holdfast.engine.attempts.attempt import Attempt, Key, cancelled
from holdfast.engine.attempts.step_services import StepServices
from holdfast.engine.background.follow_ups import GuardJudge, Reminders
from holdfast.engine.capacity.placing import HERE, StepPlacer, refilled_ms
from holdfast.engine.operations import budget
from holdfast.engine.runs.fair_queue import FairQueue
from holdfast.engine.runs.mailbox import Mailbox, unheard
from holdfast.engine.runs.membership import Slots
from holdfast.engine.runs.outside_calls import GRACE_S
from holdfast.engine.steps.execution import carry
from holdfast.errors import StoreError, UnknownCommit
from holdfast.platform.log_ids import about, outside
from holdfast.ports import Report
from holdfast.scheduling.job import MAX_HOLDERS, Capacity
from holdfast.scheduling.placement import Scheduler

log = logging.getLogger("holdfast")


class RunningAttempt(NamedTuple):
    """An attempt at work."""

    attempt: Attempt
    task: asyncio.Task[None]
    here: bool
    """Whether it takes a slot of this process, and not of a connected worker."""


class FleetNotifier(Protocol):
    """Tells the rest of the fleet what happens here; must not raise."""

    def committed(self, state: State, *, here: bool) -> None:
        """A run has gone on; `here`: this process takes up what is ready in it."""
        ...

    def wake(self) -> None:
        """Slots have been taken or freed."""
        ...


class Executor:
    """The attempts of one process, and its slots. Keeps `mailbox.Starter`, `runs.Subscriber` and `membership.Work`."""

    def __init__(
        self, services: StepServices, scheduler: Scheduler, slots: int, resources: Resources, weights: Mapping[str, float]
    ) -> None:
        """At most `slots` steps run here at once, and what demands CPU, memory or GPUs takes them of `resources`."""
        self.services = services
        self.slots = Slots(slots, self._fill_slots)
        self._runtime = services.runtime
        self._runs = runs = services.runtime.runs
        self._catalog = catalog = services.runtime.catalog
        self._membership = membership = services.runtime.membership
        self._resources = resources
        self._attempts: dict[RunId, dict[Key, RunningAttempt]] = {}
        self._guards = GuardJudge(services.payloads, catalog.workflows, runs.now_ms, budget.of_guards(services))
        self._reminders = Reminders(services.runtime)
        self._slot_queue = FairQueue(weights)
        """Runs with ready steps that wait for a slot here."""
        self._turn_of_placed = False
        """Whether the next free slot is first offered to steps that are to be placed: they and the others take turns."""
        here = Capacity(
            worker=HERE,
            able=frozenset(),
            labels=frozenset(catalog.labels),
            tags=frozenset(resources.tags),
            slots=slots,
            cpu_m=resources.cpu_m,
            memory_mb=resources.memory_mb,
            gpus=resources.gpus,
        )
        self.placing = StepPlacer(
            services.runtime.clock,
            scheduler,
            here,
            lambda: self.room,
            self._begin_placed,
            services.pool_client,
            membership.give_up,
            runs.observers,
        )
        self.placing.serves = services.workers is not None
        self.fleet: FleetNotifier | None = None
        self.borrow: Callable[[Workflow], AbstractAsyncContextManager[None]] = lambda _: nullcontext()
        """Keeps a workflow in YAML here for a block that starts runs of it."""
        services.pool_client.on_more = self.placing.place_soon
        services.threads.on_return = self._fill_slots
        catalog.on_change = self._say_what_is_able
        runs.starter = membership.work = self
        runs.subscribers.append(self)

    # --- What mailboxes ask of the process ---------------------------------------------------------------------------

    def worker(self, run: RunId, graph: Graph, *, freed: int) -> Worker | None:
        session = self._membership.session
        if session is None or not self._membership.may_begin or graph.hash not in self._catalog:
            return None
        return Worker(session, max(0, self._free + freed), self.placing.ready(run))

    def place(self, state: State, room: int) -> frozenset[StepId]:
        if not self.places(state):
            return frozenset()
        return self.placing.place_at_once(state, max(0, room - len(self._slot_queue)))

    def settle(self, run: RunId, steps: Collection[StepId], *, is_known: bool) -> None:
        if not is_known:
            self.placing.doubt(run, steps)
        self.placing.settle(run, steps)

    @property
    def _free(self) -> int:
        return self.slots.free - self.placing.reserved_slots - self.services.threads.abandoned

    @property
    def room(self) -> int:
        """Return how many more steps could begin here, without those that wait already."""
        if self._membership.closing or self._membership.broken is not None:
            return 0
        return max(0, self._free - len(self._slot_queue))

    @property
    def runs_in_line(self) -> int:
        """Return how many runs have steps that wait for a slot of this process."""
        return len(self._slot_queue)

    def take_slots(self, count: int) -> None:
        self.slots.starting += count
        if count < 0:
            self._fill_slots()

    def committed(self, mailbox: Mailbox, events: Sequence[Event], state: State) -> None:
        run = mailbox.run
        self._match_attempts(mailbox, state)
        is_ours = self._membership.session is not None and state.graph_hash in self._catalog
        if self.fleet is not None:
            takes = is_ours and self._free > 0 and self._membership.may_begin
            self.fleet.committed(state, here=takes)
        if not is_ours:
            return
        self.placing.committed(state)
        if not self._membership.closing:
            self._reminders.committed(mailbox, events)
            self._guards.committed(mailbox, state)
        if may_start(state) and run not in self._slot_queue:
            self._slot_queue.join(run, state.tenant)
            self._fill_slots()

    def needs(self, mailbox: Mailbox) -> bool:
        run = mailbox.run
        if run in self._guards or run in self._attempts:
            return True
        if self.placing.is_about_to_place(run):
            # Its steps may start at once, and to load it again would take longer than that.
            asyncio.get_running_loop().call_soon(mailbox.rest)
            return True
        return False

    async def _say_what_is_able(self) -> None:
        self.placing.able(self._catalog.able, self._catalog.scripts)
        await self._membership.widen()

    def report(self, session: SessionId) -> Report:
        """Return this process's report about itself, for those who ask why steps wait."""
        steps = ((key.run, key.step) for group in self._attempts.values() for key in group)
        at_work = tuple(islice(steps, MAX_HOLDERS))
        calls, calls_waiting = self.services.call_pools.waiting()
        return msgspec.structs.replace(
            self.offer(session, self.room, 0),
            working=self.working,
            steps=at_work,
            refilled=self._refilled(),
            calls=calls,
            calls_waiting=calls_waiting,
        )

    def _refilled(self) -> dict[str, int]:
        """Return the times at which rates that steps wait for have refilled."""
        times_s = {**self.placing.scheduler.refills(), **self.services.call_pools.refills()}
        return refilled_ms(times_s, self._runtime.clock.monotonic_s(), self._runs.now_ms()) if times_s else {}

    def offer(self, session: SessionId, free: int, slots: int) -> Report:
        """Return its report for a leader, which gives it work."""
        return Report(
            session,
            self._catalog.able,
            self.slots.most,
            free,
            slots,
            self._catalog.labels,
            self._resources,
            self.placing.held(),
            self.placing.connected.reports(),
            self._catalog.lane,
            stalls=self.services.hindrances.list_blocked(),
        )

    def places(self, state: State) -> bool:
        """True if this process places the run's steps, and no leader has to."""
        return self._membership.works and self.placing.places and state.graph_hash in self._catalog

    def may_place(self, state: State) -> bool:
        """True if a step of the run that waits for a place may get one by itself: others see to it, or nothing is known here
        that rules it out."""
        return may_be_placed(state) and (not self.places(state) or self.placing.may_place(state))

    @property
    def working(self) -> int:
        """Return how many attempts run here."""
        return self.slots.working

    @property
    def at_work(self) -> bool:
        """True if anything is still under way: an attempt, here or at a connected worker, a call or a function that its attempt
        has left behind, a guard, something that is being decided or is on its way to the store."""
        under_way = self._attempts or self.services.calls or self._guards or self.services.threads.abandoned
        return bool(under_way) or self._runs.busy

    def session_held(self) -> None:
        self._fill_slots()  # no step was given a slot while it was not known whether the session lives

    def session_lost(self) -> None:
        self.services.pool_client.lose()
        self.services.call_pools.lose()
        self.placing.lose()
        for running in [each for group in self._attempts.values() for each in group.values()]:
            running.attempt.call_off()
            running.task.cancel()

    def given_up(self) -> None:
        self._runs.notify()

    def wants(self, run: RunId) -> bool:
        """True if a ready step of this run already waits for a slot here."""
        return run in self._slot_queue

    # --- Attempts ----------------------------------------------------------------------------------------------------

    def _match_attempts(self, mailbox: Mailbox, state: State) -> None:
        """Have exactly those attempts running here that the state names this session for."""
        if self._membership.session is None or self._membership.closing:
            return
        running = self._attempts.get(mailbox.run, {})
        wanted: dict[Key, None] = {}
        for name in state.active:
            step = state.steps[name]
            if step.session == self._membership.session:
                wanted[Key(mailbox.run, step.id, step.attempt)] = None
        begins = [key for key in wanted if key not in running]
        before = [each.attempt for key, each in running.items() if each.attempt.said_its_last and key not in wanted]
        for key in begins:
            # Of several, each begins in a task of its own, in their order.
            self._begin(mailbox, key, state, before[0] if len(begins) == 1 and before else None)
        for key, (attempt, task, _) in list(running.items()):
            if key in wanted:
                _hear(attempt, task, state)
            if key in wanted or task.done():
                continue
            if attempt.said_its_last:
                self._leave(key)  # it has ended, and its slot is taken up by what follows
            elif not attempt.is_tidying:
                attempt.call_off(run_is_cancelled=state.ended == "cancelled" or state.phase == "cancelling")
                task.cancel()

    def _begin(self, mailbox: Mailbox, key: Key, state: State, before: Attempt | None) -> None:
        """Begin an attempt: in the task of the one `before` it, whose end has started it, or in one of its own."""
        workflow = self._catalog.workflows.get(state.graph_hash)
        if workflow is None:
            return
        attempt = Attempt(self.services, key, workflow, state, self.placing.begun(key.run, key.step), self.slots)
        here = attempt.placed is None or attempt.placed.worker == HERE
        running = self._attempts.setdefault(mailbox.run, {})
        if before is not None and before.next is None:
            before.next, task = attempt, running[before.key].task
        else:
            task = asyncio.create_task(
                carry(attempt, partial(self._finished, mailbox)), name=f"holdfast-{key.step}-{key.number}", context=outside()
            )
        running[key] = RunningAttempt(attempt, task, here)
        self.slots.working += here

    def _finished(self, mailbox: Mailbox, attempt: Attempt, problem: BaseException | None) -> None:
        self._leave(attempt.key)
        if isinstance(problem, StoreError):
            # An attempt that could not report its end: this process is of no use any more. Dead, it can be recovered.
            log.error("holdfast cannot go on: %s", problem)
            self._membership.give_up(problem)
        elif isinstance(problem, Exception):
            self.services.calls.bring(attempt.report(_unreported(attempt, problem, self._runs.now_ms())))
        self._fill_slots()
        mailbox.rest()

    def _leave(self, key: Key) -> None:
        """The attempt counts no more; nothing if it did not."""
        running = self._attempts.get(key.run, {})
        if (left := running.pop(key, None)) is not None:
            self.slots.working -= left.here
            if not running:
                del self._attempts[key.run]
            self.placing.ended(key.run, key.step)
            if self.fleet is not None:
                self.fleet.wake()

    def _fill_slots(self) -> None:
        """Give free slots to the runs whose turn it is. A slot is kept for each until it has had its tick."""
        while self._free > 0 and self._slot_queue and self._membership.may_begin:
            if self._turn_of_placed:
                self._turn_of_placed = False
                self.placing.place(1)
                continue
            self._turn_of_placed = True
            run = self._slot_queue.next()
            self.slots.starting += 1
            told = self._runs.mailbox(run).post(cmd.Tick(), slots=1)
            told.add_done_callback(self._slot_taken)
        self.placing.place_soon()

    def _begin_placed(self, run: RunId) -> None:
        """Steps of a run were placed: send it a tick, so that they start."""
        steps = self.placing.ready(run)

        def ticked(future: asyncio.Future[list[Event]]) -> None:
            if not future.cancelled() and isinstance(future.exception(), UnknownCommit):
                self.placing.doubt(run, steps)
            unheard(future)
            self.placing.settle(run, steps)

        self._runs.mailbox(run).post(cmd.Tick()).add_done_callback(ticked)

    def _slot_taken(self, future: asyncio.Future[list[Event]]) -> None:
        """A run that wanted a slot had its tick. It may have started by another way before: then its slot is the next one's."""
        self.slots.starting -= 1
        unheard(future)
        self._fill_slots()

    # --- The end -----------------------------------------------------------------------------------------------------

    @property
    def closing(self) -> bool:
        """True if this process is closing."""
        return self._membership.closing

    def in_flight(self, run: RunId) -> dict[CallId, OpenCall]:
        """The calls of a run that have left this process and have no outcome, or had none and are in doubt, as far as it
        is in memory."""
        state, session = self._runs.state_in_memory(run), self._membership.session
        if state is None:
            return {}
        return {id_: call for id_, call in state.calls.items() if call.session == session or call.doubted}

    async def aclose(self, grace_s: float = 0.0, call_grace_s: float = GRACE_S) -> None:
        """Take nothing new, give what runs `grace_s` to finish, hand the rest over, give calls that have left
        `call_grace_s` to bring their outcomes home, and leave."""
        self._membership.closing = True
        self._runs.keep()
        self.placing.close()
        if self.fleet is not None:
            self.fleet.wake()
        tasks = [*{each.task: None for running in self._attempts.values() for each in running.values()}]
        if tasks and grace_s > 0 and self._membership.broken is None:
            await asyncio.wait(tasks, timeout=grace_s)
        tidying = [each.task for group in self._attempts.values() for each in group.values() if each.attempt.is_tidying]
        if tidying and self._membership.broken is None:
            await asyncio.wait(tidying)  # each has a bound of its own
        await _cancel(tasks)
        self.services.residents.close()
        await self._reminders.aclose()
        await self._guards.aclose()
        await self.services.calls.aclose(call_grace_s)
        await self._runs.aclose()
        await self.services.job_logs.aclose()
        await self.services.streams.aclose()
        if self.services.calls.on_parting is not None:
            self.services.calls.on_parting(0.0)


def _hear(attempt: Attempt, task: asyncio.Task[None], state: State) -> None:
    """Tell an attempt that is wanted what has happened in its run."""
    if attempt.item is not None:
        attempt.item.heed(state)
    if attempt.heeds is not None:
        attempt.heeds(state)
    if not attempt.has_tasks and not attempt.called_off and state.cleans_up(attempt.step):
        # No flow, though its graph is that of one: its code would not hear of it.
        attempt.call_off(run_is_cancelled=True)
        task.cancel()
        attempt.services.calls.bring(attempt.report(cancelled(attempt)))


def _unreported(attempt: Attempt, problem: Exception, at_ms: int) -> cmd.FailAttempt:
    """The end of an attempt that could not say itself how it ended."""
    log.error(
        "holdfast: the step %s of run %s has ended without a word, which is a fault of Holdfast; please report it. It counts"
        " as failed.",
        attempt.step,
        attempt.run,
        exc_info=problem,
        extra=about(attempt.log_ids),
    )
    error = ErrorRecord(attempt.name, ERROR, "The step ended, and Holdfast could not record how.", True, at_ms)
    return cmd.FailAttempt(attempt.step, attempt.number, error, None, ())


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    await asyncio.sleep(0)  # one that has not begun would end without a word, and its step would stay with a dead process
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
