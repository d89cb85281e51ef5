"""A run's status and what it waits for: derived from the state, never set.

Never here: anything that changes the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

import msgspec

from holdfast.core.facts.state import SHARED_WAIT, SLEEP, Operation, State, Step
from holdfast.core.people import gates
from holdfast.core.rules import limits, questions
from holdfast.core.rules.questions import (
    CODE_CHANGED,
    COMPENSATION_FAILED,
    EFFECT_UNKNOWN,
    EXHAUSTED,
    LIMITS,
    VERSION_HELD,
    WORKFLOW_MISSING,
)
from holdfast.core.rules.readiness import has_suspended, stuck
from holdfast.core.values import scopes
from holdfast.core.values.demand import Demand
from holdfast.core.values.ids import node_of

Status = Literal["completed", "failed", "cancelled", "paused", "running", "requires_attention", "budget_blocked", "waiting"]
"""The first that holds, in this order.

- `completed`: ended with an output
- `failed`: ended with an error; a person may retry it (`runs retry`)
- `cancelled`: ended because a person or a limit cancelled it
- `paused`: a person stopped new work
- `running`: an attempt is active or may start, compensation included, or a guard is being asked
- `requires_attention`: the engine asks something, or a gate's deadline has passed
- `budget_blocked`: the next model call does not fit the cost limit of its run, or a limit on money or tokens above it: of its
  tenant, its team, its conversation or its tree
- `waiting`: waits for a person, a signal, a timer, a retry, a place or money in flight
"""
ENDED: Final = frozenset({"completed", "failed", "cancelled"})

_ATTENTION: Final = frozenset(
    {EFFECT_UNKNOWN, EXHAUSTED, COMPENSATION_FAILED, WORKFLOW_MISSING, CODE_CHANGED, VERSION_HELD}
    | {reason for limit, reason in LIMITS.items() if limit != "cost"}
)
"""Gates of these reasons are the engine's own questions, which need attention. (Money has a status of its own.)"""

_TIMED: Final = ("open", "retrying")
"""Operations that may wait for a moment."""
NOTHING: Final = "nothing"
"""The kind of a wait that never ends by itself."""
WaitKind: TypeAlias = Literal[
    "place",
    "slot",
    "worker",
    "pool",
    "gate",
    "signal",
    "shared_value",
    "timer",
    "retry",
    "money",
    "tokens",
    "calls",
    "child",
    "effect",
    "model",
    "nothing",
]
"""Wait has the meaning of each."""
MAX_CHILDREN_TOLD: Final = 20
"""Of those that a run waits for: its row is written with each commit. `children` lists all."""
MAX_SLOTS_TOLD: Final = 20
"""Steps that wait for a slot, likewise. `steps` lists all that are ready."""
_PICKUP_MS: Final = 1000
"""Milliseconds for which a ready step may stay unstarted before a sweep takes it."""


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that a run waits for, of a `kind`, for a stable `reason`.

    - `place`: `admission`, another run of its tenant or of the fleet must end; the wait names the scope
    - `slot`: `start`, a free slot of a process that has the workflow
    - `worker`: `placement`, a worker that has what the step demands, and its parts of pools; the wait says what that is
    - `pool`: `reservation`, a model call's parts of pools, which the wait names
    - `gate`: one of the reasons of gates; a decision
    - `signal`: the signal's name; a program
    - `shared_value`: the space and key of a shared value; a write of it
    - `timer`: `sleep`; time
    - `retry`: the class of the error; time. Of an operation, the wait names the function or tool
    - `money`: `holds_in_flight`, and the same of a scope, `tenant_holds_in_flight`, `team_holds_in_flight`,
      `tree_holds_in_flight`, `conversation_holds_in_flight`, `agent_holds_in_flight`: other calls to settle; `over_limit`,
      `tenant_budget`, `team_budget`, `tree_budget`, `conversation_budget`, `agent_budget`: a higher limit (of a tree, its
      root's), or above the run another day or month
    - `tokens`: those that end in `_holds_in_flight` and `_budget`, of a scope above the run that counts tokens
    - `calls`: `over_limit`; a higher limit on calls
    - `child`: `not_ended`, a child's end; the wait names its run
    - `effect`: `same_effect_in_flight`, `same_effect_in_another_run`: the outcome of another call of the same name;
      `unverified`: the tool's own lookup; `outcome_outstanding`: the outcome of a call whose step is no longer there
    - `model`: `outcome_outstanding`, as of an effect
    - `nothing`: `fault`; nothing wakes the step, or the run where no step is named. That is a fault of Holdfast; a process
      that has the workflow starts the step again
    """

    kind: WaitKind
    reason: str
    id: str
    since_ms: int
    step: str | None = None
    due_at_ms: int | None = None
    about: str | None = None
    demand: Demand | None = None


def status(state: State) -> Status:
    """The run's status; the first that holds of: ended, paused, running, requires_attention, budget_blocked, waiting."""
    if state.ended:
        return state.ended
    if state.paused:
        return "paused"
    if state.active or _goes_on(state) or _is_done(state):
        return "running"
    if any(gate.opened.reason in _ATTENTION or gate.escalated_at_ms is not None for gate in state.gates.values()):
        return "requires_attention"
    if any(gate.opened.reason == LIMITS["cost"] for gate in state.gates.values()) or _blocked_above(state):
        return "budget_blocked"
    return "waiting"


def _is_done(state: State) -> bool:
    """True if nothing is left that it would wait for."""
    return not (state.unfinished or state.gates or state.awaits is not None or state.has_open_children)


def _goes_on(state: State) -> bool:
    """True if a step of it is about to start, or a guard to be judged."""
    if not (state.startable or state.asked):
        return False
    return not (_is_held_back(state) or questions.is_open(state, WORKFLOW_MISSING))


def _blocked_above(state: State) -> bool:
    """True if a scope above the run has less left than one of its calls needs, whatever calls in flight will leave."""
    return bool(state.short) and any(op.blocked for _, _, op in state.short_operations())


def may_start(state: State) -> bool:
    """True if it has a step that only waits for a process to start it."""
    return bool(state.startable) and not (state.ended or _is_held_back(state))


def may_be_placed(state: State) -> bool:
    """True if it has a step that only waits for a place that has what it demands."""
    return bool(state.unplaced) and not (state.ended or _is_held_back(state))


def _is_held_back(state: State) -> bool:
    """True if no step may start, for the run's own sake."""
    return state.paused or state.awaits is not None or limits.is_stopped(state)


def waiting_for(state: State) -> list[Wait]:
    """Everything that the run waits for, whatever its status says."""
    if state.ended:
        return []
    found = [
        Wait("gate", gate.opened.reason, id_, gate.at_ms, gate.opened.step, gate.opened.due_at_ms, gate.opened.subject)
        for id_, gate in state.gates.items()
    ]
    if state.awaits is not None:
        found.append(Wait("place", "admission", state.run, state.started_at_ms, about=state.awaits))
    if has_suspended(state):
        found += [Wait("nothing", "fault", step.id, step.since_ms, step.id) for step in stuck(state)]
    if may_start(state) and not questions.is_open(state, WORKFLOW_MISSING):
        found += islice(_for_slots(state), MAX_SLOTS_TOLD)
    for name in dict.fromkeys((*state.unplaced, *state.timed())):
        found += _of_step(state, state.steps[name])
    if state.children:
        found += islice(_for_children(state), MAX_CHILDREN_TOLD)
    for id_, call in state.calls.items():
        step_ = state.step(call.step)
        if not call.doubted and (step_ is None or step_.status != "active"):
            found.append(Wait(call.kind, "outcome_outstanding", id_, call.at_ms, call.step, None, call.name))
    if not found and not state.active and status(state) == "waiting":
        found.append(for_nothing(state.run, state.at_ms))
    return found


def _for_slots(state: State) -> Iterator[Wait]:
    """Yield the waits of steps that only a process with a free slot has to start, those that were ready first coming first."""
    for name in state.startable:
        step = state.steps[name]
        # What has woken a suspended step is no earlier than the last event that is known to.
        since_ms = step.since_ms if step.status == "ready" else state.at_ms
        yield Wait("slot", "start", step.id, since_ms, step.id)


def for_nothing(run: str, since_ms: int) -> Wait:
    """A run's own wait, where it has none and is not at work."""
    return Wait("nothing", "fault", run, since_ms)


def waits_for_nothing(join: str, waits: Iterable[Wait]) -> bool:
    """True if a run of this status and with these waits is stuck. Early versions listed no wait at all for such a run."""
    kinds = {wait.kind for wait in waits}
    return NOTHING in kinds or (join == "waiting" and not kinds)


def _for_children(state: State) -> Iterator[Wait]:
    for name, child in state.open_children():
        yield Wait("child", "not_ended", f"{child.step}:{child.path}", child.at_ms, child.step, None, name)


def _of_step(state: State, step: Step) -> Iterator[Wait]:
    if step.demand is not None and node_of(step.id) in state.unplaced and state.awaits is None:
        yield Wait("worker", "placement", step.id, step.since_ms, step.id, demand=step.demand)
    if step.status == "retrying" and step.error is not None and step.stopped is None:
        yield Wait("retry", step.error.error_class, step.id, step.since_ms, step.id, step.retry_at_ms)
    for path, wait in step.pool_waits.items():
        yield Wait("pool", "reservation", f"{step.id}:{path}", wait.since_ms, step.id, None, ", ".join(wait.pools))
    for path, op in step.unsettled():
        place = f"{step.id}:{path}"
        if op.status == "open" and op.kind == SLEEP:
            yield Wait("timer", "sleep", place, op.since_ms, step.id, op.due_at_ms)
        elif op.status == "retrying" and op.error is not None:
            yield Wait("retry", op.error.error_class, place, op.since_ms, step.id, op.due_at_ms, op.name)
        elif op.status == "open" and op.kind in ("signal", SHARED_WAIT):
            yield _for_news(step.id, place, op)
        elif op.status == "deferred" and op.wants_room:
            yield _for_money(state, step.id, place, op)
        elif op.status == "deferred" and op.other is not None:
            yield Wait("effect", "same_effect_in_another_run", place, op.since_ms, step.id, None, op.other)
        elif op.status == "deferred":
            yield Wait("effect", "same_effect_in_flight", place, op.since_ms, step.id, None, op.name)
        elif op.status == "unverified":
            yield Wait("effect", "unverified", place, op.since_ms, step.id, None, op.name)


def _for_news(step: str, place: str, op: Operation) -> Wait:
    """Return a wait for what another sends, or writes."""
    if op.kind == "signal":
        return Wait("signal", op.name, place, op.since_ms, step, op.due_at_ms)
    return Wait("shared_value", op.name, place, op.since_ms, step, op.due_at_ms)


def _for_money(state: State, step: str, place: str, op: Operation) -> Wait:
    """A wait in the run's own books, or in those of a scope above it."""
    if op.scope is not None:
        kind: WaitKind = "tokens" if scopes.counts_tokens(op.scope) else "money"
        reason = f"{scopes.level(op.scope)}_{'budget' if op.blocked else 'holds_in_flight'}"
        return Wait(kind, reason, place, op.since_ms, step, op.due_at_ms, op.scope)
    room = state.headroom(op.needed_nanousd, op.needed_tokens, op.kind)
    reason = "over_limit" if room == "never" else "holds_in_flight"
    if (left := state.calls_left(op.kind)) is not None and left <= 0:
        return Wait("calls", reason, place, op.since_ms, step, None, op.name)
    return Wait("money", reason, place, op.since_ms, step, None, op.name)


def due_at_ms(state: State, *, executing: bool) -> int | None:
    """Return the earliest moment at which a process must look at the run by itself; None while nothing can fall due.

    `executing`: whether the last word came from a process that executes this run and has only run out of slots; it gets a
    second to take its ready steps itself. What a person's decision made ready is due at once.
    """
    if state.ended:
        return None
    due: list[int | None] = [*limits.due_at_ms(state)]
    if _needs_the_code(state):
        due.append(state.at_ms + (_PICKUP_MS if executing else 0))
    if has_suspended(state) and (state.awaits is None or state.phase) and stuck(state):
        due.append(state.at_ms)
    for name in state.timed():
        due += _due_of_step(state.steps[name])
    for gate in state.gates.values():
        due += gates.due_at_ms(gate)
    if state.phase == "cancelling":
        due += [state.steps[name].cancel_until_ms for name in state.unfinished]
    if state.maps and not state.phase:
        due += [map_.due_at_ms for map_ in state.maps.values() if node_of(map_.opened.step) in state.unfinished]
    if state.joins and not state.phase:
        due += [at_ms for name, at_ms in state.joins.items() if name not in state.steps]
    return min((at_ms for at_ms in due if at_ms is not None), default=None) if due else None


def _needs_the_code(state: State) -> bool:
    """True if a process that has the workflow's code could do something now."""
    if may_start(state) or (state.asked and not state.phase):
        return True
    # Where there is no place for a step, such a process takes back the question for it.
    return may_be_placed(state) and questions.is_open(state, WORKFLOW_MISSING)


def _due_of_step(step: Step) -> Iterator[int | None]:
    if step.status == "retrying":
        yield step.retry_at_ms
    for _, op in step.unsettled():
        if op.status in _TIMED or op.scope is not None:
            yield op.due_at_ms


def describe(wait: Wait) -> dict[str, Any]:
    """A wait as plain data."""
    found: dict[str, Any] = msgspec.to_builtins(wait)
    return found
