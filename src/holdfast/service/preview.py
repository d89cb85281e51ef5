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
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import CallId, NodeName
from holdfast.core.values.money import nanousd
from holdfast.core.values.payload import NULL
from holdfast.core.values.policies import EffectPolicy
from holdfast.core.views.status import status
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.service.control.control import Control
from holdfast.service.declarations.query import RunQuote
from holdfast.service.view import CallInFlightRow, CompensatedRow, RunQuoteRow, maybe_usd

_COPY: Final = msgspec.json.Decoder(State)


class _After(NamedTuple):
    """The state that a command would lead to, and the events of it; or the reason why it would be refused."""

    state: State
    events: Sequence[ev.Event]
    refused: str | None


async def preview(control: Control, request: RunQuote, by: Actor) -> RunQuoteRow:
    """Return the row of what a command would do to a run. Raises NotFound, and InvalidInput for a field that is missing."""
    run = await control.find(request.run)
    before = await control.run(run.run).state()
    after = await _decided(control, request, before, by)
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
        "most_usd": maybe_usd(0 if ends else state.budget.available_nanousd),
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


async def _decided(control: Control, request: RunQuote, before: State, by: Actor) -> _After:
    command, graph = _command(control, request, by), await control.graph_of(before.graph_hash)
    state = _COPY.decode(msgspec.json.encode(before))
    try:
        events = decide(graph, state, command, control.now_ms())
    except HoldfastError as refused:
        return _After(before, (), refused.message)
    return _After(state, events, None)


def _command(control: Control, request: RunQuote, by: Actor) -> commands.Command:
    match request.action:
        case "cancel":
            return commands.CancelRun("cancelled", by, insists=True)
        case "pause":
            return commands.PauseRun(by)
        case "resume":
            return commands.ResumeRun(by)
        case "retry":
            return commands.RetryRun(by)
        case "raise_budget":
            return commands.RaiseLimit("cost", _amount(request), by)
        case "extend":
            if request.limit_name is None or request.value is None:
                raise InvalidInput("Name the limit and its new value: extend takes limit_name and value.")
            return commands.RaiseLimit(request.limit_name, request.value, by)
        case "signal":
            if request.name is None:
                raise InvalidInput("Name the signal: signal takes name, and data if the run expects some.")
            return commands.SendSignal(request.name, NULL, by, plain=control.payloads.plain(request.data))


def _amount(request: RunQuote) -> int:
    if request.limit_usd is None:
        raise InvalidInput("Give the new limit: raise_budget takes limit_usd.")
    try:
        return nanousd(request.limit_usd)
    except (ValueError, OverflowError) as problem:
        raise InvalidInput(f"limit_usd: {problem}.") from None
