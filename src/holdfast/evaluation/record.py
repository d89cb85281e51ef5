"""The inputs that a run received, read from its history: from models, tools and its own code, from people and programs, each in
its place.

Never here: a file of records (recording), running anything (replaying).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core.evolve import evolve
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import EXPIRED, Definition, Graph
from holdfast.core.facts.state import FUNCTION, MAP, NOTED, Operation, State
from holdfast.core.values.ids import CallId, NodeName, Path, RunId, StepId, node_of, root_of
from holdfast.core.values.model_request import AFTER, restored
from holdfast.core.values.payload import NULL, Payload
from holdfast.core.values.policies import ErrorRecord
from holdfast.core.values.remainder import ScopeLeft
from holdfast.core.views.step_result import END
from holdfast.core.views.trajectory import Trajectory, trajectory

_CALLS: Final = frozenset({"model", "tool", FUNCTION})
_UNTOLD: Final = NOTED | {"uuid"}
"""Kinds of what plain code may look at, which makes no operation of it."""


class CallOutcome(NamedTuple):
    """The outcome of one call, a value or an error, with the facts that identify the call."""

    step: StepId
    path: Path
    kind: str
    name: str
    args_hash: str
    value: Payload = NULL
    error: ErrorRecord | None = None
    cost_nanousd: int = 0
    request: Payload = NULL
    policy: str = ""
    """Of a tool."""
    asked: Mapping[str, Any] | None = None
    """The whole request to a model, as far as it was kept."""


class AttemptOutcome(NamedTuple):
    """The outcome of an attempt at a step of plain code or of scripts, after its calls."""

    output: Payload = NULL
    decisions: tuple[str, ...] | None = None
    trace: Payload | None = None
    error: ErrorRecord | None = None
    calls: tuple[CallOutcome, ...] = ()


class RecordedAnswer(NamedTuple):
    """A person's answer at a gate, `after_ms` after it was opened; or the fact that the gate `expired` without one."""

    decision: str
    data: Any = None
    by: str | None = None
    roles: tuple[str, ...] = ()
    reason: str | None = None
    after_ms: int = 0

    @property
    def expired(self) -> bool:
        return self.decision == EXPIRED


class RunRecord(msgspec.Struct, frozen=True):
    """The recorded history of a run.

    Args:
        definition: The definition that the run used last.
        events: Its events, in order.
        redacted: True if texts were replaced. Requests then match by their place, and not by their arguments.
    """

    definition: Definition
    events: tuple[ev.Recorded, ...]
    redacted: bool = False

    @property
    def began(self) -> ev.RunStarted:
        """The event with which the run started."""
        began = self.events[0].event
        assert isinstance(began, ev.RunStarted)
        return began

    @property
    def run(self) -> RunId:
        """The id of the run."""
        return self.began.run

    def path(self) -> Trajectory:
        """Return the path of the run."""
        return trajectory(self.events, Graph(self.definition, is_accepted=True))


class RecordedAnswers:
    """A record, as it is answered from: what is left of it."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self.calls: dict[StepId, list[CallOutcome]] = {}
        """By step, in the order in which they came."""
        self.operations: dict[tuple[StepId, Path], Operation] = {}
        self.tries: dict[StepId, deque[AttemptOutcome]] = {}
        self.jobs = jobs(record.definition)
        self.decisions: dict[str, deque[RecordedAnswer]] = {}
        """What people said, by the node that asked."""
        self.above: dict[tuple[StepId, NodeName | None, str], deque[tuple[ScopeLeft, ...]]] = {}
        """What guards were shown of the budgets above the run, in their order."""
        self.signals: list[tuple[str, Payload]] = []
        self.state = State()
        self._open: dict[CallId, CallOutcome] = {}
        self._asked: dict[CallId, Mapping[str, Any] | None] = {}
        self._made: dict[StepId, list[CallOutcome]] = {}
        """The calls of tools of an attempt that is not over."""
        for recorded in record.events:
            self._before(recorded.event, recorded.at_ms)
            evolve(self.state, recorded.event, recorded.at_ms)
        for step in self.state.steps.values():
            self._keep(step.id)
        mapped = {step for (step, _), op in self.operations.items() if op.kind == MAP}
        composed = {*self.calls, *(step for (step, _), op in self.operations.items() if op.kind not in _UNTOLD)}
        self.composed = {step for step in composed if step in mapped or root_of(node_of(step)) not in self.jobs}
        """The steps that were more than plain code, or than the scripts of a job."""

    def _before(self, event: ev.Event, at_ms: int) -> None:
        """Take an event in that is about to be folded."""
        match event:
            case ev.ModelCallHeld():
                asked = self._asked[event.call] = self._request(event)
                self._open[event.call] = CallOutcome(event.step, event.path, "model", event.model, event.args_hash, asked=asked)
            case ev.GuardJudged():
                self.above.setdefault((event.step, event.target, event.guard), deque()).append(event.above)
            case ev.EffectIntended():
                self._open[event.call] = CallOutcome(
                    event.step, event.path, "tool", event.tool, event.args_hash, request=event.request, policy=event.policy
                )
            case ev.ModelCallSettled() | ev.ModelCallFailed() | ev.ModelCallInDoubt():
                self._model(event)
            case ev.EffectCompleted() | ev.EffectFailed() | ev.EffectReused():
                self._tool(event)
            case ev.ValueRecorded(kind="step") | ev.FunctionFailed():
                self._function(event)
            case ev.StepCompleted() | ev.AttemptFailed() | ev.StepFailed():
                self._step(event)
            case ev.LoopTaken() | ev.RunReopened():
                for step in event.superseded:
                    self._keep(step)
            case ev.GateDecided() | ev.GateExpired():
                self._gate(event, at_ms)
            case ev.SignalReceived():
                self.signals.append((event.name, event.data))
            case _:
                pass

    def _request(self, event: ev.ModelCallHeld) -> Mapping[str, Any] | None:
        """Return the whole request of a call; None where only its hash was kept, or the beginning of it is in another run."""
        if event.request is None:
            return None
        stored = event.request.value()
        before = self._asked.get(stored.get(AFTER))
        return None if AFTER in stored and before is None else restored(stored, before)

    def asked_at(self, step: StepId, path: Path) -> Mapping[str, Any] | None:
        """Return what a model was asked at a place, as far as it was kept and its answer was not used."""
        calls = [each for each in self.calls.get(step, ()) if each.kind == "model"]
        found = next((each for each in calls if each.path == path), next(iter(calls), None))
        return None if found is None else found.asked

    def _gate(self, event: ev.GateDecided | ev.GateExpired, at_ms: int) -> None:
        gate, said = self.state.gates[event.gate], RecordedAnswer(EXPIRED)
        if isinstance(event, ev.GateDecided):
            data = event.data.value()
            said = RecordedAnswer(event.decision, data, event.by, event.roles, event.reason, at_ms - gate.at_ms)
        node = node_of(gate.opened.step) if gate.opened.step is not None else ""
        self.decisions.setdefault(node, deque()).append(said)

    def _model(self, event: ev.ModelCallSettled | ev.ModelCallFailed | ev.ModelCallInDoubt) -> None:
        asked = self._open.pop(event.call)
        match event:
            case ev.ModelCallSettled():
                self._add(asked._replace(value=event.output, cost_nanousd=event.cost_nanousd))
            case ev.ModelCallInDoubt(output=Payload() as output):
                self._add(asked._replace(value=output))
            case _:
                if not event.reopens:  # a call that was made again at once is the same one
                    self._add(asked._replace(error=event.error))

    def _tool(self, event: ev.EffectCompleted | ev.EffectFailed | ev.EffectReused) -> None:
        if isinstance(event, ev.EffectReused):
            if event.response is not None:
                self._add(CallOutcome(event.step, event.path, "tool", event.tool, event.args_hash, event.response))
            return
        asked = self._open.pop(event.call, None)
        if asked is None:
            return  # a person has corrected an earlier message
        if isinstance(event, ev.EffectCompleted):
            asked = asked._replace(value=event.response)
        else:
            asked = asked._replace(error=event.error, cost_nanousd=event.cost_nanousd)
        self._add(asked)
        self._made.setdefault(asked.step, []).append(asked)

    def _function(self, event: ev.ValueRecorded | ev.FunctionFailed) -> None:
        asked = CallOutcome(event.step, event.path, FUNCTION, event.name, event.args_hash)
        if isinstance(event, ev.FunctionFailed):
            self._add(asked._replace(error=event.error))
        else:
            self._add(asked._replace(value=event.payload or NULL))

    def _add(self, answered: CallOutcome) -> None:
        self.calls.setdefault(answered.step, []).append(answered)

    def _step(self, event: ev.StepCompleted | ev.AttemptFailed | ev.StepFailed) -> None:
        self._keep(event.step)
        calls = tuple(self._made.pop(event.step, ()))
        tries = self.tries.setdefault(event.step, deque())
        if isinstance(event, ev.StepCompleted):
            tries.append(AttemptOutcome(event.output, event.decisions, event.trace, calls=calls))
        else:
            tries.append(AttemptOutcome(error=event.error, calls=calls))

    def _keep(self, id_: StepId) -> None:
        """Remember what stands in the journal of a step, which leaves the state with it."""
        step = self.state.step(id_)
        for path, op in (step.journal if step is not None else {}).items():
            if op.kind not in _CALLS and op.status in ("done", "failed"):
                self.operations[id_, path] = msgspec.structs.replace(op)

    def find(self, step: StepId, path: Path, kind: str, name: str, args_hash: str) -> CallOutcome | None:
        """Return the outcome of the next call at that place, and remove it from the calls that are left. A call at the same
        path goes first, then any other of the step."""
        left = self.calls.get(step, [])
        same = [
            each
            for each in left
            if (each.kind, each.name) == (kind, name) and (self.record.redacted or each.args_hash == args_hash)
        ]
        found = next((each for each in same if each.path == path), next(iter(same), None))
        if found is not None:
            left.remove(found)
        return found

    def paid_from(self, step: StepId) -> int:
        """Return the cost of the models' answers that are left, of a step and of all steps that began after it."""
        steps = [*self.tries]
        later = steps[steps.index(step) :] if step in steps else [step]
        return sum(each.cost_nanousd for id_ in later for each in self.calls.get(id_, ()) if each.kind == "model")


def jobs(definition: Definition) -> dict[NodeName, Any]:
    """Return each job's settings from a workflow file, by its node, with the settings that all jobs share."""
    options = {node.name: node.options for node in definition.nodes}
    return {name: (each["job"], options.get(NodeName(END))) for name, each in options.items() if "job" in each}


def costs(events: Sequence[ev.Recorded]) -> Iterator[tuple[StepId, Path, int]]:
    """Yield the cost of each model call of a history; a cost that is unknown counts as spent."""
    where: dict[CallId, tuple[StepId, Path, int]] = {}
    for recorded in events:
        match recorded.event:
            case ev.ModelCallHeld() as held:
                where[held.call] = (held.step, held.path, held.hold_nanousd)
            case ev.ModelCallSettled() as settled:
                step, path, _ = where.pop(settled.call)
                yield step, path, settled.cost_nanousd
            case ev.ModelCallInDoubt() as doubted:
                yield where.pop(doubted.call)
            case _:
                pass
