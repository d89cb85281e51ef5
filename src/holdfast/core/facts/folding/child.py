"""The fold of a run's children."""

from __future__ import annotations

from typing import Final

from holdfast.core.facts import events as ev
from holdfast.core.facts.folding.moves import Folds, close, mark, operation, wake
from holdfast.core.facts.postings import opened_by
from holdfast.core.facts.state import BACKGROUND, CHILD, UNDONE, Child, Compensable, Operation, State
from holdfast.core.values.ids import CallId, Path, RunId, StepId, node_of
from holdfast.core.values.payload import NULL, inline


def _tree_opened(s: State, e: ev.TreeOpened, at_ms: int) -> None:
    s.shared = (*s.shared, *opened_by(e, s.run))


def _child_requested(s: State, e: ev.ChildRequested, at_ms: int) -> None:
    before = s.children.get(e.child)
    s.children_asked += not e.again
    s.children[e.child] = Child(
        e.step,
        e.path,
        e.workflow,
        e.graph_hash,
        e.args_hash,
        at_ms,
        e.input,
        e.limit_nanousd,
        e.key,
        e.background or (before is not None and before.background),
        places={},
        handoff=e.handoff,
        max_tokens=e.max_tokens,
        agent=e.agent,
    )
    if e.key is not None:
        s.named_children[e.key] = e.child
    known = s.steps[node_of(e.step)].journal.get(e.path)
    asked = BACKGROUND if e.background else CHILD
    kind, args_hash = (asked, e.args_hash) if known is None else (known.kind, known.args_hash)
    op = operation(s, e.step, e.path, kind, e.workflow, args_hash, at_ms)
    _wait(s, e.step, e.path, op, e.child, background=e.background)


def _child_awaited(s: State, e: ev.ChildAwaited, at_ms: int) -> None:
    op = operation(s, e.step, e.path, e.kind, e.workflow, e.args_hash, at_ms)
    _wait(s, e.step, e.path, op, e.child, background=e.background)


def _wait(s: State, step: StepId, path: Path, op: Operation, name: RunId, *, background: bool) -> None:
    child = s.children[name]
    op.child = name
    if background:
        mark(s, s.steps[node_of(step)], path, op, "done")
        op.outcome = inline(name)
    elif child.ended:  # what became of it stands, also where it was called off with the run that is taken up again
        close(s, step, path, outcome=None if child.error is not None else child.output, error=child.error)
    else:
        child.places[f"{step}:{path}"] = None


def _child_abandoned(s: State, e: ev.ChildAbandoned, at_ms: int) -> None:
    s.children[e.child].abandoned = True


def _child_undone(s: State, e: ev.ChildUndone, at_ms: int) -> None:
    op = operation(s, e.step, e.path, UNDONE, e.workflow, e.args_hash, at_ms)
    s.children[e.child] = Child(e.step, e.path, e.workflow, "", e.args_hash, at_ms, places={}, undoing=True)
    _wait(s, e.step, e.path, op, e.child, background=False)


def _child_ended(s: State, e: ev.ChildEnded, at_ms: int) -> None:
    child = s.children[e.child]
    child.ended, child.output, child.error, child.input = e.how, e.output, e.error, NULL
    if e.undoable:
        s.compensable.append(Compensable(CallId(""), child.workflow, "", NULL, NULL, e.child))
    if child.handoff and e.how == "completed":
        s.handed_to = (e.child, child.workflow)
    for place in child.places:
        _tell(s, e.child, child, place)
    child.places = {}
    if not (child.background or s.named_children.get(child.key or "") == e.child):
        del s.children[e.child]


def _tell(s: State, name: RunId, child: Child, place: str) -> None:
    """Bring the end of a child to an operation that waits for it. A retry takes up one that has failed. In the place of a
    cancelled one it begins another, and so does a new request after one was abandoned. A clean-up hears that the child was
    cancelled, as the run is."""
    found = s.operation_at(place)
    if found is None or found[2].child != name:
        _keep(s, name, child, StepId(place.rpartition(":")[0]))
        return
    step, path, op = found
    if child.ended == "cancelled" and not child.undoing:
        op.child = None
        if child.abandoned and not step.cleans_up:
            mark(s, step, path, op, "reopened")
            wake(s, step)
            return
    close(s, step.id, path, outcome=None if child.error is not None else child.output, error=child.error)


def _keep(s: State, name: RunId, child: Child, id_: StepId) -> None:
    """The journal in which a child was asked for was dropped meanwhile: whatever asks for the same finds what it came to."""
    step = s.step(id_)
    for path, op in [] if step is None else [*step.kept.items()]:
        if step is None or op.child != name:
            continue
        if child.error is None:
            op.status, op.outcome = "done", child.output
        else:
            del step.kept[path]


FOLDS: Final[Folds] = {
    ev.TreeOpened: _tree_opened,
    ev.ChildRequested: _child_requested,
    ev.ChildAwaited: _child_awaited,
    ev.ChildAbandoned: _child_abandoned,
    ev.ChildUndone: _child_undone,
    ev.ChildEnded: _child_ended,
}
