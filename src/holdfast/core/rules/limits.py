"""The rules of limits: money, tokens, calls, steps and time. What a run has used of each and what is left of it is read off its
state; a limit stops a run where it is and asks.

Never here: how a bound or a price is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import Headroom, Operation, State
from holdfast.core.rules import endings, interim, questions
from holdfast.core.rules.decision import Decision
from holdfast.core.values.ids import GateId
from holdfast.core.values.money import Budget, nanousd, usd
from holdfast.core.values.payload import inline
from holdfast.core.values.policies import LIMIT, OnLimit
from holdfast.core.values.remainder import ScopeLeft
from holdfast.errors import InvalidDecision, Misfit

THRESHOLDS: Final = (50, 80, 100)
"""In percent: a run tells once of each that it has used as much of a limit."""
SOFT_PERCENT: Final = 80
"""Percent from which on a model that sees what is left is asked to finish too."""

REASONS: Final = questions.LIMITS
LIMIT_OF: Final = {reason: limit for limit, reason in REASONS.items()}


_TITLES: Final = {
    "cost": "New cost limit",
    "steps": "New limit on steps",
    "tokens": "New limit on tokens",
    "model_calls": "New limit on model calls",
    "tool_calls": "New limit on tool calls",
    "active": "New limit on working time, in seconds",
    "wall": "New maximum age, in seconds",
    "lifespan": "New expected age, in seconds",
}

Kind = Literal["model", "tool"]
"""What is called under the limits."""

_MAX_TOKENS: Final = 10**15


class Cap(NamedTuple):
    """The use of a limit: in nano-dollars, in milliseconds, or in what it counts. Held amounts are not used yet."""

    limit: str
    used: int
    most: int

    @property
    def percent(self) -> int:
        """Return how much of it is used, rounded down; 100 for a limit of zero."""
        return self.used * 100 // self.most if self.most > 0 else 100


_NEVER_S: Final = 10**12
"""Thirty thousand years."""


def ms(seconds: float) -> int:
    """Whole milliseconds, rounded up: what is due at that time is over by then. More than a store can keep is as good as
    never."""
    return math.ceil(min(seconds, _NEVER_S) * 1000)


def active_ms(state: State, now_ms: int) -> int:
    """Return how long the run has had an attempt running, in milliseconds, waiting not counted."""
    running = now_ms - state.active_since_ms if state.active_since_ms is not None else 0
    return state.active_ms + max(0, running)


def caps(state: State, now_ms: int) -> list[Cap]:
    """The limits that the run has, with what is used of them."""
    budget, found = state.budget, list[Cap]()
    if budget.limit_nanousd is not None:
        found.append(Cap("cost", budget.settled_nanousd + budget.in_doubt_nanousd, budget.limit_nanousd))
    found.append(Cap("steps", state.steps_started, state.max_steps))
    if state.max_tokens is not None:
        found.append(Cap("tokens", state.tokens_used + state.tokens_in_doubt, state.max_tokens))
    if state.max_model_calls is not None:
        found.append(Cap("model_calls", state.model_calls, state.max_model_calls))
    if state.max_tool_calls is not None:
        found.append(Cap("tool_calls", state.tool_calls, state.max_tool_calls))
    if state.max_active_s is not None:
        found.append(Cap("active", active_ms(state, now_ms), ms(state.max_active_s)))
    if state.max_wall_s is not None:
        found.append(Cap("wall", now_ms - state.started_at_ms, ms(state.max_wall_s)))
    return found


def tell_neared(d: Decision) -> None:
    """Report every limit of which more has been used than was reported before: by the highest threshold only; and what calls
    that were in flight together have used above a limit that is only recorded."""
    is_over = False
    for cap in caps(d.state, d.now_ms):
        if cap.used * 2 < cap.most:  # nearly always
            continue
        is_over = is_over or cap.used > cap.most
        crossed = max(each for each in THRESHOLDS if each <= max(cap.percent, THRESHOLDS[0]))
        if crossed > d.state.neared.get(cap.limit, 0):
            d.emit(ev.LimitNeared(cap.limit, crossed, cap.used, cap.most))
    if is_over:
        _note_overspent(d)


def tell_reached(d: Decision, limit: str) -> None:
    """Tell of a limit that stops the run that it is reached, whatever small part of it cannot be used."""
    if d.state.neared.get(limit, 0) < THRESHOLDS[-1]:
        cap = next(each for each in caps(d.state, d.now_ms) if each.limit == limit)
        d.emit(ev.LimitNeared(limit, THRESHOLDS[-1], cap.used, cap.most))


def caps_due_at_ms(state: State) -> Iterator[int]:
    """Yield when time has used up more of a limit than the run has recorded."""
    for cap in caps(state, state.at_ms):
        if cap.limit == "wall" or (cap.limit == "active" and state.active):
            told = state.neared.get(cap.limit, 0)
            yield from (state.at_ms + -(-cap.most * each // 100) - cap.used for each in THRESHOLDS if each > told)


class LimitsLeft(msgspec.Struct, frozen=True):
    """The remainder of a run's own limits, in dollars, in seconds, or in what each counts; None without a limit. Amounts held
    by calls in flight are not left. `percent_used` is that of the limit of which most is used or held.

    `above` are the budgets above the run that have a limit (of its tenant, team, tree, conversation, agent), as they were read
    at that moment; None if they were not read. `spendable_usd` and `spendable_tokens` are the least of what is known.
    """

    cost_usd: str | None
    tokens: int | None
    model_calls: int | None
    tool_calls: int | None
    steps: int
    active_s: float | None
    wall_s: float | None
    percent_used: int
    above: tuple[ScopeLeft, ...] | None = None
    spendable_usd: str | None = None
    spendable_tokens: int | None = None

    @property
    def wraps_up(self) -> bool:
        """True if it is time to finish."""
        return self.percent_used >= SOFT_PERCENT


class LimitUse(NamedTuple):
    """The use of a run's own limits at one moment, for one who may ask later what was left."""

    caps: tuple[Cap, ...]
    held_nanousd: int
    held_tokens: int


def use_of(state: State, now_ms: int) -> LimitUse:
    """Return the use of a run's limits."""
    return LimitUse(tuple(caps(state, now_ms)), state.budget.held_nanousd, state.tokens_held)


def left(state: State, now_ms: int, above: tuple[ScopeLeft, ...] | None = None) -> LimitsLeft:
    """Return what the run may still use; `above` as LimitsLeft has it."""
    return left_of(use_of(state, now_ms), above)


def left_of(use: LimitUse, above: tuple[ScopeLeft, ...] | None = None) -> LimitsLeft:
    """Return what was left at the moment of a use."""
    held = {"cost": use.held_nanousd, "tokens": use.held_tokens}
    taken = [cap._replace(used=cap.used + held.get(cap.limit, 0)) for cap in use.caps]
    rest = {cap.limit: max(0, cap.most - cap.used) for cap in taken}
    cost, active, wall = rest.get("cost"), rest.get("active"), rest.get("wall")
    own = LimitsLeft(
        None if cost is None else usd(cost),
        rest.get("tokens"),
        rest.get("model_calls"),
        rest.get("tool_calls"),
        rest["steps"],
        None if active is None else active / 1000,
        None if wall is None else wall / 1000,
        max(min(cap.percent, 100) for cap in taken),
    )
    return with_above(own, above)


def with_above(own: LimitsLeft, above: tuple[ScopeLeft, ...] | None) -> LimitsLeft:
    """Return the same with what is left above the run."""
    money = [each for each in (own.cost_usd, *(scope.cost_usd for scope in above or ())) if each is not None]
    tokens = [each for each in (own.tokens, *(scope.tokens for scope in above or ())) if each is not None]
    return msgspec.structs.replace(
        own, above=above, spendable_usd=min(money, key=nanousd, default=None), spendable_tokens=min(tokens, default=None)
    )


def whole_tokens(value: object) -> int:
    """A limit on tokens. Raises ValueError for what is no whole number, or below zero."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_TOKENS:
        raise ValueError(f"{value!r:.80} is no number of tokens; it is a whole one from 0 to {_MAX_TOKENS}")
    return value


def allow_start(d: Decision, *, new: bool) -> bool:
    """Return True if a step may start now. Opens the gate of a limit that has just been reached."""
    state = d.state
    if state.phase:
        return True  # compensation is not the work that limits are about
    if is_stopped(state):
        return False
    if new and state.steps_started >= state.max_steps:
        message = f"The run has started {state.steps_started} steps, all that its limit allows."
        if _stops(d, "steps", state.steps_started, message):
            return False
    return not attend_time(d)


def is_stopped(state: State) -> bool:
    """True if a limit was reached before and not raised, so that no step starts."""
    return bool(state.gates) and any(gate.opened.reason in questions.STOPPING for gate in state.gates.values())


def _times_used_up(d: Decision) -> Iterator[tuple[str, int, str]]:
    """The limits on time that are reached, with what they are in seconds, in words."""
    state = d.state
    active_s, wall_s = state.max_active_s, state.max_wall_s
    if active_s is not None and active_ms(state, d.now_ms) >= ms(active_s):
        yield "active", int(active_s), f"The run has worked for {active_s:g} s, all that its limit allows."
    if wall_s is not None and d.now_ms - state.started_at_ms >= ms(wall_s):
        yield "wall", int(wall_s), f"The run began {wall_s:g} s ago, which is as old as its limit lets it become."


def attend_time(d: Decision) -> bool:
    """Return True if the run's time is used up, which opens the gate of that limit."""
    if d.state.max_active_s is None and d.state.max_wall_s is None:
        return False
    stops = [_stops(d, *each) for each in _times_used_up(d)]
    return any(stops)


def is_out_of_time(d: Decision) -> bool:
    """True if no call may begin, because the run's time is used up."""
    return not records(d) and any(_times_used_up(d))


def stops_calls(d: Decision) -> bool:
    """True if no model call may begin, whatever its size."""
    return gate_of(d.state, "tokens") is not None or is_out_of_time(d)


def room(d: Decision, kind: Kind, hold_nanousd: int, tokens: int) -> Headroom:
    """Return whether a call of this worst case fits the run's limits. It does if they are only recorded."""
    found = d.state.headroom(hold_nanousd, tokens, kind)
    return "now" if found != "now" and records(d) else found


def note_excess(d: Decision, kind: Kind, name: str, hold_nanousd: int, tokens: int) -> None:
    """Tell of a call that is about to be made what limit would have stopped it, where limits are only recorded."""
    if records(d) and d.state.headroom(hold_nanousd, tokens, kind) == "never":
        block(d, kind, name, hold_nanousd, tokens)


def _note_overspent(d: Decision) -> None:
    """Tell of what calls have used that were in flight together: each would have waited for the others."""
    if not records(d):
        return
    for cap in caps(d.state, d.now_ms):
        if cap.limit in ("cost", "tokens") and cap.used > cap.most and cap.limit not in d.state.would_stop:
            used, most = (f"${usd(cap.used)}", f"${usd(cap.most)}") if cap.limit == "cost" else (cap.used, cap.most)
            d.emit(ev.LimitWouldStop(cap.limit, f"The run has used {used}, and may use {most}."))


def block(d: Decision, kind: Kind, name: str, hold_nanousd: int, tokens: int) -> None:
    """The worst case does not fit and never will by itself: ask, or end, as the workflow says."""
    for limit, value, message, facts in _exceeded(d.state, kind, name, hold_nanousd, tokens):
        if _stops(d, limit, value, message if records(d) else f"{message} Nothing was called.", facts):
            return


_Reached = tuple[str, int, str, Mapping[str, object]]
"""A limit, what of it is reached, a message, and facts about it."""


def _exceeded(state: State, kind: Kind, name: str, hold_nanousd: int, tokens: int) -> Iterator[_Reached]:
    """The limits that a call does not fit, whatever calls in flight leave."""
    left = state.calls_left(kind)
    if left is not None and left <= 0:
        made = state.model_calls if kind == "model" else state.tool_calls
        message = f"The run has used up its calls of {kind}s, {made} of {made + left}; the next is of {name}."
        yield f"{kind}_calls", made, message, {}
    if hold_nanousd and not state.budget.could_fit_later(hold_nanousd):
        yield _too_dear(state.budget, name, hold_nanousd)
    spent = state.tokens_used + state.tokens_in_doubt
    if state.max_tokens is not None and tokens > state.max_tokens - spent:
        message = f"The next call may use {tokens} tokens; {spent} of {state.max_tokens} are used."
        yield "tokens", spent, message, {}


def _too_dear(budget: Budget, name: str, hold_nanousd: int) -> _Reached:
    facts = {
        "model": name,
        "worst_case_usd": usd(hold_nanousd),
        "limit_usd": usd(budget.limit_nanousd or 0),
        "settled_usd": usd(budget.settled_nanousd),
        "held_usd": usd(budget.held_nanousd),
        "in_doubt_usd": usd(budget.in_doubt_nanousd),
        "needed_limit_usd": usd(budget.committed_nanousd + hold_nanousd),
    }
    message = (
        f"The next call to {name} may cost ${facts['worst_case_usd']}; ${usd(budget.committed_nanousd)} of"
        f" ${facts['limit_usd']} is spent, held or in doubt."
    )
    return "cost", hold_nanousd, message, facts


def _stops(d: Decision, limit: str, value: int, message: str, facts: Mapping[str, object] | None = None) -> bool:
    """A limit is reached: open its gate, once, or begin to fail where the workflow says so. False where it is only recorded."""
    state = d.state
    tell_reached(d, limit)
    if records(d):
        if limit not in state.would_stop:
            d.emit(ev.LimitWouldStop(limit, message))
        return False
    if fails(d):
        endings.begin_failing(d, d.error("", LIMIT, message))
    elif gate_of(state, limit) is None:
        shown = {"limit": limit, "reached": value, "message": message, **(facts or {})}
        shown["so_far"] = interim.report(d.graph, state)
        questions.open_engine_gate(d, REASONS[limit], shown, allowed=("answer", "reject"), subject=limit)
    return True


def _on_limit(d: Decision) -> OnLimit:
    return d.state.on_limit or d.graph.definition.on_limit


def records(d: Decision) -> bool:
    """True if the run only records where a limit would have stopped it."""
    return _on_limit(d) == "record"


def fails(d: Decision) -> bool:
    """True if a limit makes the run fail. A run that a person has resumed after a failure asks instead: it would only fail
    again."""
    return _on_limit(d) == "fail" and not d.state.phase and not d.state.reopened


def gate_of(state: State, limit: str) -> GateId | None:
    """The open gate about `limit`."""
    return next((id_ for id_, gate in state.gates.items() if gate.opened.reason == REASONS[limit]), None)


def withdraw_moot(d: Decision) -> None:
    """Take back the question about a limit that nothing runs into any more: it has room again, or no call needs it."""
    state = d.state
    for limit in ("cost", "tokens", "steps", "model_calls", "tool_calls"):
        gate = gate_of(state, limit)
        if gate is not None and not _is_needed(state, limit):
            d.emit(ev.GateWithdrawn(gate, "nothing waits for this limit any more"))


def _is_needed(state: State, limit: str) -> bool:
    if limit == "steps":
        return any(state.steps[name].attempt == 0 for name in (*state.startable, *state.unplaced))
    return any(_blocked(state, limit))


def _blocked(state: State, limit: str) -> Iterator[Operation]:
    """Yield the calls that a limit on calls, tokens or money keeps from being made."""
    kind = "tool" if limit == "tool_calls" else "model"
    return (
        op
        for name in state.unfinished
        for _, op in state.steps[name].unsettled()
        if op.blocked and op.status == "deferred" and op.scope is None and (op.kind == kind or limit == "cost")
    )


def _needed_amounts(state: State, limit: str) -> list[int]:
    """Return what each call that a limit on money or tokens keeps waiting may use, in nano-dollars or tokens."""
    if limit not in ("cost", "tokens"):
        return []
    amounts = ((op.needed_nanousd if limit == "cost" else op.needed_tokens) for op in _blocked(state, limit))
    return [each for each in amounts if each]


def answer_field(limit: str) -> str:
    """Return the field of an answer to a limit's gate that has the new limit: dollars have their unit in the name."""
    return "limit_usd" if limit == "cost" else limit


def answer_form(state: State, reason: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the JSON Schema of the answer to an open gate about a limit, and the data that it begins with: as much as lets
    all go on that waits, where that is known. None for a gate that is not about a limit."""
    limit = LIMIT_OF.get(reason)
    if limit is None:
        return None
    field, wanted = answer_field(limit), _needed_amounts(state, limit)
    value: dict[str, Any] = {"type": "integer", "minimum": 1, "title": _TITLES[limit]}
    enough = state.tokens_used + state.tokens_in_doubt + state.tokens_held + sum(wanted) if wanted else None
    begins: dict[str, Any] = {} if enough is None else {field: enough}
    if limit == "cost":
        value = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]{1,9})?$", "title": _TITLES[limit]}
        value["description"] = "In dollars, like 0.50."
        begins = {field: usd(state.budget.committed_nanousd + sum(wanted))} if wanted else {}
    return {"type": "object", "properties": {field: value}, "required": [field]}, begins


def raise_limit(d: Decision, c: commands.RaiseLimit) -> None:
    """Extend a limit. An open gate about it gets this as its answer."""
    check_raise(d, c.limit, c.value)
    gate = gate_of(d.state, c.limit)
    if gate is not None:
        opened = d.state.gates[gate].opened
        d.emit(ev.GateDecided(gate, "answer", inline({c.limit: c.value}), opened.shown_hash, *c.by.event_fields))
    d.emit(ev.LimitRaised(c.limit, c.value, *c.by.event_fields))


def check_raise(d: Decision, limit: str, value: int) -> None:
    """Raises InvalidDecision when `value` would not raise the limit."""
    now = {
        "cost": d.state.budget.limit_nanousd,
        "steps": d.state.max_steps,
        "tokens": d.state.max_tokens,
        "model_calls": d.state.max_model_calls,
        "tool_calls": d.state.max_tool_calls,
        "active": d.state.max_active_s,
        "wall": d.state.max_wall_s,
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


def check_enough(d: Decision, limit: str, value: int) -> None:
    """Raises InvalidDecision where no call that waits would fit the new limit, so that the same question would follow."""
    if not (wanted := _needed_amounts(d.state, limit)):
        return
    state, budget = d.state, d.state.budget
    used = budget.settled_nanousd + budget.in_doubt_nanousd if limit == "cost" else state.tokens_used + state.tokens_in_doubt
    if (least := used + min(wanted)) > value:
        new, needed = (f"${usd(value)}", f"${usd(least)}") if limit == "cost" else (f"{value} tokens", str(least))
        words = f"A limit of {new} is too low for the call that waits: it needs {needed}. The gate is still open."
        raise InvalidDecision(words, field="data", misfits=[Misfit(words, [answer_field(limit)])])


def due_at_ms(state: State) -> Iterator[int]:
    """Yield when `attend_due` has something to do."""
    if not state.phase and not (state.max_active_s is None and state.max_wall_s is None):
        yield from caps_due_at_ms(state)
        if state.max_active_s is not None and state.active and _is_open_to(state, "active"):
            yield state.at_ms + max(0, ms(state.max_active_s) - active_ms(state, state.at_ms))
        if state.max_wall_s is not None and _is_open_to(state, "wall"):
            yield state.started_at_ms + ms(state.max_wall_s)
    if state.max_lifespan_s is not None and not state.lifespan_passed:
        yield state.started_at_ms + ms(state.max_lifespan_s)


def _is_open_to(state: State, limit: str) -> bool:
    """True if the run has not recorded yet that a limit is reached."""
    return gate_of(state, limit) is None and limit not in state.would_stop


def attend_due(d: Decision) -> None:
    """Apply time to limits: the end of the active time and of the wall time, and the lifespan, which only calls for
    attention."""
    state = d.state
    if not state.phase:
        attend_time(d)
    if state.max_lifespan_s is None or state.lifespan_passed:
        return
    if d.now_ms - state.started_at_ms >= ms(state.max_lifespan_s):
        d.emit(ev.LifespanPassed(state.max_lifespan_s))
        message = f"The run is older than {state.max_lifespan_s:g} s. It goes on; extend its lifespan, or cancel it."
        shown: dict[str, object] = {"limit": "lifespan", "reached": state.max_lifespan_s, "message": message}
        questions.open_engine_gate(d, REASONS["lifespan"], shown, allowed=("answer", "reject"), subject="lifespan")
