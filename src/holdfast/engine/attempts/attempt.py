"""One attempt of one step in this process: runs the node, and brings its result, its error or its suspension home.

Never here: what a kind of node does (nodes), what an operation does (journal).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NamedTuple, TypeVar

from holdfast.authoring.node import NodeDefinition
from holdfast.authoring.tool import Tool
from holdfast.authoring.values.view import StateView, started_by
from holdfast.authoring.workflow import Workflow
from holdfast.core.capacity.estimates import Report
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.events import EffectIntended, Event, ItemsMapped, ModelCallHeld
from holdfast.core.facts.graph import COMPENSATE
from holdfast.core.facts.state import State
from holdfast.core.values.content import ContentPart
from holdfast.core.values.ids import NodeName, RunId, StepId, is_item, map_of, node_of
from holdfast.core.values.payload import Payload
from holdfast.core.values.policies import CANCELLED, ErrorRecord
from holdfast.engine.attempts.step_services import StepServices
from holdfast.engine.capacity.placing import HERE, StepPlacement
from holdfast.engine.runs.mailbox import Mailbox
from holdfast.engine.runs.membership import Slots
from holdfast.engine.runs.payloads import Storage, read
from holdfast.errors import (
    Conflict,
    CorruptHistory,
    HoldfastError,
    StoreError,
    StoreGone,
    UnknownCommit,
    Unstorable,
    UsageError,
)
from holdfast.models.rate_limiter import RateLimiter
from holdfast.platform.log_ids import LogIds

log = logging.getLogger("holdfast")

T = TypeVar("T")

_STORE_AWAY_S: Final = (0.1, 0.2, 0.5, 1.0, *[2.0] * 300)
"""How long an attempt waits, again and again, for a store that is away: ten minutes in all."""
_TRIES_S: Final = (*_STORE_AWAY_S, None)
_NO_USE: Final = (StoreGone, Unstorable, CorruptHistory)
"""What waiting does not mend."""
_NO_REPEAT: Final = (*_NO_USE, UnknownCommit)
"""Errors after which a write may have happened."""


class Key(NamedTuple):
    """An attempt's name in a process."""

    run: RunId
    step: StepId
    number: int


class PostedOutcome(NamedTuple):
    """An outcome on its way to the store, and where its arrival will be announced."""

    command: cmd.CallCommand
    told: asyncio.Future[list[Event]]


class Item(NamedTuple):
    """The item of a map that a step is."""

    map: ItemsMapped
    number: int
    stopping: asyncio.Event
    """Set when another has failed, and this one is asked to end."""

    def heed(self, state: State) -> None:
        """Notice whether its map wants it to end."""
        if state.maps[self.map.map].stopping:
            self.stopping.set()


def _item(name: NodeName, state: State) -> Item:
    map_ = state.maps[map_of(name)]
    return Item(map_.opened, map_.items[name], asyncio.Event())


def _defined(workflow: Workflow, name: NodeName, state: State) -> NodeDefinition | UsageError:
    """Return the definition of a step; or the UsageError, for the step itself to raise, if the code does not have it any
    more."""
    try:
        return workflow.definition_of(name, state.maps)
    except UsageError as problem:
        return problem


class Attempt:
    """A step being worked on. Its holder may cancel its task: what it has committed stands."""

    def __init__(
        self, services: StepServices, key: Key, workflow: Workflow, state: State, placed: StepPlacement | None, slots: Slots
    ) -> None:
        self.services = services
        self.workflow, self.graph = workflow.name, workflow.graph
        self.key = key
        self.run, self.step, self.number = key
        self.name = name = node_of(key.step)
        self.item = _item(name, state) if is_item(name) else None
        self._definition = None if name == COMPENSATE else _defined(workflow, name, state)
        self.calls_steps = isinstance(self._definition, NodeDefinition) and self._definition.is_flow
        """Calls of steps by its code are recorded."""
        self.has_tasks = self.item is None and self.calls_steps and state.naming == 2
        self.tenant, self.started_by = state.tenant, started_by(state)
        self.log_ids = LogIds(key.run, key.step, key.number, state.tenant, workflow.name, state.traceparent, state.root)
        self._demand = state.steps[name].demand
        self._started_at_ms = state.started_at_ms
        self.placed = placed
        """Where it does its work and what it was lent of pools, if the step demanded something."""
        self._slots = slots
        self._runtime = services.runtime
        self.session = services.runtime.membership.session
        self.state_model = workflow.state_model
        self._shown = workflow.state_model, workflow.state_strategies, workflow.outputs
        self.pace: RateLimiter | None = None
        self.reports: list[Report] = []
        """What its scripts say that they have used of pools."""
        self.storage: Storage | None = None
        """Where its values go, if it matters."""
        self.run_is_cancelled = False
        self.is_tidying = False
        """It does what is left to be done after its run was cancelled."""
        self.posts_outcomes = False
        """Set by runners whose code between two operations is the engine's own."""
        self.sees_large = False
        """Something that its code may look at is stored apart, and large."""
        self.said_its_last = False
        """Its end is on its way to the store, or there: nothing is left to be stopped."""
        self.next: Attempt | None = None
        """What its end has started: its task goes on with that."""
        self.writes = False
        """Its code has written to streams."""
        self.store_problem: BaseException | None = None
        """The last permanent refusal of the store. The run's own code may have passed it on."""
        self.heeds: Callable[[State], None] | None = None
        self._posted: list[PostedOutcome] = []
        self.called_off = False
        self._left = False
        """Nothing here waits any more for what was posted."""

    def __repr__(self) -> str:
        return f"<attempt {self.number} of {self.run} {self.step}>"

    @property
    def definition(self) -> NodeDefinition | None:
        """Return the definition of its step; None for compensation. Raises UsageError if the code does not have it any more."""
        if isinstance(self._definition, UsageError):
            raise self._definition
        return self._definition

    @property
    def mailbox(self) -> Mailbox:
        """The run's own, as it is now: a call may come home long after its attempt, when the run was let go of."""
        return self._runtime.runs.mailbox(self.run)

    @property
    def tools(self) -> dict[str, Tool]:
        return self.definition.tools if self.definition is not None else {}

    @property
    def keeping_ms(self) -> int:
        """The time for which large payloads are kept: never before the run's start, though the clocks of two processes may
        differ by a little. Retention goes by months, and relies on it."""
        return max(self._runtime.store.clock.now_ms(), self._started_at_ms)

    async def send(self, command: cmd.AttemptCommand) -> list[Event]:
        """Have what the step does next committed; while the store is away, it waits."""
        return await self.patiently(lambda: self.mailbox.send(command), repeatable=False)

    async def intend(self, command: cmd.AttemptCommand) -> list[Event]:
        """The same for the intent of a call: if this attempt is called off before it hears of the commit, the call is
        never made, and its intent must not stay."""

        async def post_intent() -> list[Event]:
            await self.mailbox.room()
            intent = self.mailbox.post(command)
            try:
                return await asyncio.shield(intent)
            except asyncio.CancelledError:
                self._take_back(intent)
                raise

        return await self.patiently(post_intent, repeatable=False)

    def post(self, command: cmd.CallCommand) -> asyncio.Future[list[Event]]:
        """Have an outcome decided together with the next report of the step, and return what is announced then."""
        posted = PostedOutcome(command, self.mailbox.post(command, lingers=True))
        if self._left:
            self._see_home(posted)
        else:
            self._posted.append(posted)
        return posted.told

    def call_off(self, *, run_is_cancelled: bool = False) -> None:
        """The step has moved on: this attempt's calls in flight may finish, and what tidies up after a cancelled run."""
        self.called_off = True
        self.run_is_cancelled = run_is_cancelled

    @property
    def priority(self) -> int:
        """Return the priority of its node."""
        return self._demand.priority if self._demand is not None else 0

    @property
    def pools(self) -> Mapping[str, int]:
        """Return the amounts of pools that were reserved for it."""
        return {} if self.placed is None else self.placed.pools

    @property
    def runs_scripts(self) -> bool:
        """True if scripts do its work, which report themselves what they use."""
        return self._demand is not None and self._demand.runs_scripts

    def aside(self) -> AbstractContextManager[None]:
        """Inside, it waits for something without a slot of its process; if it has one, and not one of a connected worker."""
        return self._slots.aside() if self.is_here else nullcontext()

    @property
    def is_here(self) -> bool:
        """True if it takes a slot of this process, and not of a connected worker."""
        return self.placed is None or self.placed.worker == HERE

    async def outside(self, call: Coroutine[Any, Any, T]) -> T:
        """Make an outside call. A time-out of the attempt takes it along; being called off does not, since an outcome that is
        known is worth more than a question to a person. Nor does the end of the process, which gives calls a moment."""
        task = self.services.calls.track(call)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not is_left(self) and not task.done():
                task.cancel()
                await asyncio.wait([task])
            raise

    async def view(self) -> StateView:
        """The run as this attempt sees it."""
        state = await self.state()
        blobs: dict[str, bytes] = {}  # the state is taken in one piece: while these are fetched, others commit
        view = StateView(state, lambda payload: read(payload, blobs), *self._shown)
        self.sees_large = bool(view.stored_apart)
        if view.stored_apart:
            blobs |= await self.patiently(lambda: self.services.payloads.fetch(view.stored_apart, self.tenant))
        return view

    async def store_value(self, value: Any) -> Payload:
        """`value` as an event may hold it."""
        payloads = self.services.payloads
        encoded = payloads.clean(value)
        if (inline := payloads.inline(encoded, self.storage)) is not None:
            return inline
        now_ms = self.keeping_ms
        return await self.patiently(lambda: payloads.put(encoded, self.tenant, now_ms, self.storage))

    async def contents(self, parts: Sequence[ContentPart]) -> Mapping[str, bytes]:
        """The bytes of content parts, by their hash."""
        return await self.patiently(lambda: self.services.contents.bytes_of(parts, self.tenant))

    async def value(self, payload: Payload) -> Any:
        """Return the content of `payload`."""
        if payload.blob is None:
            return payload.value()
        return await self.patiently(lambda: self.services.payloads.value(payload, self.tenant))

    async def is_over(self) -> bool:
        """Return True if the step has moved on without this attempt."""
        state = await self.patiently(self.mailbox.current)
        step = state.step(self.step)
        return step is None or (step.status, step.attempt) != ("active", self.number)

    async def report(self, *commands: cmd.Command) -> list[Event]:
        """Have an end or outcomes committed, in this order; return the events of the last, or raise its refusal.

        A store that is away for a while is waited for: no other process would bring them. The outcome of a call is brought even
        if the task that brings it is given up meanwhile.
        """
        try:
            return await self._bring(*commands)
        except asyncio.CancelledError:
            outcomes = [command for command in commands if isinstance(command, cmd.CallCommand)]
            if outcomes and not self._runtime.membership.closing:
                self.services.calls.bring(self._bring(*outcomes))
            raise

    async def _bring(self, *commands: cmd.Command) -> list[Event]:
        for wait_s in _TRIES_S:
            told = [self.mailbox.post(command) for command in commands]
            try:
                events = await told[-1]  # the others went before it, and are reported no later
                if len(told) == 1:
                    return events
            except asyncio.CancelledError:
                for each in told:
                    each.cancel()
                raise
            except HoldfastError:
                pass  # whose, and what to do about it, is seen below
            left = [command for command, each in zip(commands, told, strict=True) if _untaken(each)]
            if not left or wait_s is None:
                self.store_problem = told[-1].exception()
                return told[-1].result()
            await self._runtime.clock.sleep(wait_s)
            commands = (*self._untaken_posts(), *left)
        raise AssertionError("unreachable")

    def _untaken_posts(self) -> list[cmd.Command]:
        """Return what was posted before and the store did not take either: it goes first, as it would have."""
        untaken = [posted.command for posted in self._posted if _untaken(posted.told)]
        self._posted = [posted for posted in self._posted if not _untaken(posted.told)]
        return [*untaken]

    def _see_home(self, posted: PostedOutcome) -> None:
        """Bring an outcome home for which this attempt can no longer wait itself."""

        def on_done(_: asyncio.Future[list[Event]]) -> None:
            if _untaken(posted.told):
                self.services.calls.bring(self.report(posted.command))

        posted.told.add_done_callback(on_done)

    def _take_back(self, intent: asyncio.Future[list[Event]]) -> None:
        """Release the call of an intent that is committed, or still will be: the task that was to make it has been called off
        before it heard of that, so it never left."""

        def on_done(_: asyncio.Future[list[Event]]) -> None:
            problem = None if intent.cancelled() else intent.exception()
            if isinstance(problem, UnknownCommit):
                # Dead, this process can be recovered, and with it what it may have left.
                self._runtime.membership.give_up(problem)
            for event in [] if intent.cancelled() or problem is not None else intent.result():
                if isinstance(event, ModelCallHeld):
                    message = "The attempt was called off before the model was called."
                    error = ErrorRecord(self.name, CANCELLED, message, False, self._runtime.store.clock.now_ms())
                    self.services.calls.bring(self.report(cmd.FailModelCall(event.call, error, reopens=True)))
                elif isinstance(event, EffectIntended):
                    self.services.calls.bring(self.report(cmd.ReleaseEffect(event.call)))

        intent.add_done_callback(on_done)

    async def patiently(self, store: Callable[[], Awaitable[T]], *, repeatable: bool = True) -> T:
        """Return the result of `store`. Waits while the store is away: no other process would bring this end, and no step of
        its own has failed. A call that is not `repeatable` is tried again only if it is certain that nothing was written."""
        with self.services.hindrances.over(self.run) as note:
            for wait_s in _TRIES_S:
                try:
                    return await store()
                except StoreError as problem:
                    if wait_s is None or isinstance(problem, _NO_USE if repeatable else _NO_REPEAT):
                        self.store_problem = problem
                        raise
                    note(problem)
                    await self._runtime.clock.sleep(wait_s)
        raise AssertionError("unreachable")

    async def state(self) -> State:
        """The run, with nothing in it that is still on its way to the disk."""
        mailbox = self.mailbox
        return state if (state := mailbox.settled) is not None else await self.patiently(mailbox.stable)

    async def leave(self, values: tuple[cmd.Value, ...]) -> None:
        """Stop waiting for what was posted; if the process leaves, the step is handed over with `values`."""
        self._left = True
        posts, self._posted = self._posted, []
        for posted in posts:
            self._see_home(posted)
        if self._runtime.membership.closing:
            # Handed over, not lost: the next process goes on where the journal ends.
            handed = self.mailbox.post(cmd.SuspendStep(self.step, self.number, values, yields=True))
            await asyncio.wait([handed])
            handed.exception()

    async def drain(self) -> None:
        """Hear what became of the outcomes that were only posted."""
        for posted in self._posted:
            if not posted.told.done():
                await asyncio.wait([posted.told])
        if self._posted and (untaken := self._untaken_posts()):
            await self.report(*untaken)
        for _, told in self._posted:
            if not told.cancelled() and (problem := told.exception()) is not None and not isinstance(problem, Conflict):
                raise problem


def _untaken(future: asyncio.Future[list[Event]]) -> bool:
    """True if the store did not take what this reports, and may take it later."""
    if not future.done() or future.cancelled():
        return False
    problem = future.exception()
    return isinstance(problem, StoreError) and not isinstance(problem, _NO_USE)


def is_left(attempt: Attempt) -> bool:
    """Return True if it is given up for no fault of its step's: the step has moved on, or the process ends."""
    return attempt.called_off or attempt.services.runtime.membership.closing


def cancelled(attempt: Attempt) -> cmd.FailAttempt:
    """Return how an attempt ends when its run is being cancelled, and its code would not notice."""
    at_ms = attempt.services.runtime.store.clock.now_ms()
    error = ErrorRecord(attempt.name, CANCELLED, "The run is being cancelled.", False, at_ms)
    return cmd.FailAttempt(attempt.step, attempt.number, error)
