"""The typed state of a run: fields that the outputs of its steps patch, and what becomes of patches that meet.

Two patches of a field meet where neither step had seen the other's: one completed after the other's attempt had begun. Then the
field's strategy says what the later one comes to. Where a step had seen the value, it replaces it. Strategies and their names
are those of shared values (core.nouns.shared_values), and two that combine whatever comes.

Never here: the model of the fields, a payload that is stored apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Self

from holdfast.core.facts.graph import FieldStrategy
from holdfast.core.facts.state import DerivedValue, State, Step
from holdfast.core.nouns.shared_values import merged
from holdfast.core.values.ids import NodeName, StepId, is_item
from holdfast.core.values.payload import Payload

_COMBINING: Final = ("append", "sum")
"""Those under which no patch is lost, so that none is in conflict with another."""


class PatchConflict(NamedTuple):
    """A patch meets one that its step had not seen: both sides, and what comes of them. A rejected one comes to nothing."""

    field: str
    strategy: FieldStrategy
    other: StepId
    current: Any
    attempted: Any
    resolved: Any
    rejected: bool


class _Written(NamedTuple):
    value: Any
    by: StepId
    seq: int


class _Fields(DerivedValue):
    """The fields as the steps that have completed leave them."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[str, _Written] = {}
        self._known: dict[NodeName, StepId] = {}

    def caught_up(self, state: State, strategies: Mapping[str, FieldStrategy]) -> Self:
        steps = {name: state.steps.get(name) for name in self.moved if not is_item(name)}
        self.moved.clear()
        if any(name in self._known and not _is_done(step) for name, step in steps.items()):
            self.written.clear()  # what a visit had patched that counts no more is gone
            self._known.clear()
            steps = {name: step for name, step in state.steps.items() if not is_item(name)}
        new = [step for name, step in steps.items() if step is not None and _is_done(step) and name not in self._known]
        for step in sorted(new, key=lambda step: step.ended_seq):
            self._known[NodeName(step.id.rpartition("#")[0])] = step.id
            for field, value in patch_of(strategies, step.output, step.fields).items():
                before = self.written.get(field)
                made = combined(strategies[field], before.value, value) if before is not None else value
                self.written[field] = _Written(made, step.id, step.ended_seq)
        return self


def _is_done(step: Step | None) -> bool:
    return step is not None and step.status == "completed"


def patch_of(strategies: Mapping[str, FieldStrategy], output: Payload, resolved: Mapping[str, Payload]) -> dict[str, Any]:
    """The fields that an output patches, as they count. One that is stored apart patches none (the engine refuses it)."""
    value = output.value() if output.blob is None else None
    if not isinstance(value, dict):
        return {}
    return {field: resolved[field].value() if field in resolved else value[field] for field in strategies if field in value}


def combined(strategy: str, current: Any, value: Any) -> Any:
    """Return a field's value after a patch: a combination of both for some strategies, else the patch."""
    if strategy == "append" and isinstance(current, list) and isinstance(value, list):
        return [*current, *value]
    if strategy == "sum" and _is_number(current) and _is_number(value):
        return current + value
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def meetings(strategies: Mapping[str, FieldStrategy], state: State, step: Step, output: Payload) -> Iterator[PatchConflict]:
    """Yield the conflicts of a completed step's patch with a patch that it had not seen."""
    written = state.derived(_Fields).caught_up(state, strategies).written
    for field, value in patch_of(strategies, output, {}).items():
        known, strategy = written.get(field), strategies[field]
        if known is None or known.seq <= step.saw_seq or strategy in _COMBINING or known.value == value:
            continue
        resolved = _resolved(strategy, known.value, value)
        yield PatchConflict(field, strategy, known.by, known.value, value, resolved, strategy == "reject")


def _resolved(strategy: FieldStrategy, current: Any, attempted: Any) -> Any:
    if strategy == "first_write":
        return current
    return merged(current, attempted) if strategy == "merge" else attempted


def misfits(strategies: Mapping[str, FieldStrategy], patch: Mapping[str, Any]) -> Iterable[str]:
    """The fields of a patch that their strategy cannot combine with others, in words."""
    for field, value in patch.items():
        strategy = strategies.get(field)
        if strategy == "append" and not isinstance(value, list):
            yield f"{field!r} is joined with what others write, so a patch of it is a list"
        elif strategy == "sum" and not _is_number(value):
            yield f"{field!r} is added to what others write, so a patch of it is a number"
