"""The rules of endings: pause, cancel, fail, compensate, complete. Failing and cancelling are phases, not moments.

A run ends only when every effect has its outcome and compensation is through; money may stay in doubt beyond the end.
Never here: a step's own failure (steps).
"""

from __future__ import annotations

from typing import Final

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import COMPENSATE, FLOW, Edge
from holdfast.core.facts.state import Step, comes_after
from holdfast.core.rules import questions
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.readiness import edge_state
from holdfast.core.values.actor import NOBODY, Actor
from holdfast.core.values.ids import Path, is_item, map_of, node_of, root_of
from holdfast.core.values.payload import Payload
from holdfast.core.values.policies import CANCELLED, ErrorRecord
from holdfast.errors import Conflict

CANCELLING: Final = "the run is being cancelled"


def pause_run(d: Decision, c: commands.PauseRun) -> None:
    if not d.state.paused:
        d.emit(ev.RunPaused(*c.by.event_fields))


def resume_run(d: Decision, c: commands.ResumeRun) -> None:
    if d.state.paused:
        d.emit(ev.RunResumed(*c.by.event_fields))


def cancel_run(d: Decision, c: commands.CancelRun) -> None:
    """Cancel, which ends a pause too: what has to be undone could not begin in it."""
    if d.state.phase == "cancelling":
        for step in _cleaning_up(d) if c.insists else ():
            call_off(d, step, "the run was cancelled again while it cleaned up")
        return
    resume_run(d, commands.ResumeRun(c.by))
    begin_cancelling(d, c.reason, c.by)


def migrate_run(d: Decision, c: commands.MigrateRun) -> None:
    """Go on with the graph of this decision. Refused while a step is in flight whose node it does not have."""
    state = d.state
    going_on = [*state.unfinished, *(name for name, step in state.steps.items() if step.parked)]
    missing = [name for name in going_on if root_of(name) not in d.graph.nodes and name != COMPENSATE]
    if missing:
        raise Conflict(
            f"Run {state.run} is in {', '.join(map(repr, missing))}, which {d.graph.definition.name!r} version"
            f" {d.graph.definition.version} does not have. Finish or cancel these steps with the old code first."
        )
    if state.graph_hash != d.graph.hash:
        d.emit(ev.RunMigrated(d.graph.definition.version, d.graph.hash, *c.by.event_fields))
        questions.withdraw_of_reason(d, questions.WORKFLOW_MISSING, "the run goes on with another definition")
        for name in d.graph.order:
            d.touch(name)


def begin_failing(d: Decision, error: ErrorRecord) -> None:
    if d.state.phase:
        return
    d.emit(ev.RunFailing(error))
    _call_everything_off(d, "the run is failing")


def begin_cancelling(d: Decision, reason: str, by: Actor = NOBODY) -> None:
    d.emit(ev.RunCancelling(reason, *by.event_fields))
    _call_everything_off(d, CANCELLING)


def _may_clean_up_s(d: Decision, step: Step) -> float:
    """Return the time that the code of an unfinished step has when its run is cancelled. Only a flow hears of it, and only one
    whose tasks have rows of their own; code that does not fit its journal could do nothing."""
    if d.state.naming < 2 or node_of(step.id) != FLOW or step.attempt == 0:
        return 0
    goes_on = step.status == "active" or (step.status == "suspended" and step.stopped is None)
    return (d.graph.cleanup_s or 0) if goes_on else 0


def end_cleanup(d: Decision, step: Step, problem: str = "") -> None:
    """A step has cleaned up, as far as it could: it is cancelled, whatever its code came to."""
    call_off(d, step, f"{CANCELLING}, and its clean-up {problem}" if problem else CANCELLING)


def end_overdue_cleanups(d: Decision) -> None:
    for step in _cleaning_up(d):
        if step.cancel_until_ms is not None and step.cancel_until_ms <= d.now_ms:
            took_s = (step.cancel_until_ms - step.cancelled_ms) / 1000
            end_cleanup(d, step, f"took longer than {took_s:g} s")


def _cleaning_up(d: Decision) -> list[Step]:
    if d.state.phase != "cancelling":
        return []
    return [step for name in d.state.unfinished if (step := d.state.steps[name]).cleans_up]


def call_off(d: Decision, step: Step, reason: str) -> None:
    """Cancel an unfinished step. Its calls in flight keep their right to an outcome; its questions are withdrawn."""
    d.emit(ev.StepCancelled(step.id, step.attempt, reason))
    questions.withdraw_of_step(d, step.id, reason)
    if step.maps:
        call_items_off(d, step, reason)


def call_items_off(d: Decision, step: Step, reason: str, first: Path | None = None, only: str | None = None) -> None:
    """Cancel what is under way of the maps of a step; of those that it asked for at `first` and after, or of `only` one."""
    for name in step.maps:
        map_ = d.state.maps[name]
        if first is not None and not comes_after(d.state, step, map_.opened.path, first):
            continue
        if only not in (None, name):
            continue
        for item in (*map_.items, *map_.stuck):
            d.ready.pop(item, None)
            if item in map_.items:
                call_off(d, d.state.steps[item], reason)
            else:
                questions.withdraw_of_step(d, d.state.steps[item].id, reason)
        for item in [item for item in d.ready if is_item(item) and map_of(item) == name]:
            del d.ready[item]


def _call_everything_off(d: Decision, reason: str) -> None:
    for name in list(d.state.unfinished):
        if name == COMPENSATE or name not in d.state.unfinished:
            continue
        step = d.state.steps[name]
        cleanup_s = _may_clean_up_s(d, step) if d.state.phase == "cancelling" else 0
        if cleanup_s:
            d.emit(ev.StepCancelling(step.id, d.now_ms + int(cleanup_s * 1000)))
            _end_maps(d, step, reason)
        else:
            call_off(d, step, reason)
    questions.withdraw_all_but_effects(d, reason)


def _end_maps(d: Decision, step: Step, reason: str) -> None:
    """No item begins any more, so a step that cleans up waits for none."""
    for name in step.maps:
        map_ = d.state.maps[name]
        call_items_off(d, step, reason, only=name)
        if not map_.ended:
            error = d.error(node_of(step.id), CANCELLED, f"The items of {name!r} were called off: {reason}.")
            d.emit(ev.MapEnded(step.id, map_.opened.path, name, error))


def end(d: Decision) -> None:
    """End the run, if nothing is left that it must wait for."""
    state = d.state
    if (
        not state.seq
        or state.ended
        or state.unfinished
        or (state.gates and any(questions.holds_the_end(gate) for gate in state.gates.values()))
        or state.has_open_children
        or (state.calls and any(call.kind == "effect" for call in state.calls.values()))
    ):
        return
    if not state.phase:
        if not state.asked and state.awaits is None:
            questions.withdraw_all_but_effects(d, "the run has completed")
            ends = _ends(d)
            d.emit(ev.RunCompleted(next(iter(ends.values()))) if len(ends) == 1 else ev.RunCompleted(parts=ends))
        return
    compensating = state.steps.get(COMPENSATE)
    if state.compensable and (compensating is None or compensating.status != "completed"):
        d.ready[COMPENSATE] = None  # decide follows it
        return
    questions.withdraw_all_but_effects(d, "the run has ended")
    if state.phase == "failing" and state.error is not None:
        d.emit(ev.RunFailed(state.error))
    else:
        d.emit(ev.RunCancelled(state.reason or "cancelled"))


def _went_on(d: Decision, edge: Edge) -> bool:
    after = d.state.steps.get(edge.target)
    return after is not None and after.status != "skipped" and edge_state(d.graph, d.state, edge) == "taken"


def _ends(d: Decision) -> dict[str, Payload]:
    """The outputs of the end nodes taken: those from which nothing went on."""
    ends: dict[str, Payload] = {}
    for name in d.graph.order:
        step = d.state.steps.get(name)
        if step is None or any(_went_on(d, edge) for edge in d.graph.outgoing[name]):
            continue
        if step.status == "completed" or (step.status == "failed" and d.graph.nodes[name].continue_on_error):
            ends[name] = step.output
    return ends
