"""The rules of children: runs of their own that a step asks for and waits for, and whose end comes back to it.

A request is recorded first, then a process starts the child, and its end is brought to its parent: each may be done twice and
counts once. The money of a whole tree is one scope, its tokens are another; their limits are its root's.

Never here: starting a run (engine.background.children).
"""

from __future__ import annotations

from typing import Final

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import COMPENSATE
from holdfast.core.facts.state import AWAITED, BACKGROUND, CHILD, OPEN_STEPS, UNDONE, Child, Operation, State
from holdfast.core.rules import limits, shortages
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.fence import intends
from holdfast.core.values import scopes
from holdfast.core.values.ids import RunId, node_of
from holdfast.core.values.policies import CANCELLED, CHILD_FAILED
from holdfast.errors import Conflict, InvalidInput, KeyReused, NotFound

MAX_CHILDREN: Final = 10_000
"""Of one run, in all. The run knows those by name that have not ended, and each end is an event of it; for more of them, let
children have children."""
MAX_DEPTH: Final = 10
"""How far below its root a run may be. Each call posts its money to every limit above it; and workflows that start one another
in a circle must come to an end, also where a model decides whether they do."""

_LEAVES_CHILDREN: Final = (
    ev.StepCompleted,
    ev.StepFailed,
    ev.StepCancelled,
    ev.LoopTaken,
    ev.JournalDropped,
    ev.RunFailing,
    ev.RunCancelling,
    ev.OperationReused,
    ev.OperationCalledOff,
    ev.MapEnded,
)
"""Events after which a child may have no waiting parent."""


def request_child(d: Decision, c: commands.RequestChild) -> None:
    """Ask for a child, or for what became of the one that the run knows under the same key."""
    kind = BACKGROUND if c.background else CHILD
    step = intends(d, c, c.path, kind, c.workflow, c.args_hash)
    op = step.journal.get(c.path)
    if op is not None and op.status != "reopened":
        return
    named = _named(d.state, c)
    failed = op.child if op is not None and op.child is not None else None
    if named is not None and named[1].ended in ("failed", "cancelled"):
        failed = named[0] if named[1].ended == "failed" else None
        named = None
    if named is None and failed is None:
        _expect_room(d.state)
    d.record(c.step, c.values)
    if named is not None:
        d.emit(ev.ChildAwaited(c.step, c.attempt, c.path, named[0], c.workflow, c.args_hash, kind, c.background))
        return
    _open_tree(d)
    d.emit(
        ev.ChildRequested(
            c.step,
            c.attempt,
            c.path,
            failed or c.child,
            c.workflow,
            c.version,
            c.graph_hash,
            c.args_hash,
            c.input,
            c.limit_nanousd,
            c.key,
            c.background,
            again=failed is not None,
            handoff=c.handoff,
            max_tokens=c.max_tokens,
            agent=shortages.agent_of(d, c.step),
        )
    )


def await_child(d: Decision, c: commands.AwaitChild) -> None:
    """Wait for a child that goes on in the background. Where the wait is to be tried again, a child that has failed is."""
    child = d.state.children.get(c.child)
    if child is None:
        raise NotFound(f"Run {c.child} is no child that run {d.state.run} has in the background.")
    step = intends(d, c, c.path, AWAITED, child.workflow, c.args_hash)
    op = step.journal.get(c.path)
    if op is not None and op.status != "reopened":
        return
    d.record(c.step, c.values)
    if op is not None and child.ended == "failed":
        d.emit(
            ev.ChildRequested(
                c.step,
                c.attempt,
                c.path,
                c.child,
                child.workflow,
                0,
                child.graph_hash,
                child.args_hash,
                child.input,
                child.limit_nanousd,
                child.key,
                again=True,
                max_tokens=child.max_tokens,
                agent=child.agent,
            )
        )
        return
    d.emit(ev.ChildAwaited(c.step, c.attempt, c.path, c.child, child.workflow, c.args_hash, AWAITED))


def undo_child(d: Decision, c: commands.UndoChild) -> None:
    """Have a child that has completed undo what it did, in its turn among what the run itself has done."""
    if node_of(c.step) != COMPENSATE:
        raise Conflict(f"Run {d.state.run} is not undone, so child {c.child} is not either.")
    step = intends(d, c, c.path, UNDONE, c.workflow, c.args_hash)
    op = step.journal.get(c.path)
    if op is None or op.status == "reopened":
        d.emit(ev.ChildUndone(c.step, c.attempt, c.path, c.child, c.workflow, c.args_hash))


def _named(state: State, c: commands.RequestChild) -> tuple[RunId, Child] | None:
    """The child that the run knows under the key. Raises KeyReused where that was asked for something else."""
    if c.key is None:
        return None
    name = state.named_children.get(c.key)
    if name is None:
        return None
    child = state.children[name]
    if child.args_hash != c.args_hash:
        raise KeyReused(
            f"The key {c.key!r} belongs to the child {name}, which was asked for with another workflow or input. No child was"
            " started: the same key must mean the same thing.",
            key=c.key,
            run=name,
        )
    return name, child


def _expect_room(state: State) -> None:
    depth = state.parent.depth if state.parent is not None else 0
    if depth >= MAX_DEPTH:
        raise InvalidInput(
            f"Run {state.run} is {depth} runs below its root {state.root}, which is as deep as a tree may go. No child was"
            " started: see whether workflows start one another in a circle."
        )
    if state.children_asked >= MAX_CHILDREN:
        raise InvalidInput(
            f"Run {state.run} has asked for {MAX_CHILDREN} children, which is as many as a run may have. No child was"
            " started: let a child have some of them."
        )


def _open_tree(d: Decision) -> None:
    """Have the money, and the tokens, of the run and of all below it count together, if the run has a limit."""
    state, tree = d.state, scopes.tree_of(d.state.run)
    limit = None if tree in state.shared else state.budget.limit_nanousd
    max_tokens = None if scopes.in_tokens(tree) in state.shared else state.max_tokens
    if (limit is None and max_tokens is None) or limits.records(d):
        return
    # What an early version has held is in no scope, and will not leave one.
    holds = [call.hold for call in state.calls.values() if call.hold is not None]
    held = sum(hold.nanousd for hold in holds if not hold.in_doubt)
    in_doubt = sum(hold.nanousd for hold in holds if hold.in_doubt)
    money = limit, state.budget.committed_nanousd - held - in_doubt, held, in_doubt
    held = sum(hold.tokens for hold in holds if not hold.in_doubt)
    in_doubt = sum(hold.tokens for hold in holds if hold.in_doubt)
    used = state.tokens_used + state.tokens_held + state.tokens_in_doubt
    d.emit(ev.TreeOpened(*money, max_tokens, used - held - in_doubt, held, in_doubt))


def end_child(d: Decision, c: commands.EndChild) -> None:
    """Take note of the end of a child; once."""
    child = d.state.children.get(c.child)
    if child is None or child.ended or (child.undoing and c.how == "completed"):  # that end was heard of before
        return
    error = None
    if c.how == "failed" or (c.how == "cancelled" and not child.undoing):
        why = c.error.message if c.error is not None else "no reason is known"
        became = "failed" if c.how == "failed" else "was cancelled"
        if child.undoing:
            became = "could not undo what it did"
        message = f"The child {c.child} ({child.workflow!r}) {became}: {why}"
        node = node_of(child.step)
        if c.how == "failed":  # a policy that the node names itself has it taken up again
            error = d.error(node, CHILD_FAILED, message, retryable=not child.undoing)
        else:
            error = d.error(node, CANCELLED, message)
    is_undoable = c.undoable and c.how == "completed"
    d.emit(ev.ChildEnded(c.child, c.how, c.output, error, undoable=is_undoable, contributors=c.contributors))
    d.learn(c.makers)


def attend(d: Decision) -> None:
    """Cancel the children without a waiting parent: those of a run that is ending, and those whose step went on without
    them."""
    state = d.state
    if not any(isinstance(event, _LEAVES_CHILDREN) for event in d.events):
        return
    begins_to_end = any(isinstance(event, ev.RunFailing | ev.RunCancelling) for event in d.events)
    for name, child in list(state.open_children()):
        if child.abandoned or child.undoing or (not begins_to_end and _is_wanted(state, name, child)):
            continue
        d.emit(ev.ChildAbandoned(name, "the run is ending" if state.phase else "nothing waits for it"))


def _is_wanted(state: State, name: RunId, child: Child) -> bool:
    """True if something waits for a child that was not called off. In a run that is ending, only cleaning up counts."""
    if state.phase and not state.cleans_up(child.step):
        return False
    if child.background:
        return True
    for place in child.places:
        found = state.operation_at(place)
        if found is not None and found[2].child == name and (found[0].status in OPEN_STEPS or found[0].parked):
            return True
    step = state.step(child.step)
    kept: list[Operation] = [] if step is None or step.status not in OPEN_STEPS else [*step.kept.values()]
    return any(op.child == name for op in kept)
