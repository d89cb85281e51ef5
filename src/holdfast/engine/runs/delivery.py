"""From commands to a durable append: those of one run that are decided together, again and again until they are committed,
refused or known to be impossible; and the appends of many runs, carried to the store together: while one flush is on its way to
the disk, the next gathers.

Never here: reading what is to be known before, whose turn it is, retrying a conflict (the mailbox does).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import cached_property
from typing import Final, NamedTuple

import msgspec

from holdfast.core.decide import decide
from holdfast.core.facts.commands import (
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
    Worker,
)
from holdfast.core.facts.events import Event, StepStarted
from holdfast.core.facts.graph import Graph
from holdfast.core.facts.postings import postings
from holdfast.core.facts.state import State
from holdfast.core.values import claim
from holdfast.core.values.ids import CallId, EffectKey
from holdfast.engine.runs.observing import NOBODY, Observers
from holdfast.errors import (
    EffectKeyTaken,
    HoldfastError,
    OverLimit,
    SeqConflict,
    SharedLockLost,
    SharedValueMoved,
    StoreError,
    UnknownCommit,
    Unstorable,
)
from holdfast.ports import Append, Clock, Flushed, Log

MOST_CONFLICTS: Final = 3
"""Then it is decided under the store's lock: a hot run cannot starve a person's decision."""
_MOST_REFUSALS: Final = 2
"""Of several commands together by one scope."""
OF_ATTEMPTS: Final = (AttemptCommand, CallCommand)
FROM_INSIDE: Final = (StartRun, *OF_ATTEMPTS, JudgeGuards)
"""Commands of this process's own work, which knows where its run is."""
_LEAVING: Final = (CompleteStep, FailAttempt, SuspendStep, StopStep)
"""What an attempt says last."""

MOST_APPENDS: Final = 256
"""One flush; more wait for the next, so that a commit's latency stays bounded."""
_PAUSE_S: Final = 0.25
PATIENCE_S: Final = 5.0
"""How long those wait for a store that is away who can be told that nothing is known: a person, a program outside."""
_MOST_PATIENCE_S: Final = 600.0
"""How long the work of this process waits. A step that cannot know whether its intent was taken can do nothing else."""


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
        """Tell the senders. A refusal too is told only when all is durable: it may be for what the envelope before it has
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
        self.taken: dict[EffectKey, Taken] = {}

    def heeds(self, problem: BaseException) -> bool:
        """Return True if it is to be tried once more, knowing of `problem`."""
        match problem:
            case SeqConflict():
                self.conflicts += 1
                return self.conflicts <= MOST_CONFLICTS
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
                self.taken[EffectKey(problem.key)] = Taken(CallId(problem.call), problem.args_hash, problem.response)
                return True
            case _:
                return False

    def is_spoilt_by(self, problem: BaseException) -> bool:
        """True if one of several may have spoilt it for the others, so that each is decided by itself."""
        if len(self.envelopes) < 2:
            return False
        if isinstance(problem, OverLimit):
            return self.refused[problem.scope] >= _MOST_REFUSALS
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
            if caused and (asker := getattr(envelope.command, "by", claim.NOBODY)).trace_id is not None:
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
            while self._waiting:  # whoever was ready when the first of them came, has come by now
                batch, self._waiting = self._waiting[:MOST_APPENDS], self._waiting[MOST_APPENDS:]
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
            self._observers.notify(Flushed(len(batch), fates.count(None), self._clock.monotonic_s() - since_s))
        for each, fate in zip(batch, fates, strict=True):
            if fate is not None:
                _fail([each], fate)
            elif not each.done.done():
                each.done.set_result(None)

    async def _until_known(self, batch: list[_Waiting], since_s: float) -> list[HoldfastError | None]:
        """A commit whose reply was lost is sent again under the same ids until somebody acknowledges it.

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
            if away_s >= _MOST_PATIENCE_S or all(each.done.done() for each in batch):
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
            each.done.exception()  # asyncio complains of one that nobody has seen; who stops now will never look
