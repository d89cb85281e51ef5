"""The fold of steps, and of the edges between them."""

from __future__ import annotations

from typing import Final

from holdfast.core.facts import events as ev
from holdfast.core.facts.folding import items
from holdfast.core.facts.folding.moves import (
    Folds,
    forget_deferred,
    mark,
    move,
    note_moved,
    remember,
    reopen,
    settle,
    unjudge,
    visit,
    wake,
)
from holdfast.core.facts.state import (
    CHILD,
    FINISHED,
    KEPT_FROM_A_PLACE,
    KEPT_FROM_THE_BEGINNING,
    Edit,
    InheritedJournal,
    Operation,
    Question,
    State,
    Step,
    comes_after,
    verdict_key,
)
from holdfast.core.values.ids import Path, approval_at, is_item, node_of, step_id
from holdfast.core.values.payload import NULL
from holdfast.core.values.policies import RATE_LIMIT, ErrorRecord


def _step_ready(s: State, e: ev.StepReady, at_ms: int) -> None:
    visit(s, e.step, "ready", at_ms, e.demand)


def _step_started(s: State, e: ev.StepStarted, at_ms: int) -> None:
    step = visit(s, e.step, "active", at_ms)
    step.resumptions += step.rests
    step.rests = False
    if step.attempt == 0:
        s.steps_started += not is_item(node_of(e.step))  # how many of these there are the map says
        step.began_ms = at_ms
    elif step.passed < step.settlements:
        while step.heard and step.heard[-1][0] >= step.passed:
            del step.heard[-1]
        step.heard.append((step.passed, at_ms))
    step.attempt, step.session, step.worker, step.retry_at_ms = e.attempt, e.session, e.session, None
    step.saw_seq = s.seq


def _state_conflicted(s: State, e: ev.StateConflicted, at_ms: int) -> None:
    if e.resolved is not None:
        s.steps[node_of(e.step)].fields[e.field] = e.resolved


def _step_suspended(s: State, e: ev.StepSuspended, at_ms: int) -> None:
    step = s.steps[node_of(e.step)]
    # What came while the attempt was leaving lets it go on at once; what a pause sent away comes back with its end.
    go_on = step.woken or s.paused or e.yields
    move(s, node_of(e.step), step, "suspended", at_ms)
    step.rests = True
    if go_on:
        wake(s, step)


def _step_completed(s: State, e: ev.StepCompleted, at_ms: int) -> None:
    name = node_of(e.step)
    step = s.steps[name]
    step.output, step.decisions, step.ended_seq = e.output, e.decisions, s.seq
    step.provisional = e.provisional
    if not e.provisional:
        step.journal, step.pending, step.kept, step.inherited, step.edits = {}, {}, {}, {}, {}
    step.conversation = e.conversation
    forget_deferred(s, e.step)
    move(s, name, step, "completed", at_ms)
    if step.maps and not e.provisional:
        items.end_maps(s, step)
    if is_item(name):
        items.end_item(s, name, step)


def _attempt_failed(s: State, e: ev.AttemptFailed, at_ms: int) -> None:
    name = node_of(e.step)
    step = s.steps[name]
    _count(step, e.error)
    step.error, step.retry_at_ms = e.error, e.retry_at_ms
    remember(s, e.error)
    move(s, name, step, "retrying", at_ms)
    _reopen(s, step, e.reopens)


def _attempt_lost(s: State, e: ev.AttemptLost, at_ms: int) -> None:
    name = node_of(e.step)
    step = s.steps[name]
    step.losses += 1
    stopped = step.stopped
    move(s, name, step, "suspended", at_ms)
    step.stopped = stopped  # it has not got past that place
    wake(s, step)


def _step_failed(s: State, e: ev.StepFailed, at_ms: int) -> None:
    name = node_of(e.step)
    step = s.steps[name]
    _count(step, e.error)
    step.error, step.absorbed, step.retry_at_ms = e.error, e.absorbed, None
    step.failed_path, step.output, step.resolved = e.path, e.output, False
    remember(s, e.error)
    forget_deferred(s, e.step)
    move(s, name, step, "failed", at_ms)
    step.parked = e.parked
    if is_item(name) and e.absorbed:
        items.end_item(s, name, step, failed=True)
    elif is_item(name):
        items.set_aside(s, name)


def _count(step: Step, error: ErrorRecord) -> None:
    """Rate limits have a bound of their own."""
    if error.error_class == RATE_LIMIT:
        step.rate_limited += 1
    else:
        step.failures += 1


def _step_replayed(s: State, e: ev.StepReplayed, at_ms: int) -> None:
    name = node_of(e.step)
    step = s.steps[name]
    _begin_anew(s, step)
    _reopen(s, step, e.reopens)
    if is_item(name):
        items.take_up(s, name)
    move(s, name, step, "suspended", at_ms)
    wake(s, step)


def _begin_anew(s: State, step: Step) -> None:
    """Forget the result of a step, but not its journal. A person whom it asked without waiting for the answer any more is asked
    again."""
    step.failures = step.rate_limited = step.losses = 0
    step.retry_at_ms, step.reason, step.decisions = None, None, None
    step.stops = 0
    step.rests = False
    for path in [*step.journal] if step.provisional else ():
        reopen(s, step, path)  # its code made an outcome of what had failed in it
    step.output, step.called_off, step.provisional, step.fields = NULL, False, False, {}
    forget_deferred(s, step.id)
    for path, op in step.unsettled():
        if op.status == "deferred":  # there was no room then: it asks again, and until then it waits for none
            op.scope, op.other, op.due_at_ms, op.blocked = None, None, None, False
            mark(s, step, path, op, "reopened")
    gone = [path for path, op in step.unsettled() if op.kind == "gate" and op.gate not in s.gates]
    for path in gone:
        del step.journal[path], step.pending[path]
    step.generation += bool(gone)
    unjudge(s, step.id)


def _reopen(s: State, step: Step, path: Path | None) -> None:
    """Forget the failure at `path`. Where tasks have rows of their own, what had its outcome after it may have come of it, as
    what a task group has called off: it is taken out, and the code that asks for the same again gets what is kept of it."""
    op = None if path is None else step.journal.get(path)
    failed = op.settled if op is not None and op.status == "failed" else 0
    reopen(s, step, path)
    if failed and path is not None and s.naming > 1:
        own = (path, approval_at(path))
        later = [each for each, other in step.journal.items() if other.settled > failed and each not in own]
        if later:
            _take_out(s, step, later, KEPT_FROM_A_PLACE)


def _step_stopped(s: State, e: ev.StepStopped, at_ms: int) -> None:
    name = node_of(e.step)
    step = s.steps[name]
    move(s, name, step, "suspended" if e.retry_at_ms is None else "retrying", at_ms)
    step.stopped, step.retry_at_ms = e.path, e.retry_at_ms
    step.stops += 1


def _journal_dropped(s: State, e: ev.JournalDropped, at_ms: int) -> None:
    name = node_of(e.step)
    step = s.steps[name]
    move(s, name, step, "suspended", at_ms)
    keeps = KEPT_FROM_A_PLACE if e.edited or e.path is not None else KEPT_FROM_THE_BEGINNING
    _take_out(s, step, [path for path in step.journal if e.path is None or comes_after(s, step, path, e.path)], keeps)
    step.stops, step.retry_at_ms, step.edited = 0, None, False
    wake(s, step)


def _take_out(s: State, step: Step, paths: list[Path], keeps: frozenset[str]) -> None:
    """Take operations out of a step's journal. Of completed ones, some kinds are kept for operations that ask for the same."""
    if step.maps:
        items.drop_maps(s, step, frozenset(paths))
    for path in paths:
        op = step.journal.pop(path)
        step.pending.pop(path, None)
        s.deferred.pop(f"{step.id}:{path}", None)
        s.short.pop(f"{step.id}:{path}", None)
        if op.has_come_to_something and op.kind in keeps:
            op.status, op.error = "done", None
            step.kept[step.named(path)] = op
        elif op.kind == CHILD and op.status == "open":
            step.kept[step.named(path)] = op  # it goes on meanwhile
    step.generation += 1
    step.passed = max((op.settled for op in step.journal.values()), default=0) - (not step.pending)


def _operation_reused(s: State, e: ev.OperationReused, at_ms: int) -> None:
    step = s.steps[node_of(e.step)]
    op = step.journal[e.path] = (step.kept if e.origin is None else step.inherited).pop(e.kept)
    if op.status in ("done", "failed"):
        settle(s, step, op)
    elif op.status == "open" and op.child is not None:
        mark(s, step, e.path, op, "open")
        s.children[op.child].places = {f"{e.step}:{e.path}": None}
    step.stopped = None
    wake(s, step)  # the step that asked for it may have to come again to hear of it


def _step_skipped(s: State, e: ev.StepSkipped, at_ms: int) -> None:
    step = visit(s, e.step, "skipped", at_ms)
    step.reason = e.reason


def _step_cancelling(s: State, e: ev.StepCancelling, at_ms: int) -> None:
    step = s.steps[node_of(e.step)]
    step.settlements += 1
    step.cancelled_at, step.cancelled_ms, step.cancel_until_ms = step.settlements, at_ms, e.until_ms
    note_moved(s, node_of(e.step))
    wake(s, step)


def _step_cancelled(s: State, e: ev.StepCancelled, at_ms: int) -> None:
    step = visit(s, e.step, "cancelled", at_ms)
    step.reason, step.called_off = e.reason, s.phase == "failing"
    forget_deferred(s, e.step)
    if is_item(node_of(e.step)):
        items.set_aside(s, node_of(e.step))


def _loop_taken(s: State, e: ev.LoopTaken, at_ms: int) -> None:
    for id_ in e.superseded:
        name = node_of(id_)
        step = s.steps[name]
        forget_deferred(s, id_)
        if step.status in FINISHED:
            s.previous[name] = _as_it_was(step)
        else:
            s.previous.pop(name, None)
        items.drop_maps(s, step)
        move(s, name, step, "cancelled", at_ms)
        del s.steps[name]
        unjudge(s, id_)
    for name in e.bygone:
        s.previous.pop(name, None)
        note_moved(s, name)
    for name in e.rearmed:
        s.joins.pop(name, None)
        s.summoned.pop(name, None)
        unjudge(s, step_id(name, s.visits.get(name, 0) + 1))
    s.summoned[e.target] = None


def _as_it_was(step: Step) -> Step:
    """Return the facts that a later visit may need of this one."""
    return Step(
        step.id,
        step.status,
        output=step.output,
        decisions=step.decisions,
        error=step.error,
        reason=step.reason,
        by=step.by,
        ended_seq=step.ended_seq,
        conversation=step.conversation,
    )


def _dead_letter_edited(s: State, e: ev.DeadLetterEdited, at_ms: int) -> None:
    s.input = e.input
    step = s.steps[node_of(e.step)]
    step.edited = True
    if e.path is not None and e.arguments is not None:
        step.edits[e.path] = Edit(e.tool, e.arguments, s.seq)


def _dead_letter_resolved(s: State, e: ev.DeadLetterResolved, at_ms: int) -> None:
    s.steps[node_of(e.step)].resolved = True


def _step_inherited(s: State, e: ev.StepInherited, at_ms: int) -> None:
    name = node_of(e.step)
    s.given.pop(e.step, None)
    if e.previous:
        step = s.previous[name] = Step(e.step, e.status)
        note_moved(s, name)
    else:
        step = visit(s, e.step, e.status, at_ms)
        step.journal, step.inherited = {}, {}
    step.output, step.decisions, step.error = e.output, e.decisions, e.error
    step.absorbed, step.reason, step.conversation = e.absorbed, e.reason, e.conversation
    step.ended_seq = s.seq if e.status == "completed" else 0
    step.fields = e.fields


def _operation_inherited(s: State, e: ev.OperationInherited, at_ms: int) -> None:
    known = s.inherited.get(e.step)
    if known is None:
        known = s.inherited[e.step] = InheritedJournal({}, {})
    op = Operation(e.kind, e.name, e.args_hash, "done" if e.error is None else "failed", call=e.call, key=e.key)
    op.outcome, op.error = e.outcome, e.error
    if e.stands:
        op.settled, op.since_ms = len(known.journal) + 1, at_ms
        known.journal[e.path] = op
    else:
        known.reusable[e.path] = op


def _guard_asked(s: State, e: ev.GuardAsked, at_ms: int) -> None:
    s.asked[verdict_key(e.step, e.target, e.guard)] = Question(e.step, e.target, e.guard)


def _guard_judged(s: State, e: ev.GuardJudged, at_ms: int) -> None:
    s.asked.pop(verdict_key(e.step, e.target, e.guard), None)
    s.verdicts[verdict_key(e.step, e.target, e.guard)] = e.allowed
    note_moved(s, node_of(e.step))


def _join_opened(s: State, e: ev.JoinOpened, at_ms: int) -> None:
    s.joins[e.node] = e.due_at_ms


def _join_timed_out(s: State, e: ev.JoinTimedOut, at_ms: int) -> None:
    s.joins[e.node] = None


FOLDS: Final[Folds] = {
    ev.StepReady: _step_ready,
    ev.StepStarted: _step_started,
    ev.StepSuspended: _step_suspended,
    ev.StepCompleted: _step_completed,
    ev.AttemptFailed: _attempt_failed,
    ev.AttemptLost: _attempt_lost,
    ev.StepFailed: _step_failed,
    ev.StepReplayed: _step_replayed,
    ev.StateConflicted: _state_conflicted,
    ev.StepStopped: _step_stopped,
    ev.JournalDropped: _journal_dropped,
    ev.OperationReused: _operation_reused,
    ev.DeadLetterEdited: _dead_letter_edited,
    ev.DeadLetterResolved: _dead_letter_resolved,
    ev.StepInherited: _step_inherited,
    ev.OperationInherited: _operation_inherited,
    ev.StepSkipped: _step_skipped,
    ev.StepCancelling: _step_cancelling,
    ev.StepCancelled: _step_cancelled,
    ev.LoopTaken: _loop_taken,
    ev.GuardAsked: _guard_asked,
    ev.GuardJudged: _guard_judged,
    ev.JoinOpened: _join_opened,
    ev.JoinTimedOut: _join_timed_out,
}
