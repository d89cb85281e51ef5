"""Drives runs in this process: mailboxes for those in memory, attempts for the steps that run here, slots for both.

After each commit it does what follows: starts attempts, asks guards, tells whoever waits. Nothing in it is load-bearing:
what is lost with the process is found again by the sweep. Never here: a rule, an adapter.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from holdfast.core import commands as cmd
from holdfast.core.commands import Worker
from holdfast.core.demand import Resources
from holdfast.core.events import Event
from holdfast.core.graph import COMPENSATE, Graph
from holdfast.core.ids import CallId, RunId, SessionId, StepId, node_of
from holdfast.core.state import OpenCall, State
from holdfast.core.status import may_be_placed, may_start
from holdfast.engine.attempt import Attempt
from holdfast.engine.catalog import Catalog
from holdfast.engine.fair_queue import FairQueue
from holdfast.engine.guard_judge import GuardJudge
from holdfast.engine.hindrance import Hindrances
from holdfast.engine.job_log import JobLogWriter
from holdfast.engine.mailbox import Mailbox
from holdfast.engine.membership import Membership
from holdfast.engine.outside_calls import GRACE_S, OutsideCalls
from holdfast.engine.payloads import Payloads
from holdfast.engine.placing import HERE, Placing
from holdfast.engine.pool_desk import PoolDesk
from holdfast.engine.runs import Runs
from holdfast.errors import HoldfastError, StoreError, UnknownCommit
from holdfast.models.gateway import Gateway
from holdfast.ports import Blobs, Clock, Hands, Ids, Report, Store, Threads
from holdfast.scheduling.job import Capacity, Strategy
from holdfast.scheduling.placement import Scheduler
from holdfast.settings import ScriptLimits, Secrets
from holdfast.tools.executor import ToolExecutor

log = logging.getLogger("holdfast")

T = TypeVar("T")


_LAST_WORDS_S: Final = 15.0
"""What the store gets to take them; others find in it what it has not taken, once the lease is over."""


_NO_RESOURCES: Final = Resources()
_NO_WEIGHTS: Final[Mapping[str, float]] = {}
_SOON_MS: Final = 1000
_MOST_REMINDERS: Final = 10_000


class Key(NamedTuple):
    """An attempt's name in this process."""

    run: RunId
    step: StepId
    number: int


class Running(NamedTuple):
    """An attempt at work."""

    attempt: Attempt
    task: asyncio.Task[None]
    here: bool
    """Whether it takes a slot of this process, and not of a connected worker."""


class Others(Protocol):
    """Whoever tells the rest of the fleet of what happens here; must not raise."""

    def committed(self, state: State, *, here: bool) -> None:
        """A run has gone on; `here`: this process takes up what is ready in it."""
        ...

    def stir(self) -> None:
        """Slots have been taken or freed."""
        ...


class Driver:
    """The runs of one process. One that only asks and decides, and executes nothing, has no session."""

    script_limits = ScriptLimits()
    """How far a script of a workflow file may go."""

    def __init__(
        self,
        store: Store,
        blobs: Blobs,
        *,
        clock: Clock,
        ids: Ids,
        secrets: Secrets,
        gateway: Gateway,
        executor: ToolExecutor,
        threads: Threads,
        label: str,
        executes: bool,
        slots: int,
        catalog: Catalog,
        resources: Resources = _NO_RESOURCES,
        strategy: Strategy = "least_loaded",
        weights: Mapping[str, float] = _NO_WEIGHTS,
        hands: Hands | None = None,
    ) -> None:
        self.store = store
        self.catalog = catalog
        catalog.on_change = self._say_what_is_able
        self.clock = clock
        self.secrets = secrets
        self.gateway = gateway
        self.executor = executor
        self.hands = hands
        """Workers that are connected to this process, if it takes connections."""
        self.threads = threads
        threads.on_return = self._feed
        self.payloads = Payloads(blobs, secrets, store)
        self.resources = resources
        self.membership = Membership(store, ids, label, catalog, self, executes=executes)
        self.runs = Runs(store, clock, ids, catalog)
        self.runs.starter = self
        self.runs.subscribers.append(self)
        self.slots = slots
        self._starting = 0
        """Slots of steps whose start is on its way to the disk."""
        self._attempts: dict[RunId, dict[Key, Running]] = {}
        self._working = 0
        self.calls = OutsideCalls(clock, self.membership.give_up)
        self.guards = GuardJudge(self.payloads, catalog.workflows, store.now_ms)
        self._hungry = FairQueue(weights)
        """Runs with ready steps that wait for a slot here."""
        self._turn_of_placed = False
        """Whether the next free slot is first offered to steps that are to be placed: they and the others take turns."""
        self._reminders: dict[RunId, asyncio.Task[None]] = {}
        """Looks at runs that fall due within a second."""
        here = Capacity(
            worker=HERE, able=frozenset(), labels=frozenset(catalog.labels), tags=frozenset(resources.tags), slots=slots,
            cpu_m=resources.cpu_m, memory_mb=resources.memory_mb, gpus=resources.gpus,
        )  # fmt: skip
        scheduler = Scheduler(strategy, tenants_apart=hands is not None and hands.tells_tenants_apart)
        for tenant, weight in weights.items():
            scheduler.set_weight(tenant, weight)
        self.desk = PoolDesk(
            store, clock, ids.session(), lambda: self.membership.session, scheduler, lambda: self.placing.stir(),  # noqa: PLW0108
        )  # fmt: skip
        self.placing = Placing(
            clock, scheduler, here, lambda: self.room, self._begin_placed, self.desk, self.membership.give_up
        )
        self.placing.serves = hands is not None
        self.hindrances = Hindrances(clock, store.now_ms, self.membership.describe)
        self.others: Others | None = None

    # --- What mailboxes ask of the process ---------------------------------------------------------------------------

    def worker(self, run: RunId, graph: Graph, *, freed: int) -> Worker | None:
        session = self.membership.session
        if session is None or not self.membership.may_begin or graph.hash not in self.catalog:
            return None
        return Worker(session, max(0, self._free + freed), self.placing.ready(run))

    def place(self, state: State, room: int) -> frozenset[StepId]:
        if not self.places(state):
            return frozenset()
        return self.placing.place_at_once(state, max(0, room - len(self._hungry)))

    def settle(self, run: RunId, steps: Collection[StepId], *, known: bool) -> None:
        if not known:
            self.placing.doubt(run, steps)
        self.placing.settle(run, steps)

    @property
    def _free(self) -> int:
        return self.slots - self.working - self._starting - self.placing.kept - self.threads.abandoned

    @property
    def room(self) -> int:
        """How many more steps could be begun here, those that wait already left out."""
        if self.membership.closing or self.membership.broken is not None:
            return 0
        return max(0, self._free - len(self._hungry))

    def take_slots(self, count: int) -> None:
        self._starting += count
        if count < 0:
            self._feed()

    def committed(self, mailbox: Mailbox, events: Sequence[Event], state: State) -> None:
        run = mailbox.run
        self._match_attempts(mailbox, state)
        is_ours = self.membership.session is not None and state.graph_hash in self.catalog
        if self.others is not None:
            takes = is_ours and self._free > 0 and self.membership.may_begin
            self.others.committed(state, here=takes)
        if not is_ours:
            return
        self.placing.hear(state)
        if events and mailbox.due_at_ms is not None:
            self._remember(run, mailbox.due_at_ms - self.store.now_ms())
        if not self.membership.closing:
            self.guards.committed(mailbox, state)
        if may_start(state) and run not in self._hungry:
            self._hungry.join(run, state.tenant)
            self._feed()

    def _remember(self, run: RunId, due_in_ms: int) -> None:
        """Look at a run by ourselves that falls due so soon that a sweep would come late."""
        if not 0 < due_in_ms < _SOON_MS or self.membership.closing:
            return
        if (sooner := self._reminders.pop(run, None)) is not None:
            sooner.cancel()
        elif len(self._reminders) >= _MOST_REMINDERS:
            return  # the sweep is good enough
        self._reminders[run] = asyncio.create_task(self._look_at(run, due_in_ms), name=f"holdfast-due-{run}")

    async def _look_at(self, run: RunId, due_in_ms: int) -> None:
        await self.clock.sleep((due_in_ms + 1) / 1000)
        del self._reminders[run]
        self.runs.mailbox(run).post(cmd.Look()).add_done_callback(_heard)

    def needs(self, mailbox: Mailbox) -> bool:
        run = mailbox.run
        if run in self.guards or run in self._attempts:
            return True
        if self.placing.is_about_to_place(run):
            # Its steps may start at once, and to load it again would take longer than that.
            asyncio.get_running_loop().call_soon(mailbox.rest)
            return True
        return False

    async def _say_what_is_able(self) -> None:
        self.placing.able(self.catalog.able, self.catalog.scripts)
        await self.membership.widen()

    def report(self, session: SessionId, free: int = 0, taken: int = 0) -> Report:
        """What this process says of itself."""
        return Report(
            session, self.catalog.able, self.slots, free, taken, self.catalog.labels, self.resources, self.placing.held(),
            self.placing.connected(), self.catalog.lane, hindered=self.hindrances.told(),
        )  # fmt: skip

    def places(self, state: State) -> bool:
        """Whether this process places the run's steps, and no leader has to."""
        return self.membership.executes and self.placing.places and state.graph_hash in self.catalog

    def may_place(self, state: State) -> bool:
        """Whether a step of the run that waits for a place may get one by itself: others see to it, or nothing is known here
        for which it never could."""
        return may_be_placed(state) and (not self.places(state) or self.placing.may_place(state))

    @property
    def working(self) -> int:
        """How many attempts run here."""
        return self._working

    @property
    def at_work(self) -> bool:
        """Whether anything is still under way: an attempt, here or at a connected worker, a call or a function that its
        attempt has left behind, a guard, something that is being decided or is on its way to the store."""
        under_way = self._attempts or self.calls or self.guards or self.threads.abandoned
        return bool(under_way) or self.runs.busy

    def session_held(self) -> None:
        self._feed()  # nobody was given a slot while it was not known whether the session lives

    def session_lost(self) -> None:
        self.desk.lose()
        self.placing.lose()
        for running in [each for group in self._attempts.values() for each in group.values()]:
            running.attempt.call_off()
            running.task.cancel()

    def given_up(self) -> None:
        self.runs.notify()

    def wants(self, run: RunId) -> bool:
        """Whether a ready step of this run already waits for a slot here."""
        return run in self._hungry

    # --- Attempts ----------------------------------------------------------------------------------------------------

    def _match_attempts(self, mailbox: Mailbox, state: State) -> None:
        """Have exactly those attempts running here that the state names this session for."""
        if self.membership.session is None or self.membership.closing:
            return
        running = self._attempts.get(mailbox.run, {})
        wanted: set[Key] = set()
        for name in state.active:
            step = state.steps[name]
            if step.session == self.membership.session:
                key = Key(mailbox.run, step.id, step.attempt)
                wanted.add(key)
                if key not in running:
                    self._begin(mailbox, key, state)
        for key, (attempt, task, _) in list(running.items()):
            if key in wanted or task.done():
                continue
            if attempt.said_its_last:
                self._leave(key)  # it has ended, and its slot is taken up by what follows
            elif not attempt.is_tidying:
                attempt.call_off(run_is_cancelled=state.ended == "cancelled" or state.phase == "cancelling")
                task.cancel()

    def _begin(self, mailbox: Mailbox, key: Key, state: State) -> None:
        workflow = self.catalog.workflows.get(state.graph_hash)
        if workflow is None:
            return
        name = node_of(key.step)
        definition = None if name == COMPENSATE else workflow.nodes[name]
        attempt = Attempt(
            self, key.run, workflow.graph, key.step, key.number, definition, state.tenant, state.started_at_ms,
            self.placing.begun(key.run, key.step),
        )  # fmt: skip
        task = asyncio.create_task(attempt.work(), name=f"holdfast-{key.step}-{key.number}")
        here = attempt.placed is None or attempt.placed.worker == HERE
        self._attempts.setdefault(mailbox.run, {})[key] = Running(attempt, task, here)
        self._working += here
        task.add_done_callback(lambda done: self._finished(mailbox, key, done))

    def _finished(self, mailbox: Mailbox, key: Key, task: asyncio.Task[None]) -> None:
        self._leave(key)
        if not task.cancelled() and (problem := task.exception()) is not None:
            # An attempt that could not report its end: this process is of no use any more. Dead, it can be recovered.
            # What the store says of itself needs no traceback.
            log.error(
                "holdfast cannot go on: %s", problem, exc_info=None if isinstance(problem, StoreError) else problem
            )
            self.membership.give_up(problem)
        self._feed()
        mailbox.rest()

    def _leave(self, key: Key) -> None:
        """The attempt counts no more; nothing if it did not."""
        running = self._attempts.get(key.run, {})
        if (left := running.pop(key, None)) is not None:
            self._working -= left.here
            if not running:
                del self._attempts[key.run]
            self.placing.ended(key.run, key.step)
            if self.others is not None:
                self.others.stir()

    def _feed(self) -> None:
        """Give free slots to the runs whose turn it is. A slot is kept for each until it has had its look."""
        while self._free > 0 and self._hungry and self.membership.may_begin:
            if self._turn_of_placed:
                self._turn_of_placed = False
                self.placing.place(1)
                continue
            self._turn_of_placed = True
            run = self._hungry.next()
            self._starting += 1
            told = self.runs.mailbox(run).post(cmd.Look(), slots=1)
            told.add_done_callback(self._fed)
        self.placing.stir()

    def _begin_placed(self, run: RunId) -> None:
        """Steps of a run were placed: look at it, so that they start."""

        steps = self.placing.ready(run)

        def looked(told: asyncio.Future[list[Event]]) -> None:
            if not told.cancelled() and isinstance(told.exception(), UnknownCommit):
                self.placing.doubt(run, steps)
            _heard(told)
            self.placing.settle(run, steps)

        self.runs.mailbox(run).post(cmd.Look()).add_done_callback(looked)

    def _fed(self, told: asyncio.Future[list[Event]]) -> None:
        """A hungry run had its look. It may have started by another way before: then its slot is the next one's."""
        self._starting -= 1
        _heard(told)
        self._feed()

    # --- The end -----------------------------------------------------------------------------------------------------

    @cached_property
    def job_logs(self) -> JobLogWriter:
        """On the way of what jobs print into the store."""
        return JobLogWriter(self.store, self.clock)

    def in_flight(self, run: RunId) -> dict[CallId, OpenCall]:
        """The calls of a run that have left this process and have no outcome, or had none and are in doubt, as far as it
        is in memory."""
        state, session = self.runs.known(run), self.membership.session
        if state is None:
            return {}
        return {id_: call for id_, call in state.calls.items() if call.session == session or call.doubted}

    async def aclose(self, grace_s: float = 0.0, call_grace_s: float = GRACE_S) -> None:
        """Take nothing new, give what runs `grace_s` to finish, hand the rest over, give calls that have left
        `call_grace_s` to bring their outcomes home, and leave."""
        self.membership.closing = True
        self.runs.keep()
        self.placing.close()
        if self.others is not None:
            self.others.stir()
        tasks = [each.task for running in self._attempts.values() for each in running.values()]
        if tasks and grace_s > 0 and self.membership.broken is None:
            await asyncio.wait(tasks, timeout=grace_s)
        tidying = [each.task for group in self._attempts.values() for each in group.values() if each.attempt.is_tidying]
        if tidying and self.membership.broken is None:
            await asyncio.wait(tidying)  # each has a bound of its own
        await _cancel([*tasks, *self._reminders.values()])
        await self.guards.aclose()
        await self.calls.aclose(call_grace_s)
        # What was just handed over, or became doubtful, is still on its way to the store.
        deadline_s = self.clock.monotonic_s() + _LAST_WORDS_S
        while busy := self.runs.under_way():
            left_s = deadline_s - self.clock.monotonic_s()
            if left_s <= 0:
                log.warning("holdfast leaves %d runs without a word: its store does not answer.", len(busy))
                break
            await asyncio.wait(busy, timeout=left_s)
        await self.job_logs.aclose()
        if self.calls.on_parting is not None:
            self.calls.on_parting(0.0)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _heard(told: asyncio.Future[list[Event]]) -> None:
    """A look that nobody waits for: a conflict or a missing run is no news, the sweep will look again."""
    if not told.cancelled() and (problem := told.exception()) is not None and not isinstance(problem, HoldfastError):
        log.error("holdfast: a look at a run failed: %s", problem, exc_info=problem)
