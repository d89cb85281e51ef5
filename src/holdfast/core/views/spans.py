"""The spans of a run, derived from its history: what took time, within what, in no convention's words.

A span is returned with the event that ends it, so nothing that waits is an open span. What rests is cut into parts: a run's
part ends where nothing of it is at work, a step's where it waits, and the next part has a link to the one before. A parent is
written no later than what is below it begins to wait, so a trace is whole at any time.

Everything follows from the events in their order: the same history gives the same spans, with the same ids, wherever batches
are cut. Never here: reading payloads (but for the result of a job), a convention's names, a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.state import FUNCTION
from holdfast.core.values.ids import CallId, RunId, StepId, node_of, visit_of
from holdfast.core.values.payload import Payload
from holdfast.core.values.trace import call_span, child_span, span_id
from holdfast.core.views.page import rows_after
from holdfast.core.views.span_parts import (
    LEFT,
    NO_STEP,
    RUN_ENDS,
    STEP_ENDS,
    PartSpans,
    Place,
    Span,
    SpanKind,
    Spent,
    WaitKind,
    kind_of,
)


class _Call(msgspec.Struct):
    """A call that left, or an operation that began, without its outcome."""

    step: StepId
    parent_id: str
    began_ms: int
    name: str
    facts: dict[str, Any]
    kind: SpanKind
    held_nanousd: int
    received: Payload | None
    given_up_nanousd: int


_NOTHING: Final[dict[CallId, ev.Hold]] = {}

_CALL_ENDS: Final[dict[type[ev.Event], str]] = {
    ev.ModelCallSettled: "completed",
    ev.ModelCallFailed: "failed",
    ev.ModelCallInDoubt: "in_doubt",
    ev.ModelCallReconciled: "reconciled",
    ev.EffectCompleted: "completed",
    ev.EffectFailed: "failed",
    ev.EffectReleased: "released",
    ev.EffectInDoubt: "in_doubt",
    ev.EffectUnanswered: "unanswered",
    ev.OutcomeOrphaned: "orphaned",
}
_GOES_ON: Final[dict[type[ev.Event], str]] = {
    ev.TimerFired: "fired",
    ev.SignalDelivered: "delivered",
    ev.SignalTimedOut: "timed_out",
    ev.SharedValueArrived: "arrived",
    ev.SharedValueTimedOut: "timed_out",
    ev.OperationReopened: "reopened",
    ev.OperationCalledOff: "called_off",
    ev.EffectReused: "reused",
    ev.ToolCallDenied: "denied",
}
"""Events that end the wait of the operation at their step and path."""


class Spans(PartSpans):
    """The spans of a run, gathered from its history, event by event. Begins at the history's beginning.

    Its memory is what is under way, not what is over.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[CallId, _Call] = {}
        self._gates: dict[str, Place] = {}
        self._children: dict[RunId, list[Place]] = {}
        self._guards: dict[tuple[str, str | None, str], tuple[int, int]] = {}

    @property
    def open_count(self) -> int:
        """Return the number of attempts, steps, calls and waits that are open."""
        return len(self._attempts) + len(self._steps) + len(self._calls) + len(self._waits)

    def add(self, recorded: ev.Recorded) -> list[Span]:
        """Take the next event in, and return the spans that ended with it, the outermost last."""
        event, kind, at_ms = recorded.event, type(recorded.event), recorded.at_ms
        self.seq = recorded.seq
        written: list[Span] = []
        if (handler := _HANDLERS.get(kind)) is not None:
            handler(self, event, at_ms, written)
        elif (wait := _WAITS.get(kind)) is not None:
            self._wait(_place(event), at_ms, *wait(event))
        elif (outcome := _GOES_ON.get(kind)) is not None:
            self._go_on(_place(event), at_ms, outcome, written)
        if kind in _GATE_ENDS:
            self._gate_over(event, recorded, written)
        return written

    def _run_ended(self, event: Any, at_ms: int, written: list[Span]) -> None:
        outcome = RUN_ENDS[type(event)]
        for step in [*self._steps]:
            self._forget(step, at_ms, written)
        for place in [*self._waits]:
            self._go_on(place, at_ms, "ended", written)
        for call in [*self._calls]:
            self._write_call(call, at_ms, outcome="unknown", error="", written=written)
        part = self._expect_part(at_ms)
        facts = {"run_ms": at_ms - self._began_ms, "run_cost_nanousd": self._total.nanousd}
        self._close_part(part, at_ms, outcome, getattr(event, "error", None), facts, written, getattr(event, "output", None))
        for kept in (
            self._latest,
            self._tasks,
            self._ready,
            self._waited,
            self._gates,
            self._maps,
            self._guards,
            self._children,
        ):
            kept.clear()

    # --- Operations ---------------------------------------------------------------------------------------------------

    def _model_call_held(self, event: ev.ModelCallHeld, at_ms: int, written: list[Span]) -> None:
        self._go_on(_place(event), at_ms, "left", written)
        facts = {"model": event.model, "attempt": event.attempt}
        self._call(event, at_ms, "model_call", event.sent_to or event.model, facts, event.request)

    def _effect_intended(self, event: ev.EffectIntended, at_ms: int, written: list[Span]) -> None:
        self._go_on(_place(event), at_ms, "left", written)
        facts = {"policy": event.policy, "attempt": event.attempt}
        if event.compensates is not None:
            facts["compensates"] = event.compensates
        self._call(event, at_ms, "tool_call", event.tool, facts, event.request)

    def _call(self, event: Any, at_ms: int, kind: SpanKind, name: str, facts: dict[str, Any], received: Any) -> None:
        if event.call in self._calls:
            return
        self._calls[event.call] = _Call(
            event.step,
            self._parent_of(event.step, event.attempt, at_ms),
            at_ms,
            name,
            {"step": event.step, "node": node_of(event.step), "path": event.path, "call": event.call, **facts},
            kind,
            event.hold_nanousd,
            received,
            sum(hold.nanousd for hold in getattr(event, "given_up", _NOTHING).values()),
        )

    def _call_ended(self, event: Any, at_ms: int, written: list[Span]) -> None:
        outcome = _CALL_ENDS[type(event)]
        error = getattr(event, "error", None)
        klass = error.error_class if error is not None else ""
        call = self._calls.get(event.call)
        nanousd = getattr(event, "cost_nanousd", 0)
        if type(event) is ev.EffectCompleted:
            nanousd = event.hold.nanousd if event.hold is not None else call.held_nanousd if call is not None else 0
        if call is not None:
            nanousd += call.given_up_nanousd
        spent = Spent(nanousd, getattr(event, "input_tokens", 0), getattr(event, "output_tokens", 0))
        step = StepId(event.call.split(":", 2)[1])
        self._charge(step, spent)
        facts = spent.facts()
        for name in ("cache_read_tokens", "cache_write_tokens"):
            if tokens := getattr(event, name, 0):
                facts[name] = tokens
        if outcome in ("in_doubt", "unanswered") and call is not None and call.held_nanousd:
            facts["in_doubt_nanousd"] = call.held_nanousd
        returned = getattr(event, "output", None) or getattr(event, "response", None)
        if call is not None:
            self._write_call(event.call, at_ms, outcome, klass, written, facts, returned)
            return
        parent = self._parent_of(step, None, at_ms)
        id_, of = span_id(self.run, "outcome", self.seq), call_span(event.call)
        facts = {"call": event.call, "by": getattr(event, "by", None), **facts}
        written.append(
            self._span(id_, parent, "outcome", outcome, at_ms, at_ms, outcome, klass, facts, self._links(of), None, returned)
        )

    def _charge(self, step: StepId, spent: Spent) -> None:
        """Count what a call has cost in what it is a part of. What comes while the run rests counts in the whole run alone."""
        part = self._steps.get(step)
        for each in (
            self._total,
            self._part.spent if self._part is not None else None,
            part.spent if part is not None else None,
        ):
            if each is not None:
                each.nanousd += spent.nanousd
                each.input_tokens += spent.input_tokens
                each.output_tokens += spent.output_tokens

    def _write_call(
        self,
        id_: CallId,
        at_ms: int,
        outcome: str,
        error: str,
        written: list[Span],
        facts: dict[str, Any] | None = None,
        returned: Payload | None = None,
    ) -> None:
        call = self._calls.pop(id_)
        written.append(
            self._span(
                call_span(id_), call.parent_id, call.kind, call.name, call.began_ms, at_ms, outcome, error,
                {**call.facts, **(facts or {})}, (), call.received, returned,
            )
        )  # fmt: skip

    def _function(self, event: Any, at_ms: int, written: list[Span]) -> None:
        if type(event) is ev.ValueRecorded and event.kind != FUNCTION:
            return
        error = event.error.error_class if type(event) is ev.FunctionFailed else ""
        self._go_on((event.step, event.path), at_ms, "called", written)
        parent = self._parent_of(event.step, getattr(event, "attempt", None), at_ms)
        facts = {"step": event.step, "node": node_of(event.step), "path": event.path}
        id_, outcome = span_id(self.run, "function", self.seq), "failed" if error else "completed"
        returned = getattr(event, "payload", None)
        written.append(
            self._span(
                id_, parent, "function", event.name, at_ms - event.took_ms, at_ms, outcome, error, facts, (), None,
                returned,
            )
        )  # fmt: skip

    def _mapped(self, event: ev.ItemsMapped | ev.MapReopened, at_ms: int, written: list[Span]) -> None:
        parent = self._parent_of(event.step, getattr(event, "attempt", None), at_ms)
        id_ = self._maps[event.map, visit_of(event.step)] = span_id(self.run, "map", self.seq)
        facts: dict[str, Any] = {"step": event.step, "node": node_of(event.step), "path": event.path, "map": event.map}
        if isinstance(event, ev.ItemsMapped):
            facts["count"] = event.count
        name = event.name if isinstance(event, ev.ItemsMapped) else event.map
        written.append(self._span(id_, parent, "map", name, at_ms, at_ms, "requested", "", facts))
        self._wait(_place(event), at_ms, "map", event.map)

    def _map_ended(self, event: ev.MapEnded, at_ms: int, written: list[Span]) -> None:
        self._go_on(_place(event), at_ms, "failed" if event.error is not None else "completed", written)
        self._maps.pop((event.map, visit_of(event.step)), None)

    def _child_requested(self, event: ev.ChildRequested, at_ms: int, written: list[Span]) -> None:
        parent = self._parent_of(event.step, event.attempt, at_ms)
        # A child that is tried again goes on in the trace that its first request began.
        id_ = span_id(self.run, "child", self.seq) if event.again else child_span(self.run, event.child)
        facts = {"step": event.step, "node": node_of(event.step), "path": event.path, "child": event.child}
        written.append(self._span(id_, parent, "child", event.workflow, at_ms, at_ms, "requested", "", facts))
        if not event.background:
            self._await_child(event, at_ms)

    def _child_awaited(self, event: ev.ChildAwaited, at_ms: int, written: list[Span]) -> None:
        if not event.background:
            self._await_child(event, at_ms)

    def _child_ended(self, event: ev.ChildEnded, at_ms: int, written: list[Span]) -> None:
        for place in self._children.pop(event.child, ()):
            self._go_on(place, at_ms, event.how, written)

    def _await_child(self, event: ev.ChildRequested | ev.ChildAwaited, at_ms: int) -> None:
        place = _place(event)
        self._children.setdefault(event.child, []).append(place)
        self._wait(place, at_ms, "child", event.workflow, {"child": event.child})

    def _guard_asked(self, event: ev.GuardAsked, at_ms: int, written: list[Span]) -> None:
        self._expect_part(at_ms)
        self._guards[event.step, event.target, event.guard] = (at_ms, self.seq)

    def _guard_judged(self, event: ev.GuardJudged, at_ms: int, written: list[Span]) -> None:
        asked = self._guards.pop((event.step, event.target, event.guard), None)
        if asked is None:
            return
        facts = {"step": event.step, "node": node_of(event.step), "target": event.target, "allowed": event.allowed}
        id_, parent = span_id(self.run, "guard", asked[1]), self._expect_part(at_ms).span_id
        outcome = "allowed" if event.allowed else "denied"
        written.append(self._span(id_, parent, "guard", event.guard, asked[0], at_ms, outcome, "", facts))

    def _gate_opened(self, event: ev.GateOpened, at_ms: int, written: list[Span]) -> None:
        place = self._gates[event.gate] = (event.step or NO_STEP, event.gate)
        facts = {"gate": event.gate, "due_at_ms": event.due_at_ms, "risk_level": event.risk_level}
        self._wait(place, at_ms, "person", event.reason, facts)

    def _gate_over(self, event: Any, recorded: ev.Recorded, written: list[Span]) -> None:
        place = self._gates.pop(event.gate, None)
        if place is None:
            return
        facts: dict[str, Any] = {}
        outcome = "expired" if type(event) is ev.GateExpired else "withdrawn"
        if type(event) is ev.GateDecided:
            outcome = event.decision
            facts["by"] = event.by
            if recorded.trace_id is not None and recorded.trace_id != self.context.trace_id:
                facts["request_trace"] = recorded.trace_id
        self._go_on(place, recorded.at_ms, outcome, written, facts)

    # --- What is open ------------------------------------------------------------------------------------------------

    def open(self) -> list[Span]:
        """Return what has not ended, in the order in which it began, as of the latest event."""
        written: list[Span] = []
        if (part := self._part) is not None:
            facts = {"part": part.number, **part.spent.facts()}
            written.append(self._open(part.span_id, part.parent_id, "run", self.workflow, part.began_ms, facts))
        for step, part in self._steps.items():
            facts = {"step": step, "node": node_of(step), "part": part.number, **part.spent.facts()}
            written.append(self._open(part.span_id, part.parent_id, kind_of(step), node_of(step), part.began_ms, facts))
        for step, attempt in self._attempts.items():
            facts = {"step": step, "node": node_of(step), "attempt": attempt.number}
            parent = self._steps[step].span_id
            written.append(self._open(attempt.span_id, parent, "attempt", node_of(step), attempt.began_ms, facts))
        for id_, call in self._calls.items():
            written.append(self._open(call_span(id_), call.parent_id, call.kind, call.name, call.began_ms, call.facts))
        for wait in self._waits.values():
            facts = {"wait": wait.kind, **wait.facts}
            written.append(self._open(wait.span_id, wait.parent_id, "wait", wait.name, wait.began_ms, facts))
        return sorted(written, key=lambda span: span.began_at_ms)

    def _open(self, id_: str, parent: str, kind: SpanKind, name: str, began_ms: int, facts: dict[str, Any]) -> Span:
        written = self._span(id_, parent, kind, name, began_ms, None, "open", "", facts)
        return msgspec.structs.replace(written, seq=self.seq + 1)


def _place(event: Any) -> Place:
    return event.step, event.path


_Handler: TypeAlias = Callable[[Spans, Any, int, list[Span]], None]
_HANDLERS: Final[dict[type[ev.Event], _Handler]] = {
    ev.RunStarted: Spans._run_started,
    ev.RunReopened: Spans._await_admission,
    ev.RunAdmitted: Spans._admitted,
    ev.RunPaused: Spans._paused,
    ev.RunResumed: Spans._resumed,
    ev.RunForked: Spans._forked,
    **dict.fromkeys(RUN_ENDS, Spans._run_ended),
    ev.StepReady: Spans._step_ready,
    ev.StepStarted: Spans._step_started,
    ev.StepSuspended: Spans._suspended,
    ev.StepSkipped: Spans._skipped,
    **dict.fromkeys(LEFT, Spans._attempt_left),
    **dict.fromkeys(STEP_ENDS, Spans._step_ended),
    ev.JournalDropped: Spans._journal_dropped,
    ev.ModelCallHeld: Spans._model_call_held,
    ev.EffectIntended: Spans._effect_intended,
    **dict.fromkeys(_CALL_ENDS, Spans._call_ended),
    ev.ValueRecorded: Spans._function,
    ev.FunctionFailed: Spans._function,
    ev.ItemsMapped: Spans._mapped,
    ev.MapReopened: Spans._mapped,
    ev.MapEnded: Spans._map_ended,
    ev.ChildRequested: Spans._child_requested,
    ev.ChildAwaited: Spans._child_awaited,
    ev.ChildEnded: Spans._child_ended,
    ev.GuardAsked: Spans._guard_asked,
    ev.GuardJudged: Spans._guard_judged,
    ev.GateOpened: Spans._gate_opened,
}
_GATE_ENDS: Final = frozenset({ev.GateDecided, ev.GateExpired, ev.GateWithdrawn})

_Begun: TypeAlias = tuple[WaitKind, str, dict[str, Any]]
_WAITS: Final[dict[type[ev.Event], Callable[[Any], _Begun]]] = {
    ev.TimerStarted: lambda e: ("timer", e.name, {"due_at_ms": e.due_at_ms}),
    ev.SignalAwaited: lambda e: ("signal", e.name, {"due_at_ms": e.due_at_ms}),
    ev.SharedValueAwaited: lambda e: ("shared_value", f"{e.space}/{e.key}", {"due_at_ms": e.due_at_ms}),
    ev.PoolsAwaited: lambda e: ("pool", ", ".join(e.pools), {}),
    ev.HoldDeferred: lambda e: ("money", "run", {}),
    ev.ScopeExceeded: lambda e: ("money", e.scope, {"due_at_ms": e.due_at_ms}),
    ev.EffectDeferred: lambda e: ("effect", e.tool, {}),
    ev.RetryScheduled: lambda e: ("retry", "operation", {"due_at_ms": e.retry_at_ms}),
}
"""Events with which the operation at their step and path begins to wait."""


class RunSpans:
    """The spans of a run, kept for those who list them."""

    def __init__(self) -> None:
        self.gathered = Spans()
        self.ended: list[Span] = []

    def add(self, recorded: ev.Recorded) -> None:
        """Take an event of the history in, in its order."""
        self.ended += self.gathered.add(recorded)

    def after(self, seq: int, limit: int | None = None) -> Sequence[Span]:
        """Return those that ended after event `seq`, at most `limit` but all of the last one's event; and with the last of
        them what is open."""
        written = rows_after(self.ended, seq, limit)
        is_last = not self.ended or seq >= self.ended[-1].seq or (bool(written) and written[-1] is self.ended[-1])
        if not is_last or seq > self.gathered.seq or (limit is not None and len(written) >= limit):
            return written
        return [*written, *self.gathered.open()]


def spans(history: Iterable[ev.Recorded]) -> list[Span]:
    """Return the spans of a run that have ended, in the order in which they did, from its whole history."""
    gathered = Spans()
    return [span for recorded in history for span in gathered.add(recorded)]
