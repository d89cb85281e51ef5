"""The spans of a run, derived from its history: what took time, within what, in no convention's words.

A span is returned with the event that ends it, so nothing that waits is an open span. What rests is cut into parts: a run's
part ends where nothing of it is at work, a step's where it waits, and the next part has a link to the one before. A parent is
written no later than what is below it begins to wait, so a trace is whole at any time.

Everything follows from the events in their order: the same history gives the same spans, with the same ids, wherever batches
are cut. Never here: reading payloads (but for the result of a job), a convention's names, a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.state import FUNCTION
from holdfast.core.values.ids import CallId, RunId, Seq, StepId, is_item, map_of, node_of, visit_of
from holdfast.core.values.payload import Payload
from holdfast.core.values.trace import TraceContext, attempt_span, call_span, child_span, span_id, trace_of
from holdfast.core.views.page import rows_after
from holdfast.core.views.step_result import step_result

SpanKind: TypeAlias = Literal[
    "run", "step", "attempt", "placement", "model_call", "tool_call", "function", "wait", "child", "map", "guard", "outcome"
]
"""`run` and `step` are parts between waits; `child` and `map` are requests, which end at once; `outcome` is what became known
of a call after its span had ended."""
WaitKind: TypeAlias = Literal[
    "person",
    "timer",
    "signal",
    "child",
    "map",
    "shared_value",
    "pool",
    "money",
    "effect",
    "retry",
    "code",
    "admission",
    "pause",
]
REST_MS: Final = 60_000
"""A step that is tried again later than this rests meanwhile: its part ends."""


Link: TypeAlias = tuple[str, str]
"""A trace id and the id of a span in it."""


class Span(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something in a run that took time. Times are Unix milliseconds, money is in nano-dollars.

    Args:
        parent_id: Id of the span around it; empty for the first of a trace.
        name: Name of the workflow, node, model, tool, function or wait.
        ended_at_ms: Null for one that is still open, which only people are shown.
        seq: Event with which it ended; of an open one, the next to come.
        error: Class of the error with which it ended.
        outcome: Outcome: `completed`, `failed`, `lost` and so on.
        facts: Numbers and names, without data of users.
        links: Spans that it continues, each with its trace.
        received: Data that it began with.
        returned: Data that it came to.
    """

    trace_id: str
    span_id: str
    parent_id: str
    kind: SpanKind
    name: str
    began_at_ms: int
    ended_at_ms: int | None
    seq: int
    outcome: str = ""
    error: str = ""
    facts: dict[str, Any] = {}
    links: tuple[Link, ...] = ()
    received: Payload | None = None
    returned: Payload | None = None

    @property
    def took_ms(self) -> int:
        """Duration in milliseconds; 0 where the store's clock went back."""
        return 0 if self.ended_at_ms is None else max(0, self.ended_at_ms - self.began_at_ms)


class _Spent(msgspec.Struct):
    """Costs of the calls of a part."""

    nanousd: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def facts(self) -> dict[str, Any]:
        if not (self.nanousd or self.input_tokens or self.output_tokens):
            return {}
        return {"cost_nanousd": self.nanousd, "input_tokens": self.input_tokens, "output_tokens": self.output_tokens}


class _Part(msgspec.Struct):
    """A part of a run or step that is at work."""

    span_id: str
    parent_id: str
    began_ms: int
    links: list[Link]
    spent: _Spent
    number: int = 1


class _Attempt(msgspec.Struct):
    span_id: str
    number: int
    began_ms: int
    session: str


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


class _Wait(msgspec.Struct):
    """A wait that goes on."""

    span_id: str
    parent_id: str
    began_ms: int
    kind: WaitKind
    name: str
    facts: dict[str, Any]


_Place: TypeAlias = tuple[StepId, str]
"""Step, and the place of the operation in it. What a run waits for as a whole has no step."""
_NO_STEP: Final = StepId("")
_NOTHING: Final[dict[CallId, ev.Hold]] = {}

_RUN_ENDS: Final[dict[type[ev.Event], str]] = {
    ev.RunCompleted: "completed",
    ev.RunFailed: "failed",
    ev.RunCancelled: "cancelled",
}
_STEP_ENDS: Final[dict[type[ev.Event], str]] = {
    ev.StepCompleted: "completed",
    ev.StepFailed: "failed",
    ev.StepCancelled: "cancelled",
}
_LEFT: Final[dict[type[ev.Event], str]] = {ev.AttemptFailed: "failed", ev.AttemptLost: "lost", ev.StepStopped: "stopped"}
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


class Spans:
    """The spans of a run, gathered from its history, event by event. Begins at the history's beginning.

    Its memory is what is under way, not what is over.
    """

    def __init__(self) -> None:
        self.run = RunId("")
        self.tenant = ""
        self.workflow = ""
        self.version = 0
        self.context = TraceContext("")
        self.seq = Seq(0)
        self._first = ""
        self._began_ms = 0
        self._parts = 0
        self._part: _Part | None = None
        self._last_part = ""
        self._total = _Spent()
        self._steps: dict[StepId, _Part] = {}
        self._before: dict[StepId, tuple[int, str]] = {}
        """Number of parts of a step that goes on later, and the last of them."""
        self._attempts: dict[StepId, _Attempt] = {}
        self._latest: dict[StepId, str] = {}
        """The latest attempt of a step that is not over."""
        self._ready: dict[StepId, tuple[int, int, bool]] = {}
        self._calls: dict[CallId, _Call] = {}
        self._waits: dict[_Place, _Wait] = {}
        self._waited: dict[StepId, list[str]] = {}
        """The waits of a step that are over, since it left."""
        self._gates: dict[str, _Place] = {}
        self._children: dict[RunId, list[_Place]] = {}
        self._maps: dict[tuple[str, int], str] = {}
        self._guards: dict[tuple[str, str | None, str], tuple[int, int]] = {}
        self._received: Payload | None = None

    @property
    def is_at_rest(self) -> bool:
        """True if nothing is at work: what was written has all its parents."""
        return self._part is None

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

    # --- The run ------------------------------------------------------------------------------------------------------

    def _run_started(self, event: ev.RunStarted, at_ms: int, written: list[Span]) -> None:
        root = event.parent.root if event.parent is not None else event.run
        self.run, self.tenant, self.workflow, self.version = event.run, event.tenant, event.workflow, event.version
        self.context = trace_of(event.traceparent, root)
        if event.parent is not None:
            self.context = self.context._replace(span_id=child_span(event.parent.run, event.run))
        self._began_ms, self._received = at_ms, event.input
        self._await_admission(event, at_ms, written)

    def _await_admission(self, event: ev.RunStarted | ev.RunReopened, at_ms: int, written: list[Span]) -> None:
        self._expect_part(at_ms)
        if event.awaits is not None:
            self._wait((_NO_STEP, "admission"), at_ms, "admission", event.awaits)

    def _admitted(self, event: ev.RunAdmitted, at_ms: int, written: list[Span]) -> None:
        self._go_on((_NO_STEP, "admission"), at_ms, "admitted", written)

    def _paused(self, event: ev.RunPaused, at_ms: int, written: list[Span]) -> None:
        self._wait((_NO_STEP, "pause"), at_ms, "pause", "pause")

    def _resumed(self, event: ev.RunResumed, at_ms: int, written: list[Span]) -> None:
        self._go_on((_NO_STEP, "pause"), at_ms, "resumed", written)

    def _forked(self, event: ev.RunForked, at_ms: int, written: list[Span]) -> None:
        if event.trace:
            self._expect_part(at_ms).links.append((event.trace, span_id(event.origin, "run", 1)))

    def _run_ended(self, event: Any, at_ms: int, written: list[Span]) -> None:
        outcome = _RUN_ENDS[type(event)]
        for step in [*self._steps]:
            self._forget(step, at_ms, written)
        for place in [*self._waits]:
            self._go_on(place, at_ms, "ended", written)
        for call in [*self._calls]:
            self._write_call(call, at_ms, outcome="unknown", error="", written=written)
        part = self._expect_part(at_ms)
        facts = {"run_ms": at_ms - self._began_ms, "run_cost_nanousd": self._total.nanousd}
        self._close_part(part, at_ms, outcome, getattr(event, "error", None), facts, written, getattr(event, "output", None))
        for kept in (self._latest, self._ready, self._waited, self._gates, self._maps, self._guards, self._children):
            kept.clear()

    def _expect_part(self, at_ms: int) -> _Part:
        """Return the part of the run that is at work; begin one if it rested."""
        if self._part is None:
            self._parts += 1
            id_ = span_id(self.run, "run", self._parts)
            links = self._links(self._last_part)
            self._part = _Part(id_, self._first or self.context.span_id, at_ms, links, _Spent(), self._parts)
            self._first = self._first or id_
        return self._part

    def _close_part(
        self,
        part: _Part,
        at_ms: int,
        outcome: str,
        error: Any,
        facts: dict[str, Any],
        written: list[Span],
        returned: Payload | None = None,
    ) -> None:
        self._part, self._last_part = None, part.span_id
        facts = {"part": part.number, **part.spent.facts(), **facts}
        received = self._received if part.number == 1 else None
        klass = error.error_class if error is not None else ""
        written.append(
            self._span(
                part.span_id, part.parent_id, "run", self.workflow, part.began_ms, at_ms, outcome, klass, facts,
                part.links, received, returned,
            )
        )  # fmt: skip

    def _links(self, *ids: str) -> list[Link]:
        return [(self.context.trace_id, id_) for id_ in ids if id_]

    def _rest_if_idle(self, at_ms: int, written: list[Span], *, is_left: bool = False) -> None:
        """End the run's part if nothing is at work and something is waited for, as by a step that its attempt has left."""
        if self._part is not None and not self._steps and (self._waits or is_left):
            self._close_part(self._part, at_ms, "waiting", None, {"waits": len(self._waits)}, written)

    # --- Steps and attempts -------------------------------------------------------------------------------------------

    def _expect_step(self, step: StepId, at_ms: int) -> _Part:
        """Return the part of a step that is at work; begin one if it has none."""
        part = self._steps.get(step)
        if part is None:
            number, last = self._before.get(step, (0, ""))
            node, around = node_of(step), self._expect_part(at_ms).span_id
            if is_item(node):
                around = self._maps.get((map_of(node), visit_of(step)), around)
            links = self._links(last, *self._waited.pop(step, ()))
            id_ = span_id(self.run, "step", self.seq)
            part = self._steps[step] = _Part(id_, around, at_ms, links, _Spent(), number + 1)
        return part

    def _step_ready(self, event: ev.StepReady, at_ms: int, written: list[Span]) -> None:
        self._expect_step(event.step, at_ms)
        self._ready[event.step] = (at_ms, self.seq, event.demand is not None)

    def _step_started(self, event: ev.StepStarted, at_ms: int, written: list[Span]) -> None:
        step = event.step
        self._go_on((step, "retry"), at_ms, "retried", written)
        if step in self._attempts:  # two commits of one lost process crossed
            self._leave(step, at_ms, "lost", "", {}, written)
        part = self._expect_step(step, at_ms)
        id_ = attempt_span(self.run, step, event.attempt)
        self._attempts[step] = _Attempt(id_, event.attempt, at_ms, event.session)
        self._latest[step] = id_
        if (ready := self._ready.pop(step, None)) is not None:
            ready_ms, seq, placed = ready
            facts = {"node": node_of(step), "has_demand": placed}
            placement = span_id(self.run, "placement", seq)
            name = node_of(step)
            written.append(self._span(placement, part.span_id, "placement", name, ready_ms, at_ms, "placed", "", facts))

    def _leave(self, step: StepId, at_ms: int, outcome: str, error: str, facts: dict[str, Any], written: list[Span]) -> None:
        """Write the span of the attempt that is under way, if one is."""
        attempt = self._attempts.pop(step, None)
        part = self._steps.get(step)
        if attempt is None or part is None:
            return
        facts = {"step": step, "node": node_of(step), "attempt": attempt.number, "session": attempt.session, **facts}
        name = node_of(step)
        written.append(
            self._span(attempt.span_id, part.span_id, "attempt", name, attempt.began_ms, at_ms, outcome, error, facts)
        )

    def _suspended(self, event: ev.StepSuspended, at_ms: int, written: list[Span]) -> None:
        self._leave(event.step, at_ms, "handed_over" if event.yields else "suspended", "", {}, written)
        if not event.yields:
            self._rest(event.step, at_ms, "suspended", written)

    def _attempt_left(self, event: Any, at_ms: int, written: list[Span]) -> None:
        step, outcome = StepId(event.step), _LEFT[type(event)]
        error = getattr(event, "error", None)
        retry_at_ms: int | None = getattr(event, "retry_at_ms", None)
        facts = {} if retry_at_ms is None else {"retry_at_ms": retry_at_ms}
        self._leave(step, at_ms, outcome, error.error_class if error is not None else "", facts, written)
        if outcome == "lost":
            return
        kind: WaitKind = "code" if outcome == "stopped" else "retry"
        self._wait((step, "retry"), at_ms, kind, "attempt", {"due_at_ms": retry_at_ms})
        if retry_at_ms is None or retry_at_ms - at_ms > REST_MS:
            self._rest(step, at_ms, outcome, written)

    def _rest(self, step: StepId, at_ms: int, outcome: str, written: list[Span]) -> None:
        """Write the part of a step that goes on later."""
        self._write_step(step, at_ms, outcome, "", written)
        self._rest_if_idle(at_ms, written, is_left=True)

    def _write_step(
        self, step: StepId, at_ms: int, outcome: str, error: str, written: list[Span], returned: Payload | None = None
    ) -> None:
        part = self._steps.pop(step, None)
        if part is None:
            return
        self._before[step] = (part.number, part.span_id)
        facts = {"step": step, "node": node_of(step), "part": part.number, **part.spent.facts()}
        name = node_of(step)
        written.append(
            self._span(
                part.span_id, part.parent_id, "step", name, part.began_ms, at_ms, outcome, error, facts, part.links,
                None, returned,
            )
        )  # fmt: skip

    def _step_ended(self, event: Any, at_ms: int, written: list[Span]) -> None:
        step, outcome = StepId(event.step), _STEP_ENDS[type(event)]
        became = step_result(event.output, is_failure=event.provisional) if isinstance(event, ev.StepCompleted) else outcome
        error = getattr(event, "error", None)
        klass = error.error_class if error is not None else ""
        self._expect_step(step, at_ms)  # a person's decision may complete a step that rests
        self._leave(step, at_ms, became, klass, {}, written)
        for place in [place for place in self._waits if place[0] == step]:
            self._go_on(place, at_ms, outcome, written)
        self._write_step(step, at_ms, became, klass, written, getattr(event, "output", None))
        self._ready.pop(step, None)
        self._latest.pop(step, None)
        self._waited.pop(step, None)
        if outcome == "completed":
            self._before.pop(step, None)
        self._rest_if_idle(at_ms, written)

    def _skipped(self, event: ev.StepSkipped, at_ms: int, written: list[Span]) -> None:
        self._forget(event.step, at_ms, written)

    def _journal_dropped(self, event: ev.JournalDropped, at_ms: int, written: list[Span]) -> None:
        for place in [place for place in self._waits if place[0] == event.step]:
            self._go_on(place, at_ms, "dropped", written)

    def _forget(self, step: StepId, at_ms: int, written: list[Span]) -> None:
        """Write what is open of a step that ends with its run, or was never to start."""
        self._leave(step, at_ms, "ended", "", {}, written)
        self._write_step(step, at_ms, "ended", "", written)
        self._ready.pop(step, None)

    # --- Operations ---------------------------------------------------------------------------------------------------

    def _parent_of(self, step: StepId, attempt: int | None, at_ms: int) -> str:
        """Return the span that an operation of a step is in: its attempt, else the step's part, else the run's."""
        if attempt is not None:
            return attempt_span(self.run, step, attempt)
        if (latest := self._latest.get(step)) is not None:
            return latest
        part = self._steps.get(step)
        return part.span_id if part is not None else self._first or self._expect_part(at_ms).span_id

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
        spent = _Spent(nanousd, getattr(event, "input_tokens", 0), getattr(event, "output_tokens", 0))
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

    def _charge(self, step: StepId, spent: _Spent) -> None:
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

    # --- What is open ------------------------------------------------------------------------------------------------

    def open(self) -> list[Span]:
        """Return what has not ended, in the order in which it began, as of the latest event."""
        written: list[Span] = []
        if (part := self._part) is not None:
            facts = {"part": part.number, **part.spent.facts()}
            written.append(self._open(part.span_id, part.parent_id, "run", self.workflow, part.began_ms, facts))
        for step, part in self._steps.items():
            facts = {"step": step, "node": node_of(step), "part": part.number, **part.spent.facts()}
            written.append(self._open(part.span_id, part.parent_id, "step", node_of(step), part.began_ms, facts))
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

    # --- Waits --------------------------------------------------------------------------------------------------------

    def _wait(self, place: _Place, at_ms: int, kind: WaitKind, name: str, facts: dict[str, Any] | None = None) -> None:
        """Begin a wait, unless its place has one."""
        if place in self._waits:
            return
        step = place[0]
        parent = self._parent_of(step, None, at_ms) if step else self._first or self._expect_part(at_ms).span_id
        about = {"step": step, "node": node_of(step)} if step else {}
        known = {name: value for name, value in (facts or {}).items() if value is not None}
        self._waits[place] = _Wait(span_id(self.run, "wait", self.seq), parent, at_ms, kind, name, {**about, **known})

    def _go_on(self, place: _Place, at_ms: int, outcome: str, written: list[Span], facts: dict[str, Any] | None = None) -> None:
        """Write the wait at a place, if there is one."""
        wait = self._waits.pop(place, None)
        if wait is None:
            return
        if place[0]:
            self._waited.setdefault(place[0], []).append(wait.span_id)
            del self._waited[place[0]][:-_MAX_LINKS]
        error = outcome if outcome in ("timed_out", "expired") else ""
        facts = {"wait": wait.kind, "wait_ms": at_ms - wait.began_ms, **wait.facts, **(facts or {})}
        written.append(self._span(wait.span_id, wait.parent_id, "wait", wait.name, wait.began_ms, at_ms, outcome, error, facts))

    def _gate_opened(self, event: ev.GateOpened, at_ms: int, written: list[Span]) -> None:
        place = self._gates[event.gate] = (event.step or _NO_STEP, event.gate)
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

    def _span(
        self,
        id_: str,
        parent: str,
        kind: SpanKind,
        name: str,
        began_ms: int,
        ended_ms: int | None,
        outcome: str,
        error: str,
        facts: dict[str, Any],
        links: Sequence[Link] = (),
        received: Payload | None = None,
        returned: Payload | None = None,
    ) -> Span:
        trace_id = self.context.trace_id
        return Span(
            trace_id,
            id_,
            parent,
            kind,
            name,
            began_ms,
            ended_ms,
            self.seq,
            outcome,
            error,
            facts,
            tuple(links),
            received,
            returned,
        )


_MAX_LINKS: Final = 16
"""Of the waits that a step's part continues: the latest."""


def _place(event: Any) -> _Place:
    return event.step, event.path


_Handler: TypeAlias = Callable[[Spans, Any, int, list[Span]], None]
_HANDLERS: Final[dict[type[ev.Event], _Handler]] = {
    ev.RunStarted: Spans._run_started,
    ev.RunReopened: Spans._await_admission,
    ev.RunAdmitted: Spans._admitted,
    ev.RunPaused: Spans._paused,
    ev.RunResumed: Spans._resumed,
    ev.RunForked: Spans._forked,
    **dict.fromkeys(_RUN_ENDS, Spans._run_ended),
    ev.StepReady: Spans._step_ready,
    ev.StepStarted: Spans._step_started,
    ev.StepSuspended: Spans._suspended,
    ev.StepSkipped: Spans._skipped,
    **dict.fromkeys(_LEFT, Spans._attempt_left),
    **dict.fromkeys(_STEP_ENDS, Spans._step_ended),
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


__all__ = ["Link", "RunSpans", "Span", "SpanKind", "Spans", "WaitKind", "spans"]
