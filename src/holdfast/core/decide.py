"""`decide`: what a command does to a run, as events, or why it may not. The only place that refuses.

This module is the table of contents; each rule stands in the module of its subject. After every rule the run is
followed as far as it goes by itself: loops, skips, joins, starts, limits, endings.

Never here: I/O, a clock, randomness, `async`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.core import tick
from holdfast.core.facts import commands, contribution
from holdfast.core.facts.events import Event
from holdfast.core.facts.graph import Graph
from holdfast.core.facts.postings import pays_for_others
from holdfast.core.facts.state import State
from holdfast.core.people import changed_code, gates
from holdfast.core.rules import (
    calling_off,
    calls,
    children,
    dead_letters,
    endings,
    functions,
    labelling,
    limits,
    mapping,
    messages,
    reopening,
    sharing,
    steps,
    waits,
)
from holdfast.core.rules.decision import Decision
from holdfast.core.values.actor import NOBODY
from holdfast.core.values.ids import EffectKey
from holdfast.errors import Conflict, NotFound, RunEnded

_RULES: Final[dict[type[commands.Command], Callable[[Decision, Any], None]]] = {
    commands.StartRun: steps.start_run,
    commands.Tick: tick.tick,
    commands.CompleteStep: steps.complete_step,
    commands.FailAttempt: steps.fail_attempt,
    commands.SuspendStep: steps.suspend_step,
    commands.CallOffOperations: calling_off.call_off_operations,
    commands.StopStep: changed_code.stop_step,
    commands.RecordValues: functions.record_values,
    commands.FailFunction: functions.fail_function,
    commands.RetryOperation: functions.retry_operation,
    commands.ReuseOperation: functions.reuse_operation,
    commands.MapItems: mapping.map_items,
    commands.AwaitPools: steps.await_pools,
    commands.LoseAttempt: steps.lose_attempt,
    commands.JudgeGuards: steps.judge_guards,
    commands.HoldModelCall: calls.hold_model_call,
    commands.SettleModelCall: calls.settle_model_call,
    commands.FailModelCall: calls.fail_model_call,
    commands.DoubtModelCall: calls.doubt_model_call,
    commands.ReconcileCall: calls.reconcile_call,
    commands.IntendEffect: calls.intend_effect,
    commands.CompleteEffect: calls.complete_effect,
    commands.FailEffect: calls.fail_effect,
    commands.ReleaseEffect: calls.release_effect,
    commands.DoubtEffect: calls.doubt_effect,
    commands.ReopenEffect: calls.reopen_effect,
    commands.DenyToolCall: calls.deny_tool_call,
    commands.RequestChild: children.request_child,
    commands.AwaitChild: children.await_child,
    commands.UndoChild: children.undo_child,
    commands.EndChild: children.end_child,
    commands.WriteSharedValue: sharing.write_shared_value,
    commands.AwaitSharedValue: sharing.await_shared_value,
    commands.BringSharedValue: sharing.bring_shared_value,
    commands.StartTimer: waits.start_timer,
    commands.AwaitSignal: waits.await_signal,
    commands.SendSignal: waits.send_signal,
    commands.SendMessage: messages.send_message,
    commands.ReadMessages: messages.read_messages,
    commands.OpenGate: gates.open_gate,
    commands.AssignGate: gates.assign_gate,
    commands.DecideGate: gates.decide_gate,
    commands.DecideTogether: gates.decide_together,
    commands.RaiseLimit: limits.raise_limit,
    commands.LabelRun: labelling.label_run,
    commands.PauseRun: endings.pause_run,
    commands.ResumeRun: endings.resume_run,
    commands.CancelRun: endings.cancel_run,
    commands.RetryRun: reopening.retry_run,
    commands.UndoRun: reopening.undo_run,
    commands.EditDeadLetter: dead_letters.edit_dead_letter,
    commands.RetryDeadLetter: reopening.retry_dead_letter,
    commands.ResolveDeadLetter: dead_letters.resolve_dead_letter,
    commands.MigrateRun: endings.migrate_run,
}

_AFTER_THE_END: Final = (
    commands.CallCommand,
    commands.ReconcileCall,
    commands.LabelRun,
    commands.Tick,
    commands.RetryRun,
    commands.UndoRun,
    commands.EditDeadLetter,
    commands.RetryDeadLetter,
    commands.ResolveDeadLetter,
)
"""The truth about money and effects is taken even when the run has ended, and people find it by labels that they give it then;
a tick finds nothing in it. And one that has failed may be taken up again, or be said to be done with, one that has completed be
undone with its parent."""

_NO_SHORTAGES: Final[Mapping[str, commands.Shortage]] = {}
_NOTHING_TAKEN: Final[Mapping[EffectKey, commands.KnownEffect]] = {}


def _pays_for_others(state: State, command: commands.Command) -> bool:
    """True if the command is about a limit of a tree whose root has ended."""
    return isinstance(command, commands.RaiseLimit) and pays_for_others(state, command.limit)


def _obey(d: Decision, command: commands.Command) -> None:
    _RULES[type(command)](d, command)
    by = getattr(command, "by", NOBODY)
    for event in contribution.makers(d.events, by, d.state) if by.maker is not None else ():
        d.emit(event)


def decide(
    graph: Graph,
    state: State,
    command: commands.Command,
    now_ms: int,
    worker: commands.Worker | None = None,
    shortages: Mapping[str, commands.Shortage] = _NO_SHORTAGES,
    keys: Mapping[EffectKey, commands.KnownEffect] = _NOTHING_TAKEN,
) -> list[Event]:
    """The events that `command` causes at `now_ms`; empty where nothing is to be done.

    `worker` is the session that may start what becomes ready, None for somebody who executes nothing. `shortages` is what
    is known of scopes above the run into which its money did not fit before, `keys` of effects that are other runs'.
    `state` is used up: it comes back as the fold of the returned events, so a caller that fails to append them must load it
    again. A refusal (an error of holdfast.errors) leaves it as it was.
    """
    if not state.seq and not isinstance(command, commands.StartRun):
        raise NotFound("This run has not been started.")
    if state.seq and state.graph_hash != graph.hash and not isinstance(command, commands.MigrateRun):
        raise Conflict(
            f"Run {state.run} follows the graph {state.graph_hash[:16]}, not {graph.hash[:16]}; nothing was decided."
        )
    if state.ended and not (isinstance(command, _AFTER_THE_END) or _pays_for_others(state, command)):
        if isinstance(command, commands.DecideGate) and command.gate in state.decided:
            raise gates.closed(state, command.gate)
        if isinstance(command, commands.SendSignal) and waits.has_received(state, command):
            return []
        raise RunEnded(f"Run {state.run} has ended ({state.ended}); nothing about it can be changed any more.")
    decision = Decision(graph, state, now_ms, worker, shortages, keys)
    _obey(decision, command)
    if not state.ended:
        if state.gates:
            changed_code.withdraw_missing(decision)
            changed_code.withdraw_divergence(decision)
        steps.follow(decision)
        if state.gates:
            limits.withdraw_moot(decision)
            steps.follow(decision)  # what a limit held back
        if state.calls:
            calls.attend_doubts(decision)
        if state.children:
            children.attend(decision)
        limits.tell_neared(decision)
        endings.end(decision)
        if decision.ready:  # the ending begins with compensation
            steps.follow(decision)
    return decision.events
