"""The fence of intents: whether an attempt may open the operation it asks for, at the place it asks for it.

Never here: what the operation is about.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.facts import events as ev
from holdfast.core.facts.commands import AttemptCommand, Value
from holdfast.core.facts.graph import COMPENSATE
from holdfast.core.facts.state import TIMER, Operation, State, Step
from holdfast.core.rules import limits
from holdfast.core.rules.decision import Decision
from holdfast.core.values.ids import Path, StepId, approval_at, node_of, place_of
from holdfast.errors import NonDeterministicStep, Suspended

SAID: Final = "said"
"""In place of what an operation was asked with: a person has said what it comes to, whatever it is asked with."""


def intends(d: Decision, command: AttemptCommand, path: Path, kind: str, name: str, args_hash: str) -> Step:
    """The step, if it may open the operation at `path` now.

    Raises Suspended while the run is paused, and NonDeterministicStep when something else stands at `path`.
    """
    step = d.current(command)
    op = match_operation(step, path, kind, name, args_hash)
    may_begin(d.state, step.id)
    if op is None and step.may_reuse:
        reuse(d, step, path, kind, name, args_hash, getattr(command, "values", ()))
    return step


def may_begin(state: State, step: StepId) -> None:
    """Raises Suspended where nothing new may begin in the run."""
    if (why := hindrance(state, step)) is not None:
        raise Suspended(why)


def hindrance(state: State, step: StepId) -> str | None:
    """Why nothing new may begin in a step of the run; None where it may."""
    if state.phase and node_of(step) != COMPENSATE and not state.cleans_up(step):
        return f"Run {state.run} is ending; nothing new begins."
    if state.paused:
        return f"Run {state.run} is paused; nothing new begins."
    if limits.gate_of(state, "active") is not None:
        return f"Run {state.run} has used up its active time; nothing new begins before it is extended."
    if limits.gate_of(state, "wall") is not None:
        return f"Run {state.run} has become as old as it may; nothing new begins before that is extended."
    return None


def reuse(d: Decision, step: Step, path: Path, kind: str, name: str, args_hash: str, values: tuple[Value, ...] = ()) -> None:
    """Give the operation the outcome of an equal one: that of the run's origin at this place, or one that is left of a journal
    that was dropped, from the same place if there is one. What a person decided about a call stays with that call so, though
    another is equal to it. With it goes what the step looked at before: whoever asks for the operation sends nothing more about
    it."""
    equal = [kept for kept, op in step.kept.items() if is_same(op, kind, name, args_hash)]
    here = (kept for kept in equal if place_of(kept) == path)
    found = next(here, equal[0] if equal and name != TIMER else None)  # all timers are equal
    mine = step.inherited.get(path)
    origin = None
    if d.state.origin is not None and mine is not None and _is_asked(mine, kind, name, args_hash):
        found, origin = path, d.state.origin.run
    if found is not None:
        d.record(step.id, values)
        d.emit(ev.OperationReused(step.id, step.attempt, path, found, origin))


def is_same(op: Operation, kind: str, name: str, args_hash: str) -> bool:
    return (op.kind, op.name, op.args_hash) == (kind, name, args_hash)


def _is_asked(op: Operation, kind: str, name: str, args_hash: str) -> bool:
    """Return True if it is what the code asks for at its place."""
    return is_same(op, kind, name, args_hash) or is_same(op, kind, name, SAID)


def may_repeat(state: State, step: Step, path: Path) -> bool:
    """Return True if a once-only effect may be done at `path`: in a fork a person allows it, for all or for this call."""
    if state.origin is None or state.origin.repeats_effects:
        return True
    approval = step.journal.get(approval_at(path))
    return approval is not None and approval.status == "done"


def is_new(step: Step, path: Path, kind: str, name: str, args_hash: str) -> bool:
    """Return True if what a fork's step asks for at `path` is not its origin's, nor was begun without being approved."""
    if path in step.journal:
        return approval_at(path) in step.journal
    known = step.inherited.get(path)
    return known is None or not is_same(known, kind, name, args_hash)


def match_operation(step: Step, path: Path, kind: str, name: str, args_hash: str) -> Operation | None:
    """The operation at `path`, None if nothing stands there. Raises NonDeterministicStep if it is another one."""
    op = step.journal.get(path)
    if op is None:
        return None
    if not _is_asked(op, kind, name, args_hash):
        raise NonDeterministicStep(
            f"Step {step.id} no longer does what its journal says. At {path} the journal holds {op.kind} {op.name!r}"
            f" (arguments {op.args_hash[:12]}), the code now asks for {kind} {name!r} (arguments {args_hash[:12]})."
            " Nothing was called.",
            step=step.id,
            path=path,
        )
    return op
