"""Counts the work of a process, from the observations of its engine.

It is called at each commit, in the event loop: it looks a few numbers up and adds, and never asks anything. What a process
counted is gone with it, as Prometheus expects; what must survive is in the store.

Never here: a metric's name (observe.metrics), a format, an error that reaches the engine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import FLOW
from holdfast.core.facts.state import FUNCTION, State
from holdfast.core.values.ids import CallId, NodeName, RunId, StepId, node_of, root_of
from holdfast.core.values.policies import EXPIRED, REJECTED
from holdfast.observe import metrics
from holdfast.observe.metrics import MAX_CHARS, MAX_VALUES, OTHER
from holdfast.ports.metric import Distribution, Metric, Sample
from holdfast.ports.observer import AppendsFlushed, EventsCommitted, Observation, PoolWaited, RequestAnswered

K = TypeVar("K")

MAX_OPEN: Final = 10_000
"""Calls, steps and losses under way that are remembered; of one that is not, no duration is known."""
PATIENCE_S: Final = 5.0
"""A command that is answered later counts as slow; the chaos runs count by the same limit."""
_LIMITED: Final = 429
"""The status of a request beyond a limit that is set for its sender."""
_FAILED: Final = 500
_MS: Final = 1000
TOKEN_TYPES: Final = ("input", "output", "cache_read", "cache_write")


class LabelValues(dict[str, str]):
    """The values of one label: the first `limit` stand alone, and any other is `other`."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __missing__(self, value: str) -> str:
        if len(self) >= self._limit:
            return OTHER
        self[value] = shown = value[:MAX_CHARS]
        return shown


class Histogram:
    """The measurements for one combination of labels."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Counter(dict[tuple[str, ...], float]):
    """A counter's values, by its labels."""

    def __missing__(self, labels: tuple[str, ...]) -> float:
        return 0


class Histograms(dict[tuple[str, ...], Histogram]):
    """A histogram's measurements, by its labels."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        super().__init__()
        self._bounds = bounds

    def __missing__(self, labels: tuple[str, ...]) -> Histogram:
        found = self[labels] = Histogram(self._bounds)
        return found


class Meter:
    """The counts of one process. An `Observer`."""

    only: Final = frozenset({EventsCommitted, AppendsFlushed, PoolWaited, RequestAnswered})
    """Kinds of its observations; the others cost nothing."""

    def __init__(self) -> None:
        named = metrics.ALL.values()
        self._counters = {each.name: Counter() for each in named if each.kind == "counter"}
        self._histograms = {each.name: Histograms(each.bounds) for each in named if each.kind == "histogram"}
        self._workflows, self._tools, self._models, self._tenants, self._reasons = (
            LabelValues(MAX_VALUES[label]) for label in ("workflow", "tool", "model", "tenant", "reason")
        )
        self._took, self._used = Histograms(metrics.CALL_DURATION.bounds), Histograms(metrics.CALL_TOKENS.bounds)
        self._errors = LabelValues(MAX_VALUES["reason"])
        self._nodes: dict[tuple[str, str], Histogram] = {}
        self._steps, self._holds, self._doubts = self._counts(metrics.STEPS, metrics.HOLDS, metrics.DOUBTS)
        self._tokens, self._cost, self._letters = self._counts(metrics.TOKENS, metrics.COST, metrics.DEAD_LETTERS)
        self._model_calls, self._tool_calls = self._counts(metrics.MODEL_CALLS, metrics.TOOL_CALLS)
        self._started, self._pool_waits = self._counts(metrics.RUNS_STARTED, metrics.POOL_WAITS)
        self._refused, self._opened, self._closed = self._counts(
            metrics.APPENDS_REFUSED, metrics.GATES_OPENED, metrics.GATES_CLOSED
        )
        histogram = self._histograms
        self._durations, self._waits = histogram[metrics.RUN_DURATION.name], histogram[metrics.STEP_WAIT.name]
        self._delays, self._calls = histogram[metrics.RUN_START_DELAY.name], histogram[metrics.MODEL_DURATION.name]
        self._node_durations = histogram[metrics.STEP_DURATION.name]
        self._recoveries = histogram[metrics.RECOVERY.name][()]
        self._commits, self._sizes = histogram[metrics.COMMIT_DURATION.name][()], histogram[metrics.FLUSH_SIZE.name][()]
        self._slot_waits, self._place_waits = self._waits["slot",], self._waits["worker",]
        (self._requests,) = self._counts(metrics.REQUESTS)
        self._began: dict[CallId, tuple[str, int]] = {}
        """The model or tool of each call under way, and when it began."""
        self._ready: dict[tuple[RunId, StepId], tuple[int, bool]] = {}
        """Time at which each step became ready, and True if it needs a place."""
        self._lost_ms: dict[tuple[RunId, StepId], int] = {}
        self._starts = 0
        """Steps that a commit started for the first time."""

    def _counts(self, *named: Metric) -> list[Counter]:
        return [self._counters[each.name] for each in named]

    def __call__(self, observation: Observation, /) -> None:
        """Count an observation."""
        kind = type(observation)
        if kind is EventsCommitted:
            if not observation.own:  # type: ignore[union-attr]
                return
            state: State = observation.state  # type: ignore[union-attr]
            for event in observation.events:  # type: ignore[union-attr]
                if (count := _COUNTS.get(type(event))) is not None:
                    count(self, event, state)
            if self._starts:
                if self._starts == state.steps_started:
                    delay_s = (state.at_ms - state.started_at_ms) / _MS
                    self._delays[self._workflows[state.workflow],].add(delay_s)
                self._starts = 0
        elif kind is AppendsFlushed:
            self._flushed(observation)
        elif kind is PoolWaited:
            self._waits["pool",].add(observation.took_s)  # type: ignore[union-attr]
            self._pool_waits[self._models[observation.model],] += 1  # type: ignore[union-attr]
        elif kind is RequestAnswered:
            self._answered(observation)

    def samples(self) -> Iterator[Sample]:
        """Return everything that was counted."""
        for metric in metrics.ALL.values():
            if metric.kind == "counter":
                counter = self._counters[metric.name] or ({} if metric.labels else {(): 0.0})
                yield from (Sample(metric, labels, value) for labels, value in counter.items())
            elif metric.kind == "histogram":
                for labels, found in self._histograms[metric.name].items():
                    yield Sample(metric, labels, Distribution(tuple(found.counts), found.total))

    def usage(self) -> Iterator[Sample]:
        """Return the measurements of model calls for which conventions have names."""
        for metric, measured in ((metrics.CALL_DURATION, self._took), (metrics.CALL_TOKENS, self._used)):
            for labels, found in measured.items():
                yield Sample(metric, labels, Distribution(tuple(found.counts), found.total))

    # --- Observations -----------------------------------------------------------------------------------------------------

    def _flushed(self, flushed: Any) -> None:
        self._commits.add(flushed.took_s)
        self._sizes.add(flushed.appends)
        if flushed.taken != flushed.appends:
            self._refused[()] += flushed.appends - flushed.taken

    def _answered(self, request: Any) -> None:
        outcome = "limited" if request.status == _LIMITED else "failed" if request.status >= _FAILED else "answered"
        if outcome == "answered" and request.is_command and not request.waits and request.took_s > PATIENCE_S:
            outcome = "slow"
        self._requests["command" if request.is_command else "query", outcome] += 1

    # --- Events -------------------------------------------------------------------------------------------------------

    def _run_started(self, event: ev.RunStarted, state: State) -> None:
        self._started[self._workflows[state.workflow],] += 1

    def _run_ended(self, event: Any, state: State) -> None:
        labels = (self._workflows[state.workflow], _RUN_ENDS[type(event)])
        self._durations[labels].add((state.at_ms - state.started_at_ms) / _MS)

    def _step_ready(self, event: ev.StepReady, state: State) -> None:
        _keep(self._ready, (state.run, event.step), (state.at_ms, event.demand is not None))

    def _step_started(self, event: ev.StepStarted, state: State) -> None:
        key = state.run, event.step
        if event.attempt == 1:
            self._starts += 1
            if (ready := self._ready.pop(key, None)) is not None:
                waits = self._place_waits if ready[1] else self._slot_waits
                waits.add((state.at_ms - ready[0]) / _MS)
        elif self._lost_ms and (lost_ms := self._lost_ms.pop(key, None)) is not None:
            self._recoveries.add((state.at_ms - lost_ms) / _MS)

    def _step_completed(self, event: ev.StepCompleted, state: State) -> None:
        node = node_of(event.step)
        if node == FLOW:
            return
        workflow = self._workflows[state.workflow]
        self._steps[workflow, "completed"] += 1
        step = state.steps.get(node)
        if step is None or not step.began_ms:
            return
        known = self._nodes.get((state.workflow, node))
        if known is None:
            known = self._node(workflow, state.workflow, node)
        known.add((state.at_ms - step.began_ms) / _MS)

    def _node(self, workflow: str, name: str, node: NodeName) -> Histogram:
        """Return the histogram of a node: its own, as long as there are few; the items of a map count as their node."""
        durations = self._node_durations
        labels = (workflow, root_of(node)[:MAX_CHARS])
        if labels not in durations and len(durations) >= MAX_VALUES["node"]:
            labels = (OTHER, OTHER)
        found = durations[labels]
        if len(self._nodes) < MAX_OPEN:
            self._nodes[name, node] = found
        return found

    def _function_ended(self, event: ev.ValueRecorded, state: State) -> None:
        if event.kind == FUNCTION:
            workflow = self._workflows[state.workflow]
            self._steps[workflow, "completed"] += 1
            known = self._nodes.get((state.workflow, event.name))
            if known is None:
                known = self._node(workflow, state.workflow, NodeName(event.name))
            known.add(event.took_ms / _MS)

    def _step_left(self, event: Any, state: State) -> None:
        kind = type(event)
        self._steps[self._workflows[state.workflow], _STEP_ENDS[kind]] += 1
        if kind is ev.AttemptLost:
            _keep(self._lost_ms, (state.run, event.step), state.at_ms)
        elif kind is ev.StepFailed and not event.absorbed and event.error.error_class != REJECTED:
            self._letters[self._workflows[state.workflow],] += 1

    def _model_call_began(self, event: ev.ModelCallHeld, state: State) -> None:
        self._holds["held",] += 1
        _keep(self._began, event.call, (event.sent_to or event.model, state.at_ms))

    def _hold_waits(self, event: Any, state: State) -> None:
        self._holds["blocked" if event.blocked else "deferred",] += 1

    def _model_call_ended(self, event: Any, state: State) -> None:
        kind = type(event)
        began = self._began.get(event.call) if kind is ev.ModelCallInDoubt else self._began.pop(event.call, None)
        model = OTHER if began is None else self._models[began[0]]
        self._model_calls[model, _MODEL_ENDS[kind]] += 1
        if kind is ev.ModelCallSettled or kind is ev.ModelCallReconciled:
            tenant = self._tenants[state.tenant]
            self._cost[model, tenant] += event.cost_nanousd
            if kind is ev.ModelCallSettled:
                self._tokens[model, tenant, "input"] += event.input_tokens
                self._tokens[model, tenant, "output"] += event.output_tokens
                for type_ in TOKEN_TYPES:
                    self._used[model, type_].add(getattr(event, f"{type_}_tokens"))
        elif kind is ev.ModelCallInDoubt:
            self._doubts["model",] += 1
        if began is not None and kind is not ev.ModelCallReconciled:
            took_s = (state.at_ms - began[1]) / _MS
            self._calls[model,].add(took_s)
            error = "" if kind is ev.ModelCallSettled else self._errors[event.error.error_class]
            self._took[model, error].add(took_s)

    def _tool_call_began(self, event: ev.EffectIntended, state: State) -> None:
        _keep(self._began, event.call, (event.tool, state.at_ms))
        for hold in event.given_up.values():
            self._add_tool_cost(event.tool, state, hold.nanousd)

    def _tool_call_ended(self, event: Any, state: State) -> None:
        kind = type(event)
        began = self._began.get(event.call) if kind in _DOUBTED else self._began.pop(event.call, None)
        tool = OTHER if began is None else self._tools[began[0]]
        self._tool_calls[tool, _TOOL_ENDS[kind]] += 1
        if kind is ev.EffectInDoubt:
            self._doubts["effect",] += 1
        elif kind is ev.EffectCompleted and event.hold is not None:
            self._add_tool_cost(tool, state, event.hold.nanousd)
        elif kind is ev.EffectFailed:
            self._add_tool_cost(tool, state, event.cost_nanousd)

    def _add_tool_cost(self, tool: str, state: State, cost_nanousd: int) -> None:
        if cost_nanousd:
            self._cost[self._models[f"tool {tool}"], self._tenants[state.tenant]] += cost_nanousd

    def _gate_opened(self, event: ev.GateOpened, state: State) -> None:
        self._opened[self._reasons[event.reason],] += 1

    def _gate_closed(self, event: Any, state: State) -> None:
        self._closed[_GATE_ENDS[type(event)],] += 1


def _keep(open_: dict[K, Any], key: K, value: object) -> None:
    """Remember one more, and forget the oldest where there are too many."""
    if len(open_) >= MAX_OPEN:
        del open_[next(iter(open_))]
    open_[key] = value


_RUN_ENDS: Final[Mapping[type, str]] = {ev.RunCompleted: "completed", ev.RunFailed: "failed", ev.RunCancelled: "cancelled"}
_STEP_ENDS: Final[Mapping[type, str]] = {
    ev.StepFailed: "failed",
    ev.AttemptFailed: "retrying",
    ev.FunctionFailed: "retrying",
    ev.AttemptLost: "lost",
    ev.StepStopped: "stopped",
    ev.StepCancelled: "cancelled",
    ev.StepSkipped: "skipped",
}
_MODEL_ENDS: Final[Mapping[type, str]] = {
    ev.ModelCallSettled: "completed",
    ev.ModelCallFailed: "failed",
    ev.ModelCallInDoubt: "in_doubt",
    ev.ModelCallReconciled: "reconciled",
}
_TOOL_ENDS: Final[Mapping[type, str]] = {
    ev.EffectCompleted: "completed",
    ev.EffectFailed: "failed",
    ev.EffectReleased: "released",
    ev.EffectInDoubt: "in_doubt",
    ev.EffectUnanswered: "unanswered",
    ev.OutcomeOrphaned: "orphaned",
}
_DOUBTED: Final = frozenset({ev.EffectInDoubt, ev.EffectUnanswered})
"""Ends after which an outcome may still come."""
_GATE_ENDS: Final[Mapping[type, str]] = {ev.GateDecided: "decided", ev.GateExpired: EXPIRED, ev.GateWithdrawn: "withdrawn"}

_COUNTS: Final[Mapping[type, Callable[[Meter, Any, State], None]]] = {
    ev.RunStarted: Meter._run_started,
    ev.StepReady: Meter._step_ready,
    ev.StepStarted: Meter._step_started,
    ev.StepCompleted: Meter._step_completed,
    ev.ValueRecorded: Meter._function_ended,
    ev.ModelCallHeld: Meter._model_call_began,
    ev.HoldDeferred: Meter._hold_waits,
    ev.ScopeExceeded: Meter._hold_waits,
    ev.EffectIntended: Meter._tool_call_began,
    ev.GateOpened: Meter._gate_opened,
    **dict.fromkeys(_RUN_ENDS, Meter._run_ended),
    **dict.fromkeys(_STEP_ENDS, Meter._step_left),
    **dict.fromkeys(_MODEL_ENDS, Meter._model_call_ended),
    **dict.fromkeys(_TOOL_ENDS, Meter._tool_call_ended),
    **dict.fromkeys(_GATE_ENDS, Meter._gate_closed),
}
