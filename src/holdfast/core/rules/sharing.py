"""Writes of shared values by a step, and its waits for others, as changes of its run.

A write stands in the history in the commit that makes it.

Never here: versions and strategies (shared_values).
"""

from __future__ import annotations

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import SHARED, SHARED_WAIT, Operation, Step
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.fence import intends
from holdfast.core.values.ids import Path, node_of
from holdfast.core.values.policies import CONFLICT, TIMEOUT
from holdfast.errors import SharedValueMoved


def write_shared_value(d: Decision, c: commands.WriteSharedValue) -> None:
    """Take a write, or its refusal, as what its operation came to."""
    name = f"{c.space}/{c.key}"
    step = intends(d, c, c.path, SHARED, name, c.args_hash)
    op = step.journal.get(c.path)
    if op is not None and op.status != "reopened":
        return  # it has come to something
    if c.until_ms is not None and d.now_ms >= c.until_ms:
        raise SharedValueMoved(f"{name!r} was to be written before now. Nothing was written: look again.")
    d.record(c.step, c.values)
    d.contribute(c.authors, name)
    if c.conflict is not None:
        error = d.error(node_of(c.step), CONFLICT, c.refusal) if c.refusal is not None else None
        d.emit(ev.SharedValueConflicted(c.step, c.path, c.space, c.key, c.args_hash, c.conflict, error))
    if c.is_written:
        d.emit(
            ev.SharedValueWritten(
                c.step, c.path, c.space, c.key, c.args_hash, c.base, c.outcome, c.fence, c.index, c.keep, c.dropped
            )
        )
    elif c.refusal is None:
        d.emit(ev.ValueRecorded(c.step, c.path, SHARED, None, c.outcome, name, c.args_hash))


def await_shared_value(d: Decision, c: commands.AwaitSharedValue) -> None:
    step = intends(d, c, c.path, SHARED_WAIT, f"{c.space}/{c.key}", c.args_hash)
    op = step.journal.get(c.path)
    if op is not None and op.status != "reopened":
        return
    d.record(c.step, c.values)
    due_at_ms = d.now_ms + c.timeout_ms if c.timeout_ms is not None else None
    d.emit(ev.SharedValueAwaited(c.step, c.attempt, c.path, c.space, c.key, c.args_hash, c.after, due_at_ms))


def bring_shared_value(d: Decision, c: commands.BringSharedValue) -> None:
    """Let a step go on that waits there still; of two that bring it one does."""
    step = d.state.step(c.step)
    op = step.journal.get(c.path) if step is not None else None
    if op is not None and op.kind == SHARED_WAIT and op.status == "open":
        d.emit(ev.SharedValueArrived(c.step, c.path, c.value))
        d.contribute(c.authors, op.name)


def give_up(d: Decision, step: Step, path: Path, op: Operation) -> None:
    """The time is over for which the operation at `path` waits."""
    error = d.error(node_of(step.id), TIMEOUT, f"{op.name!r} was not written in time.")
    d.emit(ev.SharedValueTimedOut(step.id, path, error))
