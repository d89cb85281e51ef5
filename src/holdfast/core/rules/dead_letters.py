"""The rules of dead letters: steps that have failed for good, until a person closes them or has them tried again.

If the run goes on without failing (`on_exhausted`), a gate asks about each; otherwise the run has failed. An edit changes the
run's input, or the arguments of the failed call, as long as no question with four eyes or a quorum was decided. What the step
has completed is kept for operations that ask for the same; anything else gets another key and is approved again. Never here:
how the run goes on (reopening, gates), the rows of lists (projection).
"""

from __future__ import annotations

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import COMPENSATE
from holdfast.core.facts.state import Operation, State, Step
from holdfast.core.rules.decision import Decision
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import Path, StepId
from holdfast.errors import Conflict, NotFound, RunEnded


def edit_dead_letter(d: Decision, c: commands.EditDeadLetter) -> None:
    step, state = open_letter(d, c.step), d.state
    if COMPENSATE in state.steps:
        raise RunEnded(
            f"Run {state.run} has undone what it did, or tried to: {step.id} cannot be tried again. Nothing was changed."
        )
    if state.vouched_for is not None:
        raise Conflict(
            f"{state.vouched_for} was decided by people who saw what run {state.run} was given: an edit would go past them."
            " Nothing was changed. Fork the run from before that question, which is asked again."
        )
    expect_no_doubt(d, step)
    data = state.input if c.input is None else c.input
    if c.arguments is None:
        d.emit(ev.DeadLetterEdited(step.id, data, *c.by.event_fields))
    else:
        path, op = failed_call(step)
        d.emit(ev.DeadLetterEdited(step.id, data, *c.by.event_fields, path, op.name, c.arguments))


def failed_call(step: Step) -> tuple[Path, Operation]:
    """The call of a tool that a step has failed of. Raises Conflict where it failed of something else."""
    op = step.journal.get(step.failed_path) if step.failed_path is not None else None
    if step.failed_path is None or op is None or op.kind != "tool":
        raise Conflict(
            f"{step.id} did not fail at a call of a tool, so there are no arguments to edit. Nothing was changed: edit the"
            " run's input instead."
        )
    return step.failed_path, op


def tools_that_failed(state: State, step: StepId | None = None) -> tuple[str, ...]:
    """Return the tools whose calls the failed steps of a run have failed of or left open, or this step alone."""
    failed = {each.id: each for each in state.steps.values() if each.status == "failed" and step in (None, each.id)}
    ops = [each.journal.get(each.failed_path) for each in failed.values() if each.failed_path is not None]
    left = [call.name for call in state.calls.values() if call.kind == "effect" and call.step in failed]
    return tuple(dict.fromkeys([*(op.name for op in ops if op is not None and op.kind == "tool"), *left]))


def resolve_dead_letter(d: Decision, c: commands.ResolveDeadLetter) -> None:
    step = open_letter(d, c.step)
    for id_, call in d.state.calls.items() if step.parked else ():
        if call.kind == "effect" and call.step == step.id and call.path == step.failed_path:
            raise Conflict(
                f"Say what became of the call {id_} of {call.name!r} (`holdfast effects resolve '{id_}'`): {step.id} goes on"
                " with that. Nothing was changed."
            )
    if step.parked:
        raise Conflict(
            f"Run {d.state.run} waits for an answer about {step.id}: say what the step comes to, or have the run fail. Nothing"
            " was changed."
        )
    d.emit(ev.DeadLetterResolved(step.id, c.reason, *c.by.event_fields))


def retry(d: Decision, step: StepId, path: Path | None, by: Actor) -> None:
    """Have a step that failed for good tried again; one that was edited from its beginning."""
    known = d.state.step(step)
    edited = known is not None and known.edited
    d.emit(ev.StepReplayed(step, path, *by.event_fields))
    if edited:
        d.emit(ev.JournalDropped(step, edited=True))


def expect_no_doubt(d: Decision, step: Step) -> None:
    """Raise Conflict while the outcome of an effect of the step is unknown: done otherwise, it might be done twice."""
    for id_, call in d.state.calls.items():
        if call.kind == "effect" and call.step == step.id:
            unedited = ", or retry the dead letter unedited: that is harmless" if call.is_harmless else ""
            raise Conflict(
                f"Settle the call {id_} of {call.name!r} first (`holdfast effects resolve '{id_}'`){unedited}. It is not"
                " known yet what became of it. Nothing was changed."
            )


def open_letter(d: Decision, id_: StepId) -> Step:
    """Return the step of an open dead letter. Raises NotFound."""
    step = next((each for each in d.state.dead_letters() if each.id == id_), None)
    if step is None:
        known = d.state.step(id_)
        now = "has no such step now" if known is None else f"{id_} is {known.status}"
        raise NotFound(
            f"There is no open dead letter {id_} in run {d.state.run}: {now}. `holdfast dead-letters list` shows those that"
            " are."
        )
    return step
