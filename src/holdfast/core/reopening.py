"""The rules of taking up a run that has ended. One that failed: what goes on at once, what begins anew later, what is refused.

What a step has done stays done: it goes on with its journal. A step whose failure something took up is left as it is.
One that completed, with its parent, only to undo what it did. Never here: a run that was cancelled, or has undone what it did;
these are final.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from holdfast.core import admission, commands, dead_letters, endings, mapping, waits
from holdfast.core import events as ev
from holdfast.core.decision import Decision
from holdfast.core.graph import COMPENSATE, Graph, reachable
from holdfast.core.ids import NodeName, node_of
from holdfast.core.policies import REJECTED
from holdfast.core.readiness import TOLERANT, denied_failure
from holdfast.core.state import State, Step
from holdfast.errors import Conflict, RunEnded


def retry_run(d: Decision, c: commands.RetryRun) -> None:
    state, graph = d.state, d.graph
    _check(d)
    again = [*_failures(graph, state), *(step for step in _known(graph, state) if step.called_off or step.provisional)]
    going_on, superseded = _sorted(graph, state, again)
    paths = {step.id: step.failed_path for step in going_on if step.status == "failed"}
    awaits = admission.full_scope(d, state.tenant) if state.parent is None else None
    gone = tuple(step.id for step in superseded)
    d.emit(ev.RunReopened(*c.by.kept, gone, awaits is None and state.parent is None, awaits))
    if state.paused:  # by somebody, before it failed; since it had ended, nobody could let it go on
        d.emit(ev.RunResumed(*c.by.kept))
    for step in going_on:
        dead_letters.replay(d, step.id, paths.get(step.id))
        mapping.resume(d, step)
    waits.deliver(d)  # what was kept of signals while the run had ended
    for name in graph.order:
        d.touch(name)


def undo_run(d: Decision, c: commands.UndoRun) -> None:
    """Have a run that has completed undo what it did, as if it were cancelled now: nothing of it is done again."""
    if d.state.ended != "completed":
        if d.state.ended:
            raise RunEnded(f"Run {d.state.run} has ended ({d.state.ended}), and undone what it did.")
        return
    d.emit(ev.RunReopened())
    endings.begin_cancelling(d, c.reason)


def _check(d: Decision) -> None:
    """Raises Conflict where the run is not one that failed, or where trying again could not mend it."""
    state = d.state
    if state.ended != "failed":
        now = f"has ended ({state.ended})" if state.ended else "has not ended"
        if state.phase == "failing":
            now = "is failing, and waits for what is still open of it"
        problem = RunEnded if state.ended else Conflict
        raise problem(f"Run {state.run} {now}; only a run that has failed is taken up again. Nothing was changed.")
    if COMPENSATE in state.steps:
        raise RunEnded(
            f"Run {state.run} has undone what it did, or tried to: what it would go on from is not there any more."
            " Nothing was changed: start another run."
        )
    for step in _failures(d.graph, state):
        if step.error is not None and step.error.error_class == REJECTED and _is_gate(d.graph, step):
            raise RunEnded(
                f"Run {state.run} failed because a person said no: {step.error.message} What was decided stands."
                " Nothing was changed: start another run to ask again."
            )


def _is_gate(graph: Graph, step: Step) -> bool:
    return graph.nodes[node_of(step.id)].kind == "human_gate"


def _known(graph: Graph, state: State) -> Iterator[Step]:
    """The steps of nodes that the graph has: a run may have been moved to another since."""
    return (step for name, step in state.steps.items() if name in graph.nodes)


def _failures(graph: Graph, state: State) -> list[Step]:
    """The steps whose failures nothing has taken up: no error edge, no `continue_on_error`, no join that has begun without
    them."""
    return [
        step for step in _known(graph, state) if step.status == "failed" and not _is_taken_up(graph, state, step)
    ]  # fmt: skip


def _is_taken_up(graph: Graph, state: State, step: Step) -> bool:
    name = node_of(step.id)
    if graph.errors_from[name]:
        return denied_failure(graph, state, name) is None
    return step.absorbed and (graph.nodes[name].continue_on_error or _was_done_without(graph, state, step))


def _sorted(graph: Graph, state: State, again: Sequence[Step]) -> tuple[list[Step], list[Step]]:
    """Which of those that come `again` go on at once, and all to which the graph is to come anew: whatever follows from a
    step that had completed, what had not begun, and what was skipped for the sake of these."""
    redone, after = _after(graph, (step for step in again if step.provisional)), _after(graph, again)
    superseded = {step.id: step for step in again if step.attempt == 0 and not step.called_off}
    for step in _known(graph, state):
        name = node_of(step.id)
        skipped = step.status == "skipped" and name in after and not _was_done_without(graph, state, step)
        if skipped or name in redone:
            superseded[step.id] = step
    return [step for step in again if step.id not in superseded], [*superseded.values()]


def _after(graph: Graph, steps: Iterable[Step]) -> set[NodeName]:
    first = [target for step in steps for target in graph.successors[node_of(step.id)]]
    return reachable(first, graph.successors)


def _was_done_without(graph: Graph, state: State, step: Step) -> bool:
    """Whether a join that it only led to was met without it, so that nobody needs it any more."""
    name = node_of(step.id)
    return any(
        name in graph.losers(join) for join, met in state.steps.items()
        if join in graph.nodes and met.attempt and graph.nodes[join].join.mode in TOLERANT
    )  # fmt: skip
