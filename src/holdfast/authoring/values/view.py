"""The run as a handler sees it: the input, the outputs of the nodes before it, and what went wrong.

Read only, and taken when the attempt began, so that a handler sees the same however often it runs. Never here: the
store, the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from pydantic import BaseModel, ValidationError

from holdfast.authoring.values.arguments import describe
from holdfast.core.facts.graph import FieldStrategy
from holdfast.core.facts.state import FINISHED, DerivedValue, State, Step
from holdfast.core.facts.typed_state import combined
from holdfast.core.rules.limits import LimitsLeft, left_of, use_of
from holdfast.core.values.ids import NodeName, StepId
from holdfast.core.values.payload import Payload
from holdfast.core.values.policies import ErrorRecord
from holdfast.errors import SchemaMismatch, UsageError

Read = Callable[[Payload], Any]
"""Turns a payload into its value; blobs have been fetched before."""
Load = Callable[[Any], Any]
"""Turns what was kept into what its node says that it comes to."""


class Fields(dict[str, Any]):
    """A JSON object whose fields are attributes too: `state.input.customer_email` is `state.input["customer_email"]`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self) or "none"
            raise AttributeError(f"there is no field {name!r}; the fields are: {known}") from None


def fields(value: Any) -> Any:
    """`value` with every object in it as Fields."""
    if isinstance(value, dict):
        return Fields({key: fields(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return [fields(inner) for inner in value]
    return value


class NodeView:
    """A visit of a node. `state.events` has the current visits, `state.previous` the earlier ones."""

    __slots__ = ("_load", "_read", "_step", "_value")

    def __init__(self, step: StepFacts, read: Read, load: Load | None = None) -> None:
        """`load` makes the output of what was kept, where a model has answered with an object."""
        self._step = step
        self._read = read
        self._load = load
        self._value: Any = _UNREAD

    @property
    def output(self) -> Any:
        """Output as plain data, with objects as Fields. With `output=` on an `llm_node`, an instance of that model."""
        if self._value is _UNREAD:
            plain = self._read(self._step.output)
            self._value = fields(plain) if self._load is None or plain is None else self._load(plain)
        return self._value

    @property
    def payload(self) -> Any:
        """For a human gate: data of the decision. For `reject` and `retry` also the `reason`, which may be None."""
        output = self.output
        if self.decision in _SAYING_NO and (output is None or isinstance(output, dict)):
            return Fields({"reason": self._step.reason, **(output or {})})
        return output

    @property
    def status(self) -> str:
        """Status of the step."""
        return self._step.status

    @property
    def decision(self) -> str | None:
        """Decision of a gate, a branch or a check."""
        return self._step.decisions[0] if self._step.decisions else None

    @property
    def error(self) -> ErrorRecord | None:
        """Error with which the step failed, if it did."""
        return self._step.error

    @property
    def reason(self) -> str | None:
        """Reason that a person gave at a gate, or why the node was skipped."""
        return self._step.reason

    @property
    def ended_seq(self) -> int:
        """Position in the history at which the step completed."""
        return self._step.ended_seq

    @property
    def patch(self) -> Any:
        """Output as it counts for the typed state, after conflicts were resolved."""
        output = self.output if self._load is None else fields(self._read(self._step.output))
        if not self._step.fields or not isinstance(output, dict):
            return output
        return Fields({**output, **{field: fields(self._read(made)) for field, made in self._step.fields.items()}})

    @property
    def visit(self) -> int:
        """Number of the visit, from 1."""
        return int(self._step.id.rpartition("#")[2])


_SAYING_NO: Final = ("reject", "retry")


class _Unread:
    pass


_UNREAD = _Unread()


class StepFacts(NamedTuple):
    """The facts about a step that a view shows, as they were; the fold goes on changing the step itself. `place` is its
    place in the order in which the run's steps began."""

    place: int
    id: StepId
    status: str
    output: Payload
    decisions: tuple[str, ...] | None
    error: ErrorRecord | None
    reason: str | None
    ended_seq: int
    fields: Mapping[str, Payload]


class _FinishedSteps(DerivedValue):
    """The steps of a run that have finished: views share what does not change, so that one costs the same however many
    there are."""

    def __init__(self) -> None:
        super().__init__()
        self.by_name: dict[NodeName, StepFacts] = {}
        self.before: dict[NodeName, StepFacts] = {}
        """The same of the visits before."""
        self.large: dict[NodeName, Payload] = {}
        """The outputs that are stored apart."""
        self.large_before: dict[NodeName, Payload] = {}
        self._places: dict[NodeName, tuple[int, StepId]] = {}
        self._begun = 0

    def caught_up(self, state: State) -> Self:
        for name in self.moved:
            self.large.pop(name, None)
            self.by_name.pop(name, None)
            if state.previous or self.before:
                self._note_before(name, state.previous.get(name))
            if (step := state.steps.get(name)) is None:
                self._places.pop(name, None)
                continue
            known = self._places.get(name)
            if known is None or known[1] != step.id:
                self._begun += 1
                known = self._places[name] = (self._begun, step.id)
            if step.status in FINISHED:
                self.by_name[name] = _finished(known[0], step)
            if step.output.blob is not None:
                self.large[name] = step.output
        self.moved.clear()
        return self

    def _note_before(self, name: NodeName, visit: Step | None) -> None:
        self.large_before.pop(name, None)
        self.before.pop(name, None)
        if visit is not None and visit.status != "skipped":
            self.before[name] = _finished(0, visit)
            if visit.output.blob is not None:
                self.large_before[name] = visit.output


def _finished(place: int, step: Step) -> StepFacts:
    return StepFacts(
        place, step.id, step.status, step.output, step.decisions, step.error, step.reason, step.ended_seq, step.fields
    )


class NodeViews(Mapping[str, NodeView]):
    """The nodes that have finished, by name, in the order in which they began."""

    def __init__(self, steps: dict[NodeName, StepFacts], read: Read, loads: Mapping[str, Load]) -> None:
        self._steps = steps
        self._read = read
        self._loads = loads
        self._views: dict[str, NodeView] = {}

    def __getitem__(self, name: str) -> NodeView:
        view = self._views.get(name)
        if view is None:
            try:
                step = self._steps[NodeName(name)]
            except KeyError:
                known = ", ".join(self) or "none yet"
                raise KeyError(f"node {name!r} has no output at this point of the run; finished: {known}") from None
            view = self._views[name] = NodeView(step, self._read, self._loads.get(name))
        return view

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._steps, key=lambda name: self._steps[name].place))

    def __len__(self) -> int:
        return len(self._steps)


class PreviousViews(Mapping[str, NodeView | None]):
    """The visits before, by node: of a loop's body what it came to the last time round, None where there was none."""

    def __init__(self, visits: NodeViews) -> None:
        self._visits = visits

    def __getitem__(self, name: str) -> NodeView | None:
        return self._visits.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._visits

    def __iter__(self) -> Iterator[str]:
        return iter(self._visits)

    def __len__(self) -> int:
        return len(self._visits)


class StartedBy(NamedTuple):
    """The person or program that asked for a run: `name`, None where that is not known, the `roles` in which they acted, and
    the `tenant`. Where it is `verified`, name and roles came with a signed token or key; else they are a claim."""

    name: str | None
    roles: tuple[str, ...]
    verified: bool
    tenant: str


def started_by(state: State) -> StartedBy:
    """Return who asked for a run; for a child who asked for its root."""
    return StartedBy(state.by, state.roles, bool(state.client) and state.by == state.client, state.tenant)


class StateView:
    """A run as its handlers, guards and builders see it."""

    def __init__(
        self,
        state: State,
        read: Read,
        model: type[BaseModel] | None = None,
        strategies: Mapping[str, FieldStrategy] = MappingProxyType({}),
        loads: Mapping[str, Load] = MappingProxyType({}),
    ) -> None:
        self._model = model
        self._strategies = strategies
        self.run_id: str = state.run
        self.tenant: str = state.tenant
        self.started_by: StartedBy = started_by(state)
        """Who asked for the run, from its start."""
        self._use = use_of(state, state.at_ms)
        self._left: LimitsLeft | None = None
        self.workflow: str = state.workflow
        self.version: int = state.version
        self.started_at_ms: int = state.started_at_ms
        self.errors: tuple[ErrorRecord, ...] = tuple(state.errors)
        self._input = state.input
        self._read = read
        self._input_value: Any = _UNREAD
        finished = state.derived(_FinishedSteps).caught_up(state)
        self.stored_apart: tuple[Payload, ...] = tuple(_stored_apart(state, finished))
        """Every payload that it may be asked for and that is not in the history itself."""
        self.events = NodeViews(finished.by_name.copy(), read, loads)
        self._before, self._loads = finished.before.copy(), loads
        self._previous: PreviousViews | None = None
        self._visits = dict(state.visits)

    @property
    def previous(self) -> PreviousViews:
        """The results of the nodes of a loop before it went back: `state.previous["critique"].output`, None the first time.
        Of each node the latest such visit; of one that the last time round did not reach, none."""
        if self._previous is None:
            self._previous = PreviousViews(NodeViews(self._before, self._read, self._loads))
        return self._previous

    @property
    def left(self) -> LimitsLeft:
        """Remainder of each of the run's own limits, as of its latest event; in a guard of the budgets above it too."""
        if self._left is None:
            self._left = left_of(self._use)
        return self._left

    @left.setter
    def left(self, left: LimitsLeft) -> None:
        self._left = left

    @property
    def input(self) -> Any:
        """Input of the run as plain data, with objects as Fields."""
        if self._input_value is _UNREAD:
            self._input_value = fields(self._read(self._input))
        return self._input_value

    @property
    def data(self) -> Any:
        """Typed state of the workflow: an instance of its `state` model. It starts with the model's defaults and the input's
        fields of the same names. Each completed node updates the fields that its output names, in the order of completion, each
        by its strategy (`Workflow(state_strategies=…)`). A required field that is not set yet is missing. Raises UsageError in
        a workflow without a `state` model."""
        if self._model is None:
            raise UsageError(f"Workflow {self.workflow!r} declares no state model; use Workflow(state=...).")
        found = _shared(self._model, self.input)
        for view in sorted(self.events.values(), key=lambda view: view.ended_seq):
            if view.status == "completed":
                for name, value in _shared(self._model, view.patch).items():
                    found[name] = combined(self._strategies.get(name, "last_write"), found.get(name), value)
        return typed_state(self._model, found)

    def visits(self, node: str) -> int:
        """Return how often a node has started.

        Args:
            node: Name of the node.
        """
        return self._visits.get(NodeName(node), 0)


def typed_state(model: type[BaseModel], values: dict[str, Any]) -> BaseModel:
    """An instance of `model` with `values` validated one by one. Raises SchemaMismatch for those that do not fit."""
    instance = model.model_construct()
    for name, value in _shared(model, values).items():
        try:
            model.__pydantic_validator__.validate_assignment(instance, name, value)
        except ValidationError as problem:
            raise SchemaMismatch(f"The workflow's state ({model.__name__}) does not take this: {describe(problem)}.") from None
    return instance


def _shared(model: type[BaseModel], value: Any) -> dict[str, Any]:
    """The fields of an object that `model` knows."""
    return {name: value[name] for name in model.model_fields if name in value} if isinstance(value, dict) else {}


def _stored_apart(state: State, finished: _FinishedSteps) -> Iterator[Payload]:
    if state.input.blob is not None:
        yield state.input
    yield from finished.large.values()
    yield from finished.large_before.values()
