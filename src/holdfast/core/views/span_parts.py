"""The parts of runs and steps, from one wait to the next, as spans: what they are in, their attempts, and their waits.

Never here: an operation of a step (core.views.spans), a convention's names, a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.values.ids import RunId, Seq, StepId, is_item, map_of, node_of, visit_of
from holdfast.core.values.payload import Payload
from holdfast.core.values.trace import TraceContext, attempt_span, child_span, span_id, trace_of
from holdfast.core.views.step_result import script_times, step_result

SpanKind: TypeAlias = Literal[
    "run",
    "step",
    "map_item",
    "attempt",
    "placement",
    "remote_job",
    "script",
    "model_call",
    "tool_call",
    "function",
    "wait",
    "child",
    "map",
    "guard",
    "outcome",
]
"""`run`, `step` and `map_item` are parts between waits; `remote_job` is the work of a connected worker, `script` a step of a
job; `child` and `map` are requests, which end at once; `outcome` is what became known of a call after its span had ended."""
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
JOB_FAILED: Final = "job_failed"
"""Class of error of a job that completed as failed: its output says why."""
SCRIPT_FAILED: Final = "script_failed"
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


class Spent(msgspec.Struct):
    """Costs of the calls of a part."""

    nanousd: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def facts(self) -> dict[str, Any]:
        if not (self.nanousd or self.input_tokens or self.output_tokens):
            return {}
        return {"cost_nanousd": self.nanousd, "input_tokens": self.input_tokens, "output_tokens": self.output_tokens}


class Part(msgspec.Struct):
    """A part of a run or step that is at work."""

    span_id: str
    parent_id: str
    began_ms: int
    links: list[Link]
    spent: Spent
    number: int = 1


class Attempt(msgspec.Struct):
    span_id: str
    number: int
    began_ms: int
    session: str
    task: str
    """Task of a connected worker that does all of it; empty if this process does."""


class Wait(msgspec.Struct):
    """A wait that goes on."""

    span_id: str
    parent_id: str
    began_ms: int
    kind: WaitKind
    name: str
    facts: dict[str, Any]


Place: TypeAlias = tuple[StepId, str]
"""Step, and the place of the operation in it. What a run waits for as a whole has no step."""
NO_STEP: Final = StepId("")
RUN_ENDS: Final[dict[type[ev.Event], str]] = {
    ev.RunCompleted: "completed",
    ev.RunFailed: "failed",
    ev.RunCancelled: "cancelled",
}
STEP_ENDS: Final[dict[type[ev.Event], str]] = {
    ev.StepCompleted: "completed",
    ev.StepFailed: "failed",
    ev.StepCancelled: "cancelled",
}
LEFT: Final[dict[type[ev.Event], str]] = {ev.AttemptFailed: "failed", ev.AttemptLost: "lost", ev.StepStopped: "stopped"}
_MAX_LINKS: Final = 16
"""Of the waits that a step's part continues: the latest."""


class PartSpans:
    """The spans of the parts of one run, gathered event by event."""

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
        self._part: Part | None = None
        self._last_part = ""
        self._total = Spent()
        self._steps: dict[StepId, Part] = {}
        self._before: dict[StepId, tuple[int, str]] = {}
        """Number of parts of a step that goes on later, and the last of them."""
        self._attempts: dict[StepId, Attempt] = {}
        self._tasks: dict[StepId, str] = {}
        """Tasks of connected workers, by the steps that are theirs."""
        self._latest: dict[StepId, str] = {}
        """The latest attempt of a step that is not over."""
        self._ready: dict[StepId, tuple[int, int, bool]] = {}
        self._waits: dict[Place, Wait] = {}
        self._waited: dict[StepId, list[str]] = {}
        """The waits of a step that are over, since it left."""
        self._maps: dict[tuple[str, int], str] = {}
        """The request of each map that goes on: its items are below it."""
        self._received: Payload | None = None

    @property
    def is_at_rest(self) -> bool:
        """True if nothing is at work: what was written has all its parents."""
        return self._part is None

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
            self._wait((NO_STEP, "admission"), at_ms, "admission", event.awaits)

    def _admitted(self, event: ev.RunAdmitted, at_ms: int, written: list[Span]) -> None:
        self._go_on((NO_STEP, "admission"), at_ms, "admitted", written)

    def _paused(self, event: ev.RunPaused, at_ms: int, written: list[Span]) -> None:
        self._wait((NO_STEP, "pause"), at_ms, "pause", "pause")

    def _resumed(self, event: ev.RunResumed, at_ms: int, written: list[Span]) -> None:
        self._go_on((NO_STEP, "pause"), at_ms, "resumed", written)

    def _forked(self, event: ev.RunForked, at_ms: int, written: list[Span]) -> None:
        if event.trace:
            self._expect_part(at_ms).links.append((event.trace, span_id(event.origin, "run", 1)))

    def _expect_part(self, at_ms: int) -> Part:
        """Return the part of the run that is at work; begin one if it rested."""
        if self._part is None:
            self._parts += 1
            id_ = span_id(self.run, "run", self._parts)
            links = self._links(self._last_part)
            self._part = Part(id_, self._first or self.context.span_id, at_ms, links, Spent(), self._parts)
            self._first = self._first or id_
        return self._part

    def _close_part(
        self,
        part: Part,
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

    def _expect_step(self, step: StepId, at_ms: int) -> Part:
        """Return the part of a step that is at work; begin one if it has none."""
        part = self._steps.get(step)
        if part is None:
            number, last = self._before.get(step, (0, ""))
            node, around = node_of(step), self._expect_part(at_ms).span_id
            if is_item(node):
                around = self._maps.get((map_of(node), visit_of(step)), around)
            links = self._links(last, *self._waited.pop(step, ()))
            id_ = span_id(self.run, "step", self.seq)
            part = self._steps[step] = Part(id_, around, at_ms, links, Spent(), number + 1)
        return part

    def _step_ready(self, event: ev.StepReady, at_ms: int, written: list[Span]) -> None:
        self._expect_step(event.step, at_ms)
        self._ready[event.step] = (at_ms, self.seq, event.demand is not None)
        if event.demand is not None and event.demand.is_remote:
            self._tasks[event.step] = event.demand.task or ""

    def _step_started(self, event: ev.StepStarted, at_ms: int, written: list[Span]) -> None:
        step = event.step
        self._go_on((step, "retry"), at_ms, "retried", written)
        if step in self._attempts:  # two commits of one lost process crossed
            self._leave(step, at_ms, "lost", "", {}, written)
        part = self._expect_step(step, at_ms)
        id_ = attempt_span(self.run, step, event.attempt)
        self._attempts[step] = Attempt(id_, event.attempt, at_ms, event.session, self._tasks.get(step, ""))
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
        if attempt.task:
            id_ = span_id(self.run, "remote_job", step, attempt.number)
            about = {"step": step, "node": name, "attempt": attempt.number, "task": attempt.task}
            began_ms = attempt.began_ms
            written.append(self._span(id_, attempt.span_id, "remote_job", attempt.task, began_ms, at_ms, outcome, error, about))
        written.append(
            self._span(attempt.span_id, part.span_id, "attempt", name, attempt.began_ms, at_ms, outcome, error, facts)
        )

    def _suspended(self, event: ev.StepSuspended, at_ms: int, written: list[Span]) -> None:
        self._leave(event.step, at_ms, "handed_over" if event.yields else "suspended", "", {}, written)
        if not event.yields:
            self._rest(event.step, at_ms, "suspended", written)

    def _attempt_left(self, event: Any, at_ms: int, written: list[Span]) -> None:
        step, outcome = StepId(event.step), LEFT[type(event)]
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
                part.span_id, part.parent_id, kind_of(step), name, part.began_ms, at_ms, outcome, error, facts, part.links,
                None, returned,
            )
        )  # fmt: skip

    def _step_ended(self, event: Any, at_ms: int, written: list[Span]) -> None:
        step, outcome = StepId(event.step), STEP_ENDS[type(event)]
        became = step_result(event.output, is_failure=event.provisional) if isinstance(event, ev.StepCompleted) else outcome
        error = getattr(event, "error", None)
        klass = error.error_class if error is not None else JOB_FAILED if became == "failed" else ""
        self._expect_step(step, at_ms)  # a person's decision may complete a step that rests
        if isinstance(event, ev.StepCompleted):
            self._write_scripts(step, event.output, at_ms, written)
        self._leave(step, at_ms, became, klass, {}, written)
        for place in [place for place in self._waits if place[0] == step]:
            self._go_on(place, at_ms, outcome, written)
        self._write_step(step, at_ms, became, klass, written, getattr(event, "output", None))
        self._ready.pop(step, None)
        self._latest.pop(step, None)
        self._tasks.pop(step, None)
        self._waited.pop(step, None)
        if outcome == "completed":
            self._before.pop(step, None)
        self._rest_if_idle(at_ms, written)

    def _write_scripts(self, step: StepId, output: Payload, at_ms: int, written: list[Span]) -> None:
        """Write the scripts that a job's output names, within their attempt: the times are of another clock."""
        attempt = self._attempts.get(step)
        if attempt is None:
            return
        for each in script_times(output):
            id_ = span_id(self.run, "script", step, attempt.number, each.combination, each.step)
            began_ms = min(attempt.began_ms + each.began_ms, at_ms)
            ended_ms = min(began_ms + each.took_ms, at_ms)
            facts = {"step": step, "node": node_of(step), "attempt": attempt.number, "combination": each.combination}
            error = SCRIPT_FAILED if each.outcome == "failed" else ""
            written.append(
                self._span(id_, attempt.span_id, "script", each.step, began_ms, ended_ms, each.outcome, error, facts)
            )

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

    def _parent_of(self, step: StepId, attempt: int | None, at_ms: int) -> str:
        """Return the span that an operation of a step is in: its attempt, else the step's part, else the run's."""
        if attempt is not None:
            return attempt_span(self.run, step, attempt)
        if (latest := self._latest.get(step)) is not None:
            return latest
        part = self._steps.get(step)
        return part.span_id if part is not None else self._first or self._expect_part(at_ms).span_id

    # --- Waits --------------------------------------------------------------------------------------------------------

    def _wait(self, place: Place, at_ms: int, kind: WaitKind, name: str, facts: dict[str, Any] | None = None) -> None:
        """Begin a wait, unless its place has one."""
        if place in self._waits:
            return
        step = place[0]
        parent = self._parent_of(step, None, at_ms) if step else self._first or self._expect_part(at_ms).span_id
        about = {"step": step, "node": node_of(step)} if step else {}
        known = {name: value for name, value in (facts or {}).items() if value is not None}
        self._waits[place] = Wait(span_id(self.run, "wait", self.seq), parent, at_ms, kind, name, {**about, **known})

    def _go_on(self, place: Place, at_ms: int, outcome: str, written: list[Span], facts: dict[str, Any] | None = None) -> None:
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


def kind_of(step: StepId) -> SpanKind:
    """Return the kind of the span of a step's part."""
    return "map_item" if is_item(node_of(step)) else "step"
