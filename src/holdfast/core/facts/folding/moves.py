"""Changes of a state that several events have in common: move a step, mark an operation, wake what waited.

Each keeps the indexes of step and status in line. Never here: an event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.state import MAX_ERRORS_KEPT, OPEN_STEPS, OpenCall, Operation, OperationStatus, State, Step, StepStatus
from holdfast.core.values.demand import Demand
from holdfast.core.values.ids import NodeName, Path, StepId, approval_at, is_item, map_of, node_of, visit_of
from holdfast.core.values.payload import Payload
from holdfast.core.values.policies import ErrorRecord

Folds = dict[type[ev.Event], Callable[[State, Any, int], None]]
"""How an event of each kind changes the state, in place, at a time in Unix milliseconds."""


def visit(s: State, id_: StepId, status: StepStatus, at_ms: int, demand: Demand | None = None) -> Step:
    """The step `id_`, begun now if it is a new visit."""
    name = node_of(id_)
    step = s.steps.get(name)
    if step is None or step.id != id_:
        s.steps.pop(name, None)
        for each in s.__dict__.values():
            each.moved.pop(name, None)  # it comes last again, as in the steps
        step = s.steps[name] = Step(id_, journal={}, demand=demand)
        if is_item(name):
            map_ = s.maps[map_of(name)]
            map_.items[name] = map_.next
            map_.next += 1
        else:
            s.visits[name] = visit_of(id_)
        s.summoned.pop(name, None)
        s.joins.pop(name, None)
        if s.inherited and (known := s.inherited.pop(id_, None)) is not None:
            step.journal, step.inherited = known.journal, known.reusable
            step.settlements = len(step.journal)
    move(s, name, step, status, at_ms)
    return step


def note_moved(s: State, name: NodeName) -> None:
    for each in s.__dict__.values():
        each.moved[name] = None


def move(s: State, name: NodeName, step: Step, status: StepStatus, at_ms: int) -> None:
    """Give a step its status, with everything that is looked up by it."""
    note_moved(s, name)
    if step.status == "active":
        step.passed = step.settlements
    step.status, step.since_ms, step.parked = status, at_ms, False
    if step.pool_waits:
        step.pool_waits = {}  # its attempt is over, or another begins
    if status != "active":
        step.stopped = None
    if status in OPEN_STEPS:
        s.unfinished[name] = None
    else:
        s.unfinished.pop(name, None)
    if status == "active":
        s.active[name] = None
        if s.active_since_ms is None:
            s.active_since_ms = at_ms
    else:
        step.session = None
        if name in s.active:
            del s.active[name]
            if not s.active and s.active_since_ms is not None:
                s.active_ms += max(0, at_ms - s.active_since_ms)
                s.active_since_ms = None
    if status == "ready":
        may_start(s, name, step)
    else:
        s.startable.pop(name, None)
        s.unplaced.pop(name, None)
        step.woken = False


def may_start(s: State, name: NodeName, step: Step) -> None:
    """Note that a step waits only for a process to start it, or a place to start in."""
    (s.startable if step.demand is None else s.unplaced)[name] = None


def wake(s: State, step: Step) -> None:
    """Let a suspended step go on: something that it waited for has come."""
    if step.status == "suspended":
        step.woken = True
        may_start(s, node_of(step.id), step)
    elif step.status == "active":
        step.woken = True  # it is just leaving; its suspension will find this


def unjudge(s: State, id_: StepId) -> None:
    """Forget what guards said, or were asked, about a step that no longer counts."""
    for known in (s.verdicts, s.asked):
        for key in [key for key in known if key.startswith((f"{id_}>", f">{id_}:"))]:
            del known[key]
    note_moved(s, node_of(id_))


def remember(s: State, error: ErrorRecord) -> None:
    s.errors.append(msgspec.structs.replace(error, trace=None, exception=None))  # the step and the history have it
    if len(s.errors) > MAX_ERRORS_KEPT:
        del s.errors[0]


def reopen(s: State, step: Step, path: Path | None) -> None:
    """Forget the failure at `path`, so that the next attempt tries that operation again; its tries go on counting.

    Where the outcome came after all, there is nothing to try.
    """
    op = step.journal.get(path) if path is not None else None
    if path is None or op is None or op.status != "failed":
        return
    if op.kind == "gate":  # it has expired: a person is asked again, at a gate of another name
        del step.journal[path]
        step.generation += 1
    else:
        op.error = None
        op.failures = op.rate_limited = 0  # its own policy begins again
        mark(s, step, path, op, "done" if op.has_come_to_something else "reopened")
        reopen(s, step, approval_at(path))


def operation(
    s: State, id_: StepId, path: Path, kind: str, name: str, args_hash: str, at_ms: int, status: OperationStatus = "open"
) -> Operation:
    step = s.steps[node_of(id_)]
    op = step.journal.get(path)
    if op is None:
        op = step.journal[path] = Operation(kind, name, args_hash)
        step.stopped = None  # its code has got past all that is known
    op.args_hash, op.since_ms = args_hash, at_ms
    mark(s, step, path, op, status)
    note_moved(s, node_of(id_))
    return op


def mark(s: State, step: Step, path: Path, op: Operation, status: OperationStatus) -> None:
    """Give an operation its status, with what is looked up by it."""
    if status in ("done", "failed"):
        if op.status != status:
            settle(s, step, op)
        step.pending.pop(path, None)
        step.losses = 0  # it has got past whatever its process died of
    else:
        op.settled = op.took_ms = 0
        step.pending[path] = None
    op.status = status


def settle(s: State, step: Step, op: Operation) -> None:
    """Number the outcome of an operation among those of its step."""
    step.settlements += 1
    op.settled, op.took_ms = step.settlements, s.at_ms - op.since_ms


def close(
    s: State,
    id_: StepId,
    path: Path,
    *,
    outcome: Payload | None = None,
    error: ErrorRecord | None = None,
    sender: OpenCall | None = None,
) -> None:
    """Give an operation its outcome, if its step is still there to care, and let the step go on.

    `sender` is the call that brought it, None without a call.
    """
    step = s.step(id_)
    op = step.journal.get(path) if step is not None else None
    if step is None or op is None or op.status in ("done", "failed"):
        if op is not None and op.status == "failed" and outcome is not None:
            op.outcome = outcome  # too late for who saw it fail; a retry finds it
        return
    mark(s, step, path, op, "failed" if error is not None else "done")
    op.outcome, op.error, op.due_at_ms, op.unable = outcome, error, None, {}
    for waits in (s.deferred, s.short):
        waits.pop(f"{id_}:{path}", None)  # a try before had an outcome, while this one waited for room
    if sender is None or not awaited(step, sender):
        wake(s, step)


def awaited(step: Step, call: OpenCall) -> bool:
    """True if the attempt that made the call is still running: it learns the outcome first, because it brings it."""
    return step.status == "active" and step.attempt == call.attempt and not call.doubted


def leave_scope(s: State, step: StepId, path: Path, op: Operation) -> None:
    if op.scope is not None:
        op.scope, op.other, op.due_at_ms, op.blocked = None, None, None, False
        s.short.pop(f"{step}:{path}", None)


def wake_deferred(s: State, *, all_calls: bool = False) -> None:
    """Let those go on that wait for money or for another's effect: what they wait for may have come.

    They ask again, in the order in which they began to wait, and wait again if it has not. One for which a person is
    asked waits until there is room, or until a limit is raised (`all_calls`).
    """
    for place in list(s.deferred):
        found = s.operation_at(place)
        if found is None or found[2].status != "deferred":
            del s.deferred[place]
            continue
        step, path, op = found
        if _may_have_come(s, op) or (all_calls and op.wants_room):
            del s.deferred[place]
            op.blocked = False
            mark(s, step, path, op, "reopened")
            wake(s, step)


def _may_have_come(s: State, op: Operation) -> bool:
    """True if the outcome that a deferred operation waits for may exist, or is known never to come by itself."""
    if op.wants_room:
        room = s.headroom(op.needed_nanousd, op.needed_tokens, op.kind)
        return room == "now" or (room == "never" and not op.blocked)
    known = s.named.get(op.key) if op.key is not None else None
    return known is None or known.response is not None


def forget_deferred(s: State, step: StepId) -> None:
    for waits in filter(None, (s.deferred, s.short)):  # mostly nothing waits
        for place in [place for place in waits if place.rpartition(":")[0] == step]:
            del waits[place]
