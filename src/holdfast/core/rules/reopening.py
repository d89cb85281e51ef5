"""The rules of taking up a run that has ended. One that failed: what goes on at once, what begins again later, what is refused.

What a step has done stays done: it goes on with its journal. A step whose failure was handled is left as it is. A completed
child is reopened with its parent, only to undo its effects. Never here: a run that was cancelled, or has undone its effects;
these are final.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import COMPENSATE, Graph, reachable
from holdfast.core.facts.state import State, Step
from holdfast.core.rules import admission, calls, dead_letters, endings, mapping, questions, waits
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.readiness import TOLERANT, denied_failure
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import CallId, NodeName, node_of
from holdfast.core.values.policies import REJECTED
from holdfast.errors import Conflict, RunEnded


def retry_run(d: Decision, c: commands.RetryRun) -> None:
    state, graph = d.state, d.graph
    _check(d)
    again = [*_failures(graph, state), *(step for step in _steps_of_graph(graph, state) if step.called_off or step.provisional)]
    going_on, superseded = _sorted(graph, state, again)
    paths = {step.id: step.failed_path for step in going_on if step.status == "failed"}
    gone = tuple(step.id for step in superseded)
    if state.ended:
        awaits = admission.full_scope(d, state.tenant) if state.parent is None else None
        d.emit(ev.RunReopened(*c.by.event_fields, gone, awaits is None and state.parent is None, awaits))
    else:  # it has kept its place
        d.emit(ev.RunReopened(*c.by.event_fields, gone))
    d.contribute(c.contributors)
    d.learn(c.makers)
    if state.paused:  # by a person, before it failed; since it had ended, no person could let it go on
        d.emit(ev.RunResumed(*c.by.event_fields))
    for step in going_on:
        dead_letters.retry(d, step.id, paths.get(step.id), c.by)
        _call_again(d, step, c.by)
        mapping.resume(d, step)
    waits.deliver(d)  # what was kept of signals while the run had ended
    for id_, call in state.calls.items():
        if call.kind == "effect" and calls.is_wanted(state, id_, call):
            questions.withdraw_about(d, id_, "the run goes on, and asks for the call again")
    for name in graph.order:
        d.touch(name)


def retry_dead_letter(d: Decision, c: commands.RetryDeadLetter) -> None:
    """Have a dead letter tried again: the step that waits for an outcome, or all that failed of a run that fails or has."""
    step = dead_letters.open_letter(d, c.step)
    if not step.parked or d.state.phase or d.state.ended:
        retry_run(d, commands.RetryRun(c.by))
        return
    doubts = [id_ for id_, call in d.state.calls.items() if call.kind == "effect" and call.step == step.id]
    _check_harmless(d, doubts)
    why = f"{c.by.name or 'a person'} retries its dead letter"
    for subject in (*doubts, step.id):
        questions.withdraw_about(d, subject, why)
    dead_letters.retry(d, step.id, step.failed_path, c.by)
    mapping.resume(d, step)
    waits.deliver(d)


def undo_run(d: Decision, c: commands.UndoRun) -> None:
    """Have a run that has completed undo what it did, as if it were cancelled now: nothing of it is done again."""
    if d.state.ended != "completed":
        if d.state.ended:
            raise RunEnded(f"Run {d.state.run} has ended ({d.state.ended}), and undone what it did.")
        return
    d.emit(ev.RunReopened())
    endings.begin_cancelling(d, c.reason)


def _check(d: Decision) -> None:
    """Raise Conflict where the run is not one that failed, or that fails for good as soon as harmless calls are settled; or
    where trying again could not mend it."""
    state = d.state
    if state.ended != "failed" and state.phase != "failing":
        now = f"has ended ({state.ended})" if state.ended else "has not ended"
        problem = RunEnded if state.ended else Conflict
        raise problem(f"Run {state.run} {now}; only a run that has failed is taken up again. Nothing was changed.")
    if COMPENSATE in state.steps:
        raise RunEnded(
            f"Run {state.run} has undone what it did, or tried to: what it would go on from is not there any more."
            " Nothing was changed: start another run."
        )
    if not state.ended:
        _check_harmless(d, [id_ for id_, call in state.calls.items() if call.kind == "effect"])
        if state.has_open_children:
            raise Conflict(
                f"Try again when the children of run {state.run} have ended: it is failing, and they are being called off."
                " Nothing was changed."
            )
    for step in _failures(d.graph, state):
        if step.error is not None and step.error.error_class == REJECTED and _is_gate(d.graph, step):
            raise RunEnded(
                f"Run {state.run} failed because a person rejected it: {step.error.message} The decision stands."
                " Nothing was changed: start another run to ask again."
            )


def _check_harmless(d: Decision, doubts: Iterable[CallId]) -> None:
    """Raise Conflict for a call that may not simply be asked for again."""
    for id_ in doubts:
        call = d.state.calls[id_]
        if not call.doubted:
            raise Conflict(
                f"Try again when the call {id_} of {call.name!r} has its outcome: it is still being made. Nothing was changed."
            )
        if not call.is_harmless:
            raise Conflict(
                f"Resolve the call {id_} of {call.name!r} first (`holdfast effects resolve '{id_}'`). Its outcome is unknown,"
                " and it may not be made twice. Nothing was changed."
            )


def _call_again(d: Decision, step: Step, by: Actor) -> None:
    """Have a harmless call made again of which a step has failed in words of its own. Where the step went on without its
    outcome and asked for more, that stands."""
    last = next(reversed(step.journal.values()), None)
    call = d.state.calls.get(last.call) if last is not None and last.call is not None else None
    if last is not None and last.call is not None and last.status == "failed" and call is not None and call.repeatable:
        d.emit(ev.EffectReopened(last.call, *by.event_fields, call.hold))


def _is_gate(graph: Graph, step: Step) -> bool:
    return graph.nodes[node_of(step.id)].kind == "human_gate"


def _steps_of_graph(graph: Graph, state: State) -> Iterator[Step]:
    """The steps of nodes that the graph has: a run may have been moved to another since."""
    return (step for name, step in state.steps.items() if name in graph.nodes)


def _failures(graph: Graph, state: State) -> list[Step]:
    """The steps whose failures nothing has taken up: no error edge, no `continue_on_error`, no join that has begun without
    them."""
    return [step for step in _steps_of_graph(graph, state) if step.status == "failed" and not _is_taken_up(graph, state, step)]


def _is_taken_up(graph: Graph, state: State, step: Step) -> bool:
    name = node_of(step.id)
    if graph.errors_from[name]:
        return denied_failure(graph, state, name) is None
    return step.absorbed and (graph.nodes[name].continue_on_error or _was_done_without(graph, state, step))


def _sorted(graph: Graph, state: State, again: Sequence[Step]) -> tuple[list[Step], list[Step]]:
    """Return the steps of `again` that go on at once, and all that the graph visits again: those that follow from a completed
    step, that had not begun, and that were skipped because of these."""
    redone, after = _after(graph, (step for step in again if step.provisional)), _after(graph, again)
    superseded = {step.id: step for step in again if step.attempt == 0 and not step.called_off}
    for step in _steps_of_graph(graph, state):
        name = node_of(step.id)
        skipped = step.status == "skipped" and name in after and not _was_done_without(graph, state, step)
        if skipped or name in redone:
            superseded[step.id] = step
    return [step for step in again if step.id not in superseded], [*superseded.values()]


def _after(graph: Graph, steps: Iterable[Step]) -> set[NodeName]:
    first = [target for step in steps for target in graph.successors[node_of(step.id)]]
    return reachable(first, graph.successors)


def _was_done_without(graph: Graph, state: State, step: Step) -> bool:
    """True if a join that it only led to was met without it, so that nothing needs it any more."""
    name = node_of(step.id)
    return any(
        name in graph.losers(join)
        for join, met in state.steps.items()
        if join in graph.nodes and met.attempt and graph.nodes[join].join.mode in TOLERANT
    )
