"""One run in this process: its history in the store, the state folded from it, and the commands that wait to be decided on it.

Commands that arrive in one turn of the loop, or while an append is in flight, are decided together and leave as one append.
Deciding takes no task: all mailboxes that have something to decide do so in one callback, unless they must read first. Losing
a conflict means reading and deciding again. The appends of many runs are carried to the store together: while one flush is on
its way to the disk, the next gathers.

A snapshot is taken when the events since the last are many and outweigh it, so that a step with a long journal is written down
a few times in all. Losing it loses nothing.

Never here: executing a step, finding due runs.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter, deque
from collections.abc import Collection, Sequence
from functools import cache, cached_property
from typing import Final, NamedTuple, Protocol

import msgspec

from holdfast.core.decide import decide
from holdfast.core.evolve import evolve
from holdfast.core.facts.commands import (
    AttemptCommand,
    CallCommand,
    Command,
    CompleteStep,
    FailAttempt,
    JudgeGuards,
    KnownEffect,
    Shortage,
    StartRun,
    StopStep,
    SuspendStep,
    Tick,
    Worker,
)
from holdfast.core.facts.events import Event, Recorded, StepReady, StepStarted
from holdfast.core.facts.graph import Graph
from holdfast.core.facts.postings import postings
from holdfast.core.facts.state import FOLD_VERSION, State
from holdfast.core.values import actor
from holdfast.core.values.ids import AppendId, CallId, EffectKey, RunId, Seq, StepId
from holdfast.core.values.payload import Payload
from holdfast.core.views.projection import project
from holdfast.engine.runs.catalog import Catalog
from holdfast.engine.runs.observing import NOBODY, Observers
from holdfast.errors import (
    CorruptHistory,
    EffectKeyTaken,
    HoldfastError,
    NotFound,
    OverLimit,
    SeqConflict,
    SharedLockLost,
    SharedValueMoved,
    StoreError,
    UnknownCommit,
    Unstorable,
)
from holdfast.ports import Append, AppendsFlushed, Clock, Log, SnapshotRecord

MAX_CONFLICTS: Final = 3
"""Then it is decided under the store's lock: a hot run cannot starve a person's decision."""
MAX_LOST_LOCKS: Final = 20
"""Conflicts under that lock, each of which means that the store let go of it: its server ended, or another took its place."""
_MAX_REFUSALS: Final = 2
"""Of several commands together by one scope."""
OF_ATTEMPTS: Final = (AttemptCommand, CallCommand)
FROM_INSIDE: Final = (StartRun, *OF_ATTEMPTS, JudgeGuards)
"""Commands of this process's own work, which knows where its run is."""
_LEAVING: Final = (CompleteStep, FailAttempt, SuspendStep, StopStep)
"""What an attempt says last."""

MAX_APPENDS: Final = 256
"""One flush; more wait for the next, so that a commit's latency stays bounded."""
_PAUSE_S: Final = 0.25
PATIENCE_S: Final = 5.0
"""How long callers wait for a store that is away who can get the answer that nothing is known: a person, a program outside."""
_MAX_PATIENCE_S: Final = 600.0
"""How long the work of this process waits. A step that cannot know whether its intent was taken can do nothing else."""


class Envelope(NamedTuple):
    """A command on its way, and where its events, or its refusal, are to be sent."""

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
        """True if it counts although nothing waits for it any more: facts about money and effects do."""
        return self.told.cancelled() and isinstance(self.command, CallCommand)


Answer = tuple[Envelope, list[Event] | HoldfastError]


class Answers(NamedTuple):
    """The answers to the envelopes of a delivery, once all of it is durable; the events of all, each with its trace; and how
    many steps they start, without placed ones: slots are kept for them already."""

    each: list[Answer]
    events: list[Event]
    traces: list[str | None]
    started: int

    def tell(self) -> None:
        """Answer the senders. A refusal too is sent only when all is durable: it may be for what the envelope before it has
        caused."""
        for envelope, answer in self.each:
            if envelope.told.done():
                continue
            if isinstance(answer, HoldfastError):
                envelope.told.set_exception(answer)
            else:
                envelope.told.set_result(answer)


class Delivery:
    """Envelopes that are decided together, again and again until they are committed, refused, or known to be impossible;
    and what the tries so far have found."""

    __slots__ = ("conflicts", "envelopes", "refused", "shortages", "taken")

    def __init__(self, envelopes: list[Envelope]) -> None:
        self.envelopes = envelopes
        self.conflicts = 0
        self.shortages: dict[str, Shortage] = {}
        self.refused: Counter[str] = Counter()
        """Scopes that had no room for it, and how often."""
        self.taken: dict[EffectKey, KnownEffect] = {}

    def heeds(self, problem: BaseException) -> bool:
        """Return True if it is to be tried once more, knowing of `problem`."""
        match problem:
            case SeqConflict():
                self.conflicts += 1
                return self.conflicts <= MAX_CONFLICTS + MAX_LOST_LOCKS
            case OverLimit():
                # Decided again by what is left there, whichever hold it was that did not fit beside the others; where
                # that has changed again, as if nothing were left: so there are two refusals a scope at most, or the
                # commands are decided one by one.
                left = problem.limit - problem.used
                left = min(left, 0) if problem.scope in self.refused else left
                self.refused[problem.scope] += 1
                team = tuple(problem.team)
                self.shortages |= {
                    each.scope: Shortage(each.limit, each.left, each.held, team)
                    for each in team
                    if each.scope not in self.refused
                }
                self.shortages[problem.scope] = Shortage(problem.limit, left, problem.held, team)
                return True
            case EffectKeyTaken():
                # Decided again knowing whose it is: one refusal an effect at most.
                self.taken[EffectKey(problem.key)] = KnownEffect(CallId(problem.call), problem.args_hash, problem.response)
                return True
            case _:
                return False

    def is_spoilt_by(self, problem: BaseException) -> bool:
        """True if one of several may have spoilt it for the others, so that each is decided by itself."""
        if len(self.envelopes) < 2:
            return False
        if isinstance(problem, OverLimit):
            return self.refused[problem.scope] >= _MAX_REFUSALS
        return isinstance(problem, Unstorable | SharedValueMoved | SharedLockLost)

    @property
    def starts(self) -> bool:
        """True if it begins its run."""
        return any(isinstance(each.command, StartRun) for each in self.envelopes)

    @property
    def is_from_inside(self) -> bool:
        return all(isinstance(each.command, FROM_INSIDE) for each in self.envelopes)

    @property
    def is_patient(self) -> bool:
        """True if its sender can do nothing but wait."""
        return any(isinstance(each.command, OF_ATTEMPTS) for each in self.envelopes)

    @property
    def frees(self) -> int:
        """Slots that it brings along."""
        freed = 0
        for envelope in self.envelopes:
            freed += envelope.frees
        return freed

    def answered(self, graph: Graph, state: State, now_ms: int, worker: Worker | None) -> Answers:
        """Decide it on `state`, which it changes."""
        shortages = dict(self.shortages)
        answers: list[Answer] = []
        events: list[Event] = []
        traces: list[str | None] = []
        started = 0
        for envelope in self.envelopes:
            if envelope.told.done() and not envelope.stands:
                continue
            here = msgspec.structs.replace(worker, slots=worker.slots - started) if started and worker else worker
            try:
                caused = decide(envelope.graph or graph, state, envelope.command, now_ms, here, shortages, self.taken)
            except HoldfastError as refusal:
                answers.append((envelope, refusal))
                continue
            for event in caused:
                started += type(event) is StepStarted and not (worker and event.step in worker.placed)
            answers.append((envelope, caused))
            if caused and (asker := getattr(envelope.command, "by", actor.NOBODY)).trace_id is not None:
                state.trace_id = asker.trace_id
            events += caused
            traces += [state.trace_id] * len(caused)
            if shortages:
                _take_up(shortages, state, caused)
            if envelope.graph is not None and envelope.graph.hash == state.graph_hash:
                graph = envelope.graph  # what follows in this batch follows a migration
        return Answers(answers, events, traces, started)


def _take_up(shortages: dict[str, Shortage], state: State, events: list[Event]) -> None:
    """Take up what these events use of the little that is left in scopes: the next envelope cannot have it. A lender keeps as
    much, which the next cannot borrow either."""
    for posting in postings(state, events):
        if (known := shortages.get(posting.scope)) is not None:
            left = known.left - posting.total + posting.limit_change - posting.lends
            shortages[posting.scope] = msgspec.structs.replace(known, left=left, held=known.held + posting.held)


class _Waiting(NamedTuple):
    append: Append
    done: asyncio.Future[None]
    patient: bool


class Flush:
    """Group commit. At most one append of each run is under way, because a mailbox waits for its own."""

    def __init__(self, log: Log, clock: Clock, observers: Observers = NOBODY) -> None:
        self._log = log
        self._clock = clock
        self._observers = observers or None  # asked once whether there are any
        self._waiting: list[_Waiting] = []
        self._carrier: asyncio.Task[None] | None = None

    def append(self, append: Append, *, patient: bool = False) -> asyncio.Future[None]:
        """Durable when it is done. Raises the append's own fate: SeqConflict, KeyReused, StoreError.

        UnknownCommit, once the store has been away for PATIENCE_S; one that is `patient` hears of it minutes later.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(_Waiting(append, done, patient))
        if self._carrier is None:
            self._carrier = self._loop.create_task(self._carry(), name="holdfast-flush")
        return done

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Asked for once: Python finds the running loop by a look at the process's id, each time."""
        return asyncio.get_running_loop()

    async def _carry(self) -> None:
        try:
            while self._waiting:  # each sender that was ready when the first of them came has come by now
                batch, self._waiting = self._waiting[:MAX_APPENDS], self._waiting[MAX_APPENDS:]
                await self._commit(batch)
        finally:
            self._carrier = None

    async def _commit(self, batch: list[_Waiting]) -> None:
        since_s = self._clock.monotonic_s()
        try:
            fates = await self._until_known(batch, since_s)
        except asyncio.CancelledError:
            _fail(batch, StoreError("The process is stopping."))
            raise
        except HoldfastError as problem:
            _fail(batch, problem)
            return
        if self._observers:
            self._observers.notify(AppendsFlushed(len(batch), fates.count(None), self._clock.monotonic_s() - since_s))
        for each, fate in zip(batch, fates, strict=True):
            if fate is not None:
                _fail([each], fate)
            elif not each.done.done():
                each.done.set_result(None)

    async def _until_known(self, batch: list[_Waiting], since_s: float) -> list[HoldfastError | None]:
        """Send a commit whose reply was lost again under the same ids until it is acknowledged.

        That a later try was not taken says nothing about the first: once unknown, it stays so.
        """
        appends = [each.append for each in batch]
        unknown: UnknownCommit | None = None
        while True:
            try:
                return list(await self._log.append(appends))
            except UnknownCommit as lost:
                unknown = lost
            except StoreError:
                if unknown is None:
                    raise
            away_s = self._clock.monotonic_s() - since_s
            if away_s >= PATIENCE_S:
                self._send_away(batch, unknown)
            if away_s >= _MAX_PATIENCE_S or all(each.done.done() for each in batch):
                raise unknown
            await self._clock.sleep(_PAUSE_S)

    def _send_away(self, batch: list[_Waiting], unknown: UnknownCommit) -> None:
        """Tell the impatient how it stands; those behind this batch have not even left."""
        _fail([each for each in batch if not each.patient], unknown)
        _fail([each for each in self._waiting if not each.patient], StoreError(f"Nothing was written: {unknown}"))
        self._waiting = [each for each in self._waiting if each.patient]


def _fail(those: list[_Waiting], problem: HoldfastError) -> None:
    for each in those:
        if not each.done.done():
            each.done.set_exception(problem)
            each.done.exception()  # asyncio complains of one that was never retrieved; a caller that stops now will never look


_EVENT_BYTES: Final = 120
"""What an event costs beside its payloads, roughly, for the decision when a snapshot pays."""

_encode_state = msgspec.json.Encoder().encode
_decode_state = msgspec.json.Decoder(State).decode

log = logging.getLogger("holdfast")

MAX_WAITING: Final = 10_000
"""Maximum number of commands that wait in one mailbox. Beyond that a step of the run waits before it sends another, and a
caller from outside gets an error, instead of filling the memory."""
MAX_TOGETHER: Final = 100
_LINGER_TURNS: Final = 8
"""Turns of the loop that an outcome waits for what follows from it: its call's task ends, its step wakes up and speaks.
An answer to an agent goes through a gather and needs four; twice as many cost microseconds beside a commit."""

_NEVER_REFUSED: Final = (*FROM_INSIDE, Tick)
"""What has a bound of its own: there are only so many attempts, calls of theirs under way, and ticks at once."""


@cache
def _payloads_in(kind: type[Event]) -> tuple[str, ...]:
    """The fields of an event that hold a user's value, which outweighs all else about it."""
    return tuple([each.name for each in msgspec.structs.fields(kind) if each.type in (Payload, Payload | None)])


class RunHistory:
    """The history of one run, and how much of it lies behind its latest snapshot."""

    def __init__(self, run: RunId, log: Log) -> None:
        self._run = run
        self._log = log
        self._snapshot_seq = 0
        self._snapshot_bytes = 0
        self._tail_bytes = 0

    async def load(self) -> State:
        """The run, folded from its latest snapshot. Raises NotFound, CorruptHistory."""
        history = await self._log.load(self._run, FOLD_VERSION)
        state = State()
        self._snapshot_seq = self._snapshot_bytes = self._tail_bytes = 0
        if history.snapshot is not None:
            try:
                state = _decode_state(history.snapshot.state)
            except (msgspec.DecodeError, RecursionError) as problem:
                raise CorruptHistory(f"The snapshot of run {self._run} cannot be read: {problem}.") from problem
            self._snapshot_seq, self._snapshot_bytes = history.snapshot.seq, len(history.snapshot.state)
        self._fold(state, history.events)
        if not state.seq:
            raise NotFound(f"There is no run {self._run} in this store.")
        return state

    async def catch_up(self, state: State) -> list[Event]:
        """Fold into `state` what others have appended since; what that was."""
        news = await self._log.events(self._run, state.seq)
        self._fold(state, news)
        return [each.event for each in news]

    def _fold(self, state: State, recorded: Sequence[Recorded]) -> None:
        for each in recorded:
            if each.seq != state.seq + 1:
                raise CorruptHistory(f"Run {self._run}: event {each.seq} follows event {state.seq}.")
            evolve(state, each.event, each.at_ms)
            state.trace_id = each.trace_id or state.trace_id
        self.weigh([each.event for each in recorded])

    def weigh(self, events: Sequence[Event]) -> None:
        """Count what has been appended to the tail."""
        for event in events:
            self._tail_bytes += _EVENT_BYTES
            for name in _payloads_in(type(event)):
                payload = getattr(event, name)
                if payload is not None:
                    self._tail_bytes += len(payload.json)

    def snapshot_pays(self, state: State, graph: Graph) -> bool:
        """True if the tail outweighs the last snapshot, so that a resume costs the same however long the history is."""
        tail = state.seq - self._snapshot_seq
        return tail >= graph.definition.snapshot_every and self._tail_bytes >= self._snapshot_bytes and not state.ended

    async def snapshot(self, state: State) -> None:
        """Keep the folded state. Raises StoreError."""
        encoded = _encode_state(state)
        await self._log.snapshot(self._run, SnapshotRecord(state.seq, FOLD_VERSION, encoded, state.tenant))
        self._snapshot_seq, self._snapshot_bytes, self._tail_bytes = state.seq, len(encoded), 0


class Decision(NamedTuple):
    """The result of a delivery. Without an append, nothing has happened."""

    answers: Answers
    state: State
    append: Append | None
    placed: Worker | None
    """Who starts those of its steps for which there was a place."""
    slots: int
    """Those that are kept while it is on its way."""


class Starter(Protocol):
    """The starter of steps in this process."""

    def worker(self, run: RunId, graph: Graph, *, freed: int) -> Worker | None:
        """Return the worker that may start steps of such a run here, with those that were placed and the number of others:
        `freed` more than there are free slots."""
        ...

    def place(self, state: State, room: int) -> frozenset[StepId]:
        """Find places for the steps of a run that demand something, while `room` slots are free here; those that have one."""
        ...

    def settle(self, run: RunId, steps: Collection[StepId], *, is_known: bool) -> None:
        """These were to start: whichever has not begun gives its place back, as soon as that is `is_known`."""
        ...

    def take_slots(self, count: int) -> None:
        """Reserve slots for steps that are being started; a negative count gives them back."""
        ...


class Runtime(Protocol):
    """The needs of a mailbox from the process around it."""

    log: Log
    flush: Flush
    catalog: Catalog
    starter: Starter | None

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def now_ms(self) -> int:
        """The store's time."""
        ...

    def append_id(self) -> AppendId: ...

    def soon(self, mailbox: Mailbox) -> None:
        """Give the mailbox its turn in the next turn of the loop."""
        ...

    def unknown_commit(self, run: RunId) -> None:
        """Note that the outcome of the run's last append is unknown here: see that it is looked at."""
        ...

    def evict(self, mailbox: Mailbox) -> None:
        """Called when a mailbox has nothing more to do."""
        ...

    def committed(self, mailbox: Mailbox, events: Sequence[Event], state: State, *, own: bool) -> None:
        """Called after every commit of its `own`, before its senders are answered, and when a reload brought news (of which
        `events` may be empty)."""
        ...


class Mailbox:
    """Owns the state of one run as long as it is of use here."""

    def __init__(self, run: RunId, runtime: Runtime, graph: Graph | None = None) -> None:
        self.run = run
        self.state: State | None = None
        self.graph = graph
        self.due_at_ms: int | None = None
        """Time at which the run must be looked at, as of the last append that was decided here."""
        self._runtime = runtime
        self._envelopes: deque[Envelope] = deque()
        self._again: deque[Delivery] = deque()
        """What is to be tried again, before anything new."""
        self._has_turn = False
        """Whether its turn comes soon."""
        self._lingered = 0
        self._in_flight = False
        """Whether an append is on its way to the disk, and with it what the state holds already."""
        self._task: asyncio.Task[None] | None = None
        """Reads what has to be known before the next decision, or keeps a snapshot."""
        self._moved: asyncio.Future[None] | None = None
        """Done when an append has landed, or nothing is left to do; made when a caller waits for that."""
        self._history = RunHistory(run, runtime.log)

    # --- Commands -----------------------------------------------------------------------------------------------------

    async def send(self, command: Command, graph: Graph | None = None) -> list[Event]:
        """Have `command` decided and committed; returns its events. Raises its refusal, or a StoreError.

        `graph` is one to decide by instead of the run's own: a migration's. An attempt's own waits until there is room.
        """
        if isinstance(command, AttemptCommand):
            await self.room()
        return await self.post(command, graph)

    async def room(self) -> None:
        """Wait until not too many commands wait."""
        while len(self._envelopes) >= MAX_WAITING:
            await self._movement()

    def post(
        self, command: Command, graph: Graph | None = None, *, slots: int = 0, lingers: bool = False
    ) -> asyncio.Future[list[Event]]:
        """The same without waiting: what is posted in one turn of the loop leaves as one append.

        `slots` are kept for what it starts. One that `lingers` gives the command that follows from it a few turns to
        come along.
        """
        if len(self._envelopes) >= MAX_WAITING and not isinstance(command, _NEVER_REFUSED):
            raise HoldfastError(f"{MAX_WAITING} commands already wait for run {self.run}; try again later.")
        envelope = Envelope(command, graph, self._runtime.loop.create_future(), slots, lingers)
        self._envelopes.append(envelope)
        self._go_on()
        return envelope.told

    # --- The state ----------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """True if something is being decided, is on its way to the disk, or waits for its turn."""
        return self._has_turn or self._in_flight or self._task is not None

    @property
    def settled(self) -> State | None:
        """The state, where it is in memory and nothing in it is still on its way to the disk."""
        return None if self._in_flight else self.state

    async def stable(self) -> State:
        """The same, waited for, or loaded."""
        while (state := self.settled) is None:
            if self._in_flight:
                await self._movement()
            else:
                await self.send(Tick())
        return state

    async def current(self) -> State:
        """The state as of now: with everything that others have committed."""
        await self.send(Tick())
        return await self.stable()

    async def idle(self) -> None:
        """Wait until there is nothing to do."""
        while self.busy:
            await self._movement()

    def rest(self) -> None:
        """Let go of the run, if it is not needed in memory here."""
        if not self.busy:
            self._runtime.evict(self)

    async def _movement(self) -> None:
        if self._moved is None:
            self._moved = self._runtime.loop.create_future()
        await asyncio.wait([self._moved])

    def _move(self) -> None:
        moved, self._moved = self._moved, None
        if moved is not None:
            moved.set_result(None)

    # --- Turns --------------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Have the next turn soon; let go of the run where there is nothing to be decided."""
        if self.busy:
            return
        if self._envelopes or self._again:
            self._has_turn = True
            self._runtime.soon(self)
        else:
            self._move()
            self._runtime.evict(self)

    def turn(self) -> None:
        """Decide what has come: in one piece, or where something has to be read before, in a task."""
        self._has_turn = False
        if self.busy:
            return  # a snapshot has begun since, whose end gives it another turn
        if not self._again and self._lingered < _LINGER_TURNS and _linger(self._envelopes):
            self._lingered += 1
            self._go_on()
            return
        self._lingered = 0
        delivery = self._again.popleft() if self._again else self._next()
        if self._is_ready(delivery):
            self._try(delivery)
        else:
            self._task = self._runtime.loop.create_task(self._read(delivery), name=f"holdfast-mailbox-{self.run}")

    def _next(self) -> Delivery:
        count = min(len(self._envelopes), MAX_TOGETHER)
        return Delivery([self._envelopes.popleft() for _ in range(count)])

    def _is_ready(self, delivery: Delivery) -> bool:
        """True if all that a decision needs is in memory. A command from outside needs the latest that others have committed: a
        reason to refuse it, or to find it done already, must hold now. (An append checks that itself.)"""
        if self.state is None and delivery.starts:
            self.state = State()
        state, graph = self.state, self.graph
        if state is None or graph is None or delivery.conflicts >= MAX_CONFLICTS:
            return False
        if not state.seq:
            return True
        return graph.hash == state.graph_hash and delivery.is_from_inside

    async def _read(self, delivery: Delivery) -> None:
        """Read what is needed, and try; where others were first again and again, under the store's lock."""
        tried = False
        try:
            if delivery.conflicts < MAX_CONFLICTS:
                await self._catch_up()
                tried = True
                self._try(delivery)
                return
            async with self._runtime.log.exclusive(self.run):
                await self._catch_up()
                tried = True
                self._try(delivery)
                while self._in_flight:
                    await self._movement()
        except asyncio.CancelledError:
            for envelope in (*delivery.envelopes, *self._envelopes):
                envelope.told.cancel()
            raise
        except Exception as problem:  # noqa: BLE001 - every sender must get it, whatever it is
            self.state = None
            if not tried:
                self._failed(delivery, problem)
        finally:
            self._task = None
            self._go_on()

    async def _catch_up(self) -> None:
        """Know the run, and what others have committed."""
        if self.state is None:
            self.state = await self._history.load()
            self._runtime.committed(self, [], self.state, own=False)
        elif self.state.seq and (news := await self._history.catch_up(self.state)):
            self._runtime.committed(self, news, self.state, own=False)
        if self.graph is None or self.graph.hash != self.state.graph_hash:
            self.graph = await self._runtime.catalog.graph_of(self.state.graph_hash)

    def _try(self, delivery: Delivery) -> None:
        """Decide it, and send off what follows."""
        try:
            decision = self._decide(delivery)
            append = decision.append
            appended = None if append is None else self._runtime.flush.append(append, patient=delivery.is_patient)
        except Exception as problem:  # noqa: BLE001 - every sender must get it, whatever it is
            self._failed(delivery, problem)
            self._go_on()
            return
        if appended is None:
            decision.answers.tell()
            self._go_on()
            return
        self._in_flight = True
        if decision.slots and self._runtime.starter is not None:
            self._runtime.starter.take_slots(decision.slots)
        appended.add_done_callback(lambda appended: self._landed(delivery, decision, appended))

    def _landed(self, delivery: Delivery, decision: Decision, appended: asyncio.Future[None]) -> None:
        """The append has met its fate."""
        self._in_flight = False
        problem = appended.exception()
        if problem is None:
            try:
                self._history.weigh(decision.answers.events)
                self._runtime.committed(self, decision.answers.events, decision.state, own=True)
            except Exception as broken:  # noqa: BLE001 - every sender must get it, whatever it is
                problem = broken
        if decision.slots and self._runtime.starter is not None:
            self._runtime.starter.take_slots(-decision.slots)
        if decision.placed is not None and self._runtime.starter is not None:
            known = not isinstance(problem, UnknownCommit)
            self._runtime.starter.settle(self.run, decision.placed.placed, is_known=known)
        if problem is not None:
            self._failed(delivery, problem)
        else:
            decision.answers.tell()
            self._keep_snapshot()
        self._move()
        self._go_on()

    def _failed(self, delivery: Delivery, problem: BaseException) -> None:
        """Have it tried again where that may help; else tell every sender."""
        self.state = None
        if isinstance(problem, UnknownCommit):
            self._runtime.unknown_commit(self.run)
        elif delivery.is_spoilt_by(problem):
            self._again.extendleft([Delivery([each]) for each in reversed(delivery.envelopes)])
            return
        elif delivery.heeds(problem):
            self._again.appendleft(delivery)
            return
        if isinstance(problem, SeqConflict):
            problem = SeqConflict(f"Run {self.run} changed again and again; nothing was written.")
        for envelope in delivery.envelopes:
            if not envelope.told.done():
                envelope.told.set_exception(problem)

    def _keep_snapshot(self) -> None:
        """Write the state down where that pays, before anything else is decided."""
        state, graph = self.state, self.graph
        if state is None or graph is None or self._task is not None or not self._history.snapshot_pays(state, graph):
            return

        async def keep() -> None:
            try:
                await self._history.snapshot(state)
            except StoreError as problem:
                log.info(
                    "holdfast could not keep a snapshot of run %s, and goes on without: %s",
                    self.run,
                    problem,
                    extra={"run_id": self.run},
                )
            finally:
                self._task = None
                self._go_on()

        self._task = self._runtime.loop.create_task(keep(), name=f"holdfast-snapshot-{self.run}")

    # --- Deciding -----------------------------------------------------------------------------------------------------

    def _decide(self, delivery: Delivery) -> Decision:
        """Return the decision."""
        state, graph, starter = self.state, self.graph, self._runtime.starter
        assert state is not None
        assert graph is not None
        before = state.seq
        now_ms = max(self._runtime.now_ms(), state.at_ms)
        freed = delivery.frees
        worker = starter.worker(self.run, graph, freed=freed) if starter is not None else None
        answers = delivery.answered(graph, state, now_ms, worker)
        _, events, traces, started = answers
        placed = self._place(state, events, worker, started)
        if placed is not None:
            events += decide(graph, state, Tick(), now_ms, placed, delivery.shortages, delivery.taken)
            traces += [state.trace_id] * (len(events) - len(traces))
        if not events:
            return Decision(answers, state, None, None, 0)
        at = zip(itertools.count(before + 1), events, traces, strict=False)
        recorded = tuple([Recorded(Seq(seq), now_ms, event, trace_id) for seq, event, trace_id in at])
        changes = project(state, events, executing=worker is not None)
        self.due_at_ms = changes.run.due_at_ms
        append = Append(self.run, before, self._runtime.append_id(), recorded, changes)
        # Only what starts beyond the freed slots is to be kept from others while it is on its way.
        return Decision(answers, state, append, placed, max(0, started - freed))

    def _place(self, state: State, events: list[Event], worker: Worker | None, started: int) -> Worker | None:
        """Return the worker that starts, in the same append, the steps that have just become ready and have a place at once."""
        starter = self._runtime.starter
        if starter is None or worker is None or not state.unplaced:
            return None
        if self.graph is None or state.graph_hash != self.graph.hash or not any(_waits_for_place(event) for event in events):
            return None
        steps = starter.place(state, worker.slots - started)
        return Worker(worker.session, 0, steps) if steps else None


def _waits_for_place(event: Event) -> bool:
    return type(event) is StepReady and event.demand is not None


def _linger(envelopes: Sequence[Envelope]) -> bool:
    """True if the consequence of all of them is about to arrive too; the latest mostly shows it."""
    return envelopes[-1].lingers and all(each.lingers for each in envelopes)


def unheard(future: asyncio.Future[list[Event]]) -> None:
    """Note the end of a tick without a waiter: a conflict or a missing run is no news, the sweep will look again."""
    if not future.cancelled() and (problem := future.exception()) is not None and not isinstance(problem, HoldfastError):
        log.error("holdfast: a look at a run failed: %s", problem, exc_info=problem)
