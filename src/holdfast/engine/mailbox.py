"""One run in this process: its folded state, and the commands that wait to be decided on it.

Commands that arrive while an append is in flight are decided together and leave as one append. Losing a conflict
means reloading and deciding again. Never here: executing a step, finding due runs.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from holdfast.core.claim import NOBODY
from holdfast.core.commands import (
    AttemptCommand,
    CallCommand,
    Command,
    CompleteStep,
    FailAttempt,
    JudgeGuards,
    Shortage,
    StartRun,
    StopStep,
    SuspendStep,
    Taken,
    Tick,
    Worker,
)
from holdfast.core.decide import decide
from holdfast.core.events import Event, Recorded, StepReady, StepStarted
from holdfast.core.graph import Graph
from holdfast.core.ids import AppendId, CallId, EffectKey, RunId, Seq, StepId
from holdfast.core.projection import project
from holdfast.core.scopes import postings
from holdfast.core.state import State
from holdfast.engine.catalog import Catalog
from holdfast.engine.flush import Flush
from holdfast.engine.history import RunHistory
from holdfast.errors import (
    EffectKeyTaken,
    HoldfastError,
    OverLimit,
    SeqConflict,
    UnknownCommit,
    Unstorable,
)
from holdfast.ports import Append, Log

log = logging.getLogger("holdfast")

MOST_WAITING: Final = 10_000
"""Commands that wait in one mailbox. Beyond that a step of the run waits before it sends another, and whoever is outside
hears of it, instead of filling the memory."""
MOST_TOGETHER: Final = 100
_MOST_CONFLICTS: Final = 3
"""Then the command is decided under the store's lock: a hot run cannot starve a person's decision."""
_LINGER_TURNS: Final = 8
"""Turns of the loop that an outcome waits for what follows from it: its call's task ends, its step wakes up and speaks.
An answer to an agent goes through a gather and needs four; twice as many cost microseconds beside a commit."""

_OF_ATTEMPTS: Final = (AttemptCommand, CallCommand)
_FROM_INSIDE: Final = (StartRun, *_OF_ATTEMPTS, JudgeGuards)
"""Commands of this process's own work, which knows where its run is."""
_NEVER_REFUSED: Final = (*_FROM_INSIDE, Tick)
"""What has a bound of its own: there are only so many attempts, calls of theirs under way, and ticks at once."""

_LEAVING: Final = (CompleteStep, FailAttempt, SuspendStep, StopStep)
"""What an attempt says last."""


def _take_up(shortages: dict[str, Shortage], state: State, events: list[Event]) -> None:
    """What these events take of the little that is left in scopes, the next envelope cannot have."""
    for posting in postings(state, events):
        if (known := shortages.get(posting.scope)) is not None:
            shortages[posting.scope] = Shortage(known.limit, known.left - posting.total, known.held + posting.held)


class Envelope(NamedTuple):
    """A command on its way, and where its events, or its refusal, are to be told."""

    command: Command
    graph: Graph | None
    told: asyncio.Future[list[Event]]
    slots: int = 0
    """Slots that are kept for what this command starts."""
    lingers: bool = False
    """Whether what follows from it is about to be posted, to leave in the same append."""

    @property
    def frees(self) -> int:
        """Slots that it brings along: an attempt that says its last word leaves its own to what follows."""
        return self.slots + isinstance(self.command, _LEAVING)

    @property
    def stands(self) -> bool:
        """Whether it counts although nobody waits for it any more: the truth about money and effects does."""
        return self.told.cancelled() and isinstance(self.command, CallCommand)


class Starter(Protocol):
    """Who starts steps in this process."""

    def worker(self, run: RunId, graph: Graph, *, freed: int) -> Worker | None:
        """Who may start steps of such a run here, which of them were placed, and how many others: `freed` more than there
        are free slots."""
        ...

    def place(self, state: State, room: int) -> frozenset[StepId]:
        """Find places for the steps of a run that demand something, while `room` slots are free here; those that have one."""
        ...

    def settle(self, run: RunId, steps: Collection[StepId], *, known: bool) -> None:
        """These were to start: whichever has not begun gives its place back, as soon as that is `known`."""
        ...

    def take_slots(self, count: int) -> None:
        """Reserve slots for steps that are being started; a negative count gives them back."""
        ...


class Runtime(Protocol):
    """What a mailbox needs of the process around it."""

    log: Log
    flush: Flush
    catalog: Catalog
    starter: Starter | None

    def now_ms(self) -> int:
        """The store's time."""
        ...

    def append_id(self) -> AppendId: ...

    def unknown_commit(self, run: RunId) -> None:
        """Nobody here knows what the run's last append came to: see that it is looked at."""
        ...

    def evict(self, mailbox: Mailbox) -> None:
        """Called when a mailbox has nothing more to do."""
        ...

    def committed(self, mailbox: Mailbox, events: Sequence[Event], state: State, *, own: bool) -> None:
        """Called after every commit of its `own`, before its senders are told, and when a reload brought news (of which
        `events` may be empty)."""
        ...


class Mailbox:
    """Owns the state of one run as long as it is of use to somebody here."""

    def __init__(self, run: RunId, runtime: Runtime, graph: Graph | None = None) -> None:
        self.run = run
        self.state: State | None = None
        self.graph = graph
        self.due_at_ms: int | None = None
        """When somebody must look at the run, as of the last append that was decided here."""
        self._runtime = runtime
        self._envelopes: deque[Envelope] = deque()
        self._working: asyncio.Task[None] | None = None
        self._appending: asyncio.Future[None] | None = None
        self._history = RunHistory(run, runtime.log)

    @property
    def working(self) -> asyncio.Task[None] | None:
        """The task that decides and commits, while there is something to do."""
        return self._working

    @property
    def busy(self) -> bool:
        return self._working is not None

    async def send(self, command: Command, graph: Graph | None = None) -> list[Event]:
        """Have `command` decided and committed; returns its events. Raises its refusal, or a StoreError.

        `graph` is one to decide by instead of the run's own: a migration's. An attempt's own waits until there is room.
        """
        if isinstance(command, AttemptCommand):
            await self.room()
        return await self.post(command, graph)

    async def room(self) -> None:
        """Wait until not too many commands wait."""
        while len(self._envelopes) >= MOST_WAITING:
            await asyncio.wait([self._envelopes[-1].told])

    def post(
        self, command: Command, graph: Graph | None = None, *, slots: int = 0, lingers: bool = False
    ) -> asyncio.Future[list[Event]]:
        """The same without waiting: what is posted in one turn of the loop leaves as one append.

        `slots` are kept for what it starts. One that `lingers` gives the command that follows from it a few turns to
        come along.
        """
        if len(self._envelopes) >= MOST_WAITING and not isinstance(command, _NEVER_REFUSED):
            raise HoldfastError(f"{MOST_WAITING} commands already wait for run {self.run}; try again later.")
        envelope = Envelope(command, graph, asyncio.get_running_loop().create_future(), slots, lingers)
        self._envelopes.append(envelope)
        if self._working is None:
            self._working = asyncio.create_task(self._work(), name=f"holdfast-mailbox-{self.run}")
        return envelope.told

    def rest(self) -> None:
        """Have the run let go of, if nobody here needs it in memory."""
        if self._working is None:
            self._runtime.evict(self)

    async def stable(self) -> State:
        """The state with nothing in it that is still on its way to the disk."""
        while self._appending is not None or self.state is None:
            if self._appending is not None:
                await asyncio.wait([self._appending])
            else:
                await self.send(Tick())
        return self.state

    async def current(self) -> State:
        """The state as of now: with everything that others have committed."""
        await self.send(Tick())
        return await self.stable()

    async def _work(self) -> None:
        try:
            while self._envelopes:
                await self._linger()
                count = min(len(self._envelopes), MOST_TOGETHER)
                await self._deliver([self._envelopes.popleft() for _ in range(count)])
        finally:
            self._working = None
            self.rest()
            for envelope in self._envelopes:  # only when cancelled
                envelope.told.cancel()

    async def _linger(self) -> None:
        for _ in range(_LINGER_TURNS):
            if not all(envelope.lingers for envelope in self._envelopes):
                return
            await asyncio.sleep(0)

    async def _deliver(self, envelopes: list[Envelope]) -> None:
        """Decide `envelopes` together until they are committed, refused, or known to be impossible."""
        conflicts = 0
        shortages: dict[str, Shortage] = {}
        taken: dict[EffectKey, Taken] = {}
        while conflicts <= _MOST_CONFLICTS:
            try:
                if conflicts < _MOST_CONFLICTS:
                    envelopes = await self._try(envelopes, shortages, taken)
                else:
                    async with self._runtime.log.exclusive(self.run):
                        envelopes = await self._try(envelopes, shortages, taken)
            except SeqConflict:
                conflicts += 1
                continue
            except OverLimit as refused:
                # Decided again by what is left there, whichever hold it was that did not fit beside the others; where
                # that has changed again, as if nothing were left: so there are two refusals a scope at most.
                left = 0 if refused.scope in shortages else refused.limit - refused.used
                shortages[refused.scope] = Shortage(refused.limit, left, refused.held)
                continue
            except EffectKeyTaken as other:
                # Decided again knowing whose it is: one refusal an effect at most.
                taken[EffectKey(other.key)] = Taken(CallId(other.call), other.args_hash, other.response)
                continue
            except asyncio.CancelledError:
                self.state = None
                for envelope in envelopes:
                    envelope.told.cancel()
                raise
            except Exception as problem:  # noqa: BLE001 - every sender must be told, whatever it is
                await self._spoilt(envelopes, problem)
            return
        for envelope in envelopes:
            if not envelope.told.done():
                envelope.told.set_exception(
                    SeqConflict(f"Run {self.run} changed again and again; nothing was written.")
                )

    async def _spoilt(self, envelopes: list[Envelope], problem: Exception) -> None:
        """Tell every sender; where one of them may have spoilt it for the others, each by itself."""
        self.state = None
        if isinstance(problem, UnknownCommit):
            self._runtime.unknown_commit(self.run)
        if isinstance(problem, Unstorable) and len(envelopes) > 1:
            for envelope in envelopes:
                await self._deliver([envelope])
            return
        for envelope in envelopes:
            if not envelope.told.done():
                envelope.told.set_exception(problem)

    async def _try(
        self, envelopes: list[Envelope], shortages: Mapping[str, Shortage], taken: Mapping[EffectKey, Taken]
    ) -> list[Envelope]:
        """One try. Raises SeqConflict, with the state forgotten, when somebody else was first, OverLimit when a scope has
        no room for it, and EffectKeyTaken; `shortages` and `taken` are what earlier tries have found about that."""
        state = await self._fresh(envelopes)
        before = state.seq
        now_ms = max(self._runtime.now_ms(), state.at_ms)
        freed = 0
        for envelope in envelopes:
            freed += envelope.frees
        assert self.graph is not None
        starter = self._runtime.starter
        worker = starter.worker(self.run, self.graph, freed=freed) if starter is not None else None
        answers, events, traces, started = self._decide(envelopes, state, now_ms, worker, dict(shortages), taken)
        placed = self._place(state, events, worker, started)
        if placed is not None:
            events += decide(self.graph, state, Tick(), now_ms, placed, shortages, taken)
            traces += [state.trace_id] * (len(events) - len(traces))
        if events:
            at = zip(itertools.count(before + 1), events, traces, strict=False)
            recorded = tuple([Recorded(Seq(seq), now_ms, event, trace_id) for seq, event, trace_id in at])
            changes = project(state, events, executing=worker is not None)
            self.due_at_ms = changes.run.due_at_ms
            append = Append(self.run, before, self._runtime.append_id(), recorded, changes)
            # Only what starts beyond the freed slots is to be kept from others while it is on its way.
            patient = any(isinstance(envelope.command, _OF_ATTEMPTS) for envelope in envelopes)
            known = True
            try:
                await self._commit(append, events, state, slots=max(0, started - freed), patient=patient)
            except UnknownCommit:
                known = False
                raise
            finally:
                if placed is not None and starter is not None:
                    starter.settle(self.run, placed.placed, known=known)
        # A refusal too is told only now: it may be for what the envelope before it has caused.
        for envelope, answer in answers:
            if envelope.told.done():
                continue
            if isinstance(answer, HoldfastError):
                envelope.told.set_exception(answer)
            else:
                envelope.told.set_result(answer)
        if events and self.graph is not None:
            await self._history.snapshot(state, self.graph)
        return envelopes

    def _place(self, state: State, events: list[Event], worker: Worker | None, started: int) -> Worker | None:
        """Who starts, in the same append, the steps that have just become ready and for which there is a place at once."""
        starter = self._runtime.starter
        if starter is None or worker is None or not state.unplaced:
            return None
        if self.graph is None or state.graph_hash != self.graph.hash:
            return None
        if not any(type(event) is StepReady and event.demand is not None for event in events):
            return None
        steps = starter.place(state, worker.slots - started)
        return Worker(worker.session, 0, steps) if steps else None

    def _decide(
        self,
        envelopes: list[Envelope],
        state: State,
        now_ms: int,
        worker: Worker | None,
        shortages: dict[str, Shortage],
        taken: Mapping[EffectKey, Taken],
    ) -> tuple[list[tuple[Envelope, list[Event] | HoldfastError]], list[Event], list[str | None], int]:
        """What each envelope is answered, once all of it is durable; the events of all, in which trace each came to be, and how
        many steps they start, those left out that were placed: slots are kept for them already."""
        graph = self.graph
        assert graph is not None
        answers: list[tuple[Envelope, list[Event] | HoldfastError]] = []
        events: list[Event] = []
        traces: list[str | None] = []
        started = 0
        for envelope in envelopes:
            if envelope.told.done() and not envelope.stands:
                continue
            here = msgspec.structs.replace(worker, slots=worker.slots - started) if started and worker else worker
            try:
                caused = decide(envelope.graph or graph, state, envelope.command, now_ms, here, shortages, taken)
            except HoldfastError as refusal:
                answers.append((envelope, refusal))
                continue
            for event in caused:
                started += type(event) is StepStarted and not (worker and event.step in worker.placed)
            answers.append((envelope, caused))
            if caused and (asker := getattr(envelope.command, "by", NOBODY)).trace_id is not None:
                state.trace_id = asker.trace_id
            events += caused
            traces += [state.trace_id] * len(caused)
            if shortages:
                _take_up(shortages, state, caused)
            if envelope.graph is not None and envelope.graph.hash == state.graph_hash:
                graph = envelope.graph  # what follows in this batch follows a migration
        return answers, events, traces, started

    async def _commit(self, append: Append, events: list[Event], state: State, *, slots: int, patient: bool) -> None:
        """Have `append` written, with `slots` kept meanwhile. The state is forgotten where it was not."""
        self._take_slots(slots)
        self._appending = asyncio.ensure_future(self._runtime.flush.append(append, patient=patient))
        try:
            await self._appending
            self._history.weigh(events)
            self._runtime.committed(self, events, state, own=True)
        except BaseException:
            self.state = None
            raise
        finally:
            self._appending = None
            self._take_slots(-slots)

    def _take_slots(self, count: int) -> None:
        if self._runtime.starter is not None:
            self._runtime.starter.take_slots(count)

    async def _fresh(self, envelopes: list[Envelope]) -> State:
        """The state to decide on; with the latest that others have committed where a command from outside is among
        `envelopes`: what it is refused for, or finds done already, must be so now. (An append says so by itself.)"""
        if self.state is None:
            if any(isinstance(envelope.command, StartRun) for envelope in envelopes):
                self.state = State()
                return self.state
            self.state = await self._history.load()
            self._runtime.committed(self, [], self.state, own=False)
        elif self.state.seq and not all(isinstance(envelope.command, _FROM_INSIDE) for envelope in envelopes):
            news = await self._history.catch_up(self.state)
            if news:
                self._runtime.committed(self, news, self.state, own=False)
        assert self.state is not None
        if self.graph is None or self.graph.hash != self.state.graph_hash:
            self.graph = await self._runtime.catalog.graph_of(self.state.graph_hash)
        return self.state


def unheard(told: asyncio.Future[list[Event]]) -> None:
    """A tick that nobody waits for: a conflict or a missing run is no news, the sweep will look again."""
    if not told.cancelled() and (problem := told.exception()) is not None and not isinstance(problem, HoldfastError):
        log.error("holdfast: a look at a run failed: %s", problem, exc_info=problem)
