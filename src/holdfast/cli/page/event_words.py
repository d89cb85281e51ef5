"""Every event of a history in words, for a person who reads all of it.

Never here: the few lines for a person who follows a run (telling), where a line goes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.cli.page.event_format import EventFormatter, by, failure, named
from holdfast.cli.page.moment import clock, span
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import FUNCTION
from holdfast.core.values.content import labelled
from holdfast.core.values.ids import CallId, StepId
from holdfast.core.values.money import usd
from holdfast.core.values.payload import Payload
from holdfast.core.values.scopes import in_words
from holdfast.service.declarations.query import View

_MAX_VALUE: Final = 100
"""Maximum number of characters of a value; --json has all of it."""
_PLACE: Final = frozenset({"seq", "at", "type", "trace_id", "verified"})
_BLOB: Final[dict[str, Any]] = {"blob": None, "month": None}
"""The fields of a payload that is stored apart, besides its size."""


class EventWords:
    """The words for the events of one run, in their order: a later event names the call or child of an earlier one."""

    def __init__(self) -> None:
        self._teller = EventFormatter()
        self._names: dict[str, str] = {}
        """Names of calls and children, by their ids."""

    def words(self, row: View) -> str:
        """Return an event of a history on one line."""
        from holdfast.service import view

        try:
            recorded = view.recorded_of(row)
        except (KeyError, TypeError, msgspec.ValidationError):  # of a server of a later version
            fields = {name: value for name, value in row.items() if name not in _PLACE}
            return f"{row['type']} {_clipped(fields)}"
        return self.tell(recorded)

    def tell(self, recorded: ev.Recorded) -> str:
        """Return a recorded event on one line."""
        event, line = recorded.event, self._teller.tell(recorded)
        if isinstance(event, ev.ModelCallHeld | ev.EffectIntended):
            name = event.model if isinstance(event, ev.ModelCallHeld) else event.tool
            self._names[event.call] = f"{named(event.step)}: {name}"
        elif isinstance(event, ev.ChildRequested | ev.ChildAwaited):
            self._names[event.child] = f"{event.workflow}, run {event.child},"
        if isinstance(event, ev.StepCompleted):
            return f"{line}{_value(event.output, ' → ')}"
        words = WORDS.get(type(event))
        if words is not None:
            return words(event, self._name(event))
        return line if line is not None else type(event).__name__

    def _name(self, event: Any) -> str:
        """Return the name of the call, child or step that an event is about."""
        call: CallId | None = getattr(event, "call", None)
        child: str | None = getattr(event, "child", None)
        step: StepId | None = getattr(event, "step", None)
        if step is not None:
            return named(step)
        if call is not None:
            return self._names.get(call, f"call {call}")
        return "" if child is None else self._names.get(child, f"run {child}")


def _value(payload: Payload | None, before: str = ": ") -> str:
    """Return a payload after `before`, cut short; nothing for null."""
    if payload is None:
        return ""
    value = {"size_bytes": payload.size_bytes, **_BLOB} if payload.blob is not None else payload.value()
    if value is None:
        return ""
    if isinstance(value, dict) and value.keys() >= _BLOB.keys() | {"size_bytes"}:
        return f"{before}{value['size_bytes']} bytes, stored apart"
    return before + _clipped(value)


def _clipped(value: Any) -> str:
    text = json.dumps(labelled(value), ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"


def _started(e: ev.RunStarted, name: str) -> str:
    limit = "" if e.limit_nanousd is None else f", with a limit of ${usd(e.limit_nanousd)}"
    return f"{e.workflow} {e.version} started{by(e)}{limit}{_value(e.input)}"


def _recorded(e: ev.ValueRecorded, name: str) -> str:
    if e.kind == FUNCTION:
        return f"{name}: {e.name} completed{_value(e.payload, ' → ')}"
    return f"{name} recorded {e.name}{_value(e.payload)}"


def _settled(e: ev.ModelCallSettled, name: str) -> str:
    over = ", more than its bound" if e.over_bound else ""
    return f"{name} ${usd(e.cost_nanousd)}, {e.input_tokens} + {e.output_tokens} tokens{over}"


def _intended(e: ev.EffectIntended, name: str) -> str:
    undone = "" if e.compensates is None else f" to undo call {e.compensates}"
    return f"{name} calls {e.tool}{undone}{_value(e.request, ' with ')}"


def _conflicted(e: ev.StateConflicted, name: str) -> str:
    other, resolved = named(e.other), "" if e.resolved is None else _value(e.resolved, " → ")
    values = f"{other}{_value(e.current, ' ')}, {name}{_value(e.attempted, ' ')}{resolved}"
    return f"{name} and {other} wrote {e.field} of the state, neither seeing the other's ({e.strategy}): {values}"


def _shared_conflict(e: ev.SharedValueConflicted, name: str) -> str:
    found = e.conflict
    versions = f"expected version {found.expected} of {e.space!r} {e.key!r} and found {found.found} of {found.found_by!r}"
    values = f"{_value(found.current, ': found ')}{_value(found.attempted, ', wrote ')}"
    return f"{name} {versions} ({found.strategy}){values}"


def _asked(e: ev.GateOpened, name: str) -> str:
    *others, last = e.allowed
    reviewers, decisions = ", ".join(e.reviewers) or "anyone", f"{', '.join(others)} or {last}" if others else last
    return f"{name or 'the run'} asks {reviewers}: {decisions} ({e.reason}, gate {e.gate})"


def _decided(e: ev.GateDecided, name: str) -> str:
    reason = f" ({e.reason})" if e.reason else ""
    return f"gate {e.gate} decided{by(e)}: {e.decision}{reason}{_value(e.data)}"


def _judged(e: ev.GuardJudged, name: str) -> str:
    target = f" → {e.target}" if e.target is not None else ""
    return f"{name}{target}: guard {e.guard} {'allows' if e.allowed else 'denies'} it{f': {e.reason}' if e.reason else ''}"


def _ended(e: ev.ChildEnded, name: str) -> str:
    error = "" if e.error is None else f": {failure(e.error)}"
    return f"{name} {e.how}{error}{_value(e.output)}"


def _orphaned(e: ev.OutcomeOrphaned, name: str) -> str:
    error = "" if e.error is None else f": {failure(e.error)}"
    return f"{name}: a call that was given up has answered{error}{_value(e.response)}"


def _labelled(e: ev.RunLabelled, name: str) -> str:
    labels = ", ".join(f"{key}={value}" if value is not None else f"no {key}" for key, value in e.labels.items())
    return f"labels changed{by(e)}: {labels}"


WORDS: Final[dict[type[ev.Event], Callable[[Any, str], str]]] = {
    ev.RunStarted: _started,
    ev.AdmissionDeferred: lambda e, name: f"the run waits for a place among the {in_words(e.scope)}",
    ev.RunLabelled: _labelled,
    ev.RunCompleted: lambda e, name: f"the run completed{_value(e.output)}",
    ev.RunFailed: lambda e, name: f"the run failed: {failure(e.error)}",
    ev.RunCancelled: lambda e, name: f"the run was cancelled: {e.reason}",
    ev.RunReopened: lambda e, name: f"the run continues{by(e)}",
    ev.StepReady: lambda e, name: f"{name} is ready to start",
    ev.StepSuspended: lambda e, name: f"{name} waits",
    ev.StepStopped: lambda e, name: f"{name} stopped: its code no longer asks for the operation at {e.path}",
    ev.StateConflicted: _conflicted,
    ev.SharedValueConflicted: _shared_conflict,
    ev.JournalDropped: lambda e, name: (
        f"{name} continues with other code{'' if e.path is None else f', from the operation at {e.path} on'}"
    ),
    ev.OperationReused: lambda e, name: f"{name} reuses the outcome at {e.kept} of its earlier code",
    ev.StepInherited: lambda e, name: f"{name} {e.status} before the fork{_value(e.output)}",
    ev.OperationInherited: lambda e, name: f"{name} keeps {e.name} ({e.kind}) from before the fork",
    ev.GuardAsked: lambda e, name: f"{name}{f' → {e.target}' if e.target is not None else ''}: guard {e.guard} must decide",
    ev.GuardJudged: _judged,
    ev.JoinOpened: lambda e, name: f"{e.node} waits for its other branches until {clock(e.due_at_ms)}",
    ev.JoinTimedOut: lambda e, name: f"{e.node} did not get its other branches in time",
    ev.ItemsMapped: lambda e, name: f"{name} maps {e.count} items to {e.name}: {e.map}",
    ev.ValueRecorded: _recorded,
    ev.ModelCallHeld: lambda e, name: f"{name} calls {e.model}, at most ${usd(e.hold_nanousd)}",
    ev.PoolsAwaited: lambda e, name: f"{name}: {e.model} waits for {', '.join(e.pools)}",
    ev.OperationReopened: lambda e, name: f"{name} tries the operation at {e.path} again",
    ev.ModelCallSettled: _settled,
    ev.ModelCallFailed: lambda e, name: f"{name} failed, nothing was spent: {failure(e.error)}",
    ev.ModelCallInDoubt: lambda e, name: (
        f"{name}: the cost of call {e.call} is unknown, it counts as spent: {failure(e.error)}"
    ),
    ev.ModelCallReconciled: lambda e, name: f"{name} cost ${usd(e.cost_nanousd)}{by(e)}",
    ev.EffectIntended: _intended,
    ev.EffectReused: lambda e, name: f"{name}: {e.tool} was called before under the key {e.key}{_value(e.response)}",
    ev.EffectDeferred: lambda e, name: f"{name}: {e.tool} waits for another call under the key {e.key}",
    ev.EffectCompleted: lambda e, name: f"{name} completed{by(e)}{_value(e.response, ' → ')}",
    ev.EffectFailed: lambda e, name: f"{name} failed{by(e)}: {failure(e.error)}",
    ev.EffectReleased: lambda e, name: f"{name} was not sent, and is open again",
    ev.EffectInDoubt: lambda e, name: f"{name}: it is unknown whether call {e.call} happened: {failure(e.error)}",
    ev.EffectUnanswered: lambda e, name: f"{name} got no answer: {failure(e.error)}",
    ev.EffectReopened: lambda e, name: f"{name} is called again{by(e)}",
    ev.OutcomeOrphaned: _orphaned,
    ev.TimerFired: lambda e, name: f"{name}: the sleep is over",
    ev.SignalReceived: lambda e, name: (
        f"the signal {e.name!r} arrived{by(e)}{f', from run {e.sender}' if e.sender else ''}{_value(e.data)}"
    ),
    ev.SignalDelivered: lambda e, name: f"{name} got signal {e.number}",
    ev.SignalTimedOut: lambda e, name: f"{name}: no signal arrived in time",
    ev.MessageReceived: lambda e, name: f"message {e.number} arrived{by(e)}{_value(e.message)}",
    ev.TreeOpened: lambda e, name: "from here on, the limits of the run count what its children use",
    ev.ChildRequested: lambda e, name: f"{name} starts {e.workflow} {e.version}, run {e.child}{_value(e.input)}",
    ev.ChildAwaited: lambda e, name: f"{name} waits for {e.workflow}, run {e.child}",
    ev.ChildAbandoned: lambda e, name: f"{name} is to be cancelled: {e.reason}",
    ev.ChildUndone: lambda e, name: f"{name} has {e.workflow}, run {e.child}, undo its effects",
    ev.ChildEnded: _ended,
    ev.GateOpened: _asked,
    ev.GateDecided: _decided,
    ev.GateWithdrawn: lambda e, name: f"gate {e.gate} withdrawn: {e.reason}",
    ev.LifespanPassed: lambda e, name: f"the run is older than {span(round(e.lifespan_s * 1000))}, as its workflow expects",
}
"""The words of the kinds that `telling` has none for, or says too little of for a reader of the whole history. The second
argument is the name of the step, call or child."""
