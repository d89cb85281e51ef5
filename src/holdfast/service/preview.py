"""A preview of a command to a run: the engine's own decision about it, on a copy of the run's state. Nothing is stored.

Never here: sending a command (control), words for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

import msgspec

from holdfast.core.decide import decide
from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import OpenCall, State
from holdfast.core.rules.forking import Fork as Plan
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import CallId, NodeName
from holdfast.core.values.money import Usd, nanousd
from holdfast.core.values.payload import NULL
from holdfast.core.values.policies import EffectPolicy
from holdfast.core.views.status import status
from holdfast.errors import HoldfastError, InvalidInput, StoreError
from holdfast.service.control.control import Control
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations.query import RunQuote
from holdfast.service.declarations.quoting import Decided, Quoted, command_of
from holdfast.service.handler import optional_value
from holdfast.service.view import CallInFlightRow, CompensatedRow, ForkQuoteRow, RunQuoteRow, maybe_usd, of_fork

_COPY: Final = msgspec.json.Decoder(State)


class _After(NamedTuple):
    """The state that a command would lead to, and the events of it, or a fork of it; or the reason why it would be refused."""

    state: State
    events: Sequence[ev.Event]
    refused: str | None
    fork: ForkQuoteRow | None = None


async def preview(control: Control, request: RunQuote, by: Actor, planned: Plan | None = None) -> RunQuoteRow:
    """Return the row of what a command would do to a run. Raises NotFound, and InvalidInput for fields that it does not take.
    `planned` is the plan of a fork that is known already."""
    command = command_of(request)
    run = await control.find(request.run)
    before = await control.run(run.run).state()
    after = await _decided(control, command, before, by, planned)
    ends = request.action == "cancel" and after.refused is None
    events, state = after.events, after.state
    again = {each.step: None for each in events if isinstance(each, ev.StepReplayed)}
    begins = {step.id: None for name, step in state.steps.items() if _begins(before, name, step.status)}
    return {
        "run_id": before.run,
        "action": request.action,
        "status": status(before),
        "status_after": None if after.refused is not None else status(state),
        "refused": after.refused,
        "called_off": [each.step for each in events if isinstance(each, ev.StepCancelled | ev.StepCancelling)],
        "goes_on": [*(again | begins)],
        "calls_again": [_call(before, each.call) for each in events if isinstance(each, ev.EffectReopened)],
        "in_flight": [] if before.ended else [_call(before, each) for each in before.calls],
        "compensated": _undone(before) if ends else [],
        "asked": [id_ for id_, call in before.calls.items() if ends and call.kind == "effect" and call.policy == "once"],
        "gates_withdrawn": [each.gate for each in events if isinstance(each, ev.GateWithdrawn)],
        "delivered_to": [each.step for each in events if isinstance(each, ev.SignalDelivered)],
        "spendable_usd": maybe_usd(0 if ends else state.budget.available_nanousd),
        "fork": after.fork,
    }


def _begins(before: State, name: NodeName, now: str) -> bool:
    """Return True if a step may start that could not."""
    known = before.steps.get(name)
    return now == "ready" and (before.paused or bool(before.ended) or known is None or known.status != "ready")


def _undone(state: State) -> list[CompensatedRow]:
    return [
        {"call": each.child or each.call, "tool": each.tool, "with": each.compensation or None}
        for each in reversed(state.compensable)
    ]


def _call(state: State, id_: CallId) -> CallInFlightRow:
    call: OpenCall = state.calls[id_]
    return {
        "call": id_,
        "kind": call.kind,
        "name": call.name,
        "step": call.step,
        "doubted": call.doubted,
        "policy": cast("EffectPolicy", call.policy) if call.kind == "effect" else None,
    }


async def _decided(control: Control, quoted: Quoted, before: State, by: Actor, planned: Plan | None) -> _After:
    if isinstance(quoted, cmd.Fork):
        return await _forked(control, quoted, before, by, planned)
    command, graph = _command(control, quoted, by), await control.graph_of(before.graph_hash)
    state = _COPY.decode(msgspec.json.encode(before))
    try:
        events = decide(graph, state, command, control.now_ms())
    except HoldfastError as refused:
        return _After(before, (), refused.message)
    return _After(state, events, None)


async def _forked(control: Control, fork: cmd.Fork, before: State, by: Actor, planned: Plan | None) -> _After:
    """Return what a fork would do. The run itself stays as it is."""
    limit = None if fork.cost_limit_usd is None else _amount("cost_limit_usd", fork.cost_limit_usd)
    try:
        plan = planned or await control.fork_plan(
            before.run,
            fork.step,
            input=optional_value(fork.input),
            output=optional_value(fork.output),
            state=fork.state,
            repeat_effects=fork.repeat_effects,
            by=by,
        )
    except StoreError:
        raise
    except HoldfastError as refused:
        return _After(before, (), refused.message)
    return _After(before, (), None, of_fork(plan, limit))


def _command(control: Control, quoted: Decided, by: Actor) -> commands.Command:
    match quoted:
        case cmd.Cancel():
            return commands.CancelRun("cancelled", by, insists=True)
        case cmd.Pause():
            return commands.PauseRun(by)
        case cmd.Resume():
            return commands.ResumeRun(by)
        case cmd.Retry():
            return commands.RetryRun(by)
        case cmd.RaiseBudget(limit_usd=limit_usd):
            return commands.RaiseLimit("cost", _amount("limit_usd", limit_usd), by)
        case cmd.Extend(limit=limit, value=value):
            return commands.RaiseLimit(limit, value, by)
        case cmd.Signal(name=name, data=data):
            return commands.SendSignal(name, NULL, by, plain=control.payloads.plain(data))


def _amount(name: str, amount: Usd) -> int:
    try:
        return nanousd(amount)
    except (ValueError, OverflowError) as problem:
        raise InvalidInput(f"{name}: {problem}.", field="fields") from None
