"""What a handler sees of its run: the input, the outputs of the nodes before it, and what went wrong.

Read only, and taken when the attempt began, so that a handler sees the same however often it runs. Never here: the
store, the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from holdfast.authoring.arguments import describe
from holdfast.core.ids import NodeName
from holdfast.core.payload import Payload
from holdfast.core.policies import ErrorRecord
from holdfast.core.state import State, Step
from holdfast.errors import SchemaMismatch, UsageError

Read = Callable[[Payload], Any]
"""Turns a payload into its value; blobs have been fetched before."""


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
    """What a node did in its current visit."""

    __slots__ = ("_output", "_read", "_step", "_value")

    def __init__(self, step: Step, output: Payload, read: Read) -> None:
        self._step = step
        self._output = output
        self._read = read
        self._value: Any = _UNREAD

    @property
    def output(self) -> Any:
        """Its output as plain data; objects are Fields."""
        if self._value is _UNREAD:
            self._value = fields(self._read(self._output))
        return self._value

    payload = output
    """For a human gate: the data of the decision."""

    @property
    def status(self) -> str:
        return self._step.status

    @property
    def decision(self) -> str | None:
        """What a gate, a branch or a check decided."""
        return self._step.decisions[0] if self._step.decisions else None

    @property
    def error(self) -> ErrorRecord | None:
        return self._step.error

    @property
    def ended_seq(self) -> int:
        """Where in the history the step completed."""
        return self._step.ended_seq

    @property
    def visit(self) -> int:
        return int(self._step.id.rpartition("#")[2])


class _Unread:
    pass


_UNREAD = _Unread()


class NodeViews(Mapping[str, NodeView]):
    """The nodes that have finished, by name."""

    def __init__(self, views: dict[NodeName, NodeView]) -> None:
        self._views = views

    def __getitem__(self, name: str) -> NodeView:
        try:
            return self._views[NodeName(name)]
        except KeyError:
            known = ", ".join(self._views) or "none yet"
            raise KeyError(f"node {name!r} has no output at this point of the run; finished: {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)


class StateView:
    """A run as its handlers, guards and builders see it."""

    def __init__(self, state: State, read: Read, model: type[BaseModel] | None = None) -> None:
        self._model = model
        self.run_id: str = state.run
        self.tenant: str = state.tenant
        self.workflow: str = state.workflow
        self.version: int = state.version
        self.started_at_ms: int = state.started_at_ms
        self.errors: tuple[ErrorRecord, ...] = tuple(state.errors)
        self._input = state.input
        self._read = read
        self._input_value: Any = _UNREAD
        self.events = NodeViews(
            {
                name: NodeView(_copy(step), step.output, read)
                for name, step in state.steps.items()
                if step.status in ("completed", "failed", "skipped")
            }
        )
        self._visits = dict(state.visits)

    @property
    def input(self) -> Any:
        """The run's input as plain data; objects are Fields."""
        if self._input_value is _UNREAD:
            self._input_value = fields(self._read(self._input))
        return self._input_value

    @property
    def data(self) -> Any:
        """The workflow's typed state: an instance of its `state` model.

        It starts from the model's defaults and the fields that the input shares with it; each node that has completed
        updates the fields that its output names, in the order of completion. A field without a default that nobody has
        set yet is missing. Raises UsageError in a workflow without a `state` model.
        """
        if self._model is None:
            raise UsageError(f"Workflow {self.workflow!r} declares no state model; use Workflow(state=...).")
        found = _shared(self._model, self.input)
        for view in sorted(self.events.values(), key=lambda view: view.ended_seq):
            if view.status == "completed":
                found |= _shared(self._model, view.output)
        return typed_state(self._model, found)

    def visits(self, node: str) -> int:
        """How often `node` has been started."""
        return self._visits.get(NodeName(node), 0)


def typed_state(model: type[BaseModel], values: dict[str, Any]) -> BaseModel:
    """An instance of `model` with `values` validated one by one. Raises SchemaMismatch for those that do not fit."""
    instance = model.model_construct()
    for name, value in _shared(model, values).items():
        try:
            model.__pydantic_validator__.validate_assignment(instance, name, value)
        except ValidationError as problem:
            raise SchemaMismatch(
                f"The workflow's state ({model.__name__}) does not take this: {describe(problem)}."
            ) from None
    return instance


def _shared(model: type[BaseModel], value: Any) -> dict[str, Any]:
    """The fields of an object that `model` knows."""
    return {name: value[name] for name in model.model_fields if name in value} if isinstance(value, dict) else {}


def _copy(step: Step) -> Step:
    """The facts about a step that a view shows, as they are now; the fold goes on changing the original."""
    return Step(step.id, step.status, decisions=step.decisions, error=step.error, ended_seq=step.ended_seq)


def payloads_of(state: State) -> Iterator[Payload]:
    """Every payload that a view of `state` may be asked for."""
    yield state.input
    for step in state.steps.values():
        yield step.output
