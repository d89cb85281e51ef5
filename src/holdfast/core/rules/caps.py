"""What a run has used of each of its limits, and what is left of them: read off its state.

Never here: what happens where a limit is reached (limits).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.state import State
from holdfast.core.rules.decision import Decision
from holdfast.core.values.money import nanousd, usd
from holdfast.core.values.remainder import ScopeLeft

THRESHOLDS: Final = (50, 80, 100)
"""In percent: a run tells once of each that it has used as much of a limit."""
SOFT_PERCENT: Final = 80
"""From here on a model that is told what is left is told to come to an end too."""


class Cap(NamedTuple):
    """What is used of a limit: in nano-dollars, in milliseconds, or in what it counts. What is only held is not used yet."""

    limit: str
    used: int
    most: int

    @property
    def percent(self) -> int:
        """How much of it is used, rounded down; of nothing, all."""
        return self.used * 100 // self.most if self.most > 0 else 100


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


def caps(state: State, now_ms: int) -> Iterator[Cap]:
    """The limits that the run has, with what is used of them."""
    budget = state.budget
    if budget.limit_nanousd is not None:
        yield Cap("cost", budget.settled_nanousd + budget.in_doubt_nanousd, budget.limit_nanousd)
    yield Cap("steps", state.steps_started, state.max_steps)
    if state.max_tokens is not None:
        yield Cap("tokens", state.tokens_used + state.tokens_in_doubt, state.max_tokens)
    if state.max_model_calls is not None:
        yield Cap("model_calls", state.model_calls, state.max_model_calls)
    if state.max_tool_calls is not None:
        yield Cap("tool_calls", state.tool_calls, state.max_tool_calls)
    if state.max_active_s is not None:
        yield Cap("active", active_ms(state, now_ms), ms(state.max_active_s))
    if state.max_wall_s is not None:
        yield Cap("wall", now_ms - state.started_at_ms, ms(state.max_wall_s))


def tell_neared(d: Decision) -> None:
    """Tell of every limit of which more has been used than it was ever told before: of the highest threshold only."""
    for cap in caps(d.state, d.now_ms):
        if cap.used * 2 < cap.most:  # nearly always
            continue
        crossed = max(each for each in THRESHOLDS if each <= max(cap.percent, THRESHOLDS[0]))
        if crossed > d.state.neared.get(cap.limit, 0):
            d.emit(ev.LimitNeared(cap.limit, crossed, cap.used, cap.most))


def tell_reached(d: Decision, limit: str) -> None:
    """Tell of a limit that stops the run that it is reached, whatever small part of it cannot be used."""
    if d.state.neared.get(limit, 0) < THRESHOLDS[-1]:
        cap = next(each for each in caps(d.state, d.now_ms) if each.limit == limit)
        d.emit(ev.LimitNeared(limit, THRESHOLDS[-1], cap.used, cap.most))


def due_at_ms(state: State) -> Iterator[int]:
    """When time has used up more of a limit than the run has told."""
    for cap in caps(state, state.at_ms):
        if cap.limit == "wall" or (cap.limit == "active" and state.active):
            told = state.neared.get(cap.limit, 0)
            yield from (state.at_ms + -(-cap.most * each // 100) - cap.used for each in THRESHOLDS if each > told)


class LimitsLeft(msgspec.Struct, frozen=True):
    """What a run may still use of its own limits, in dollars, in seconds, or in what each counts; None where there is no limit.
    What calls in flight hold is not left. `percent_used` is that of the limit of which most is used or held.

    `above` are the budgets above the run that have a limit (of its tenant, team, tree, conversation, agent), as they were read
    at that moment; None where nobody has read them. `spendable_usd` and `spendable_tokens` are the least of what is known."""

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
        """Whether it is time to come to an end."""
        return self.percent_used >= SOFT_PERCENT


def left(state: State, now_ms: int, above: tuple[ScopeLeft, ...] | None = None) -> LimitsLeft:
    """What the run may still use; `above` as LimitsLeft has it."""
    held = {"cost": state.budget.held_nanousd, "tokens": state.tokens_held}
    taken = [cap._replace(used=cap.used + held.get(cap.limit, 0)) for cap in caps(state, now_ms)]
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
