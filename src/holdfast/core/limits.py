"""The rules of limits: steps, tokens, money, active time and lifespan. A limit stops a run where it is and asks.

Never here: how a bound or a price is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.core import commands, endings, questions
from holdfast.core import events as ev
from holdfast.core.decision import Decision
from holdfast.core.ids import GateId
from holdfast.core.money import usd
from holdfast.core.payload import inline
from holdfast.core.policies import LIMIT
from holdfast.core.state import State
from holdfast.errors import InvalidDecision

REASONS: Final = questions.LIMITS
LIMIT_OF: Final = {reason: limit for limit, reason in REASONS.items()}


def allow_start(d: Decision, *, new: bool) -> bool:
    """Whether a step may start now. Opens the gate of a limit that has just been reached."""
    state = d.state
    if state.phase:
        return True  # compensation is not the work that limits are about
    if any(gate.opened.reason in ("max_steps", "max_tokens", "max_active") for gate in state.gates.values()):
        return False
    if new and state.steps_started >= state.max_steps:
        _reach(
            d,
            "steps",
            state.steps_started,
            f"The run has started {state.steps_started} steps, all that its limit allows.",
        )
        return False
    return not _out_of_time(d)


def _out_of_time(d: Decision) -> bool:
    most_s = d.state.max_active_s
    if most_s is None or active_ms(d.state, d.now_ms) < most_s * 1000:
        return False
    _reach(d, "active", int(most_s), f"The run has worked for {most_s:g} s, all that its limit allows.")
    return True


def active_ms(state: State, now_ms: int) -> int:
    """How long the run has had an attempt running, waiting not counted."""
    running = now_ms - state.active_since_ms if state.active_since_ms is not None else 0
    return state.active_ms + max(0, running)


def allow_tokens(d: Decision, tokens: int) -> bool:
    """Whether a call of up to `tokens` tokens may be made now. Opens the gate of a limit that this would pass."""
    state = d.state
    if gate_of(state, "tokens") is not None or gate_of(state, "active") is not None:
        return False
    if state.max_tokens is not None and state.tokens_used + tokens > state.max_tokens:
        message = (
            f"The next call may use {tokens} tokens; {state.tokens_used} of {state.max_tokens} are used."
            " Nothing was called."
        )
        _reach(d, "tokens", state.tokens_used, message)
        return False
    return not _out_of_time(d)


def block_on_money(d: Decision, model: str, hold_nanousd: int) -> None:
    """The worst case does not fit and never will by itself: ask, or end, as the workflow says."""
    budget = d.state.budget
    facts = {
        "model": model,
        "worst_case_usd": usd(hold_nanousd),
        "limit_usd": usd(budget.limit_nanousd or 0),
        "settled_usd": usd(budget.settled_nanousd),
        "held_usd": usd(budget.held_nanousd),
        "in_doubt_usd": usd(budget.in_doubt_nanousd),
        "needed_limit_usd": usd(budget.committed_nanousd + hold_nanousd),
    }
    message = (
        f"The next call to {model} may cost ${facts['worst_case_usd']}; ${usd(budget.committed_nanousd)} of"
        f" ${facts['limit_usd']} is spent, held or in doubt. Nothing was called."
    )
    _reach(d, "cost", hold_nanousd, message, facts)


def _reach(d: Decision, limit: str, value: int, message: str, facts: Mapping[str, object] | None = None) -> None:
    """A limit is reached: open its gate, once, or begin to fail where the workflow says so."""
    if d.graph.definition.on_limit == "fail":
        if not d.state.phase:
            endings.begin_failing(d, d.error("", LIMIT, message))
        return
    if gate_of(d.state, limit) is None:
        shown = {"limit": limit, "reached": value, "message": message, **(facts or {})}
        questions.open_engine_gate(d, REASONS[limit], shown, allowed=("answer", "reject"), subject=limit)


def gate_of(state: State, limit: str) -> GateId | None:
    """The open gate about `limit`."""
    return next((id_ for id_, gate in state.gates.items() if gate.opened.reason == REASONS[limit]), None)


def raise_limit(d: Decision, c: commands.RaiseLimit) -> None:
    """Extend a limit. An open gate about it gets this as its answer."""
    check_raise(d, c.limit, c.value)
    gate = gate_of(d.state, c.limit)
    if gate is not None:
        opened = d.state.gates[gate].opened
        d.emit(ev.GateDecided(gate, "answer", inline({c.limit: c.value}), opened.shown_hash, c.by))
    d.emit(ev.LimitRaised(c.limit, c.value, c.by))


def check_raise(d: Decision, limit: str, value: int) -> None:
    """Raises InvalidDecision when `value` would not raise the limit."""
    now = {
        "cost": d.state.budget.limit_nanousd,
        "steps": d.state.max_steps,
        "tokens": d.state.max_tokens,
        "active": d.state.max_active_s,
        "lifespan": d.state.max_lifespan_s,
    }
    if limit not in now:
        raise InvalidDecision(f"There is no limit {limit!r}; the limits are {', '.join(now)}.")
    current = now[limit]
    if current is None:
        raise InvalidDecision(f"This run has no limit on {limit}, so there is nothing to raise.")
    if value <= current:
        old, new = (f"${usd(int(current))}", f"${usd(value)}") if limit == "cost" else (f"{current:g}", str(value))
        raise InvalidDecision(f"The limit on {limit} is {old}; {new} would not raise it.")


def attend_due(d: Decision) -> None:
    """What time brings to limits: the end of the active time, and the lifespan, which only summons attention."""
    state = d.state
    if state.active and not state.phase:
        _out_of_time(d)
    if state.max_lifespan_s is None or state.lifespan_passed:
        return
    if d.now_ms - state.started_at_ms >= state.max_lifespan_s * 1000:
        d.emit(ev.LifespanPassed(state.max_lifespan_s))
        message = f"The run is older than {state.max_lifespan_s:g} s. It goes on; extend its lifespan, or cancel it."
        shown: dict[str, object] = {"limit": "lifespan", "reached": state.max_lifespan_s, "message": message}
        questions.open_engine_gate(d, REASONS["lifespan"], shown, allowed=("answer", "reject"), subject="lifespan")
