"""Commands of one run that are decided together, again and again until they are committed, refused, or known to be impossible.

Never here: reading what is to be known before, appending what comes of it, whose turn it is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
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
from holdfast.core.values.claim import NOBODY
from holdfast.core.values.ids import CallId, EffectKey
from holdfast.errors import EffectKeyTaken, HoldfastError, OverLimit, SeqConflict, SharedLockLost, SharedValueMoved, Unstorable

MOST_CONFLICTS: Final = 3
"""Then it is decided under the store's lock: a hot run cannot starve a person's decision."""
_MOST_REFUSALS: Final = 2
"""Of several commands together by one scope."""
OF_ATTEMPTS: Final = (AttemptCommand, CallCommand)
FROM_INSIDE: Final = (StartRun, *OF_ATTEMPTS, JudgeGuards)
"""Commands of this process's own work, which knows where its run is."""
_LEAVING: Final = (CompleteStep, FailAttempt, SuspendStep, StopStep)
"""What an attempt says last."""


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


Answer = tuple[Envelope, list[Event] | HoldfastError]


class Answers(NamedTuple):
    """What the envelopes of a delivery are answered, once all of it is durable; the events of all, in which trace each came to
    be, and how many steps they start, those left out that were placed: slots are kept for them already."""

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
        """Whether it is to be tried once more, knowing of `problem`."""
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
        """Whether one of several may have spoilt it for the others, so that each is to be decided by itself."""
        if len(self.envelopes) < 2:
            return False
        if isinstance(problem, OverLimit):
            return self.refused[problem.scope] >= _MOST_REFUSALS
        return isinstance(problem, Unstorable | SharedValueMoved | SharedLockLost)

    @property
    def starts(self) -> bool:
        """Whether it begins its run."""
        return any(isinstance(each.command, StartRun) for each in self.envelopes)

    @property
    def is_from_inside(self) -> bool:
        return all(isinstance(each.command, FROM_INSIDE) for each in self.envelopes)

    @property
    def is_patient(self) -> bool:
        """Whether somebody sent it who can do nothing else than wait."""
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
            if caused and (asker := getattr(envelope.command, "by", NOBODY)).trace_id is not None:
                state.trace_id = asker.trace_id
            events += caused
            traces += [state.trace_id] * len(caused)
            if shortages:
                _take_up(shortages, state, caused)
            if envelope.graph is not None and envelope.graph.hash == state.graph_hash:
                graph = envelope.graph  # what follows in this batch follows a migration
        return Answers(answers, events, traces, started)


def _take_up(shortages: dict[str, Shortage], state: State, events: list[Event]) -> None:
    """What these events take of the little that is left in scopes, the next envelope cannot have. Who has lent keeps as much,
    which the next cannot borrow either."""
    for posting in postings(state, events):
        if (known := shortages.get(posting.scope)) is not None:
            left = known.left - posting.total + posting.limit_change - posting.lends
            shortages[posting.scope] = msgspec.structs.replace(known, left=left, held=known.held + posting.held)
