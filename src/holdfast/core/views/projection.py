"""The changes of a commit in the tables beside the history, so that every store is a dumb writer.

`project` is pure: the run's row and the open operations follow from the state, the ledger's rows from the events. Never here:
SQL, a table's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.postings import Posting, postings
from holdfast.core.facts.state import SHARED_USE, State
from holdfast.core.nouns.labels import Pair
from holdfast.core.nouns.shared_values import MAX_VERSIONS, SharedIndex
from holdfast.core.values.ids import CallId, EffectKey, GateId, Path, RunId, Seq, SessionId, StepId, node_of
from holdfast.core.values.payload import Payload
from holdfast.core.values.scopes import PLACEMENT, Waiter, counts_tokens, family_of
from holdfast.core.views.gate_title import title_of
from holdfast.core.views.status import Status, due_at_ms, may_be_placed, status, waiting_for

GateState: TypeAlias = Literal["open", "escalated", "decided", "expired", "withdrawn"]
EffectState: TypeAlias = Literal["intended", "completed", "failed", "released", "in_doubt", "repeated", "orphaned"]


class RunRow(msgspec.Struct, frozen=True):
    """A run as lists show it and as the sweep finds it."""

    run: RunId
    seq: Seq
    tenant: str
    workflow: str
    version: int
    graph_hash: str
    status: Status
    key: str | None
    started_at_ms: int
    updated_at_ms: int
    ended_at_ms: int | None
    due_at_ms: int | None
    limit_nanousd: int | None
    settled_nanousd: int
    held_nanousd: int
    in_doubt_nanousd: int
    waiting_for: bytes
    started_by: str | None


class GateRow(msgspec.Struct, frozen=True):
    """A gate that was opened. Its `state` is `open` from here on, until a GateChange says otherwise."""

    gate: GateId
    run: RunId
    step: StepId | None
    reason: str
    subject: str | None
    opened_at_ms: int
    due_at_ms: int | None
    reviewers: tuple[str, ...]
    expires_at_ms: int | None = None
    quorum: int = 1
    risk_level: str | None = None
    proposed_action: str | None = None
    workflow: str = ""
    title: str | None = None
    evidence_ids: tuple[str, ...] = ()


class GateChange(msgspec.Struct, frozen=True):
    """A change of a gate.

    - `open`: no answer yet
    - `escalated`: no answer before its deadline
    - `decided`: it has its answer
    - `expired`: no answer counts any more
    - `withdrawn`: no answer is needed any more
    """

    gate: GateId
    state: GateState
    at_ms: int
    reminders: int | None = None
    decision: str | None = None
    by: str | None = None
    reviewers: tuple[str, ...] | None = None
    """Whom it asks from now on; None for whom it asked before."""
    approved_by: tuple[str, ...] | None = None
    """The persons who have approved, of several that it needs; None for those before."""


class EffectRow(msgspec.Struct, frozen=True):
    """A line of the ledger: a call of a tool that is about to be made. Its `state` is `intended` from here on."""

    call: CallId
    run: RunId
    step: StepId
    tool: str
    policy: str
    key: EffectKey
    request: Payload
    intended_at_ms: int


class EffectChange(msgspec.Struct, frozen=True):
    """A call's effect on the world, as far as it is known.

    - `intended`: the call is about to be made or under way
    - `completed`: the tool answered, or a person confirmed that it happened
    - `failed`: the tool or a person reported that it did not happen
    - `released`: it certainly never left the process
    - `in_doubt`: its outcome cannot be known
    - `repeated`: given up; another call has its key
    - `orphaned`: given up, but its outcome came later
    """

    call: CallId
    state: EffectState
    updated_at_ms: int
    response: Payload | None = None
    error: str | None = None
    by: str | None = None


class DeadLetter(msgspec.Struct, frozen=True):
    """A step that has failed for good and of which nobody has said what is to become: how often it was tried, since when, and
    what it failed of at last. `asked`: its run goes on, and a gate asks. `edited`: the run has another input for it since."""

    run: RunId
    step: StepId
    tenant: str
    workflow: str
    node: str
    error_class: str
    message: str
    attempts: int
    first_at_ms: int
    last_at_ms: int
    asked: bool
    edited: bool


class StartKey(msgspec.Struct, frozen=True):
    """A start's idempotency key, unique in its tenant."""

    tenant: str
    key: str
    run: RunId
    input_digest: str


class KeyClaim(msgspec.Struct, frozen=True):
    """A call takes a tenant-wide effect key: a free one, or one that its run has already."""

    key: EffectKey
    tenant: str
    run: RunId
    call: CallId
    args_hash: str


class KeyOutcome(msgspec.Struct, frozen=True):
    """The call that took a tenant-wide effect key has its outcome: `response`, or, without one, the key is free again."""

    key: EffectKey
    call: CallId
    response: Payload | None = None


class ChildRow(msgspec.Struct, frozen=True):
    """A run asks for a child, or for its being undone. Its `state` is `requested` from here on, until a ChildChange says
    otherwise."""

    child: RunId
    parent: RunId
    root: RunId
    at_ms: int


class ChildChange(msgspec.Struct, frozen=True):
    """A change of a child, and of its parent's knowledge of it.

    - `requested`: its parent has asked for it, or for its being taken up again or undone
    - `running`: it has started
    - `ended`: it has, and its parent does not know yet
    - `told`: its parent knows; a later change of the child is its own affair
    """

    child: RunId
    state: str
    at_ms: int


class ChildOrder(msgspec.Struct, frozen=True):
    """A child, or without one every child of `parent` that has not ended, is to do as its parent: to pause, to go on, to be
    called off. `ordered` is the parent's event that says so."""

    parent: RunId
    child: RunId | None
    ordered: int
    at_ms: int


class SharedChange(msgspec.Struct, frozen=True):
    """A shared value has a new version, in the place of `base`; `body` is a SharedValue as JSON. With a `fence` it is
    written only while the lock of that number is held. Of its versions the last `keep` stay (0: none does). It is found by
    its `index` from now on, without one by its name only; `dropped` are keys of the same space that go, with all that is
    kept about them."""

    tenant: str
    space: str
    key: str
    base: int
    body: bytes
    fence: int | None = None
    index: SharedIndex | None = None
    keep: int = MAX_VERSIONS
    dropped: tuple[str, ...] = ()


class SharedUse(msgspec.Struct, frozen=True):
    """Values that were found by their index, and used."""

    tenant: str
    space: str
    keys: tuple[str, ...]
    at_ms: int


class SharedWaitRow(msgspec.Struct, frozen=True):
    """A step of a run waits at `path` for a later version of a shared value than `after`."""

    run: RunId
    step: StepId
    path: Path
    tenant: str
    space: str
    key: str
    after: int


class Changes(msgspec.Struct, frozen=True):
    """Everything that one commit changes beside the history. `sessions` are those with attempts or calls in flight.

    `postings` move the books of the scopes above the run, at most one a scope; `waiters` are all that the run waits for
    there from now on. `effect_keys` are taken and closed in this order, `children` moved in theirs. `dead_letters` are all
    that the run has from now on, None where nothing about them has changed. `shared_values` are written in their order, where
    each has the version that its writer has seen; `shared_waits` are all of the run from now on, None where it never had one.
    `labels` are all that the run has from now on, and its tags, None where none of them has changed.
    """

    run: RunRow
    sessions: tuple[SessionId, ...]
    start_key: StartKey | None = None
    gates: tuple[GateRow, ...] = ()
    gate_changes: tuple[GateChange, ...] = ()
    effects: tuple[EffectRow, ...] = ()
    effect_changes: tuple[EffectChange, ...] = ()
    postings: tuple[Posting, ...] = ()
    waiters: tuple[Waiter, ...] = ()
    effect_keys: tuple[KeyClaim | KeyOutcome, ...] = ()
    children: tuple[ChildRow | ChildChange | ChildOrder, ...] = ()
    dead_letters: tuple[DeadLetter, ...] | None = None
    shared_values: tuple[SharedChange, ...] = ()
    shared_waits: tuple[SharedWaitRow, ...] | None = None
    shared_uses: tuple[SharedUse, ...] = ()
    labels: tuple[Pair, ...] | None = None


Row: TypeAlias = GateRow | GateChange | EffectRow | EffectChange | StartKey | SharedChange | SharedUse


def project(after: State, events: Sequence[ev.Event], *, executing: bool) -> Changes:
    """The changes of a commit of `events`, which led to the state `after`; see `due_at_ms` for `executing`."""
    start_key: StartKey | None = None
    is_about_letters = False
    gates: list[GateRow] = []
    gate_changes: list[GateChange] = []
    effects: list[EffectRow] = []
    effect_changes: list[EffectChange] = []
    shared_values: list[SharedChange] = []
    shared_uses: list[SharedUse] = []
    for event in events:
        derive = _ROWS.get(type(event))  # most events change no row but the run's own
        if derive is None:
            continue
        is_about_letters = is_about_letters or _is_about_dead_letters(after, event)
        match derive(after, event):
            case None:
                pass
            case GateRow() as gate:
                gates.append(gate)
            case GateChange() as gate_change:
                gate_changes.append(gate_change)
            case EffectRow() as effect:
                effects.append(effect)
            case EffectChange() as effect_change:
                effect_changes.append(effect_change)
            case StartKey() as key:
                start_key = key
            case SharedChange() as shared:
                shared_values.append(shared)
            case SharedUse() as use:
                shared_uses.append(use)
    return Changes(
        _run(after, due_at_ms(after, executing=executing)),
        sessions_in_flight(after),
        start_key,
        tuple(gates),
        tuple(gate_changes),
        tuple(effects),
        tuple(effect_changes),
        postings(after, events),
        _waiters(after) if after.short or after.awaits is not None or after.unplaced else (),
        tuple(_keys(after, events)) if after.claims else (),
        tuple(_children(after, events)) if after.children_asked or after.parent is not None else (),
        _dead_letters(after) if is_about_letters else None,
        tuple(shared_values),
        _shared_waits(after) if after.shares else None,
        tuple(shared_uses),
        _labels(after, events),
    )


_MAX_WORDS: Final = 1000
"""Of an error, in a row of a list; the history has all of it."""
_OF_DEAD_LETTERS: Final = (ev.StepReplayed, ev.RunReopened, ev.DeadLetterEdited, ev.DeadLetterResolved)
_ASKED: Final = ":!exhausted."
"""In the id of a gate that asks about a dead letter."""


def _is_about_dead_letters(after: State, event: ev.Event) -> bool:
    """True if an event may change which steps have failed for good."""
    kind = type(event)
    if kind is ev.RunCancelling or kind is ev.RunCompleted:
        return any(step.status == "failed" for step in after.steps.values())
    if kind is ev.StepFailed:
        return not event.absorbed  # type: ignore[attr-defined]
    if kind is ev.GateDecided or kind is ev.GateWithdrawn:
        return _ASKED in event.gate  # type: ignore[attr-defined]
    return kind in _OF_DEAD_LETTERS


def _labels(s: State, events: Sequence[ev.Event]) -> tuple[Pair, ...] | None:
    begins = bool(events) and type(events[0]) is ev.RunStarted and bool(s.tags or s.labels)
    if not begins and ev.RunLabelled not in map(type, events):
        return None
    return (*(("", tag) for tag in s.tags), *s.labels.items())


def _dead_letters(s: State) -> tuple[DeadLetter, ...]:
    return tuple(
        DeadLetter(
            s.run,
            step.id,
            s.tenant,
            s.workflow,
            node_of(step.id),
            step.error.error_class,
            step.error.message[:_MAX_WORDS],
            step.attempt,
            step.began_ms or step.since_ms,
            step.since_ms,
            step.parked,
            step.edited,
        )
        for step in s.dead_letters()
        if step.error is not None
    )


def _children(s: State, events: Sequence[ev.Event]) -> Iterator[ChildRow | ChildChange | ChildOrder]:
    """Yield the changes of the links between a run and its children, and between it and its parent."""
    first = s.seq - len(events) + 1
    for seq, event in enumerate(events, first):
        match event:
            case ev.ChildRequested() | ev.ChildUndone():
                yield ChildRow(event.child, s.run, s.root, s.at_ms)
            case ev.ChildEnded():
                yield ChildChange(event.child, "told", s.at_ms)
            case ev.ChildAbandoned():
                yield ChildOrder(s.run, event.child, seq, s.at_ms)
            case ev.RunPaused() | ev.RunResumed() if s.children:
                yield ChildOrder(s.run, None, seq, s.at_ms)
            case _:
                pass
        if s.parent is None:
            continue
        match event:
            case ev.RunStarted() | ev.RunReopened():
                yield ChildChange(s.run, "running", s.at_ms)
            case ev.RunCompleted() | ev.RunFailed() | ev.RunCancelled():
                yield ChildChange(s.run, "ended", s.at_ms)
            case _:
                pass


def _keys(s: State, events: Sequence[ev.Event]) -> Iterator[KeyClaim | KeyOutcome]:
    """Yield the changes of tenant-wide effect keys. A key whose effect is in doubt stays taken until it has its outcome; one
    whose effect was undone is free again."""
    for event in events:
        match event:
            case ev.EffectIntended(tenant_wide=True):
                yield KeyClaim(event.key, s.tenant, s.run, event.call, event.args_hash)
            case ev.EffectCompleted() if event.call in s.claims:
                yield KeyOutcome(s.claims[event.call], event.call, event.response)
            case ev.EffectCompleted() if event.call in s.undoing:
                undone = s.undoing[event.call]
                yield KeyOutcome(s.claims[undone], undone)
            case ev.EffectFailed() | ev.EffectReleased() if event.call in s.claims:
                yield KeyOutcome(s.claims[event.call], event.call)
            case _:
                pass


def _waiters(s: State) -> tuple[Waiter, ...]:
    """Return the scopes in which the run waits for room or for a place, and for how much at least. A paused one takes no
    other's turn."""
    least: dict[str, int] = {}
    for _, _, op in s.short_operations():
        if op.scope is not None:
            wanted = 1 if op.other is not None else op.needed_tokens if counts_tokens(op.scope) else op.needed_nanousd
            least[op.scope] = min(wanted, least.get(op.scope, wanted))
    if s.paused or s.ended:
        return ()
    if s.awaits is not None:
        least[s.awaits] = 1
    if may_be_placed(s):
        least[PLACEMENT] = len(s.unplaced)
    return tuple(Waiter(scope, family_of(scope), wanted) for scope, wanted in least.items())


def _run(s: State, due_ms: int | None) -> RunRow:
    waits = waiting_for(s)
    return RunRow(
        run=s.run,
        seq=s.seq,
        tenant=s.tenant,
        workflow=s.workflow,
        version=s.version,
        graph_hash=s.graph_hash,
        status=status(s),
        key=s.key,
        started_at_ms=s.started_at_ms,
        updated_at_ms=s.at_ms,
        ended_at_ms=s.ended_at_ms or None,
        due_at_ms=due_ms,
        limit_nanousd=s.budget.limit_nanousd,
        settled_nanousd=s.budget.settled_nanousd,
        held_nanousd=s.budget.held_nanousd,
        in_doubt_nanousd=s.budget.in_doubt_nanousd,
        waiting_for=msgspec.json.encode(waits) if waits else b"[]",
        started_by=s.by,
    )


def _start_key(after: State, e: ev.RunStarted) -> StartKey | None:
    return StartKey(e.tenant, e.key, e.run, e.input_digest) if e.key is not None else None


def _gate(after: State, e: ev.GateOpened) -> GateRow:
    return GateRow(
        e.gate,
        after.run,
        e.step,
        e.reason,
        e.subject,
        after.at_ms,
        e.due_at_ms,
        e.reviewers,
        e.expires_at_ms,
        e.quorum,
        e.risk_level,
        e.proposed_action,
        after.workflow,
        title_of(e),
        e.evidence_ids,
    )


def _gate_assigned(after: State, e: ev.GateAssigned) -> GateChange | None:
    told = (
        _gate_approvals(after, e) if e.gate in after.gates and after.gates[e.gate].opened.quorum > 1 else _gate_change(after, e)
    )
    return None if told is None else msgspec.structs.replace(told, reviewers=e.reviewers)


def _gate_approvals(after: State, e: ev.GateApproved | ev.GateEdited | ev.GateAssigned) -> GateChange | None:
    told = _gate_change(after, e)
    if told is None:
        return None
    return msgspec.structs.replace(told, approved_by=tuple(each.by for each in after.gates[e.gate].approvals))


_GateNotice: TypeAlias = ev.GateAssigned | ev.GateApproved | ev.GateEdited | ev.GateReminded | ev.GateEscalated


def _gate_change(after: State, e: _GateNotice) -> GateChange | None:
    gate = after.gates.get(e.gate)
    if gate is None:
        return None  # it was answered in the same commit
    state: GateState = "open" if gate.escalated_at_ms is None else "escalated"
    return GateChange(e.gate, state, after.at_ms, reminders=gate.reminders)


def _gate_decided(after: State, e: ev.GateDecided) -> GateChange:
    return GateChange(e.gate, "decided", after.at_ms, decision=e.decision, by=e.by)


def _gate_expired(after: State, e: ev.GateExpired) -> GateChange:
    return GateChange(e.gate, "expired", after.at_ms)


def _gate_withdrawn(after: State, e: ev.GateWithdrawn) -> GateChange:
    return GateChange(e.gate, "withdrawn", after.at_ms)


def _effect(after: State, e: ev.EffectIntended) -> EffectRow:
    return EffectRow(e.call, after.run, e.step, e.tool, e.policy, e.key, e.request, after.at_ms)


def _effect_completed(after: State, e: ev.EffectCompleted) -> EffectChange:
    return EffectChange(e.call, "completed", after.at_ms, e.response, by=e.by)


def _effect_failed(after: State, e: ev.EffectFailed) -> EffectChange:
    return EffectChange(e.call, "failed", after.at_ms, error=e.error.message, by=e.by)


def _effect_released(after: State, e: ev.EffectReleased) -> EffectChange:
    return EffectChange(e.call, "released", after.at_ms)


def _effect_in_doubt(after: State, e: ev.EffectInDoubt | ev.EffectUnanswered) -> EffectChange:
    return EffectChange(e.call, "in_doubt", after.at_ms, error=e.error.message)


def _effect_repeated(after: State, e: ev.EffectReopened) -> EffectChange:
    return EffectChange(e.call, "repeated", after.at_ms, by=e.by)


def _effect_orphaned(after: State, e: ev.OutcomeOrphaned) -> EffectChange:
    error = e.error.message if e.error is not None else None
    return EffectChange(e.call, "orphaned", after.at_ms, e.response, error)


class _Match(msgspec.Struct):
    key: str


def _shared_value(after: State, e: ev.SharedValueWritten) -> SharedChange:
    body = bytes(e.outcome.json)
    return SharedChange(after.tenant, e.space, e.key, e.base, body, e.fence, e.index, e.keep, e.dropped)


def _shared_use(after: State, e: ev.ValueRecorded) -> SharedUse | None:
    if e.kind != SHARED_USE or e.payload is None:
        return None
    found = msgspec.json.decode(e.payload.json, type=list[_Match])
    return SharedUse(after.tenant, e.name, tuple(each.key for each in found), after.at_ms) if found else None


def _shared_waits(s: State) -> tuple[SharedWaitRow, ...]:
    return (
        ()
        if s.ended
        else tuple(
            SharedWaitRow(s.run, each.step, each.path, s.tenant, each.space, each.key, each.after)
            for each in s.shared_waits.values()
            if (step := s.step(each.step)) is not None and each.path in step.pending
        )
    )


def _no_row(after: State, e: ev.Event) -> None:
    """Change no row: the event is about the run's dead letters."""


_ROWS: Final[dict[type[ev.Event], Callable[[State, Any], Row | None]]] = {
    ev.RunStarted: _start_key,
    ev.GateOpened: _gate,
    ev.GateAssigned: _gate_assigned,
    ev.GateApproved: _gate_approvals,
    ev.GateEdited: _gate_approvals,
    ev.GateReminded: _gate_change,
    ev.GateEscalated: _gate_change,
    ev.GateDecided: _gate_decided,
    ev.GateExpired: _gate_expired,
    ev.GateWithdrawn: _gate_withdrawn,
    ev.EffectIntended: _effect,
    ev.EffectCompleted: _effect_completed,
    ev.EffectFailed: _effect_failed,
    ev.EffectReleased: _effect_released,
    ev.EffectInDoubt: _effect_in_doubt,
    ev.EffectUnanswered: _effect_in_doubt,
    ev.EffectReopened: _effect_repeated,
    ev.OutcomeOrphaned: _effect_orphaned,
    ev.SharedValueWritten: _shared_value,
    ev.ValueRecorded: _shared_use,
    **dict.fromkeys((ev.StepFailed, ev.RunCancelling, ev.RunCompleted, *_OF_DEAD_LETTERS), _no_row),
}


def sessions_in_flight(state: State) -> tuple[SessionId, ...]:
    """Return the sessions whose death must be noticed for this run."""
    found = dict.fromkeys([state.steps[name].session for name in state.active])
    for call in state.calls.values():
        if not call.doubted:
            found[call.session] = None
    found.pop(None, None)
    return tuple(found)  # type: ignore[arg-type]
