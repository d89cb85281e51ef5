"""What a commit changes in the tables beside the history, so that every store is a dumb writer.

`project` is pure: the run's row and the open operations follow from the state, the ledger's rows from the events.
Never here: SQL, a table's name.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core import events as ev
from holdfast.core.ids import CallId, EffectKey, GateId, RunId, Seq, SessionId, StepId
from holdfast.core.payload import Payload
from holdfast.core.state import State
from holdfast.core.status import due_at_ms, status, waiting_for


class RunRow(msgspec.Struct, frozen=True):
    """A run as lists show it and as the sweep finds it."""

    run: RunId
    seq: Seq
    tenant: str
    workflow: str
    version: int
    graph_hash: str
    status: str
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


class GateChange(msgspec.Struct, frozen=True):
    """What became of a gate. `state`: open (reminded), escalated, decided or withdrawn."""

    gate: GateId
    state: str
    at_ms: int
    reminders: int | None = None
    decision: str | None = None
    by: str | None = None


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
    """What a call did to the world, as far as anybody knows.

    `state`: completed, failed, released (it never left), in_doubt, repeated (given up; another call has its key), or
    orphaned (given up, and yet its outcome came).
    """

    call: CallId
    state: str
    updated_at_ms: int
    response: Payload | None = None
    error: str | None = None
    by: str | None = None


class StartKey(msgspec.Struct, frozen=True):
    """A start's idempotency key, unique in its tenant."""

    tenant: str
    key: str
    run: RunId
    input_digest: str


class Changes(msgspec.Struct, frozen=True):
    """Everything that one commit changes beside the history. `sessions` are those with attempts or calls in flight."""

    run: RunRow
    sessions: tuple[SessionId, ...]
    start_key: StartKey | None = None
    gates: tuple[GateRow, ...] = ()
    gate_changes: tuple[GateChange, ...] = ()
    effects: tuple[EffectRow, ...] = ()
    effect_changes: tuple[EffectChange, ...] = ()


def project(after: State, events: Sequence[ev.Event], *, executing: bool) -> Changes:
    """The changes of a commit of `events`, which led to the state `after`; see `due_at_ms` for `executing`."""
    budget = after.budget
    first = events[0]
    start_key = None
    if isinstance(first, ev.RunStarted) and first.key is not None:
        start_key = StartKey(first.tenant, first.key, first.run, first.input_digest)
    gates = tuple(_gate(after, event) for event in events if isinstance(event, ev.GateOpened))
    effects = tuple(_effect(after, event) for event in events if isinstance(event, ev.EffectIntended))
    # Commits without people or effects are most of them; they should not pay for the look-up below.
    changes = [change for event in events if (change := _change(after, event)) is not None]
    return Changes(
        run=RunRow(
            run=after.run,
            seq=after.seq,
            tenant=after.tenant,
            workflow=after.workflow,
            version=after.version,
            graph_hash=after.graph_hash,
            status=status(after),
            key=after.key,
            started_at_ms=after.started_at_ms,
            updated_at_ms=after.at_ms,
            ended_at_ms=after.ended_at_ms or None,
            due_at_ms=due_at_ms(after, executing=executing),
            limit_nanousd=budget.limit_nanousd,
            settled_nanousd=budget.settled_nanousd,
            held_nanousd=budget.held_nanousd,
            in_doubt_nanousd=budget.in_doubt_nanousd,
            waiting_for=msgspec.json.encode(waiting_for(after)),
        ),
        sessions=sessions_in_flight(after),
        start_key=start_key,
        gates=gates,
        gate_changes=tuple(change for change in changes if isinstance(change, GateChange)),
        effects=effects,
        effect_changes=tuple(change for change in changes if isinstance(change, EffectChange)),
    )


def _gate(after: State, e: ev.GateOpened) -> GateRow:
    return GateRow(e.gate, after.run, e.step, e.reason, e.subject, after.at_ms, e.due_at_ms, e.reviewers)


def _effect(after: State, e: ev.EffectIntended) -> EffectRow:
    return EffectRow(e.call, after.run, e.step, e.tool, e.policy, e.key, e.request, after.at_ms)


def _change(after: State, event: ev.Event) -> GateChange | EffectChange | None:
    """What `event` changes about a gate or an effect that was there before it."""
    at_ms = after.at_ms
    match event:
        case ev.GateReminded() | ev.GateEscalated():
            gate = after.gates.get(event.gate)
            if gate is None:
                return None  # it was answered in the same commit
            state = "open" if gate.escalated_at_ms is None else "escalated"
            return GateChange(event.gate, state, at_ms, reminders=gate.reminders)
        case ev.GateDecided():
            return GateChange(event.gate, "decided", at_ms, decision=event.decision, by=event.by)
        case ev.GateWithdrawn():
            return GateChange(event.gate, "withdrawn", at_ms)
        case ev.EffectCompleted():
            return EffectChange(event.call, "completed", at_ms, event.response, by=event.by)
        case ev.EffectFailed():
            return EffectChange(event.call, "failed", at_ms, error=event.error.message, by=event.by)
        case ev.EffectReleased():
            return EffectChange(event.call, "released", at_ms)
        case ev.EffectInDoubt() | ev.EffectUnanswered():
            return EffectChange(event.call, "in_doubt", at_ms, error=event.error.message)
        case ev.EffectReopened():
            return EffectChange(event.call, "repeated", at_ms, by=event.by)
        case ev.OutcomeOrphaned():
            error = event.error.message if event.error is not None else None
            return EffectChange(event.call, "orphaned", at_ms, event.response, error)
        case _:
            return None


def sessions_in_flight(state: State) -> tuple[SessionId, ...]:
    """The sessions whose death somebody must notice for this run."""
    attempts = [state.steps[name].session for name in state.active]
    calls = [call.session for call in state.calls.values() if not call.doubted]
    return tuple(dict.fromkeys(session for session in (*attempts, *calls) if session is not None))
