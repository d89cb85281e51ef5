"""The fold of operations that call nothing outside: values, functions, timers, signals, messages, questions to people."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.contribution import assigned, edited, note_makers, still_asked
from holdfast.core.facts.folding import items
from holdfast.core.facts.folding.moves import Folds, close, leave_scope, mark, note_moved, operation, wake, wake_deferred
from holdfast.core.facts.graph import EXPIRED
from holdfast.core.facts.state import (
    CONVERSATION,
    FUNCTION,
    MAP,
    MAX_DECIDED_KEPT,
    MAX_SIGNAL_KEYS,
    MESSAGE,
    SHARED,
    SHARED_WAIT,
    SLEEP,
    SUMMARY,
    TOOL_APPROVAL,
    Approval,
    Gate,
    Message,
    PoolWait,
    RecordedDecision,
    SharedWait,
    Signal,
    State,
)
from holdfast.core.values.actor import folded
from holdfast.core.values.ids import GateId, node_of
from holdfast.core.values.payload import NULL, Payload
from holdfast.core.values.policies import CALLED_OFF, RATE_LIMIT, ErrorRecord


def _value_recorded(s: State, e: ev.ValueRecorded, at_ms: int) -> None:
    op = operation(s, e.step, e.path, e.kind, e.name or e.kind, e.args_hash, at_ms, "done")
    op.outcome = e.payload or Payload(json=msgspec.Raw(msgspec.json.encode(e.value)))
    op.error = op.due_at_ms = None  # of a try before, or of a timer that fired in its step's process
    if e.kind == SUMMARY and e.name == CONVERSATION:
        s.summary = op.outcome
    if e.kind == MAP:
        items.gathered(s, s.steps[node_of(e.step)], e.path)


def _function_failed(s: State, e: ev.FunctionFailed, at_ms: int) -> None:
    op = operation(s, e.step, e.path, FUNCTION, e.name, e.args_hash, at_ms, "failed")
    op.error = e.error


def _shared_value_written(s: State, e: ev.SharedValueWritten, at_ms: int) -> None:
    op = operation(s, e.step, e.path, SHARED, f"{e.space}/{e.key}", e.args_hash, at_ms, "done")
    op.outcome, op.error = e.outcome, None
    s.shares = True


def _shared_value_awaited(s: State, e: ev.SharedValueAwaited, at_ms: int) -> None:
    op = operation(s, e.step, e.path, SHARED_WAIT, f"{e.space}/{e.key}", e.args_hash, at_ms)
    op.due_at_ms = e.due_at_ms
    s.shares = True
    s.shared_waits[f"{e.step}:{e.path}"] = SharedWait(e.step, e.path, e.space, e.key, e.after)


def _shared_value_arrived(s: State, e: ev.SharedValueArrived, at_ms: int) -> None:
    s.shared_waits.pop(f"{e.step}:{e.path}", None)
    close(s, e.step, e.path, outcome=e.outcome)


def _shared_value_timed_out(s: State, e: ev.SharedValueTimedOut, at_ms: int) -> None:
    s.shared_waits.pop(f"{e.step}:{e.path}", None)
    close(s, e.step, e.path, error=e.error)


def _shared_value_conflicted(s: State, e: ev.SharedValueConflicted, at_ms: int) -> None:
    if e.error is not None:
        op = operation(s, e.step, e.path, SHARED, f"{e.space}/{e.key}", e.args_hash, at_ms, "failed")
        op.error = e.error


def _retry_scheduled(s: State, e: ev.RetryScheduled, at_ms: int) -> None:
    step = s.steps[node_of(e.step)]
    op = step.journal[e.path]
    if op.error is not None and op.error.error_class == RATE_LIMIT:
        op.rate_limited += 1
    else:
        op.failures += 1
    op.due_at_ms, op.since_ms = e.retry_at_ms, at_ms
    mark(s, step, e.path, op, "retrying")
    note_moved(s, node_of(e.step))


def _pools_awaited(s: State, e: ev.PoolsAwaited, at_ms: int) -> None:
    step = s.steps[node_of(e.step)]
    step.pool_waits = {**step.pool_waits, e.path: PoolWait(e.pools, at_ms)}
    note_moved(s, node_of(e.step))


def _operation_reopened(s: State, e: ev.OperationReopened, at_ms: int) -> None:
    step = s.steps[node_of(e.step)]
    op = step.journal[e.path]
    mark(s, step, e.path, op, "reopened")
    op.due_at_ms = None
    leave_scope(s, e.step, e.path, op)
    wake(s, step)


def _operation_called_off(s: State, e: ev.OperationCalledOff, at_ms: int) -> None:
    step = s.steps[node_of(e.step)]
    op, place = step.journal[e.path], f"{e.step}:{e.path}"
    if op.kind == MAP:
        items.drop_maps(s, step, frozenset((e.path,)))
    if op.child is not None and (child := s.children.get(op.child)) is not None:
        child.places.pop(place, None)
    for waits in (s.deferred, s.short, s.shared_waits):
        waits.pop(place, None)
    if op.signal and op.outcome is not None:  # no step has had it: it is kept for another wait
        s.signals.append(Signal(op.name, op.signal, op.outcome))
        s.signals.sort(key=lambda signal: signal.number)
        op.signal, op.outcome = 0, None
    op.scope, op.other, op.due_at_ms, op.blocked, op.unable = None, None, None, False, {}
    op.error = ErrorRecord(node_of(e.step), CALLED_OFF, "Called off: its step goes on without it.", False, at_ms)
    mark(s, step, e.path, op, "failed")
    note_moved(s, node_of(e.step))


def _timer_started(s: State, e: ev.TimerStarted, at_ms: int) -> None:
    op = operation(s, e.step, e.path, SLEEP, e.name, e.args_hash, at_ms)
    op.due_at_ms = e.due_at_ms


def _timer_fired(s: State, e: ev.TimerFired, at_ms: int) -> None:
    close(s, e.step, e.path, outcome=NULL)


def _signal_awaited(s: State, e: ev.SignalAwaited, at_ms: int) -> None:
    op = operation(s, e.step, e.path, "signal", e.name, e.args_hash, at_ms)
    op.due_at_ms, op.schema = e.due_at_ms, e.schema


def _signal_received(s: State, e: ev.SignalReceived, at_ms: int) -> None:
    s.signals_received = e.number
    s.signals.append(Signal(e.name, e.number, e.data))
    if e.key is not None:
        s.signal_keys[e.key] = e.digest
        if len(s.signal_keys) > MAX_SIGNAL_KEYS:
            del s.signal_keys[next(iter(s.signal_keys))]


def _signal_delivered(s: State, e: ev.SignalDelivered, at_ms: int) -> None:
    signal = next(kept for kept in s.signals if kept.number == e.number)
    s.signals.remove(signal)
    close(s, e.step, e.path, outcome=signal.data)
    s.steps[node_of(e.step)].journal[e.path].signal = e.number


def _signal_timed_out(s: State, e: ev.SignalTimedOut, at_ms: int) -> None:
    close(s, e.step, e.path, error=e.error)


def _message_received(s: State, e: ev.MessageReceived, at_ms: int) -> None:
    s.told = e.number
    s.messages.append(Message(e.number, e.message))


def _message_read(s: State, e: ev.MessageRead, at_ms: int) -> None:
    message = next(kept for kept in s.messages if kept.number == e.number)
    s.messages.remove(message)
    operation(s, e.step, e.path, MESSAGE, MESSAGE, "", at_ms, "done").outcome = message.said


def _gate_opened(s: State, e: ev.GateOpened, at_ms: int) -> None:
    s.gates_opened += 1
    s.gates[e.gate] = Gate(e, at_ms)
    if e.step is not None and e.path is not None:
        op = operation(s, e.step, e.path, "gate", e.reason, e.args_hash, at_ms)
        op.gate = e.gate


def _gate_approved(s: State, e: ev.GateApproved, at_ms: int) -> None:
    s.gates[e.gate].approvals.append(Approval(e.by or "", at_ms, e.maker, e.roles))
    _note_maker(s, e)


def _gate_edited(s: State, e: ev.GateEdited, at_ms: int) -> None:
    gate = s.gates[e.gate]
    gate.opened, gate.approvals = edited(gate.opened, e), []


def _gate_assigned(s: State, e: ev.GateAssigned, at_ms: int) -> None:
    gate = s.gates[e.gate]
    gate.opened = assigned(gate.opened, e)
    gate.approvals = still_asked(gate)


def _gate_reminded(s: State, e: ev.GateReminded, at_ms: int) -> None:
    s.gates[e.gate].reminders = e.number


def _gate_escalated(s: State, e: ev.GateEscalated, at_ms: int) -> None:
    s.gates[e.gate].escalated_at_ms = at_ms


def _note_maker(s: State, e: ev.GateApproved | ev.GateDecided) -> None:
    """Remember who made the key with which a gate was decided: a later one may be for another person."""
    if e.maker is not None:
        note_makers(s, {folded(e.by): (e.maker,)})


def _gate_closed(s: State, gate: GateId, decided: RecordedDecision) -> Gate:
    """Remember what became of a gate that was open, and return it."""
    s.decided[gate] = decided
    if len(s.decided) > MAX_DECIDED_KEPT:
        del s.decided[next(iter(s.decided))]
    return s.gates.pop(gate)


def _gate_decided(s: State, e: ev.GateDecided, at_ms: int) -> None:
    gate = _gate_closed(s, e.gate, RecordedDecision(e.decision, at_ms, e.by))
    _note_maker(s, e)
    has_several = (gate.opened.four_eyes or gate.opened.quorum > 1) and gate.opened.reason != TOOL_APPROVAL
    if has_several and e.decision not in ("reject", "retry"):
        s.vouched_for = e.gate
    opened, before = gate.opened, [each.by for each in gate.approvals] if e.decision == "approve" else []
    if opened.completes_step and opened.step is not None and (step := s.step(opened.step)) is not None:
        step.reason, step.by, step.approvers = e.reason, e.by, before
    if opened.step is not None and opened.path is not None and not opened.completes_step:
        answer: dict[str, Any] = {"decision": e.decision, "data": e.data.json, "by": e.by, "reason": e.reason}
        if before:
            answer["approvers"] = [*before, e.by]
        close(s, opened.step, opened.path, outcome=Payload(json=msgspec.Raw(msgspec.json.encode(answer))))


def _gate_expired(s: State, e: ev.GateExpired, at_ms: int) -> None:
    opened = _gate_closed(s, e.gate, RecordedDecision(EXPIRED, at_ms)).opened
    if opened.step is not None and opened.path is not None and not opened.completes_step:
        close(s, opened.step, opened.path, error=e.error)


def _gate_withdrawn(s: State, e: ev.GateWithdrawn, at_ms: int) -> None:
    s.gates.pop(e.gate, None)
    wake_deferred(s)  # whom a limit's gate had stopped though there was room


FOLDS: Final[Folds] = {
    ev.ValueRecorded: _value_recorded,
    ev.FunctionFailed: _function_failed,
    ev.SharedValueWritten: _shared_value_written,
    ev.SharedValueConflicted: _shared_value_conflicted,
    ev.SharedValueAwaited: _shared_value_awaited,
    ev.SharedValueArrived: _shared_value_arrived,
    ev.SharedValueTimedOut: _shared_value_timed_out,
    ev.RetryScheduled: _retry_scheduled,
    ev.PoolsAwaited: _pools_awaited,
    ev.OperationReopened: _operation_reopened,
    ev.OperationCalledOff: _operation_called_off,
    ev.TimerStarted: _timer_started,
    ev.TimerFired: _timer_fired,
    ev.SignalAwaited: _signal_awaited,
    ev.SignalReceived: _signal_received,
    ev.SignalDelivered: _signal_delivered,
    ev.SignalTimedOut: _signal_timed_out,
    ev.MessageReceived: _message_received,
    ev.MessageRead: _message_read,
    ev.GateOpened: _gate_opened,
    ev.GateApproved: _gate_approved,
    ev.GateEdited: _gate_edited,
    ev.GateAssigned: _gate_assigned,
    ev.GateReminded: _gate_reminded,
    ev.GateEscalated: _gate_escalated,
    ev.GateDecided: _gate_decided,
    ev.GateExpired: _gate_expired,
    ev.GateWithdrawn: _gate_withdrawn,
}
