"""What a run's history amounts to: the state, and `evolve`, which folds one event into it.

`evolve` knows no graph and refuses nothing: it is total over known events and raises CorruptHistory only for a history
that no rule can have written. It folds in place; the holder of a state owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, TypeVar

import msgspec

from holdfast.core import events as ev
from holdfast.core.demand import Demand
from holdfast.core.ids import (
    CallId,
    EffectKey,
    GateId,
    NodeName,
    Path,
    RunId,
    Seq,
    SessionId,
    StepId,
    comes_from,
    node_of,
    step_id,
    visit_of,
)
from holdfast.core.money import Budget
from holdfast.core.payload import NULL, Payload
from holdfast.core.policies import GUARD, RATE_LIMIT, ErrorRecord
from holdfast.errors import CorruptHistory

REPEATABLE: Final = frozenset({"read", "idempotent"})
"""The effect policies under which a call of unknown outcome may simply be made again, under its key."""

EFFECT: Final = "effect"
"""What the scope is called in which a run waits for another run's effect: `effect/<key>`."""

FOLD_VERSION: Final = 8
"""Raised whenever a change of State or evolve makes old snapshots wrong; they are then folded anew."""

FUNCTION: Final = "step"
"""The kind of the operation that is a call of a function whose result is recorded: users call it a step of their flow."""
VERSION: Final = "version"
"""The kind of what a flow was told about the version of its code."""

KEPT_FROM_A_PLACE: Final = frozenset({"tool", "model", "gate", "signal", "sleep", FUNCTION})
KEPT_FROM_THE_BEGINNING: Final = frozenset({"tool", "signal"})
"""The completed operations whose outcomes outlive their journal, for whatever asks for the same again: where a step goes on
with other code, and where it is done again from its beginning. An effect is never done twice; a signal comes only once."""

StepStatus = Literal["ready", "active", "suspended", "retrying", "completed", "failed", "skipped", "cancelled"]
"""- `ready`: may start
- `active`: an attempt is running
- `suspended`: waits, or may go on with its next attempt
- `retrying`: failed, and will be tried again at a recorded time
- `completed`: has its output
- `failed`: failed for good
- `skipped`: will not happen
- `cancelled`: was called off, or superseded
"""
FINISHED: Final = frozenset({"completed", "failed", "skipped"})
"""What handlers see of a step begins here."""
OPEN_STEPS: Final = frozenset({"ready", "active", "suspended", "retrying"})

OperationStatus = Literal["open", "deferred", "in_doubt", "unverified", "retrying", "reopened", "done", "failed"]
"""- `open`: its outcome will be brought
- `deferred`: waits for money or tokens, or for the same effect in flight elsewhere
- `in_doubt`: a person is asked what became of it
- `unverified`: the tool's own lookup is to be asked
- `retrying`: failed, and will be tried again at a recorded time
- `reopened`: is to be sent, perhaps again
- `done`: has its outcome
- `failed`: ended in an error
"""


Headroom = Literal["now", "later", "never"]


class Operation(msgspec.Struct, omit_defaults=True):
    """One thing a step asked for, at its place in the step's journal."""

    kind: str
    name: str
    args_hash: str
    status: OperationStatus = "open"
    tries: int = 0
    call: CallId | None = None
    gate: GateId | None = None
    due_at_ms: int | None = None
    since_ms: int = 0
    needed_nanousd: int = 0
    needed_tokens: int = 0
    blocked: bool = False
    scope: str | None = None
    other: CallId | None = None
    key: EffectKey | None = None
    outcome: Payload | None = None
    error: ErrorRecord | None = None
    failures: int = 0
    """How often it was to be tried again because it had failed; rate limits are counted apart."""
    rate_limited: int = 0

    @property
    def has_come_to_something(self) -> bool:
        """Whether it has its outcome, be it too late for who saw it fail."""
        return self.status == "done" or (self.status == "failed" and self.outcome is not None)


class PoolWait(msgspec.Struct, frozen=True):
    """A call that waits for what it takes of pools."""

    pools: tuple[str, ...]
    since_ms: int


class Step(msgspec.Struct, omit_defaults=True):
    """The current visit of a node."""

    id: StepId
    status: StepStatus = "ready"
    attempt: int = 0
    session: SessionId | None = None
    since_ms: int = 0
    began_ms: int = 0
    """When its first attempt began; 0 before that, and where an older version has folded it."""
    worker: SessionId | None = None
    """Who had the latest attempt."""
    failures: int = 0
    rate_limited: int = 0
    losses: int = 0
    woken: bool = False
    retry_at_ms: int | None = None
    output: Payload = NULL
    decisions: tuple[str, ...] | None = None
    error: ErrorRecord | None = None
    demand: Demand | None = None
    """What it asks for; it starts only where it was placed."""
    absorbed: bool = False
    parked: bool = False
    failed_path: Path | None = None
    reason: str | None = None
    """Why it was skipped or called off, or what the person said who decided its gate."""
    called_off: bool = False
    """It was cancelled because its run failed, and comes back with it."""
    provisional: bool = False
    """It has completed, and is begun again should its run fail and be taken up."""
    generation: int = 0
    """How often something was taken out of its journal: what is asked for anew has names of its own."""
    stopped: Path | None = None
    """Where its code did not fit its journal, as far as is known."""
    stops: int = 0
    """How often it did not, since a person last had it tried."""
    kept: dict[Path, Operation] = {}
    """What it had completed in a journal that was dropped."""
    ended_seq: int = 0
    conversation: Payload | None = None
    """Its talk with a model, for its next visit."""
    journal: dict[Path, Operation] = {}
    pending: dict[Path, None] = {}
    """The places in the journal whose operations have no outcome: a search for them need not go through it all."""
    pool_waits: dict[Path, PoolWait] = {}
    """What its attempt waits for before it makes calls, by their places."""

    def named(self, path: Path) -> Path:
        """`path`, as the names of calls and gates have it that are new there."""
        return Path(f"{path}~{self.generation}") if self.generation else path

    def unsettled(self) -> Iterator[tuple[Path, Operation]]:
        """The operations that have no outcome. Not to be gone through while events are folded."""
        journal = self.journal
        return ((path, journal[path]) for path in self.pending)


class OpenCall(msgspec.Struct, omit_defaults=True):
    """A call that left, or may have left, and has no outcome yet.

    `doubted`: nobody here will bring one. `reopened`: it is to be called again under its key, and its outcome is
    accepted until then. `at_ms` is the last moment at which it may have left: of the intent, or of the doubt.
    """

    kind: Literal["model", "effect"]
    step: StepId
    attempt: int
    path: Path
    name: str
    at_ms: int
    session: SessionId | None = None
    intended_at_ms: int = 0
    doubted: bool = False
    reopened: bool = False
    hold_nanousd: int = 0
    tokens: int = 0
    scoped: bool = False
    key: EffectKey | None = None
    named: bool = False
    policy: str = "once"
    args_hash: str = ""
    settles_within_s: float | None = None
    compensation: str | None = None
    compensates: CallId | None = None
    request: Payload = NULL
    error: ErrorRecord | None = None

    @property
    def hold(self) -> ev.Hold | None:
        """What closing it gives back in the scopes above the run; None for what was held before there were any."""
        return ev.Hold(self.hold_nanousd, self.intended_at_ms, self.doubted) if self.scoped else None

    @property
    def repeatable(self) -> bool:
        """Whether an effect of unknown outcome may be called again under its key without anybody being asked."""
        return self.doubted and (self.reopened or self.policy in REPEATABLE)


class NamedEffect(msgspec.Struct, omit_defaults=True):
    """What the run knows under an effect's own name."""

    args_hash: str
    call: CallId
    response: Payload | None = None


class Compensable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A completed effect that can be undone."""

    call: CallId
    tool: str
    compensation: str
    request: Payload
    response: Payload


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A guard that has not spoken yet."""

    step: StepId
    target: NodeName | None
    guard: str


class Gate(msgspec.Struct, omit_defaults=True):
    """An open question to a person."""

    opened: ev.GateOpened
    at_ms: int
    reminders: int = 0
    escalated_at_ms: int | None = None


class Decided(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who answered a gate, how and when."""

    decision: str
    at_ms: int
    by: str | None = None


class Signal(msgspec.Struct, frozen=True):
    """A signal that no step has asked for yet."""

    name: str
    number: int
    data: Payload


class Derived:
    """Something that follows from a state and is kept beside it in memory, because to work it out anew for each step would
    cost as much as the run has nodes. It is no part of the state: never stored, never compared, made again when the state
    is loaded. `moved` are the nodes of which the step, or what guards say about it, has changed since it was brought up to
    date."""

    def __init__(self) -> None:
        self.moved: dict[NodeName, None] = {}


class _Timed(Derived):
    """The unfinished steps about which time may say something: those that are to be tried again or have operations without
    an outcome. Steps that only wait for somebody to start them may be thousands."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[NodeName] = set()


D = TypeVar("D", bound=Derived)


class State(msgspec.Struct, omit_defaults=True, dict=True):
    """A run, folded."""

    run: RunId = RunId("")
    seq: Seq = Seq(0)
    at_ms: int = 0
    started_at_ms: int = 0
    tenant: str = ""
    team: str | None = None
    workflow: str = ""
    version: int = 0
    graph_hash: str = ""
    key: str | None = None
    by: str | None = None
    os_user: str = ""
    client: str = ""
    trace_id: str | None = None
    """In which trace the latest request came that named one. No event says so: the store keeps it beside each."""
    input: Payload = NULL
    input_digest: str = ""
    price_fingerprint: str | None = None
    counted: bool = False
    awaits: str | None = None
    """The scope in which the run waits for its place among the active ones."""

    budget: Budget = msgspec.field(default_factory=Budget)
    max_steps: int = 0
    max_tokens: int | None = None
    max_active_s: float | None = None
    max_lifespan_s: float | None = None
    steps_started: int = 0
    tokens_used: int = 0
    tokens_held: int = 0
    tokens_in_doubt: int = 0
    active_ms: int = 0
    active_since_ms: int | None = None
    lifespan_passed: bool = False

    ended: Literal["", "completed", "failed", "cancelled"] = ""
    ended_at_ms: int = 0
    phase: Literal["", "failing", "cancelling"] = ""
    paused: bool = False
    output: Payload = NULL
    parts: dict[str, Payload] = {}
    error: ErrorRecord | None = None
    reason: str | None = None
    errors: list[ErrorRecord] = []
    reopened: int = 0
    """How often somebody took it up again after it had failed."""

    steps: dict[NodeName, Step] = {}
    previous: dict[NodeName, Step] = {}
    """The visits before, of nodes that a loop has gone back over; of each the latest, without its journal."""
    visits: dict[NodeName, int] = {}
    unfinished: dict[NodeName, None] = {}
    startable: dict[NodeName, None] = {}
    unplaced: dict[NodeName, None] = {}
    """Steps that may start as soon as there is a place for what they demand."""
    active: dict[NodeName, None] = {}
    summoned: dict[NodeName, None] = {}
    asked: dict[str, Question] = {}
    verdicts: dict[str, bool] = {}
    joins: dict[NodeName, int | None] = {}

    calls: dict[CallId, OpenCall] = {}
    abandoned: dict[CallId, None] = {}
    named: dict[EffectKey, NamedEffect] = {}
    claims: dict[CallId, EffectKey] = {}
    """The calls of this run that have taken a tenant-wide effect key."""
    undoing: dict[CallId, CallId] = {}
    """Calls that undo such an effect, and which: then the key is free again."""
    compensable: list[Compensable] = []
    gates: dict[GateId, Gate] = {}
    decided: dict[GateId, Decided] = {}
    gates_opened: int = 0
    signals: list[Signal] = []
    signals_received: int = 0
    deferred: dict[str, None] = {}
    short: dict[str, None] = {}
    """Operations that wait outside the run, by their place: for room in a scope, or for another run's effect."""

    def derived(self, kind: type[D]) -> D:
        """What is kept of this kind beside the state; made, with every node moved, where there is none yet."""
        found: D | None = self.__dict__.get(kind.__name__)
        if found is None:
            found = self.__dict__[kind.__name__] = kind()
            found.moved.update(dict.fromkeys((*self.steps, *self.previous)))
        return found

    def timed(self) -> list[NodeName]:
        """The unfinished steps that are to be tried again, have operations without an outcome or wait for pools, by name."""
        timed = self.derived(_Timed)
        for name in timed.moved:
            step = self.steps.get(name)
            if (
                step is not None
                and name in self.unfinished
                and (step.status == "retrying" or step.pending or step.pool_waits)
            ):
                timed.names.add(name)
            else:
                timed.names.discard(name)
        timed.moved.clear()
        return sorted(timed.names) if timed.names else []

    def step(self, step: StepId) -> Step | None:
        """The step, if it is the current visit of its node."""
        current = self.steps.get(node_of(step))
        return current if current is not None and current.id == step else None

    def short_operations(self) -> list[tuple[Step, Path, Operation]]:
        """What waits for something outside the run: room in a scope, or another run's effect."""
        return [found for place in self.short if (found := self.operation_at(place)) is not None]

    def operation_at(self, place: str) -> tuple[Step, Path, Operation] | None:
        """What stands at a place, `step:path`; None if the step is no longer there, or does not ask for it any more."""
        id_, _, path = place.rpartition(":")
        step = self.step(StepId(id_))
        op = step.journal.get(Path(path)) if step is not None else None
        return (step, Path(path), op) if step is not None and op is not None else None

    def headroom(self, hold_nanousd: int, tokens: int) -> Headroom:
        """Whether a model call of this worst case fits the limits: now, when calls in flight have left enough, or not."""
        spare = None if self.max_tokens is None else self.max_tokens - self.tokens_used - self.tokens_in_doubt
        if self.budget.fits(hold_nanousd) and (spare is None or tokens <= spare - self.tokens_held):
            return "now"
        if self.budget.could_fit_later(hold_nanousd) and (spare is None or tokens <= spare):
            return "later"
        return "never"


MOST_ERRORS_KEPT: Final = 100
"""The state carries the latest errors; all of them are in the history."""
MOST_DECIDED_KEPT: Final = 1000
"""The state carries the latest decisions, for those who come second; all of them are in the history. Without a bound a
loop with a gate in it would make the state, and every resume, as long as the run."""


def verdict_key(step: StepId, target: NodeName | None, guard: str) -> str:
    return f"{step}>{target}:{guard}" if target is not None else f">{step}:{guard}"


def evolve(state: State, event: ev.Event, at_ms: int) -> State:
    """`state` with `event`, which happened at `at_ms`, folded into it (in place)."""
    try:
        fold = _FOLDS[type(event)]
    except KeyError:
        raise CorruptHistory(f"run {state.run}: an event of unknown kind {type(event).__name__}") from None
    state.seq = Seq(state.seq + 1)
    state.at_ms = at_ms
    try:
        fold(state, event, at_ms)
    except (LookupError, AttributeError, ValueError, StopIteration) as problem:
        raise CorruptHistory(
            f"run {state.run}: event {state.seq} ({type(event).__name__}) does not follow from the events before it"
            f" ({problem!r})"
        ) from problem
    return state


# --- The run ----------------------------------------------------------------------------------------------------------


def _run_started(s: State, e: ev.RunStarted, at_ms: int) -> None:
    s.run, s.tenant, s.workflow, s.version, s.graph_hash = e.run, e.tenant, e.workflow, e.version, e.graph_hash
    s.input, s.input_digest, s.key, s.by = e.input, e.input_digest, e.key, e.by
    s.os_user, s.client = e.os_user, e.client
    s.price_fingerprint, s.team = e.price_fingerprint, e.team
    s.counted, s.awaits = e.counted, e.awaits
    s.started_at_ms = at_ms
    s.budget.limit_nanousd = e.limit_nanousd
    s.max_steps, s.max_tokens, s.max_active_s, s.max_lifespan_s = (
        e.max_steps,
        e.max_tokens,
        e.max_active_s,
        e.max_lifespan_s,
    )


def _run_admitted(s: State, e: ev.RunAdmitted, at_ms: int) -> None:
    s.counted, s.awaits = True, None


def _admission_deferred(s: State, e: ev.AdmissionDeferred, at_ms: int) -> None:
    s.awaits = e.scope


def _run_paused(s: State, e: ev.RunPaused, at_ms: int) -> None:
    s.paused = True


def _run_resumed(s: State, e: ev.RunResumed, at_ms: int) -> None:
    s.paused = False
    for name in s.active:
        s.steps[name].woken = True  # it may be leaving because the pause refused it something


def _run_failing(s: State, e: ev.RunFailing, at_ms: int) -> None:
    s.phase, s.error = "failing", e.error
    s.asked.clear()


def _run_cancelling(s: State, e: ev.RunCancelling, at_ms: int) -> None:
    s.phase, s.reason = "cancelling", e.reason
    s.asked.clear()


def _run_completed(s: State, e: ev.RunCompleted, at_ms: int) -> None:
    s.output, s.parts = e.output, e.parts
    _end(s, "completed", at_ms)


def _run_failed(s: State, e: ev.RunFailed, at_ms: int) -> None:
    s.error = e.error
    _end(s, "failed", at_ms)


def _run_cancelled(s: State, e: ev.RunCancelled, at_ms: int) -> None:
    s.reason = e.reason
    _end(s, "cancelled", at_ms)


def _end(s: State, how: Literal["completed", "failed", "cancelled"], at_ms: int) -> None:
    s.ended, s.ended_at_ms = how, at_ms
    s.startable.clear()
    s.unplaced.clear()


def _run_reopened(s: State, e: ev.RunReopened, at_ms: int) -> None:
    if s.error is not None and s.error.error_class == GUARD:
        _forget_denials(s, s.error.node)  # a guard broke: what counted as its word was none
    s.ended, s.ended_at_ms, s.phase, s.error = "", 0, "", None
    s.counted, s.awaits = e.counted, e.awaits
    s.reopened += 1
    s.joins.clear()  # those that were waited for are waited for anew
    for id_ in e.superseded:
        step = s.steps.pop(node_of(id_))
        s.visits[node_of(id_)] -= step.attempt == 0  # its visit has not begun yet
        _unjudge(s, id_)
    s.__dict__.clear()  # so much has changed that what is kept beside it is worked out anew


def _forget_denials(s: State, node: str) -> None:
    about = (f">{node}:", f">{node}#")
    for key in [key for key, allowed in s.verdicts.items() if not allowed and any(part in key for part in about)]:
        del s.verdicts[key]


def _begin_anew(s: State, step: Step) -> None:
    """Forget what a step came to, but for its journal. A person whom it asked, and whose answer nobody waited for any more,
    is asked anew."""
    step.failures = step.rate_limited = step.losses = 0
    step.retry_at_ms, step.reason, step.decisions = None, None, None
    step.stops = 0
    for path in [*step.journal] if step.provisional else ():
        _reopen(step, path)  # its code made an outcome of what had failed in it
    step.output, step.called_off, step.provisional = NULL, False, False
    _forget_deferred(s, step.id)
    for path, op in step.unsettled():
        if op.status == "deferred":  # there was no room then: it asks again, and until then it waits for none
            op.scope, op.other, op.due_at_ms, op.blocked = None, None, None, False
            _mark(step, path, op, "reopened")
    gone = [path for path, op in step.unsettled() if op.kind == "gate" and op.gate not in s.gates]
    for path in gone:
        del step.journal[path], step.pending[path]
    step.generation += bool(gone)
    _unjudge(s, step.id)


def _run_migrated(s: State, e: ev.RunMigrated, at_ms: int) -> None:
    s.version, s.graph_hash = e.version, e.graph_hash
    s.asked.clear()  # guards of the old graph; those of the new one are asked anew


def _limit_raised(s: State, e: ev.LimitRaised, at_ms: int) -> None:
    match e.limit:
        case "cost":
            s.budget.limit_nanousd = e.value
        case "steps":
            s.max_steps = e.value
        case "tokens":
            s.max_tokens = e.value
        case "active":
            s.max_active_s = e.value
            for name in s.unfinished:
                _wake(s, s.steps[name])  # those that left, or are leaving, because they were refused something
        case _:
            s.max_lifespan_s = e.value
            s.lifespan_passed = False
    _wake_deferred(s, all_calls=True)


def _lifespan_passed(s: State, e: ev.LifespanPassed, at_ms: int) -> None:
    s.lifespan_passed = True


# --- Steps ------------------------------------------------------------------------------------------------------------


def _visit(s: State, id_: StepId, status: StepStatus, at_ms: int, demand: Demand | None = None) -> Step:
    """The step `id_`, begun now if it is a new visit."""
    name = node_of(id_)
    step = s.steps.get(name)
    if step is None or step.id != id_:
        s.steps.pop(name, None)
        for each in s.__dict__.values():
            each.moved.pop(name, None)  # it comes last again, as in the steps
        step = s.steps[name] = Step(id_, journal={}, demand=demand)
        s.visits[name] = visit_of(id_)
        s.summoned.pop(name, None)
        s.joins.pop(name, None)
    _move(s, name, step, status, at_ms)
    return step


def _note_moved(s: State, name: NodeName) -> None:
    for each in s.__dict__.values():
        each.moved[name] = None


def _move(s: State, name: NodeName, step: Step, status: StepStatus, at_ms: int) -> None:
    """Give a step its status, with everything that is looked up by it."""
    _note_moved(s, name)
    step.status, step.since_ms, step.parked = status, at_ms, False
    if step.pool_waits:
        step.pool_waits = {}  # its attempt is over, or another begins
    if status != "active":
        step.stopped = None
    if status in OPEN_STEPS:
        s.unfinished[name] = None
    else:
        s.unfinished.pop(name, None)
    if status == "active":
        s.active[name] = None
        if s.active_since_ms is None:
            s.active_since_ms = at_ms
    else:
        step.session = None
        if name in s.active:
            del s.active[name]
            if not s.active and s.active_since_ms is not None:
                s.active_ms += max(0, at_ms - s.active_since_ms)
                s.active_since_ms = None
    if status == "ready":
        _may_start(s, name, step)
    else:
        s.startable.pop(name, None)
        s.unplaced.pop(name, None)
        step.woken = False


def _may_start(s: State, name: NodeName, step: Step) -> None:
    """Note that a step waits for nothing but somebody to start it, or a place to start in."""
    (s.startable if step.demand is None else s.unplaced)[name] = None


def _wake(s: State, step: Step) -> None:
    """Let a suspended step go on: something that it waited for has come."""
    if step.status == "suspended":
        step.woken = True
        _may_start(s, node_of(step.id), step)
    elif step.status == "active":
        step.woken = True  # it is just leaving; its suspension will find this


def _step_ready(s: State, e: ev.StepReady, at_ms: int) -> None:
    _visit(s, e.step, "ready", at_ms, e.demand)


def _step_started(s: State, e: ev.StepStarted, at_ms: int) -> None:
    step = _visit(s, e.step, "active", at_ms)
    if step.attempt == 0:
        s.steps_started += 1
        step.began_ms = at_ms
    step.attempt, step.session, step.worker, step.retry_at_ms = e.attempt, e.session, e.session, None


def _step_suspended(s: State, e: ev.StepSuspended, at_ms: int) -> None:
    step = s.steps[node_of(e.step)]
    # What came while the attempt was leaving lets it go on at once; what a pause sent away comes back with its end.
    go_on = step.woken or s.paused or e.yields
    _move(s, node_of(e.step), step, "suspended", at_ms)
    if go_on:
        _wake(s, step)


def _step_completed(s: State, e: ev.StepCompleted, at_ms: int) -> None:
    name = node_of(e.step)
    step = s.steps[name]
    step.output, step.decisions, step.ended_seq = e.output, e.decisions, s.seq
    step.provisional = e.provisional
    if not e.provisional:
        step.journal, step.pending, step.kept = {}, {}, {}
    step.conversation = e.conversation
    _forget_deferred(s, e.step)
    _move(s, name, step, "completed", at_ms)


def _attempt_failed(s: State, e: ev.AttemptFailed, at_ms: int) -> None:
    name = node_of(e.step)
    step = s.steps[name]
    _count(step, e.error)
    step.error, step.retry_at_ms = e.error, e.retry_at_ms
    _remember(s, e.error)
    _reopen(step, e.reopens)
    _move(s, name, step, "retrying", at_ms)


def _attempt_lost(s: State, e: ev.AttemptLost, at_ms: int) -> None:
    name = node_of(e.step)
    step = s.steps[name]
    step.losses += 1
    stopped = step.stopped
    _move(s, name, step, "suspended", at_ms)
    step.stopped = stopped  # it has not got past that place
    _wake(s, step)


def _step_failed(s: State, e: ev.StepFailed, at_ms: int) -> None:
    name = node_of(e.step)
    step = s.steps[name]
    _count(step, e.error)
    step.error, step.absorbed, step.retry_at_ms = e.error, e.absorbed, None
    step.failed_path, step.output = e.path, e.output
    _remember(s, e.error)
    _forget_deferred(s, e.step)
    _move(s, name, step, "failed", at_ms)
    step.parked = e.parked


def _count(step: Step, error: ErrorRecord) -> None:
    """Rate limits have a bound of their own."""
    if error.error_class == RATE_LIMIT:
        step.rate_limited += 1
    else:
        step.failures += 1


def _step_replayed(s: State, e: ev.StepReplayed, at_ms: int) -> None:
    name = node_of(e.step)
    step = s.steps[name]
    _begin_anew(s, step)
    _reopen(step, e.reopens)
    _move(s, name, step, "suspended", at_ms)
    _wake(s, step)


def _step_stopped(s: State, e: ev.StepStopped, at_ms: int) -> None:
    name = node_of(e.step)
    step = s.steps[name]
    _move(s, name, step, "suspended" if e.retry_at_ms is None else "retrying", at_ms)
    step.stopped, step.retry_at_ms = e.path, e.retry_at_ms
    step.stops += 1


def _journal_dropped(s: State, e: ev.JournalDropped, at_ms: int) -> None:
    name = node_of(e.step)
    step = s.steps[name]
    keeps = KEPT_FROM_THE_BEGINNING if e.path is None else KEPT_FROM_A_PLACE
    for path in [path for path in step.journal if e.path is None or comes_from(path, e.path)]:
        op = step.journal.pop(path)
        step.pending.pop(path, None)
        s.deferred.pop(f"{step.id}:{path}", None)
        s.short.pop(f"{step.id}:{path}", None)
        if op.has_come_to_something and op.kind in keeps:
            op.status, op.error = "done", None
            step.kept[step.named(path)] = op
    step.generation += 1
    step.stops, step.retry_at_ms = 0, None
    _move(s, name, step, "suspended", at_ms)
    _wake(s, step)


def _operation_reused(s: State, e: ev.OperationReused, at_ms: int) -> None:
    step = s.steps[node_of(e.step)]
    step.journal[e.path] = step.kept.pop(e.kept)
    step.stopped = None
    _wake(s, step)  # the step that asked for it may have to come again to hear of it


def _step_skipped(s: State, e: ev.StepSkipped, at_ms: int) -> None:
    step = _visit(s, e.step, "skipped", at_ms)
    step.reason = e.reason


def _step_cancelled(s: State, e: ev.StepCancelled, at_ms: int) -> None:
    step = _visit(s, e.step, "cancelled", at_ms)
    step.reason, step.called_off = e.reason, s.phase == "failing"
    _forget_deferred(s, e.step)


def _loop_taken(s: State, e: ev.LoopTaken, at_ms: int) -> None:
    for id_ in e.superseded:
        name = node_of(id_)
        step = s.steps[name]
        _forget_deferred(s, id_)
        if step.status in FINISHED:
            s.previous[name] = _as_it_was(step)
        else:
            s.previous.pop(name, None)
        _move(s, name, step, "cancelled", at_ms)
        del s.steps[name]
        _unjudge(s, id_)
    for name in e.bygone:
        s.previous.pop(name, None)
        _note_moved(s, name)
    for name in e.rearmed:
        s.joins.pop(name, None)
        s.summoned.pop(name, None)
        _unjudge(s, step_id(name, s.visits.get(name, 0) + 1))
    s.summoned[e.target] = None


def _as_it_was(step: Step) -> Step:
    """What a later visit may want to know of this one."""
    return Step(
        step.id, step.status, output=step.output, decisions=step.decisions, error=step.error, reason=step.reason,
        ended_seq=step.ended_seq, conversation=step.conversation,
    )  # fmt: skip


def _unjudge(s: State, id_: StepId) -> None:
    """Forget what guards said, or were asked, about a step that no longer counts."""
    for known in (s.verdicts, s.asked):
        for key in [key for key in known if key.startswith((f"{id_}>", f">{id_}:"))]:
            del known[key]
    _note_moved(s, node_of(id_))


def _guard_asked(s: State, e: ev.GuardAsked, at_ms: int) -> None:
    s.asked[verdict_key(e.step, e.target, e.guard)] = Question(e.step, e.target, e.guard)


def _guard_judged(s: State, e: ev.GuardJudged, at_ms: int) -> None:
    s.asked.pop(verdict_key(e.step, e.target, e.guard), None)
    s.verdicts[verdict_key(e.step, e.target, e.guard)] = e.allowed
    _note_moved(s, node_of(e.step))


def _join_opened(s: State, e: ev.JoinOpened, at_ms: int) -> None:
    s.joins[e.node] = e.due_at_ms


def _join_timed_out(s: State, e: ev.JoinTimedOut, at_ms: int) -> None:
    s.joins[e.node] = None


def _remember(s: State, error: ErrorRecord) -> None:
    s.errors.append(msgspec.structs.replace(error, trace=None))  # the step and the history have it
    if len(s.errors) > MOST_ERRORS_KEPT:
        del s.errors[0]


def _reopen(step: Step, path: Path | None) -> None:
    """Forget the failure at `path`, so that the next attempt tries that operation again; its tries go on counting.

    Where the outcome came after all, there is nothing to try.
    """
    op = step.journal.get(path) if path is not None else None
    if path is not None and op is not None and op.status == "failed":
        op.error = None
        op.failures = op.rate_limited = 0  # its own policy begins anew
        _mark(step, path, op, "done" if op.has_come_to_something else "reopened")


# --- Operations -------------------------------------------------------------------------------------------------------


def _operation(
    s: State, id_: StepId, path: Path, kind: str, name: str, args_hash: str, at_ms: int,
    status: OperationStatus = "open",
) -> Operation:  # fmt: skip
    step = s.steps[node_of(id_)]
    op = step.journal.get(path)
    if op is None:
        op = step.journal[path] = Operation(kind, name, args_hash)
        step.stopped = None  # its code has got past all that is known
    op.args_hash, op.since_ms = args_hash, at_ms
    _mark(step, path, op, status)
    _note_moved(s, node_of(id_))
    return op


def _mark(step: Step, path: Path, op: Operation, status: OperationStatus) -> None:
    """Give an operation its status, with what is looked up by it."""
    op.status = status
    if status in ("done", "failed"):
        step.pending.pop(path, None)
        step.losses = 0  # it has got past whatever its process died of
    else:
        step.pending[path] = None


def _close(
    s: State,
    id_: StepId,
    path: Path,
    *,
    outcome: Payload | None = None,
    error: ErrorRecord | None = None,
    sender: OpenCall | None = None,
) -> None:
    """Give an operation its outcome, if its step is still there to care, and let the step go on.

    `sender` is the call that brought it, None if nobody called anything.
    """
    step = s.step(id_)
    op = step.journal.get(path) if step is not None else None
    if step is None or op is None or op.status in ("done", "failed"):
        if op is not None and op.status == "failed" and outcome is not None:
            op.outcome = outcome  # too late for who saw it fail; a retry finds it
        return
    _mark(step, path, op, "failed" if error is not None else "done")
    op.outcome, op.error, op.due_at_ms = outcome, error, None
    if sender is None or not _awaited(step, sender):
        _wake(s, step)


def _awaited(step: Step, call: OpenCall) -> bool:
    """Whether the attempt that made the call is still running: it hears of the outcome first, being who brings it."""
    return step.status == "active" and step.attempt == call.attempt and not call.doubted


def _set_open(s: State, call: OpenCall, id_: CallId, status: OperationStatus, error: ErrorRecord | None = None) -> None:
    """Give the operation that `call` was the latest sending of another status."""
    step = s.step(call.step)
    op = step.journal.get(call.path) if step is not None else None
    if step is None or op is None or op.call != id_ or op.status == "done":
        return
    op.error = error
    _mark(step, call.path, op, status)
    _note_moved(s, node_of(call.step))
    if status in ("reopened", "unverified") or (status == "failed" and not _awaited(step, call)):
        _wake(s, step)


def _value_recorded(s: State, e: ev.ValueRecorded, at_ms: int) -> None:
    op = _operation(s, e.step, e.path, e.kind, e.name or e.kind, e.args_hash, at_ms, "done")
    op.outcome = e.payload or Payload(json=msgspec.Raw(msgspec.json.encode(e.value)))
    op.error = None  # of a try before


def _function_failed(s: State, e: ev.FunctionFailed, at_ms: int) -> None:
    op = _operation(s, e.step, e.path, FUNCTION, e.name, e.args_hash, at_ms, "failed")
    op.error = e.error


def _retry_scheduled(s: State, e: ev.RetryScheduled, at_ms: int) -> None:
    step = s.steps[node_of(e.step)]
    op = step.journal[e.path]
    if op.error is not None and op.error.error_class == RATE_LIMIT:
        op.rate_limited += 1
    else:
        op.failures += 1
    op.due_at_ms, op.since_ms = e.retry_at_ms, at_ms
    _mark(step, e.path, op, "retrying")
    _note_moved(s, node_of(e.step))


def _pools_awaited(s: State, e: ev.PoolsAwaited, at_ms: int) -> None:
    step = s.steps[node_of(e.step)]
    step.pool_waits = {**step.pool_waits, e.path: PoolWait(e.pools, at_ms)}
    _note_moved(s, node_of(e.step))


def _model_call_held(s: State, e: ev.ModelCallHeld, at_ms: int) -> None:
    op = _operation(s, e.step, e.path, "model", e.model, e.args_hash, at_ms)
    s.steps[node_of(e.step)].pool_waits.pop(e.path, None)
    op.tries += 1
    op.call = e.call
    s.deferred.pop(f"{e.step}:{e.path}", None)
    _leave_scope(s, e.step, e.path, op)
    s.budget.held_nanousd += e.hold_nanousd
    s.tokens_held += e.tokens
    s.calls[e.call] = OpenCall(
        "model", e.step, e.attempt, e.path, e.model, at_ms, _session_of(s, e.step), at_ms, hold_nanousd=e.hold_nanousd,
        tokens=e.tokens, scoped=e.scoped,
    )  # fmt: skip


def _session_of(s: State, step: StepId) -> SessionId | None:
    return s.steps[node_of(step)].session


def _hold_deferred(s: State, e: ev.HoldDeferred, at_ms: int) -> None:
    op = _operation(s, e.step, e.path, "model", e.model, e.args_hash, at_ms, "deferred")
    op.needed_nanousd, op.needed_tokens = e.needed_nanousd, e.needed_tokens
    op.blocked = e.blocked
    _leave_scope(s, e.step, e.path, op)
    s.deferred[f"{e.step}:{e.path}"] = None


def _scope_exceeded(s: State, e: ev.ScopeExceeded, at_ms: int) -> None:
    op = _operation(s, e.step, e.path, "model", e.model, e.args_hash, at_ms, "deferred")
    op.needed_nanousd, op.blocked = e.needed_nanousd, e.blocked
    op.scope, op.due_at_ms = e.scope, e.due_at_ms
    s.deferred.pop(f"{e.step}:{e.path}", None)
    s.short[f"{e.step}:{e.path}"] = None


def _operation_reopened(s: State, e: ev.OperationReopened, at_ms: int) -> None:
    step = s.steps[node_of(e.step)]
    op = step.journal[e.path]
    _mark(step, e.path, op, "reopened")
    op.due_at_ms = None
    _leave_scope(s, e.step, e.path, op)
    _wake(s, step)


def _leave_scope(s: State, step: StepId, path: Path, op: Operation) -> None:
    if op.scope is not None:
        op.scope, op.other, op.due_at_ms, op.blocked = None, None, None, False
        s.short.pop(f"{step}:{path}", None)


def _free(s: State, call: OpenCall) -> None:
    if call.doubted:
        s.budget.in_doubt_nanousd -= call.hold_nanousd
        s.tokens_in_doubt -= call.tokens
    else:
        s.budget.held_nanousd -= call.hold_nanousd
        s.tokens_held -= call.tokens


def _model_call_settled(s: State, e: ev.ModelCallSettled, at_ms: int) -> None:
    call = s.calls.pop(e.call)
    _free(s, call)
    s.budget.settled_nanousd += e.cost_nanousd
    s.tokens_used += e.input_tokens + e.output_tokens
    step = s.step(call.step)
    op = step.journal.get(call.path) if step is not None else None
    if op is not None and op.call == e.call:
        _close(s, call.step, call.path, outcome=e.output, sender=call)
    _wake_deferred(s)


def _model_call_failed(s: State, e: ev.ModelCallFailed, at_ms: int) -> None:
    call = s.calls.pop(e.call)
    _free(s, call)
    _set_open(s, call, e.call, "reopened" if e.reopens else "failed", None if e.reopens else e.error)
    _wake_deferred(s)


def _model_call_in_doubt(s: State, e: ev.ModelCallInDoubt, at_ms: int) -> None:
    call = s.calls[e.call]
    s.budget.held_nanousd -= call.hold_nanousd
    s.budget.in_doubt_nanousd += call.hold_nanousd
    s.tokens_held -= call.tokens
    s.tokens_in_doubt += call.tokens
    if e.output is not None:
        _close(s, call.step, call.path, outcome=e.output, sender=call)
    else:
        _set_open(s, call, e.call, "reopened" if e.reopens else "failed", None if e.reopens else e.error)
    _doubt(call, e.error, at_ms)
    _wake_deferred(s)  # what waited for this hold must be told that it will not come back


def _doubt(call: OpenCall, error: ErrorRecord | None, at_ms: int) -> None:
    call.doubted, call.error, call.at_ms = True, error, at_ms


def _model_call_reconciled(s: State, e: ev.ModelCallReconciled, at_ms: int) -> None:
    call = s.calls.pop(e.call)
    _free(s, call)
    s.budget.settled_nanousd += e.cost_nanousd
    s.tokens_used += call.tokens  # nobody knows how many it was; never fewer than it was
    _wake_deferred(s)


def _effect_intended(s: State, e: ev.EffectIntended, at_ms: int) -> None:
    op = _operation(s, e.step, e.path, "tool", e.tool, e.args_hash, at_ms)
    op.tries += 1
    op.call, op.key = e.call, e.key
    for other in [id_ for id_, call in s.calls.items() if call.key == e.key]:
        del s.calls[other]  # this is its repeat: whatever it still brings is an orphan
        s.abandoned[other] = None
    s.calls[e.call] = OpenCall(
        "effect", e.step, e.attempt, e.path, e.tool, at_ms, _session_of(s, e.step), at_ms, key=e.key, named=e.named,
        policy=e.policy, args_hash=e.args_hash, settles_within_s=e.settles_within_s, compensation=e.compensation,
        compensates=e.compensates, request=e.request,
    )  # fmt: skip
    _leave_scope(s, e.step, e.path, op)
    if e.named:
        s.named[e.key] = NamedEffect(e.args_hash, e.call)
    if e.tenant_wide:
        s.claims[e.call] = e.key
    if e.compensates is not None and e.compensates in s.claims:
        s.undoing[e.call] = e.compensates


def _effect_reused(s: State, e: ev.EffectReused, at_ms: int) -> None:
    op = _operation(s, e.step, e.path, "tool", e.tool, e.args_hash, at_ms, "done")
    _leave_scope(s, e.step, e.path, op)
    if e.call is not None:
        s.named[e.key] = NamedEffect(e.args_hash, e.call, e.response)
    op.key, op.outcome = e.key, s.named[e.key].response


def _effect_deferred(s: State, e: ev.EffectDeferred, at_ms: int) -> None:
    op = _operation(s, e.step, e.path, "tool", e.tool, e.args_hash, at_ms, "deferred")
    op.key = e.key
    if e.call is None:
        _leave_scope(s, e.step, e.path, op)
        s.deferred[f"{e.step}:{e.path}"] = None
    else:
        op.scope, op.other = f"{EFFECT}/{e.key}", e.call
        s.deferred.pop(f"{e.step}:{e.path}", None)
        s.short[f"{e.step}:{e.path}"] = None


def _effect_completed(s: State, e: ev.EffectCompleted, at_ms: int) -> None:
    call = s.calls.pop(e.call)
    if call.named and call.key is not None:
        s.named[call.key] = NamedEffect(call.args_hash, e.call, e.response)
    if call.compensation is not None:
        s.compensable.append(Compensable(e.call, call.name, call.compensation, call.request, e.response))
    step = s.step(call.step)
    op = step.journal.get(call.path) if step is not None else None
    if op is not None and op.call == e.call:
        _close(s, call.step, call.path, outcome=e.response, sender=call)
    _wake_deferred(s)


def _effect_failed(s: State, e: ev.EffectFailed, at_ms: int) -> None:
    call = s.calls.pop(e.call)
    _unname(s, e.call, call)
    _set_open(s, call, e.call, "failed", e.error)
    _wake_deferred(s)


def _effect_released(s: State, e: ev.EffectReleased, at_ms: int) -> None:
    call = s.calls.pop(e.call)
    _unname(s, e.call, call)
    _set_open(s, call, e.call, "reopened")
    _wake_deferred(s)


def _effect_in_doubt(s: State, e: ev.EffectInDoubt, at_ms: int) -> None:
    call = s.calls[e.call]
    _doubt(call, e.error, at_ms)
    _set_open(s, call, e.call, "unverified" if call.policy == "verify" else "in_doubt", e.error)


def _effect_unanswered(s: State, e: ev.EffectUnanswered, at_ms: int) -> None:
    call = s.calls[e.call]
    _set_open(s, call, e.call, "failed", e.error)
    _doubt(call, e.error, at_ms)
    _unname(s, e.call, call)
    _wake_deferred(s)


def _effect_reopened(s: State, e: ev.EffectReopened, at_ms: int) -> None:
    call = s.calls[e.call]
    if not call.doubted:
        _doubt(call, None, at_ms)
    call.reopened = True
    _unname(s, e.call, call)
    _set_open(s, call, e.call, "reopened")
    _wake_deferred(s)


def _unname(s: State, id_: CallId, call: OpenCall) -> None:
    """Free the name of an effect that did not happen, or that may be called again: another call may take it."""
    if call.named and call.key is not None and (known := s.named.get(call.key)) is not None and known.call == id_:
        del s.named[call.key]


def _outcome_orphaned(s: State, e: ev.OutcomeOrphaned, at_ms: int) -> None:
    s.abandoned.pop(e.call, None)


def _tool_call_denied(s: State, e: ev.ToolCallDenied, at_ms: int) -> None:
    op = _operation(s, e.step, e.path, "tool", e.tool, e.args_hash, at_ms, "failed")
    op.error = e.error


def _timer_started(s: State, e: ev.TimerStarted, at_ms: int) -> None:
    op = _operation(s, e.step, e.path, "sleep", "sleep", e.args_hash, at_ms)
    op.due_at_ms = e.due_at_ms


def _timer_fired(s: State, e: ev.TimerFired, at_ms: int) -> None:
    _close(s, e.step, e.path, outcome=NULL)


def _signal_awaited(s: State, e: ev.SignalAwaited, at_ms: int) -> None:
    op = _operation(s, e.step, e.path, "signal", e.name, e.args_hash, at_ms)
    op.due_at_ms = e.due_at_ms


def _signal_received(s: State, e: ev.SignalReceived, at_ms: int) -> None:
    s.signals_received = e.number
    s.signals.append(Signal(e.name, e.number, e.data))


def _signal_delivered(s: State, e: ev.SignalDelivered, at_ms: int) -> None:
    signal = next(kept for kept in s.signals if kept.number == e.number)
    s.signals.remove(signal)
    _close(s, e.step, e.path, outcome=signal.data)


def _signal_timed_out(s: State, e: ev.SignalTimedOut, at_ms: int) -> None:
    _close(s, e.step, e.path, error=e.error)


def _wake_deferred(s: State, *, all_calls: bool = False) -> None:
    """Let those go on that wait for money or for another's effect: what they wait for may have come.

    They ask again, in the order in which they began to wait, and wait again if it has not. One for which a person is
    asked waits until there is room, or until a limit is raised (`all_calls`).
    """
    for place in list(s.deferred):
        found = s.operation_at(place)
        if found is None or found[2].status != "deferred":
            del s.deferred[place]
            continue
        step, path, op = found
        if _may_have_come(s, op) or (all_calls and op.kind == "model"):
            del s.deferred[place]
            op.blocked = False
            _mark(step, path, op, "reopened")
            _wake(s, step)


def _may_have_come(s: State, op: Operation) -> bool:
    """Whether what a deferred operation waits for may be there, or is known never to come by itself."""
    if op.kind == "model":
        room = s.headroom(op.needed_nanousd, op.needed_tokens)
        return room == "now" or (room == "never" and not op.blocked)
    known = s.named.get(op.key) if op.key is not None else None
    return known is None or known.response is not None


def _forget_deferred(s: State, step: StepId) -> None:
    for waits in (s.deferred, s.short):
        for place in [place for place in waits if place.rpartition(":")[0] == step]:
            del waits[place]


# --- People -----------------------------------------------------------------------------------------------------------


def _gate_opened(s: State, e: ev.GateOpened, at_ms: int) -> None:
    s.gates_opened += 1
    s.gates[e.gate] = Gate(e, at_ms)
    if e.step is not None and e.path is not None:
        op = _operation(s, e.step, e.path, "gate", e.reason, e.args_hash, at_ms)
        op.gate = e.gate


def _gate_reminded(s: State, e: ev.GateReminded, at_ms: int) -> None:
    s.gates[e.gate].reminders = e.number


def _gate_escalated(s: State, e: ev.GateEscalated, at_ms: int) -> None:
    s.gates[e.gate].escalated_at_ms = at_ms


def _gate_decided(s: State, e: ev.GateDecided, at_ms: int) -> None:
    gate = s.gates.pop(e.gate)
    s.decided[e.gate] = Decided(e.decision, at_ms, e.by)
    if len(s.decided) > MOST_DECIDED_KEPT:
        del s.decided[next(iter(s.decided))]
    opened = gate.opened
    if opened.completes_step and opened.step is not None and (step := s.step(opened.step)) is not None:
        step.reason = e.reason
    if opened.step is not None and opened.path is not None and not opened.completes_step:
        answer = {"decision": e.decision, "data": e.data.json, "by": e.by, "reason": e.reason}
        _close(s, opened.step, opened.path, outcome=Payload(json=msgspec.Raw(msgspec.json.encode(answer))))


def _gate_withdrawn(s: State, e: ev.GateWithdrawn, at_ms: int) -> None:
    s.gates.pop(e.gate, None)
    _wake_deferred(s)  # whom a limit's gate had stopped though there was room


_FOLDS: Final[dict[type[ev.Event], Callable[[State, Any, int], None]]] = {
    ev.RunStarted: _run_started,
    ev.RunAdmitted: _run_admitted,
    ev.AdmissionDeferred: _admission_deferred,
    ev.RunPaused: _run_paused,
    ev.RunResumed: _run_resumed,
    ev.RunFailing: _run_failing,
    ev.RunCancelling: _run_cancelling,
    ev.RunCompleted: _run_completed,
    ev.RunFailed: _run_failed,
    ev.RunCancelled: _run_cancelled,
    ev.RunReopened: _run_reopened,
    ev.RunMigrated: _run_migrated,
    ev.LimitRaised: _limit_raised,
    ev.LifespanPassed: _lifespan_passed,
    ev.StepReady: _step_ready,
    ev.StepStarted: _step_started,
    ev.StepSuspended: _step_suspended,
    ev.StepCompleted: _step_completed,
    ev.AttemptFailed: _attempt_failed,
    ev.AttemptLost: _attempt_lost,
    ev.StepFailed: _step_failed,
    ev.StepReplayed: _step_replayed,
    ev.StepStopped: _step_stopped,
    ev.JournalDropped: _journal_dropped,
    ev.OperationReused: _operation_reused,
    ev.StepSkipped: _step_skipped,
    ev.StepCancelled: _step_cancelled,
    ev.LoopTaken: _loop_taken,
    ev.GuardAsked: _guard_asked,
    ev.GuardJudged: _guard_judged,
    ev.JoinOpened: _join_opened,
    ev.JoinTimedOut: _join_timed_out,
    ev.ValueRecorded: _value_recorded,
    ev.FunctionFailed: _function_failed,
    ev.RetryScheduled: _retry_scheduled,
    ev.PoolsAwaited: _pools_awaited,
    ev.ModelCallHeld: _model_call_held,
    ev.HoldDeferred: _hold_deferred,
    ev.ScopeExceeded: _scope_exceeded,
    ev.OperationReopened: _operation_reopened,
    ev.ModelCallSettled: _model_call_settled,
    ev.ModelCallFailed: _model_call_failed,
    ev.ModelCallInDoubt: _model_call_in_doubt,
    ev.ModelCallReconciled: _model_call_reconciled,
    ev.EffectIntended: _effect_intended,
    ev.EffectReused: _effect_reused,
    ev.EffectDeferred: _effect_deferred,
    ev.EffectCompleted: _effect_completed,
    ev.EffectFailed: _effect_failed,
    ev.EffectReleased: _effect_released,
    ev.EffectInDoubt: _effect_in_doubt,
    ev.EffectUnanswered: _effect_unanswered,
    ev.EffectReopened: _effect_reopened,
    ev.OutcomeOrphaned: _outcome_orphaned,
    ev.ToolCallDenied: _tool_call_denied,
    ev.TimerStarted: _timer_started,
    ev.TimerFired: _timer_fired,
    ev.SignalAwaited: _signal_awaited,
    ev.SignalReceived: _signal_received,
    ev.SignalDelivered: _signal_delivered,
    ev.SignalTimedOut: _signal_timed_out,
    ev.GateOpened: _gate_opened,
    ev.GateReminded: _gate_reminded,
    ev.GateEscalated: _gate_escalated,
    ev.GateDecided: _gate_decided,
    ev.GateWithdrawn: _gate_withdrawn,
}
