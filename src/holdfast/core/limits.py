"""The rules of limits: steps, tokens, money, active time and lifespan. A limit stops a run where it is and asks.

Never here: how a bound or a price is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.core import commands, endings, questions, scopes
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


_MOST_TOKENS: Final = 10**15


def whole_tokens(given: object) -> int:
    """A limit on tokens. Raises ValueError for what is no whole number, or below zero."""
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= _MOST_TOKENS:
        raise ValueError(f"{given!r:.80} is no number of tokens; it is a whole one from 0 to {_MOST_TOKENS}")
    return given


def allow_start(d: Decision, *, new: bool) -> bool:
    """Whether a step may start now. Opens the gate of a limit that has just been reached."""
    state = d.state
    if state.phase:
        return True  # compensation is not the work that limits are about
    if is_stopped(state):
        return False
    if new and state.steps_started >= state.max_steps:
        _reach(
            d,
            "steps",
            state.steps_started,
            f"The run has started {state.steps_started} steps, all that its limit allows.",
        )
        return False
    return not attend_time(d)


def is_stopped(state: State) -> bool:
    """Whether a limit has been reached before whose extension no step starts."""
    return bool(state.gates) and any(gate.opened.reason in questions.STOPPING for gate in state.gates.values())


def is_out_of_time(d: Decision) -> bool:
    most_s = d.state.max_active_s
    return most_s is not None and active_ms(d.state, d.now_ms) >= ms(most_s)


def attend_time(d: Decision) -> bool:
    """Whether the run's active time is used up, which opens its gate."""
    out = is_out_of_time(d)
    if out:
        most_s = d.state.max_active_s or 0
        _reach(d, "active", int(most_s), f"The run has worked for {most_s:g} s, all that its limit allows.")
    return out


_NEVER_S: Final = 10**12
"""Thirty thousand years."""


def ms(seconds: float) -> int:
    """Whole milliseconds, rounded up: what is due at that time is over by then. More than a store can keep is as good as
    never."""
    return math.ceil(min(seconds, _NEVER_S) * 1000)


def active_ms(state: State, now_ms: int) -> int:
    """How long the run has had an attempt running, waiting not counted."""
    running = now_ms - state.active_since_ms if state.active_since_ms is not None else 0
    return state.active_ms + max(0, running)


def stops_calls(d: Decision) -> bool:
    """Whether no model call may begin, whatever its size."""
    return gate_of(d.state, "tokens") is not None or is_out_of_time(d)


def block(d: Decision, model: str, hold_nanousd: int, tokens: int) -> None:
    """The worst case does not fit and never will by itself: ask, or end, as the workflow says."""
    state = d.state
    if not state.budget.could_fit_later(hold_nanousd):
        _block_on_money(d, model, hold_nanousd)
    elif state.max_tokens is not None:
        spent = state.tokens_used + state.tokens_in_doubt
        message = f"The next call may use {tokens} tokens; {spent} of {state.max_tokens} are used. Nothing was called."
        _reach(d, "tokens", spent, message)


def _block_on_money(d: Decision, model: str, hold_nanousd: int) -> None:
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


def _taken_of(scope: str, offer: commands.Offer) -> int:
    """What a call would take of a scope, in what that counts."""
    return offer.tokens if scopes.counts_tokens(scope) else offer.hold_nanousd


def scope_short_of(d: Decision, offer: commands.Offer) -> str | None:
    """The first scope above the run that is known to have no room for a call."""
    if not d.shortages:
        return None
    mine = (scope for scope in scopes.above(d.state, d.now_ms) if scope in d.shortages)
    return next((scope for scope in mine if _taken_of(scope, offer) > d.shortages[scope].left), None)


def wait_for_scope(d: Decision, c: commands.HoldModelCall, offer: commands.Offer) -> None:
    """The call fits its run, not a scope above it: wait there, or end, as the workflow says."""
    scope = scope_short_of(d, offer)
    assert scope is not None
    short = d.shortages[scope]
    in_tokens = scopes.counts_tokens(scope)
    blocked = _taken_of(scope, offer) > short.left + short.held
    d.emit(
        ev.ScopeExceeded(
            c.step, c.attempt, c.path, c.model, c.args_hash, scope, offer.hold_nanousd, 0 if in_tokens else short.limit,
            scopes.over_at_ms(scope), blocked, offer.tokens, short.limit if in_tokens else None,
        )
    )  # fmt: skip
    if blocked and _fails(d):
        needed, limit = (
            (f"use {offer.tokens} tokens", f"{short.limit} tokens") if in_tokens
            else (f"cost ${usd(offer.hold_nanousd)}", f"${usd(short.limit)}")
        )  # fmt: skip
        message = (
            f"The next call to {c.model} may {needed}, for which {scopes.in_words(scope)} has no room under its limit of"
            f" {limit}. Nothing was called."
        )
        endings.begin_failing(d, d.error("", LIMIT, message))


def reopen(d: Decision, headroom: frozenset[str]) -> None:
    """Let calls be tried again whose scope has room now, or is over: the money of the new day is another's."""
    for step, path, op in d.state.short_operations():
        if op.scope in headroom or (op.due_at_ms is not None and op.due_at_ms <= d.now_ms):
            d.emit(ev.OperationReopened(step.id, path))


def _reach(d: Decision, limit: str, value: int, message: str, facts: Mapping[str, object] | None = None) -> None:
    """A limit is reached: open its gate, once, or begin to fail where the workflow says so."""
    if _fails(d):
        endings.begin_failing(d, d.error("", LIMIT, message))
        return
    if gate_of(d.state, limit) is None:
        shown = {"limit": limit, "reached": value, "message": message, **(facts or {})}
        questions.open_engine_gate(d, REASONS[limit], shown, allowed=("answer", "reject"), subject=limit)


def _fails(d: Decision) -> bool:
    """Whether a limit makes the run fail. One that a person has taken up again after it had failed asks: somebody is
    there, and it would only fail as before."""
    return d.graph.definition.on_limit == "fail" and not d.state.phase and not d.state.reopened


def gate_of(state: State, limit: str) -> GateId | None:
    """The open gate about `limit`."""
    return next((id_ for id_, gate in state.gates.items() if gate.opened.reason == REASONS[limit]), None)


def withdraw_moot(d: Decision) -> None:
    """Take back the question about a limit that nothing runs into any more: there is room again, or nobody wants it."""
    state = d.state
    for limit in ("cost", "tokens", "steps"):
        gate = gate_of(state, limit)
        if gate is not None and not _is_needed(state, limit):
            d.emit(ev.GateWithdrawn(gate, "nothing waits for this limit any more"))


def _is_needed(state: State, limit: str) -> bool:
    if limit == "steps":
        return any(state.steps[name].attempt == 0 for name in (*state.startable, *state.unplaced))
    return any(
        op.blocked and op.status == "deferred" and op.scope is None
        for name in state.unfinished
        for _, op in state.steps[name].unsettled()
    )


def raise_limit(d: Decision, c: commands.RaiseLimit) -> None:
    """Extend a limit. An open gate about it gets this as its answer."""
    check_raise(d, c.limit, c.value)
    gate = gate_of(d.state, c.limit)
    if gate is not None:
        opened = d.state.gates[gate].opened
        d.emit(ev.GateDecided(gate, "answer", inline({c.limit: c.value}), opened.shown_hash, *c.by.kept))
    d.emit(ev.LimitRaised(c.limit, c.value, *c.by.kept))


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


def due_at_ms(state: State) -> Iterator[int]:
    """When `attend_due` has something to do."""
    if state.max_active_s is not None and state.active and not state.phase and gate_of(state, "active") is None:
        yield state.at_ms + max(0, ms(state.max_active_s) - active_ms(state, state.at_ms))
    if state.max_lifespan_s is not None and not state.lifespan_passed:
        yield state.started_at_ms + ms(state.max_lifespan_s)


def attend_due(d: Decision) -> None:
    """What time brings to limits: the end of the active time, and the lifespan, which only summons attention."""
    state = d.state
    if state.active and not state.phase:
        attend_time(d)
    if state.max_lifespan_s is None or state.lifespan_passed:
        return
    if d.now_ms - state.started_at_ms >= ms(state.max_lifespan_s):
        d.emit(ev.LifespanPassed(state.max_lifespan_s))
        message = f"The run is older than {state.max_lifespan_s:g} s. It goes on; extend its lifespan, or cancel it."
        shown: dict[str, object] = {"limit": "lifespan", "reached": state.max_lifespan_s, "message": message}
        questions.open_engine_gate(d, REASONS["lifespan"], shown, allowed=("answer", "reject"), subject="lifespan")
