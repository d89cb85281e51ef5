"""The rules of waiting inside a step: timers and signals.

Never here: people (gates), money (calls, limits).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

import msgspec

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import SHARED_WAIT, SLEEP, Operation, State, Step
from holdfast.core.rules import sharing
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.fence import hindrance, intends
from holdfast.core.values.ids import Path, StepId, node_of
from holdfast.core.values.policies import TIMEOUT
from holdfast.errors import InvalidInput, KeyReused, Misfit

MAX_SIGNALS_KEPT: Final = 1000
"""Maximum number of signals that no step has asked for yet; a sender that only sends must hear of it."""


def start_timer(d: Decision, c: commands.StartTimer) -> None:
    step = intends(d, c, c.path, SLEEP, SLEEP, c.args_hash)
    if c.path in step.journal:
        return
    d.record(c.step, c.values)
    d.emit(ev.TimerStarted(c.step, c.attempt, c.path, c.args_hash, d.now_ms + c.wait_ms))


def start_timers(d: Decision, step: Step, timers: Sequence[commands.Timer]) -> None:
    """Start those that are not in the step's journal, while something new may begin; else the step asks for them again."""
    for timer in timers if hindrance(d.state, step.id) is None else ():
        if timer.path not in step.journal:
            due_at_ms = d.now_ms + timer.wait_ms
            d.emit(ev.TimerStarted(step.id, step.attempt, timer.path, timer.args_hash, due_at_ms, timer.name))


def await_signal(d: Decision, c: commands.AwaitSignal) -> None:
    step = intends(d, c, c.path, "signal", c.name, c.args_hash)
    if (op := step.journal.get(c.path)) is not None and op.status != "reopened":
        return
    d.record(c.step, c.values)
    due_at_ms = d.now_ms + c.timeout_ms if c.timeout_ms is not None else None
    d.emit(ev.SignalAwaited(c.step, c.attempt, c.path, c.name, c.args_hash, due_at_ms, c.schema))
    deliver(d)


def has_received(state: State, c: commands.SendSignal) -> bool:
    """True if the run knows the signal by its key. Raises KeyReused where that was another signal's."""
    known = None if c.key is None else state.signal_keys.get(c.key)
    if known is not None and known != c.digest:
        raise KeyReused(
            f"Use another key: {c.key!r} has sent run {state.run} a signal of another name or with other data. This one was not"
            " sent."
        )
    return known is not None


def send_signal(d: Decision, c: commands.SendSignal) -> None:
    if has_received(d.state, c):
        return
    _expect_to_fit(d.state, c)
    if len(d.state.signals) >= MAX_SIGNALS_KEPT:
        raise InvalidInput(
            f"Run {d.state.run} already keeps {MAX_SIGNALS_KEPT} signals that no step has asked for."
            " This one was not recorded; let the run catch up first."
        )
    number = d.state.signals_received + 1
    d.emit(ev.SignalReceived(c.name, number, c.data, *c.by.event_fields, key=c.key, digest=c.digest, sender=c.sender))
    d.contribute(c.contributors)
    d.learn(c.makers)
    deliver(d)


def _expect_to_fit(state: State, c: commands.SendSignal) -> None:
    """Raise InvalidInput for data that is not what the step takes which would get the signal."""
    if c.plain is msgspec.UNSET or (wanted := schema_of_wait(state, c.name)) is None:
        return
    from holdfast.core.values import schema  # noqa: PLC0415 - 100 ms for those who have one

    try:
        problems = schema.problems(wanted, c.plain, "data")
    except schema.TooMuch as problem:
        problems = [Misfit(f"the data cannot be held against its schema: {problem}")]
    if problems:
        raise InvalidInput(
            f"Send the signal {c.name!r} with data that fits what run {state.run} waits for: {'; '.join(problems)}. It was not"
            " sent.",
            field="data",
            misfits=problems,
        )


def _waiting(state: State, name: str | None = None) -> Iterator[tuple[int, StepId, Path, Operation]]:
    """The waits for signals, or for the one of that name."""
    for each in state.timed():
        step = state.steps[each]
        for path, op in step.unsettled():
            if op.kind == "signal" and op.status == "open" and name in (None, op.name):
                yield op.since_ms, step.id, path, op


def schema_of_wait(state: State, name: str) -> dict[str, Any] | None:
    """Return the JSON Schema of what the step takes that would get a signal; None where none waits, or says it."""
    waiting = min(_waiting(state, name), default=None, key=lambda each: each[:3])
    return None if waiting is None else waiting[3].schema


def deliver(d: Decision) -> None:
    """Bring kept signals to the steps that wait for them: first come, first served, on both sides."""
    state = d.state
    waiting: dict[str, list[tuple[int, StepId, Path]]] = {}
    for since_ms, step_id, path, op in _waiting(state):
        waiting.setdefault(op.name, []).append((since_ms, step_id, path))
    for places in waiting.values():
        places.sort(reverse=True)
    for signal in list(state.signals):
        if waiting.get(signal.name):
            _, step_id, path = waiting[signal.name].pop()
            d.emit(ev.SignalDelivered(step_id, path, signal.number))


def _is_due(op: Operation, now_ms: int) -> bool:
    return op.status in ("open", "retrying") and op.due_at_ms is not None and op.due_at_ms <= now_ms


def fire_due(d: Decision) -> None:
    """Wake the steps whose timers have run out, have what failed tried again whose time has come, and give up waits for
    signals whose time is over: of each step in the order of their times."""
    for name in d.state.timed():
        step = d.state.steps[name]
        due = [(op.due_at_ms, path, op) for path, op in step.unsettled() if _is_due(op, d.now_ms)]
        for _, path, op in sorted(due, key=itemgetter(0)):  # of one time, the one that was begun first
            if not _is_due(op, d.now_ms):
                continue
            if op.status == "retrying":
                d.emit(ev.OperationReopened(step.id, path))
            elif op.kind == SLEEP:
                d.emit(ev.TimerFired(step.id, path))
            elif op.kind == "signal":
                error = d.error(node_of(step.id), TIMEOUT, f"No signal {op.name!r} arrived in time.")
                d.emit(ev.SignalTimedOut(step.id, path, error))
            elif op.kind == SHARED_WAIT:
                sharing.give_up(d, step, path, op)
