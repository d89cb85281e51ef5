"""The rule that a suspended step has something that wakes it, and which steps break it.

A step that breaks it waits for ever unless it is started again: a tick does. Never here: starting it.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.facts.state import AWAITED, CHILD, MAP, SHARED_WAIT, SLEEP, UNDONE, Operation, State, Step
from holdfast.core.rules.questions import CODE_CHANGED, LIMITS
from holdfast.core.values.ids import Path, node_of

_LIMITS_ON_TIME: Final = (LIMITS["active"], LIMITS["wall"])
"""The gates while which nothing new begins in a step that runs already; raising the limit wakes it."""
_ON_CHILDREN: Final = (CHILD, AWAITED, UNDONE)


def is_stuck(state: State, step: Step) -> bool:
    """True if the step is suspended, may not start, and nothing in the run will ever wake it."""
    if step.status != "suspended":
        return False
    name = node_of(step.id)
    return not (name in state.startable or name in state.unplaced or will_wake(state, step))


def will_wake(state: State, step: Step) -> bool:
    """True if something is open that lets the step go on when it comes: an operation's outcome, or a person's answer."""
    journal = step.journal
    for path in step.pending:
        if brings(state, step, path, journal[path]):
            return True
    for gate in state.gates.values():
        reason = gate.opened.reason
        if reason in _LIMITS_ON_TIME:
            return True
        if reason == CODE_CHANGED and gate.opened.subject == step.id and step.status != "active":
            return True  # of an attempt that leaves without stopping the question is taken back
    return False


def brings(state: State, step: Step, path: Path, op: Operation) -> bool:
    """True if an operation without an outcome gets one, or is begun again, by itself or by somebody else's doing."""
    match op.status:
        case "open":
            return _is_open(state, step, path, op)
        case "deferred":
            place = f"{step.id}:{path}"
            return place in state.deferred or place in state.short
        case "in_doubt":
            return op.call in state.calls
        case "retrying":
            return op.due_at_ms is not None
        case _:  # reopened or to be verified: only the step itself goes on with it
            return False


def _is_open(state: State, step: Step, path: Path, op: Operation) -> bool:
    kind = op.kind
    if kind == SLEEP:
        return op.due_at_ms is not None
    if kind == "gate":
        return op.gate in state.gates
    if kind in ("model", "tool"):
        return op.call in state.calls
    if kind == MAP:
        return any(state.maps[name].opened.path == path and not state.maps[name].ended for name in step.maps)
    if kind in _ON_CHILDREN:
        child = state.children.get(op.child) if op.child is not None else None
        return child is not None and not child.ended
    if kind == SHARED_WAIT:
        return f"{step.id}:{path}" in state.shared_waits
    return kind == "signal"


def has_suspended(state: State) -> bool:
    """True if the run has unfinished steps that are not active. It is asked at each commit, and most have none."""
    return len(state.unfinished) > len(state.active)


def stuck(state: State) -> list[Step]:
    """The steps of a run that nothing will wake: a fault of whatever suspended them."""
    if state.ended:
        return []
    steps = state.steps
    return [step for name in state.timed() if is_stuck(state, step := steps[name])]
