"""The state of a run, made of its history.

Its holder owns it, and `evolve` changes it in place. Never here: how an event changes it (folding), what follows (decide).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeVar

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.terms import Terms
from holdfast.core.values.demand import NOTHING, Demand
from holdfast.core.values.ids import (
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
    is_item,
    item_name,
    node_of,
    numbered,
)
from holdfast.core.values.money import Budget
from holdfast.core.values.payload import NULL, Payload
from holdfast.core.values.policies import REJECTED, ErrorRecord

REPEATABLE: Final = frozenset({"read", "idempotent"})
"""The effect policies under which a call of unknown outcome may simply be made again, under its key."""

MOST_VERIFIED: Final = 5
"""So many calls of an operation are made on the word of a tool's own lookup; then a person is asked."""

TOOL_APPROVAL: Final = "tool_approval"
"""A tool that needs approval is about to be called."""
EFFECT: Final = "effect"
"""The name of the scope in which a run waits for another run's effect: `effect/<key>`."""

FOLD_VERSION: Final = 22
"""Raised whenever a change of State or evolve makes old snapshots wrong; they are then folded anew."""

FUNCTION: Final = "step"
"""The kind of the operation that is a call of a function whose result is recorded: users call it a step of their flow."""
VERSION: Final = "version"
"""The kind of the version of its code that a flow got."""

SLEEP: Final = "sleep"
"""The kind of the operation that waits for a time. Its name is that, too, unless it is a TIMER."""
TIMER: Final = "timer"
"""The name of one by which code waits by asyncio's clock. While the attempt lives it is its process that has it fire."""

MAP: Final = "map"
"""The kind of the operation that is a list, each of whose items is a step."""

CHILD: Final = "child"
"""The kind of the operation that asks for a run of its own, and waits for its end."""
BACKGROUND: Final = "background_child"
"""The same, of one that goes on while its step does."""
AWAITED: Final = "awaited_child"
"""The kind of the operation that waits for a child which was asked for before."""
UNDONE: Final = "undone_child"
"""The kind of the operation that has a child undo what it did."""

MESSAGE: Final = "message"
"""The kind of a message that arrived while its run was at work, and that a model got."""
SHARED: Final = "shared_value"
"""The kind of the operation that writes a shared value."""
SHARED_USE: Final = "shared_use"
"""The kind of what a step has found of a space: its value is a list, of which each names its `key`."""
SHARED_READ: Final = "shared_read"
"""The kind of a shared value that a step has read."""
SHARED_LOCK: Final = "shared_lock"
"""The kind of what came of asking for a lock."""
EMBEDDING: Final = "embedding"
"""The kind of a vector that an embedder has made."""
LABEL: Final = "label"
"""The kind of a change of labels that a step's code has asked for."""
NOW: Final = "now"
"""The kind of a time that a step has asked for."""
LEFT: Final = "left"
"""The kind of what is left of the limits."""
NOTED: Final = frozenset({NOW, LEFT, "result", LABEL, VERSION})
"""Kinds of what a step looks at or notes: it makes no operation of plain code, and goes nowhere outside."""
LOOKED_AT: Final = frozenset({VERSION, SHARED_USE, SHARED_READ, SHARED_LOCK, EMBEDDING, NOW, LEFT})
"""What a step looked at is recorded with its next commit: the time of that is not the time at which its code had it."""
SHARED_WAIT: Final = "shared_wait"
"""The kind of the operation that waits for a later version of one."""
SUMMARY: Final = "summary"
"""The kind of what older turns of a talk with a model were summed up to."""
CONVERSATION: Final = "conversation"
"""The name of that, where they are of the run's conversation."""

KEPT_FROM_A_PLACE: Final = frozenset(
    {"tool", "model", "gate", "signal", SLEEP, MESSAGE, SUMMARY, FUNCTION, MAP, CHILD, BACKGROUND, SHARED}
)
KEPT_FROM_THE_BEGINNING: Final = frozenset({"tool", "signal", MESSAGE, CHILD, BACKGROUND, SHARED})
"""The completed operations whose outcomes outlive their journal, for whatever asks for the same again: where a step goes on
with other code, and where it is done again from its beginning. An effect is never done twice; a signal and a message come only
once."""

StepStatus = Literal["ready", "active", "suspended", "retrying", "completed", "failed", "skipped", "cancelled"]
"""- `ready`: may start
- `active`: an attempt is running
- `suspended`: waits, or may go on with its next attempt
- `retrying`: failed, and will be tried again at a recorded time
- `completed`: has its output
- `failed`: failed for good
- `skipped`: will not start
- `cancelled`: cancelled or superseded
"""
FINISHED: Final = frozenset({"completed", "failed", "skipped"})
"""The part of a step that handlers see begins here."""
OPEN_STEPS: Final = frozenset({"ready", "active", "suspended", "retrying"})

OperationStatus = Literal["open", "deferred", "in_doubt", "unverified", "retrying", "reopened", "done", "failed"]
"""- `open`: its outcome will come
- `deferred`: waits for money or tokens, or for the same effect in flight elsewhere
- `in_doubt`: a person is asked for its outcome
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
    """The number of times it was to be tried again because it had failed; rate limits are counted apart."""
    rate_limited: int = 0
    child: RunId | None = None
    unable: dict[str, int] = {}
    """The models that could not answer it, and until when none begins with them."""
    schema: dict[str, Any] | None = None
    """The JSON Schema of the data that a wait for a signal takes."""
    settled: int = 0
    """Which outcome of its step this is, counted from 1 in the order of the history; 0 while it has none."""
    took_ms: int = 0
    """The time from `since_ms` until it came."""
    signal: int = 0
    """The number of the signal that it got."""
    request_kept: bool = False
    """True if the history has the request of its latest model call, and not only its hash."""

    @property
    def settled_ms(self) -> int:
        """Return the time of its outcome, in Unix milliseconds; 0 while it has none."""
        return self.since_ms + self.took_ms if self.settled else 0

    @property
    def wants_room(self) -> bool:
        """True if it waits under its run's limits, if it is deferred: else for another call's effect."""
        return self.kind == "model" or self.blocked or self.needed_nanousd > 0

    @property
    def has_come_to_something(self) -> bool:
        """True if an outcome was recorded, even after the caller saw a failure."""
        return self.status == "done" or (self.status == "failed" and self.outcome is not None)


class Edit(msgspec.Struct, frozen=True):
    """The arguments that a person gave a call of a tool, in place of those of the code; `number` is that of the event."""

    tool: str
    arguments: Payload
    number: int


class PoolWait(msgspec.Struct, frozen=True):
    """A call that waits for what it takes of pools."""

    pools: tuple[str, ...]
    since_ms: int


class Step(msgspec.Struct, omit_defaults=True):
    """The current visit of a node."""

    id: StepId
    status: StepStatus = "ready"
    attempt: int = 0
    resumptions: int = 0
    """The number of attempts that only went on after a wait."""
    rests: bool = False
    """It has left its attempt for a wait; the next attempt is a resumption."""
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
    """Its demand; it starts only where it was placed."""
    absorbed: bool = False
    parked: bool = False
    resolved: bool = False
    """True if it has failed for good, and a person has closed it."""
    edited: bool = False
    """It has failed for good, and is to be tried again with another input of the run, or other arguments of the call."""
    edits: dict[Path, Edit] = {}
    """The calls whose arguments are a person's."""
    failed_path: Path | None = None
    reason: str | None = None
    """Why it was skipped or called off, or what the person said who decided its gate."""
    by: str | None = None
    """The person who decided its gate."""
    approvers: list[str] = []
    """Those who had approved before, where several do."""
    called_off: bool = False
    """It was cancelled because its run failed, and comes back with it."""
    provisional: bool = False
    """It has completed, and is begun again should its run fail and be taken up."""
    generation: int = 0
    """The number of times something was taken out of its journal: what is asked for again has names of its own."""
    stopped: Path | None = None
    """Where its code did not fit its journal, as far as is known."""
    stops: int = 0
    """The number of times it did not, since a person last had it tried."""
    kept: dict[Path, Operation] = {}
    """The operations that it had completed in a journal that was dropped."""
    inherited: dict[Path, Operation] = {}
    """The operations that it had completed in the run's origin, by place: it gets that outcome where it asks for the same
    there."""
    saw_seq: int = 0
    """Up to where in the history its latest attempt saw the run."""
    ended_seq: int = 0
    fields: dict[str, Payload] = {}
    """The fields of the typed state that its output and another's had both written, as they were merged."""
    conversation: Payload | None = None
    """Its talk with a model, for its next visit."""
    journal: dict[Path, Operation] = {}
    pending: dict[Path, None] = {}
    """The places in the journal whose operations have no outcome: a search for them need not go through it all."""
    pool_waits: dict[Path, PoolWait] = {}
    """The pools that its attempt waits for before it makes calls, by their places."""
    maps: dict[str, None] = {}
    """The maps that it has asked for."""
    settlements: int = 0
    """The number of outcomes that its operations have had, those included that a retry or other code took out of its journal;
    and its run's being cancelled, which is one to its code."""
    passed: int = 0
    """The number of the last outcome that the code of an attempt may have had; -1 where it is to begin anew."""
    heard: list[tuple[int, int]] = []
    """When attempts began that were the first to have outcomes which had come before, in Unix milliseconds: each behind the
    number of the last outcome that another may have had."""
    cancelled_at: int = 0
    """Which of these that is; 0 while its code has heard of nothing."""
    cancelled_ms: int = 0
    """When it was, in Unix milliseconds."""
    cancel_until_ms: int | None = None
    """Until when its code may clean up."""

    @property
    def cleans_up(self) -> bool:
        """True while its run is being cancelled, and its code has heard of it and is not through."""
        return self.cancelled_at > 0 and self.status in OPEN_STEPS

    @property
    def may_reuse(self) -> bool:
        """True if there may be an outcome elsewhere than in its journal for what it asks for."""
        return bool(self.kept or self.inherited)

    def heard_ms(self, settled: int) -> int:
        """Return when the code first went on with an outcome that had come before its attempt: when that attempt began, in
        Unix milliseconds. Outcome 0 is the beginning. A replay goes on at the same time."""
        place = bisect_left(self.heard, (settled, 0))
        return self.heard[place - 1][1] if place else self.began_ms

    def named(self, path: Path) -> Path:
        """`path`, as the names of calls and gates have it that are new there."""
        return numbered(path, self.generation)

    def unsettled(self) -> Iterator[tuple[Path, Operation]]:
        """The operations that have no outcome. Not to be gone through while events are folded."""
        journal = self.journal
        return ((path, journal[path]) for path in self.pending)


class Map(msgspec.Struct, omit_defaults=True):
    """A list that is done item by item. Of an item that has ended only `results` says something: where in the history it
    completed, or, below zero, failed."""

    opened: ev.ItemsMapped
    seq: Seq
    due_at_ms: int | None = None
    next: int = 0
    """The first item that has not begun: they begin in their order."""
    items: dict[NodeName, int] = {}
    """Those under way, and which they are."""
    stuck: dict[NodeName, int] = {}
    """Items that have failed or were called off, and may go on if a person retries them."""
    provisional: dict[NodeName, int] = {}
    """Those that have completed and tell of a failure: begun again where their map is."""
    again: dict[NodeName, None] = {}
    """Those of the stuck that are tried again before any other item begins, in their order."""
    stopping: bool = False
    """One of these was enough: what is active is let end, and nothing else begins."""
    results: list[int] = []
    completed: int = 0
    failed: int = 0
    """Those of which that was tolerated."""
    failures: list[int] = []
    """Where in the history the first of these failed."""
    ended: Literal["", "met", "failed"] = ""

    def name_of(self, index: int) -> NodeName:
        opened = self.opened
        return item_name(opened.map, opened.keys[index] if opened.keys else str(index))

    def demand_of(self, name: NodeName) -> Demand | None:
        """Return the demand of an item that is about to begin."""
        opened = self.opened
        if not opened.demands:
            return opened.demand
        soon = range(self.next, min(opened.count, self.next + opened.max_parallel))
        demand = next(opened.demands[index] for index in soon if self.name_of(index) == name)
        return demand if demand != NOTHING else None


class OpenCall(msgspec.Struct, omit_defaults=True):
    """A call that left, or may have left, and has no outcome yet.

    `doubted`: no outcome will come from here. `reopened`: it is to be called again under its key, and its outcome is accepted
    until then. `at_ms` is the last moment at which it may have left: of the intent, or of the doubt.
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
    tokens_scoped: bool = False
    sent_to: str = ""
    bound_percent: int = 100
    token_bound_percent: int = 100
    key: EffectKey | None = None
    named: bool = False
    policy: str = "once"
    args_hash: str = ""
    settles_within_s: float | None = None
    compensation: str | None = None
    compensates: CallId | None = None
    request: Payload = NULL
    error: ErrorRecord | None = None
    agent: str | None = None
    loans: dict[str, int] = {}

    @property
    def hold(self) -> ev.Hold | None:
        """The hold that closing it gives back in the scopes above the run; None where nothing is held, or was before there
        were any."""
        if not self.scoped:
            return None
        tokens = self.tokens if self.tokens_scoped else 0
        return ev.Hold(self.hold_nanousd, self.intended_at_ms, self.doubted, tokens, self.agent, self.loans)

    @property
    def repeatable(self) -> bool:
        """True if an effect of unknown outcome may be called again under its key without asking a person."""
        return self.doubted and (self.reopened or self.policy in REPEATABLE)

    @property
    def is_harmless(self) -> bool:
        """True if an effect of unknown outcome may be asked for again: its key, or its tool's lookup, sees that it is done
        once."""
        return self.repeatable or (self.doubted and self.policy == "verify")


class NamedEffect(msgspec.Struct, omit_defaults=True):
    """The run's record under an effect's own name."""

    args_hash: str
    call: CallId
    response: Payload | None = None


class Compensable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A completed effect that can be undone. Or, with `child`, what that child has done, which it undoes itself: `tool` is then
    its workflow, and there is no call."""

    call: CallId
    tool: str
    compensation: str
    request: Payload
    response: Payload
    child: RunId | None = None


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
    approvals: list[Approval] = []
    """Of what it shows, by those whom it asks; of a gate with a quorum."""


class Approval(msgspec.Struct, frozen=True, omit_defaults=True):
    """A person's approval of what a gate with a quorum shows, in these roles; `maker` has made the key that was used."""

    by: str
    at_ms: int
    maker: str | None = None
    roles: tuple[str, ...] = ()


OTHERS: Final = "others who are not known"
"""Stands among the names of contributors if they were more than are kept: then no person is certainly another."""


class Contributor(msgspec.Struct, frozen=True):
    """A person or program that contributed to the run, the latest time by its event `seq`; `has_read`: only by what they wrote,
    and the run has read."""

    name: str
    seq: Seq
    has_read: bool = False


class RecordedDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """The decision of a gate: by whom, how and when."""

    decision: str
    at_ms: int
    by: str | None = None


class Signal(msgspec.Struct, frozen=True):
    """A signal that no step has asked for yet."""

    name: str
    number: int
    data: Payload


class Message(msgspec.Struct, frozen=True):
    """The messages that came while the run was at work, and that no model has got yet."""

    number: int
    said: Payload


class SharedWait(msgspec.Struct, frozen=True):
    """An operation that waits for a later version of a shared value than `after`."""

    step: StepId
    path: Path
    space: str
    key: str
    after: int


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The run of which another is a fork, and from where on it goes its own way."""

    run: RunId
    step: StepId
    path: Path | None = None
    repeats_effects: bool = False

    @property
    def place(self) -> str:
        """As people name it: `draft#1`, `flow#1/3`."""
        return self.step if self.path is None else f"{self.step}/{self.path}"


class InheritedJournal(msgspec.Struct, omit_defaults=True):
    """The part of the run's origin that a step has which has not begun: its journal, and what may be reused."""

    journal: dict[Path, Operation] = {}
    reusable: dict[Path, Operation] = {}


class Child(msgspec.Struct, omit_defaults=True):
    """A run that this one has asked for and that has not ended, or whose end is to be remembered: it has a name here, or goes
    on in the background."""

    step: StepId
    path: Path
    workflow: str
    graph_hash: str
    args_hash: str
    at_ms: int
    input: Payload = NULL
    limit_nanousd: int | None = None
    key: str | None = None
    background: bool = False
    places: dict[str, None] = {}
    """The operations that wait for it."""
    max_tokens: int | None = None
    abandoned: bool = False
    ended: Literal["", "completed", "failed", "cancelled"] = ""
    output: Payload = NULL
    error: ErrorRecord | None = None
    handoff: bool = False
    """True if the conversation was handed over to it."""
    undoing: bool = False
    """True if it had completed, and undoes what it did."""
    agent: str | None = None


class DerivedValue:
    """Something that follows from a state and is kept beside it in memory, because to work it out anew for each step would
    cost as much as the run has nodes. It is no part of the state: never stored, never compared, made again when the state
    is loaded. `moved` are the nodes of which the step, or what guards say about it, has changed since it was brought up to
    date."""

    def __init__(self) -> None:
        self.moved: dict[NodeName, None] = {}


class _Timed(DerivedValue):
    """The unfinished steps for which time matters: those that are to be tried again, have operations without an outcome, or are
    suspended. Steps that only wait to be started may be thousands."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[NodeName] = set()


D = TypeVar("D", bound=DerivedValue)


class State(Terms, msgspec.Struct, omit_defaults=True, dict=True):
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
    naming: int = 1
    """By which rule the operations of its flow are named."""
    key: str | None = None
    by: str | None = None
    os_user: str = ""
    client: str = ""
    roles: tuple[str, ...] = ()
    """Those in which its starter acted."""
    trace_id: str | None = None
    """In which trace the latest request came that named one. No event says so: the store keeps it beside each."""
    traceparent: str = ""
    """The place in a trace in which it was started."""
    input: Payload = NULL
    input_digest: str = ""
    price_fingerprint: str | None = None
    counted: bool = False
    awaits: str | None = None
    """The scope in which the run waits for its place among the active ones."""

    budget: Budget = msgspec.field(default_factory=Budget)
    max_steps: int = 0
    max_active_s: float | None = None
    max_lifespan_s: float | None = None
    neared: dict[str, int] = {}
    """Of which limit how much has been used, of 50, 80 and 100 %."""
    would_stop: dict[str, str] = {}
    """The limits that would have stopped it, were they not only recorded, and why."""
    bound_percents: dict[str, int] = {}
    """The models that have billed a call of it above its hold, and by how much holds are raised since."""
    token_bound_percents: dict[str, int] = {}
    """The same of tokens."""
    cost_nanousd_by_node: dict[NodeName, int] = {}
    """The costs of each node's calls, as far as they are known."""
    steps_started: int = 0
    model_calls: int = 0
    """Those that were made, however they ended, and those under way."""
    tool_calls: int = 0
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
    """The number of times it was taken up again after it had failed."""
    origin: Origin | None = None
    """Where it comes from, if it is a fork."""
    inherited: dict[StepId, InheritedJournal] = {}
    """The parts of the run's origin that steps to come have."""
    given: dict[StepId, Payload] = {}
    """The results that steps to come are to have, instead of being done."""

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
    maps: dict[str, Map] = {}

    calls: dict[CallId, OpenCall] = {}
    abandoned: dict[CallId, None] = {}
    named: dict[EffectKey, NamedEffect] = {}
    claims: dict[CallId, EffectKey] = {}
    """The calls of this run that have taken a tenant-wide effect key."""
    undoing: dict[CallId, CallId] = {}
    """Calls that undo such an effect, and which: then the key is free again."""
    compensable: list[Compensable] = []
    handed_to: tuple[RunId, str] | None = None
    """The child, and its workflow, that answered in the place of the run's own agent, the latest."""
    gates: dict[GateId, Gate] = {}
    decided: dict[GateId, RecordedDecision] = {}
    makers: dict[str, tuple[str, ...]] = {}
    """Who made the keys with which gates were decided, here and in runs that this one has heard of, by the folded names of
    those who decided; under OTHERS where there were more than are kept."""
    vouched_for: GateId | None = None
    """The latest question with four eyes or a quorum that was neither rejected nor sent back: what it showed is not edited any
    more."""
    gates_opened: int = 0
    contributors: dict[str, Contributor] = {}
    """By folded name, without the starter."""
    signals: list[Signal] = []
    signals_received: int = 0
    signal_keys: dict[str, str] = {}
    """The keys of the latest signals that had one, and what each stood for."""
    messages: list[Message] = []
    told: int = 0
    """The latest message that the run got."""
    summary: Payload | None = None
    """The part of the run's conversation that was summed up the last time, and its summary (engine.operations.compaction)."""

    shares: bool = False
    """True if it has written shared values, or waited for one."""
    shared_waits: dict[str, SharedWait] = {}
    """By step and place; some may be of steps that have ended since."""
    parent: ev.Parent | None = None
    shared: tuple[str, ...] = ()
    """The scopes above the run, besides those of its tenant and team, in which its money or its tokens count."""
    children: dict[RunId, Child] = {}
    children_asked: int = 0
    named_children: dict[str, RunId] = {}
    """The latest child of each name that a step has given to one."""
    deferred: dict[str, None] = {}
    short: dict[str, None] = {}
    """Operations that wait outside the run, by their place: for room in a scope, or for another run's effect."""

    @property
    def root(self) -> RunId:
        """The run at the top of its tree: its own, where it is no child."""
        return self.parent.root if self.parent is not None else self.run

    def has_read(self, message: int) -> bool:
        """True if a model got a message that came while the run was at work."""
        return message <= self.told and all(each.number != message for each in self.messages)

    def open_children(self) -> Iterator[tuple[RunId, Child]]:
        """The children that have not ended, as far as the run has heard."""
        return ((name, child) for name, child in self.children.items() if not child.ended)

    @property
    def has_open_children(self) -> bool:
        """True if there is a child before whose end the run may not end."""
        return bool(self.children) and any(not child.ended for child in self.children.values())

    def derived(self, kind: type[D]) -> D:
        """Return what is kept of this kind beside the state; made, with every node moved, where there is none yet."""
        found: D | None = self.__dict__.get(kind.__name__)
        if found is None:
            found = self.__dict__[kind.__name__] = kind()
            found.moved.update(dict.fromkeys((*self.steps, *self.previous)))
        return found

    def timed(self) -> list[NodeName]:
        """The unfinished steps that are to be tried again, have operations without an outcome, wait for pools, or are suspended
        and were not woken; by name."""
        timed = self.derived(_Timed)
        for name in timed.moved:
            step = self.steps.get(name)
            if (
                step is not None
                and name in self.unfinished
                and (
                    step.status == "retrying"
                    or step.pending
                    or step.pool_waits
                    or (step.status == "suspended" and name not in self.startable and name not in self.unplaced)
                )
            ):
                timed.names.add(name)
            else:
                timed.names.discard(name)
        timed.moved.clear()
        return sorted(timed.names) if timed.names else []

    def dead_letters(self) -> list[Step]:
        """The steps that have failed for good, and of which nobody has said what is to become. Who said no has said it. An item
        is one only while its map waits for what a person says of it: else its failure is its map's."""
        if self.ended in ("completed", "cancelled") or self.phase == "cancelling":
            return []
        return [
            step
            for step in self.steps.values()
            if step.status == "failed"
            and not step.absorbed
            and not step.resolved
            and not step.id.startswith("!")
            and step.error is not None
            and step.error.error_class != REJECTED
            and (step.parked or not is_item(node_of(step.id)))
        ]

    def step(self, step: StepId) -> Step | None:
        """The step, if it is the current visit of its node."""
        current = self.steps.get(node_of(step))
        return current if current is not None and current.id == step else None

    def is_verified(self, call: OpenCall) -> bool:
        """True if a tool's own lookup is asked about a call in doubt: it has one, and the call was not made too often."""
        step = self.step(call.step)
        op = step.journal.get(call.path) if step is not None else None
        return call.policy == "verify" and (op is None or op.tries < MOST_VERIFIED)

    def short_operations(self) -> list[tuple[Step, Path, Operation]]:
        """The operations that wait for something outside the run: room in a scope, or another run's effect."""
        return [found for place in self.short if (found := self.operation_at(place)) is not None]

    def cleans_up(self, step: StepId) -> bool:
        """Return True if a step may go on though its run is being cancelled: its code cleans up."""
        found = self.step(step) if self.phase == "cancelling" else None
        return found is not None and found.cleans_up

    def operation_at(self, place: str) -> tuple[Step, Path, Operation] | None:
        """Return the operation at a place, `step:path`; None if the step is no longer there, or does not ask for it any
        more."""
        id_, _, path = place.rpartition(":")
        step = self.step(StepId(id_))
        op = step.journal.get(Path(path)) if step is not None else None
        return (step, Path(path), op) if step is not None and op is not None else None

    def calls_left(self, kind: str) -> int | None:
        """Return the number of calls of models, or of tools, that it may still make; None without a limit."""
        most, made = (self.max_model_calls, self.model_calls) if kind == "model" else (self.max_tool_calls, self.tool_calls)
        return None if most is None else most - made

    def headroom(self, hold_nanousd: int, tokens: int, kind: str = "model") -> Headroom:
        """Return how a call of this worst case fits the limits: now, when calls in flight have left enough, or not."""
        left = self.calls_left(kind)
        if left is not None and left <= 0:
            return "never"
        spare = None if self.max_tokens is None else self.max_tokens - self.tokens_used - self.tokens_in_doubt
        spare = spare if tokens else None
        free = not hold_nanousd  # what costs nothing fits, though a reply above its bound had the run spend more than it may
        if (free or self.budget.fits(hold_nanousd)) and (spare is None or tokens <= spare - self.tokens_held):
            return "now"
        if (free or self.budget.could_fit_later(hold_nanousd)) and (spare is None or tokens <= spare):
            return "later"
        return "never"


MAX_ERRORS_KEPT: Final = 100
"""The state carries the latest errors; all of them are in the history."""
MAX_FAILURES_KEPT: Final = 20
"""Of the items of a map that failed and were tolerated, these are found without reading the whole history."""
MAX_DECIDED_KEPT: Final = 1000
"""The state carries the latest decisions, for those who come second; all of them are in the history. Without a bound a
loop with a gate in it would make the state, and every resume, as long as the run."""
MAX_SIGNAL_KEYS: Final = 10_000
"""Keys of signals that a run remembers: who sends one again does so soon. A megabyte of its state or two at the most."""


def comes_after(state: State, step: Step, path: Path, first: Path) -> bool:
    """Return True if what stands at `path` of a step may have come of what stands at `first`: it is a part of it, or comes
    after it in its row. Where tasks have rows of their own, also what had its outcome after it, or has none."""
    if comes_from(path, first):
        return True
    op = step.journal.get(path) if state.naming > 1 else None
    if op is None:
        return False
    known = step.journal.get(first)
    return not op.settled or (known is not None and 0 < known.settled < op.settled)


def verdict_key(step: StepId, target: NodeName | None, guard: str) -> str:
    return f"{step}>{target}:{guard}" if target is not None else f">{step}:{guard}"
