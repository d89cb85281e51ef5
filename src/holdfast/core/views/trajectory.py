"""The path that a run took: read from its history, for those who judge how an answer came about and not only what it is.

Its trace is what "Agent Workflow Orchestration" calls so (section 25): nine types of events, with the fields of its
`WorkflowTraceEvent`. What users' data says is never in it, only of what shape it was.

Never here: what a path should have been (holdfast.evaluation), a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias

import msgspec

from holdfast.core.evolve import evolve
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import EXPIRED, Edge, Graph
from holdfast.core.facts.state import State
from holdfast.core.rules.readiness import edge_state
from holdfast.core.values.ids import CallId, GateId, NodeName, StepId, is_item, node_of, step_of
from holdfast.core.values.payload import Payload
from holdfast.core.views.status import status

TraceType: TypeAlias = Literal[
    "node_started",
    "node_completed",
    "node_failed",
    "transition",
    "checkpoint",
    "interrupt",
    "approval_requested",
    "approval_decided",
    "retry",
]
"""A checkpoint is an operation whose outcome stands in the journal: it is not done again. An interrupt is a step that waits and
holds nothing, or a run that a person paused."""
APPROVED: Final = frozenset({"approve", "edit"})
MAX_FIELDS_NAMED: Final = 20
"""Of an object in a summary."""


class TraceEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A thing that happened at a node, the `seq`-th event of its run. Fields are the document's, money in nano-dollars.

    `step_number` counts the attempts of steps that had begun. `trace_id` is that of who asked, else the run at the top of
    the tree. `latency_ms` is since the node was entered, the call left or the person was asked; of a retry, until it is due.
    """

    trace_id: str
    run_id: str
    seq: int
    at_ms: int
    step_number: int
    node_name: str
    event_type: TraceType
    state_summary: dict[str, Any]
    input_summary: dict[str, Any] = {}
    output_summary: dict[str, Any] = {}
    latency_ms: int | None = None
    token_usage: dict[str, int] = {}
    cost_nanousd: int | None = None


class Visit(msgspec.Struct, frozen=True):
    """A node that the run came to; None as long as nothing `became` of it. `decisions` name the edges that it chose."""

    node: str
    seq: int
    became: Literal["completed", "failed", "cancelled"] | None = None
    decisions: tuple[str, ...] = ()


class Transition(msgspec.Struct, frozen=True):
    """A way that the run went: `target` was entered with event `seq`, and the edge from `source` was among those taken."""

    source: str
    target: str
    seq: int


class Approval(msgspec.Struct, frozen=True):
    """A question to a person at a node; `decision` and `decided_seq` if it was answered. The node of the engine's questions
    about the run is empty."""

    gate: str
    node: str
    reason: str
    seq: int
    decision: str | None = None
    decided_seq: int | None = None


class ToolUse(msgspec.Struct, frozen=True):
    """A call of a tool that a step meant. `reused`: its outcome was there already; `denied`: it never left."""

    node: str
    tool: str
    args_hash: str
    seq: int
    how: Literal["called", "reused", "denied"] = "called"


class Trajectory(msgspec.Struct, frozen=True):
    """The path of a run so far. `nodes` are entered in this order, items of maps left out; totals are those of its state.

    `holds` says how often money was set aside for a call, `retries` how often something that had failed was tried again.
    """

    run: str
    workflow: str
    status: str
    visits: tuple[Visit, ...]
    transitions: tuple[Transition, ...]
    approvals: tuple[Approval, ...]
    tools: tuple[ToolUse, ...]
    retries: int
    holds: int
    model_calls: int
    tool_calls: int
    tokens: int
    cost_nanousd: int
    duration_ms: int

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(visit.node for visit in self.visits)


def shape(payload: Payload) -> dict[str, Any]:
    """Return the shape of data without its content: its kind, its size, the names of its fields."""
    if payload.blob is not None:
        return {"kind": "blob", "size_bytes": payload.size_bytes}
    value = payload.value()
    found: dict[str, Any] = {"kind": _KINDS.get(type(value), "number"), "size_bytes": len(bytes(payload.json))}
    if isinstance(value, dict):
        found["fields"] = sorted(value)[:MAX_FIELDS_NAMED]
    if isinstance(value, list):
        found["count"] = len(value)
    return found


_KINDS: Final = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
_OUTCOMES: Final = (ev.ModelCallSettled, ev.EffectCompleted, ev.ValueRecorded, ev.SharedValueWritten, ev.ChildEnded)
_RETRIES: Final = (ev.AttemptFailed, ev.RetryScheduled, ev.StepReplayed)


class RunPath:
    """The path of a run and its trace, gathered from its history, event by event; ways that it went are in them where its
    `graph` is given."""

    def __init__(self, graph: Graph | None = None) -> None:
        self.graph = graph
        self.state = State()
        self.lines: list[TraceEvent] = []
        self.entered_ms: dict[StepId, int] = {}
        self.asked_ms: dict[str, int] = {}
        self.left_ms: dict[CallId, int] = {}
        self.spent: dict[StepId, tuple[int, dict[str, int]]] = {}
        self.summoned_by: dict[NodeName, StepId] = {}
        self._visits: dict[StepId, Visit] = {}
        self._ways: list[Transition] = []
        self._approvals: dict[GateId, Approval] = {}
        self._tools: list[ToolUse] = []
        self._meant: set[tuple[StepId, str]] = set()
        self._retries = 0
        self._holds = 0

    def add(self, recorded: ev.Recorded) -> None:
        """Take an event of the history in, in its order. Raises CorruptHistory for one that is not the next."""
        event, at_ms = recorded.event, recorded.at_ms
        if isinstance(event, ev.LoopTaken):
            self.summoned_by[event.target] = event.source
        spent = self.fold(recorded)
        state = self.state
        for node, kind, more in _lines_of(self, event, at_ms, spent):
            summary = {"status": status(state), "unfinished": len(state.unfinished), "gates": len(state.gates)}
            self.lines.append(
                TraceEvent(
                    recorded.trace_id or state.root,
                    state.run,
                    recorded.seq,
                    at_ms,
                    state.steps_started,
                    node,
                    kind,
                    summary,
                    **more,
                )
            )
            if kind == "transition" and not is_item(NodeName(node)):
                self._ways.append(Transition(more["input_summary"]["source"], node, recorded.seq))
        self._retries += isinstance(event, _RETRIES)
        self._holds += _holds(event)
        self._visit(recorded)
        self._ask(recorded)
        self._use(recorded)

    def trajectory(self) -> Trajectory:
        """Return the path so far."""
        state = self.state
        return Trajectory(
            state.run,
            state.workflow,
            status(state),
            tuple(self._visits.values()),
            tuple(self._ways),
            tuple(self._approvals.values()),
            tuple(self._tools),
            self._retries,
            self._holds,
            state.model_calls,
            state.tool_calls,
            state.tokens_used + state.tokens_in_doubt,
            state.budget.settled_nanousd + state.budget.in_doubt_nanousd,
            (state.ended_at_ms if state.ended else state.at_ms) - state.started_at_ms,
        )

    def fold(self, recorded: ev.Recorded) -> int:
        """Take the event in, and return what it has spent, in nano-dollars. What is in doubt is spent, until it is known."""
        before = self._spent()
        evolve(self.state, recorded.event, recorded.at_ms)
        return self._spent() - before

    def _spent(self) -> int:
        return self.state.budget.settled_nanousd + self.state.budget.in_doubt_nanousd

    def sources(self, node: NodeName) -> list[NodeName]:
        """The nodes from which the run came to one that it enters: one whose loop went back there, or all whose edges are
        taken."""
        source = self.summoned_by.pop(node, None)
        if source is not None:
            return [node_of(source)]
        edges: tuple[Edge, ...] = self.graph.incoming.get(node, ()) if self.graph is not None else ()
        return list(
            dict.fromkeys(edge.source for edge in edges if self.graph and edge_state(self.graph, self.state, edge) == "taken")
        )

    def charge(self, step: StepId, nanousd: int, tokens: dict[str, int]) -> None:
        cost, used = self.spent.get(step, (0, {}))
        self.spent[step] = (cost + nanousd, {name: used.get(name, 0) + tokens.get(name, 0) for name in {**used, **tokens}})

    def _visit(self, recorded: ev.Recorded) -> None:
        found = self._visits
        match recorded.event:
            case ev.StepStarted(step=step) if step not in found and not is_item(node_of(step)):
                found[step] = Visit(node_of(step), recorded.seq)
            case ev.StepCompleted(step=step, decisions=decisions) if step in found:
                found[step] = msgspec.structs.replace(found[step], became="completed", decisions=decisions or ())
            case ev.StepFailed(step=step) if step in found:
                found[step] = msgspec.structs.replace(found[step], became="failed")
            case ev.StepCancelled(step=step) if step in found:
                found[step] = msgspec.structs.replace(found[step], became="cancelled")
            case ev.StepReplayed(step=step) if step in found:
                found[step] = msgspec.structs.replace(found[step], became=None)
            case _:
                pass

    def _ask(self, recorded: ev.Recorded) -> None:
        found = self._approvals
        match recorded.event:
            case ev.GateOpened(gate=gate, step=step, reason=reason):
                found[gate] = Approval(gate, node_of(step) if step is not None else "", reason, recorded.seq)
            case ev.GateDecided(gate=gate, decision=decision) if gate in found:
                found[gate] = msgspec.structs.replace(found[gate], decision=decision, decided_seq=recorded.seq)
            case ev.GateExpired(gate=gate) if gate in found:
                found[gate] = msgspec.structs.replace(found[gate], decision=EXPIRED, decided_seq=recorded.seq)
            case _:
                pass

    def _use(self, recorded: ev.Recorded) -> None:
        """Add a tool use that a step meant; a call that is repeated under its key is one."""
        event = recorded.event
        match event:
            case ev.EffectIntended(step=step, path=path) if event.compensates is None and (step, path) not in self._meant:
                self._meant.add((step, path))
                self._tools.append(ToolUse(node_of(step), event.tool, event.args_hash, recorded.seq))
            case ev.EffectReused(step=step):
                self._tools.append(ToolUse(node_of(step), event.tool, event.args_hash, recorded.seq, "reused"))
            case ev.ToolCallDenied(step=step):
                self._tools.append(ToolUse(node_of(step), event.tool, event.args_hash, recorded.seq, "denied"))
            case _:
                pass


def trace(events: Iterable[ev.Recorded], graph: Graph | None = None) -> list[TraceEvent]:
    """Return the trace of a run, from its whole history; ways that it went are in it where its `graph` is given.

    Raises CorruptHistory for a history that does not begin at its beginning.
    """
    return _gathered(events, graph).lines


def trajectory(events: Iterable[ev.Recorded], graph: Graph | None = None) -> Trajectory:
    """Return the path of a run, from its whole history; `transitions` are known where its `graph` is given.

    Raises CorruptHistory for a history that does not begin at its beginning.
    """
    return _gathered(events, graph).trajectory()


def _gathered(events: Iterable[ev.Recorded], graph: Graph | None) -> RunPath:
    path = RunPath(graph)
    for recorded in events:
        path.add(recorded)
    return path


_Line: TypeAlias = tuple[str, TraceType, dict[str, Any]]


def _lines_of(reading: RunPath, event: ev.Event, at_ms: int, spent: int) -> Iterator[_Line]:
    """Yield the lines of the trace for an event."""
    match event:
        case ev.StepStarted(step=step):
            yield from _entered(reading, step, at_ms)
        case ev.StepCompleted() | ev.StepFailed():
            yield _left(reading, event, at_ms)
        case ev.ModelCallHeld(call=call) | ev.EffectIntended(call=call):
            reading.left_ms[call] = at_ms
        case ev.GateOpened(gate=gate, step=asking):
            reading.asked_ms[gate] = at_ms
            name = node_of(asking) if asking is not None else ""
            yield name, "approval_requested", {"input_summary": {"reason": event.reason, "shown": shape(event.shown)}}
        case ev.GateDecided(gate=gate) | ev.GateExpired(gate=gate):
            said = _answer(event)
            yield (
                _node_of_gate(gate),
                "approval_decided",
                {"output_summary": said, "latency_ms": at_ms - reading.asked_ms.get(gate, at_ms)},
            )
        case ev.AttemptFailed(step=step) | ev.RetryScheduled(step=step):
            failed = {"error_class": event.error.error_class} if isinstance(event, ev.AttemptFailed) else {}
            yield node_of(step), "retry", {"output_summary": failed, "latency_ms": max(0, event.retry_at_ms - at_ms)}
        case ev.StepReplayed(step=step):
            yield node_of(step), "retry", {}
        case ev.StepSuspended(step=step, yields=False):
            yield node_of(step), "interrupt", {}
        case ev.RunPaused():
            yield "", "interrupt", {}
        case _:
            pass
    if spent and (of := getattr(event, "call", None)) is not None:
        reading.charge(step_of(of), spent, {})
    if isinstance(event, _OUTCOMES):
        yield from _checkpoint(reading, event, at_ms, spent)


def _entered(reading: RunPath, step: StepId, at_ms: int) -> Iterator[_Line]:
    node = node_of(step)
    if step not in reading.entered_ms:
        reading.entered_ms[step] = at_ms
        for source in reading.sources(node):
            yield node, "transition", {"input_summary": {"source": source}}
    current = reading.state.step(step)
    attempt = current.attempt if current is not None else 0
    yield node, "node_started", {"input_summary": {"attempt": attempt, "input": shape(reading.state.input)}}


def _left(reading: RunPath, event: ev.StepCompleted | ev.StepFailed, at_ms: int) -> _Line:
    cost, tokens = reading.spent.get(event.step, (0, {}))
    more = {"latency_ms": at_ms - reading.entered_ms.get(event.step, at_ms), "token_usage": tokens, "cost_nanousd": cost}
    if isinstance(event, ev.StepFailed):
        return node_of(event.step), "node_failed", {**more, "output_summary": {"error_class": event.error.error_class}}
    decided = {"decisions": list(event.decisions)} if event.decisions is not None else {}
    return node_of(event.step), "node_completed", {**more, "output_summary": {"output": shape(event.output), **decided}}


def _checkpoint(reading: RunPath, event: Any, at_ms: int, spent: int) -> Iterator[_Line]:
    """An outcome that now stands in a journal."""
    call: CallId | None = getattr(event, "call", None)
    if call is None:
        step = getattr(event, "step", None)
        yield node_of(step) if step is not None else "", "checkpoint", {"output_summary": {"of": type(event).__name__}}
        return
    tokens = {}
    if isinstance(event, ev.ModelCallSettled):
        tokens = {"input": event.input_tokens, "output": event.output_tokens}
        reading.charge(step_of(call), 0, tokens)
    yield (
        node_of(step_of(call)),
        "checkpoint",
        {
            "output_summary": {"of": type(event).__name__},
            "token_usage": tokens,
            "cost_nanousd": spent,
            "latency_ms": at_ms - reading.left_ms.get(call, at_ms),
        },
    )


def _node_of_gate(gate: GateId) -> str:
    """The node that asked; none, where the engine did about the run."""
    step = gate.split(":", 2)[1]
    return "" if step.startswith("!") else node_of(StepId(step))


def _answer(event: ev.GateDecided | ev.GateExpired) -> dict[str, Any]:
    if isinstance(event, ev.GateExpired):
        return {"decision": EXPIRED}
    return {"decision": event.decision, "data": shape(event.data)}


def _holds(event: ev.Event) -> bool:
    return isinstance(event, ev.ModelCallHeld | ev.EffectIntended) and event.hold_nanousd > 0
