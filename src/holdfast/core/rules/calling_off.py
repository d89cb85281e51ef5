"""The rule of what a step's code goes on without: a time limit of its own ran out, or it cancelled a task.

What waits, waits no more. A signal that came for it is kept for another wait. A call that was sent is left alone: its outcome
is taken, and nothing goes on with it. Never here: what is called off with its step or its run (endings).
"""

from __future__ import annotations

from typing import Final

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import AWAITED, CHILD, MAP, SHARED_WAIT, SLEEP, Operation, State
from holdfast.core.rules import endings, waits
from holdfast.core.rules.decision import Decision

WHY: Final = "the flow goes on without it"
_WAITS: Final = frozenset({"gate", "signal", SLEEP, SHARED_WAIT, CHILD, AWAITED, MAP})
"""The operations that have sent nothing themselves, while they are open."""


def call_off_operations(d: Decision, c: commands.CallOffOperations) -> None:
    """Have the step wait no more for what stands at these places. Nothing else that has come to something meanwhile is called
    off."""
    step = d.current(c)
    d.record(c.step, c.values)
    for path in dict.fromkeys(c.paths):
        op = step.journal.get(path)
        if op is None or not _may_end(d.state, op):
            continue
        if op.gate is not None and op.gate in d.state.gates:
            d.emit(ev.GateWithdrawn(op.gate, WHY))
        for name in [name for name in step.maps if d.state.maps[name].opened.path == path]:
            endings.call_items_off(d, step, WHY, only=name)
        d.emit(ev.OperationCalledOff(c.step, path))
    waits.deliver(d)


def _may_end(state: State, op: Operation) -> bool:
    """True if no outcome is under way that another would have to bring, or could still bring."""
    if op.kind == "tool" and op.call in state.calls:
        return False
    match op.status:
        case "open":
            return op.kind in _WAITS
        case "deferred" | "retrying" | "reopened":
            return True
        case _:
            return has_signal(op)


def has_signal(op: Operation) -> bool:
    """Return True if a wait got its signal."""
    return op.status == "done" and op.signal > 0
