"""Scopes: what stands above runs and has a limit of its own, like a tenant's day. Which of them an event moves, and how.

A scope is a row of the store with books as a run has them: settled, held, in doubt. A call's money counts in the scopes
of the time of its hold, however late it is settled: a settlement on the third of the month goes to the day of the hold.
Its tokens count beside it, in scopes of the same names before which `tokens/` stands, so that each scope counts one thing.
The active runs of a tenant, and those of all together, are scopes too, in which each run holds one place until its end. A team
budget is a scope of its total, and one below it for each agent, which counts what the agent uses under what it is allotted.

Never here: what a limit is, or what happens where it is reached (limits, shortages), who lends how much (team_budgets).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote, unquote

import msgspec

from holdfast.core import events as ev
from holdfast.core.ids import RunId
from holdfast.core.state import State
from holdfast.core.team_budgets import unused

Period = Literal["day", "month"]
PERIODS: Final[tuple[Period, ...]] = ("day", "month")

PLACEMENT: Final = "placement"
"""Where runs wait with steps that are to be placed. No books are kept of it; placement makes the room."""

_TOKENS: Final = "tokens/"
_DATED: Final = frozenset({"tenant", "team"})
_DAY_MS: Final = 86_400_000
_EPOCH: Final = date(1970, 1, 1)
_MOST_REMEMBERED: Final = 4096
"""Keys that were made before: each commit of a tenant's runs asks for the same few all day long."""


class Posting(msgspec.Struct, frozen=True):
    """What one append moves in the books of one scope: nano-dollars, tokens, or places. Each part may be negative.

    `family` is what the scope's limit is set for: all days of a tenant have one. A `bounded` posting is refused where
    the limit leaves no room for it; any other is the truth and is taken. One `in_turn` is also refused where there
    would be no room if all who wait in the scope before its run had got theirs. Where it is refused its run `waits` in the
    scope from then on, unless that has not begun, or has ended: nobody would take such a waiter away if the append that
    says more never came, and all others would wait behind it. `limit`, where it is given, is that of the scope's family from
    this append on. `limit_change` is lent to the scope's limit or, below zero, by it: `bounded`, at most half of what is
    left there.
    """

    scope: str
    family: str
    settled: int = 0
    held: int = 0
    in_doubt: int = 0
    bounded: bool = False
    in_turn: bool = False
    waits: bool = True
    limit: int | None = None
    limit_change: int = 0

    @property
    def total(self) -> int:
        return self.settled + self.held + self.in_doubt


class Waiter(msgspec.Struct, frozen=True):
    """A run waits for room for `wanted` in a scope."""

    scope: str
    family: str
    wanted: int


class Waiting(msgspec.Struct, frozen=True):
    """A waiter as the store knows it. `left` is what its scope may still take, None where there is no limit. One who wants more
    is named among those with room where calls in flight can leave no room any more, and his run does not know it."""

    run: RunId
    scope: str
    wanted: int
    left: int | None


class ScopeRow(msgspec.Struct, frozen=True):
    """The books of a scope, and its limit."""

    scope: str
    limit: int | None
    settled: int = 0
    held: int = 0
    in_doubt: int = 0

    @property
    def used(self) -> int:
        return self.settled + self.held + self.in_doubt

    @property
    def left(self) -> int | None:
        return None if self.limit is None else self.limit - self.used


class AgentRow(ScopeRow, frozen=True):
    """The books of an agent in a team budget; what it calls moved them last at `moved_at_ms`, 0 for never."""

    priority: float = 1.0
    moved_at_ms: int = 0


# --- Names ------------------------------------------------------------------------------------------------------------


def money_family(tenant: str, team: str | None, period: Period) -> str:
    """What a limit on money is set for: each day, or month, of a tenant, or of one of its teams. One on tokens is for its
    `in_tokens`."""
    owner = (
        f"tenant/{quote(tenant, safe='')}" if team is None else f"team/{quote(tenant, safe='')}/{quote(team, safe='')}"
    )
    return f"{owner}/{period}"


def in_tokens(scope: str) -> str:
    """The scope, or family, that counts the tokens of the calls whose money counts in this one."""
    return _TOKENS + scope


def counts_tokens(scope: str) -> bool:
    """Whether a scope counts tokens, not money."""
    return scope.startswith(_TOKENS)


@lru_cache(_MOST_REMEMBERED)
def _dated(tenant: str, team: str | None, day: int, tokens: bool) -> tuple[tuple[str, str], ...]:
    """(scope, family) of everything that money of this day counts in, or that its tokens do."""
    money = _money_scopes(tenant, team, day)
    return tuple((in_tokens(scope), in_tokens(family)) for scope, family in money) if tokens else money


@lru_cache(_MOST_REMEMBERED)
def _money_scopes(tenant: str, team: str | None, day: int) -> tuple[tuple[str, str], ...]:
    """(scope, family) of everything that money of this day counts in."""
    today = _EPOCH + timedelta(days=day)
    names = {"day": today.isoformat(), "month": today.isoformat()[:7]}
    found = []
    for owner in (None, team) if team is not None else (None,):
        for period in PERIODS:
            family = money_family(tenant, owner, period)
            found.append((f"{family}/{names[period]}", family))
    return tuple(found)


def money_scopes(tenant: str, team: str | None, at_ms: int) -> tuple[str, ...]:
    """The scopes in which a run's money of that moment counts."""
    return tuple(scope for scope, _ in _money_scopes(tenant, team, at_ms // _DAY_MS))


TREE: Final = "tree"
CONVERSATION: Final = "conversation"
FLEET_RUNS: Final = "fleet/runs"
"""The active runs of everybody."""


def tenant_runs(tenant: str) -> str:
    """The active runs of one tenant."""
    return f"tenant/{quote(tenant, safe='')}/runs"


def run_scopes(tenant: str) -> tuple[str, ...]:
    """Where a run of `tenant` needs a place. Each is a family of its own: these have no days."""
    return (tenant_runs(tenant), FLEET_RUNS)


def tree_of(run: RunId) -> str:
    """The money of a run and of everything below it. A family of its own; its limit is the run's."""
    return f"{TREE}/{run}"


AGENT: Final = "agent"


def team_budget(tenant: str, name: str) -> str:
    """The money of a team budget; its tokens are in its `in_tokens`. Its limit is the total."""
    return f"{AGENT}/{quote(tenant, safe='')}/{quote(name, safe='')}"


def of_agent(budget: str, agent: str) -> str:
    """What an agent uses of a team budget, in what that counts. Its limit is what it is allotted."""
    return f"{budget}/{quote(agent, safe='')}"


_PARTS_OF_AGENT: Final = 4


def budget_of(scope: str) -> str | None:
    """The team budget of which a scope is an agent's."""
    names = scope.removeprefix(_TOKENS).split("/")
    return scope.rpartition("/")[0] if names[0] == AGENT and len(names) == _PARTS_OF_AGENT else None


def is_team_budget(scope: str) -> bool:
    """Whether a scope is the whole of a team budget."""
    return level(scope) == AGENT and budget_of(scope) is None


def above(state: State, at_ms: int, agent: str | None = None) -> tuple[str, ...]:
    """The scopes in which a run's money and tokens of that moment count, those that it shares included, as those of `agent` in
    its team budget."""
    dated = money_scopes(state.tenant, state.team, at_ms)
    return (*dated, *map(in_tokens, dated), *_with_agents(state.shared, agent))


def _with_agents(shared: tuple[str, ...], agent: str | None) -> tuple[str, ...]:
    if agent is None:
        return shared
    return (*shared, *(of_agent(scope, agent) for scope in shared if is_team_budget(scope)))


def owner_scopes(tenant: str, team: str | None, at_ms: int) -> tuple[str, ...]:
    """The scopes of one owner, a tenant or a team, at that moment: its day and its month."""
    return money_scopes(tenant, team, at_ms)[-len(PERIODS) :]


def family_of(scope: str) -> str:
    """What the limit of `scope` is set for."""
    head, _, last = scope.rpartition("/")
    return head if last[:1].isdigit() and level(scope) in _DATED else scope


def level(scope: str) -> str:
    """Whose scope it is: a `tenant`'s, a `team`'s, the `fleet`'s, a `conversation`'s, an `agent`'s, or a `tree`'s of runs."""
    return scope.removeprefix(_TOKENS).partition("/")[0]


def in_words(scope: str) -> str:
    """A scope or a family as people call it: `tenant acme, day 2026-11-21`, `team search of acme, each month`,
    `tokens of tenant acme, each day`, `active runs of tenant acme`."""
    if counts_tokens(scope):
        return f"tokens of {in_words(scope.removeprefix(_TOKENS))}"
    kind, *names = [unquote(part) for part in scope.split("/")]
    if kind == CONVERSATION:
        return f"conversation {names[1]} of tenant {names[0]}"
    if kind == TREE:
        return f"run {names[0]} with all its children"
    if kind == AGENT:
        whole = f"team budget {names[1]} of {names[0]}"
        return f"agent {names[2]} in {whole}" if len(names) > _PARTS_OF_AGENT - 2 else whole
    if names[-1] == "runs":
        return "active runs" if kind == "fleet" else f"active runs of tenant {names[0]}"
    if kind == "team":
        owner, names = f"team {names[1]} of {names[0]}", names[2:]
    else:
        owner, names = f"{kind} {names[0]}", names[1:]
    return f"{owner}, {' '.join(names)}" if len(names) > 1 else f"{owner}, each {names[0]}"


def over_at_ms(scope: str) -> int | None:
    """When a dated scope is over: the first moment (UTC) of the next day or month. None for one that has no date."""
    if level(scope) not in _DATED:
        return None
    first = date.fromisoformat(f"{scope.rpartition('/')[2]}-01"[:10])
    if family_of(scope).endswith("/month"):
        after = (first.replace(day=1) + timedelta(days=32)).replace(day=1)
    else:
        after = first + timedelta(days=1)
    return int(datetime.combine(after, time(), UTC).timestamp()) * 1000


# --- What events move ---------------------------------------------------------------------------------------------------


class _Move(msgspec.Struct, frozen=True):
    """What an event does to the books of scopes: of a call's day and month and of what its run shares, there as `agent`, in
    money or, with `tokens`, in those; or, without `at_ms`, of the active runs. Or to those of one `scope` alone."""

    at_ms: int | None = None
    tokens: bool = False
    settled: int = 0
    held: int = 0
    in_doubt: int = 0
    bounded: bool = False
    in_turn: bool = False
    waits: bool = True
    agent: str | None = None
    scope: str | None = None
    limit_change: int = 0


def postings(after: State, events: Sequence[ev.Event]) -> tuple[Posting, ...]:
    """What an append of `events`, which led to the state `after`, moves in the scopes above its run; one posting a
    scope."""
    found: dict[str, Posting] = {}
    shared = after.shared
    if shared:
        found, shared = _of_tree(after, events)
    for event in events:
        if type(event) is ev.TreeOpened:
            shared = after.shared
        moved = _MOVES.get(type(event))  # most events cost nothing
        if moved is None:
            continue
        for move in moved(event, after):
            for scope, family in _scopes_of(after, move, shared):
                before = found.get(scope) or Posting(scope, family)
                found[scope] = Posting(
                    scope, family, before.settled + move.settled, before.held + move.held, before.in_doubt + move.in_doubt,
                    before.bounded or move.bounded, before.in_turn or move.in_turn, before.waits and move.waits,
                    before.limit, before.limit_change + move.limit_change,
                )  # fmt: skip
    return tuple(found.values())


def _scopes_of(after: State, move: _Move, shared: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    if move.scope is not None:
        return ((move.scope, move.scope),)
    if move.at_ms is None:
        return tuple((scope, scope) for scope in run_scopes(after.tenant))
    dated = _dated(after.tenant, after.team, move.at_ms // _DAY_MS, move.tokens)
    if not shared:
        return dated
    beside = (each for each in _with_agents(shared, move.agent) if counts_tokens(each) == move.tokens)
    return (*dated, *((each, each) for each in beside))


def opened_by(event: ev.TreeOpened, run: RunId) -> tuple[str, ...]:
    """The scopes of the run's own tree that begin with this: of its money, of its tokens, of what it has a limit."""
    own = tree_of(run)
    limits_ = (own, event.limit_nanousd), (in_tokens(own), event.limit_tokens)
    return tuple(scope for scope, limit in limits_ if limit is not None)


def _of_tree(after: State, events: Sequence[ev.Event]) -> tuple[dict[str, Posting], tuple[str, ...]]:
    """What an append says of the scopes of the run's own tree as a whole; and what the run shared before it. Of what was used
    before the tree the opening tells."""
    money = tree_of(after.run)
    tokens = in_tokens(money)
    found: dict[str, Posting] = {}
    shared = after.shared
    for event in events:
        if isinstance(event, ev.TreeOpened):
            opened = opened_by(event, after.run)
            shared = tuple(scope for scope in after.shared if scope not in opened)
            used = event.settled_nanousd, event.held_nanousd, event.in_doubt_nanousd
            used_tokens = event.settled_tokens, event.held_tokens, event.in_doubt_tokens
            if money in opened:
                found[money] = Posting(money, money, *used, limit=event.limit_nanousd)
            if tokens in opened:
                found[tokens] = Posting(tokens, tokens, *used_tokens, limit=event.limit_tokens)
        elif isinstance(event, ev.LimitRaised) and event.limit in _SHARED_LIMITS:
            own = money if event.limit == "cost" else tokens
            if own in after.shared:
                found[own] = msgspec.structs.replace(found.get(own) or Posting(own, own), limit=event.value)
    return found, shared


_SHARED_LIMITS: Final = frozenset({"cost", "tokens"})
"""The limits of a run that are those of its whole tree."""


def pays_for_others(state: State, limit: str) -> bool:
    """Whether a limit of the run is its tree's too, so that it may be raised when the run has ended: a child that failed may
    have been taken up since."""
    own = tree_of(state.run)
    return limit in _SHARED_LIMITS and (own if limit == "cost" else in_tokens(own)) in state.shared


_Moves: TypeAlias = tuple[_Move, ...]


def _started(e: ev.RunStarted | ev.RunReopened, after: State) -> _Moves:
    return (_BEGINS,) if e.counted else ()


def _admitted(e: ev.RunAdmitted, after: State) -> _Moves:
    return (_TAKES_PLACE,)


def _ended(e: ev.RunCompleted | ev.RunFailed | ev.RunCancelled, after: State) -> _Moves:
    return (_Move(held=-1),) if after.counted else ()


_TAKES_PLACE: Final = _Move(held=1, bounded=True, in_turn=True)
_BEGINS: Final = msgspec.structs.replace(_TAKES_PLACE, waits=False)


def _held(e: ev.ModelCallHeld, after: State) -> _Moves:
    money = (_Move(after.at_ms, held=e.hold_nanousd, bounded=True, agent=e.agent),) if e.scoped else ()
    if not e.tokens_scoped:
        return money
    tokens = _Move(after.at_ms, tokens=True, held=e.tokens, bounded=True, agent=e.agent)
    return (*money, tokens, *_lent(e.loans, e.agent))


def _lent(loans: Mapping[str, int], agent: str | None) -> _Moves:
    """What agents lend to another for a call: each at most half of what it has left."""
    found: list[_Move] = []
    for lender, amount in loans.items():
        found += _Move(scope=lender, limit_change=-amount, bounded=True, waits=False), _to(lender, agent, amount)
    return tuple(found)


def _returned(loans: Mapping[str, int], agent: str | None) -> _Moves:
    found: list[_Move] = []
    for lender, amount in loans.items():
        found += _Move(scope=lender, limit_change=amount), _to(lender, agent, -amount)
    return tuple(found)


def _to(lender: str, agent: str | None, amount: int) -> _Move:
    """What the borrower's limit becomes more, or less again, by a loan of an agent of its team."""
    budget = budget_of(lender)
    assert budget is not None, "only agents of a team lend"
    assert agent is not None, "and only to one of them"
    return _Move(scope=of_agent(budget, agent), limit_change=amount)


def _settled(e: ev.ModelCallSettled, after: State) -> _Moves:
    return _closed(e.hold, e.cost_nanousd, e.input_tokens + e.output_tokens)


def _reconciled(e: ev.ModelCallReconciled, after: State) -> _Moves:
    """Of its tokens nobody knows how many it was; never fewer than it was."""
    return _closed(e.hold, e.cost_nanousd, e.hold.tokens if e.hold is not None else 0)


def _failed(e: ev.ModelCallFailed, after: State) -> _Moves:
    return _closed(e.hold, 0, 0)


def _closed(hold: ev.Hold | None, cost_nanousd: int, tokens: int) -> _Moves:
    """What a call has used, for what was set aside for it, and what goes back of what was lent for it. What an early version
    had set aside of tokens is in no scope."""
    if hold is None:
        return ()
    money = _close(hold, False, cost_nanousd, hold.nanousd)
    closed = (money, _close(hold, True, tokens, hold.tokens)) if tokens or hold.tokens else (money,)
    if not hold.loans:
        return closed
    of_tokens = {lender: amount for lender, amount in hold.loans.items() if counts_tokens(lender)}
    of_money = {lender: amount for lender, amount in hold.loans.items() if lender not in of_tokens}
    back = unused(of_money, hold.nanousd - cost_nanousd) | unused(of_tokens, hold.tokens - tokens)
    return (*closed, *_returned(back, hold.agent))


def _close(hold: ev.Hold, tokens: bool, used: int, held: int) -> _Move:
    if hold.in_doubt:
        return _Move(hold.at_ms, tokens, used, in_doubt=-held, agent=hold.agent)
    return _Move(hold.at_ms, tokens, used, -held, agent=hold.agent)


def _doubted(e: ev.ModelCallInDoubt, after: State) -> _Moves:
    hold = e.hold
    if hold is None:
        return ()
    money = _Move(hold.at_ms, held=-hold.nanousd, in_doubt=hold.nanousd, agent=hold.agent)
    if not hold.tokens:
        return (money,)
    return (money, _Move(hold.at_ms, tokens=True, held=-hold.tokens, in_doubt=hold.tokens, agent=hold.agent))


def _intended(e: ev.EffectIntended, after: State) -> _Moves:
    given_up = tuple(_close(hold, False, hold.nanousd, hold.nanousd) for hold in e.given_up.values())
    if not e.hold_nanousd:
        return given_up
    held = _Move(after.at_ms, held=e.hold_nanousd, bounded=True, agent=e.agent)
    return (*given_up, held, *_lent(e.loans, e.agent))


def _completed(e: ev.EffectCompleted, after: State) -> _Moves:
    return () if e.hold is None else _closed(e.hold, e.hold.nanousd, 0)


def _not_done(e: ev.EffectFailed, after: State) -> _Moves:
    return _closed(e.hold, e.cost_nanousd, 0)


def _released(e: ev.EffectReleased, after: State) -> _Moves:
    return _closed(e.hold, 0, 0)


def _in_doubt(e: ev.EffectInDoubt | ev.EffectUnanswered | ev.EffectReopened, after: State) -> _Moves:
    hold = e.hold
    if hold is None or hold.in_doubt:
        return ()
    return (_Move(hold.at_ms, held=-hold.nanousd, in_doubt=hold.nanousd, agent=hold.agent),)


_MOVES: Final[dict[type[ev.Event], Callable[[Any, State], _Moves]]] = {
    ev.RunStarted: _started,
    ev.RunReopened: _started,
    ev.RunAdmitted: _admitted,
    ev.RunCompleted: _ended,
    ev.RunFailed: _ended,
    ev.RunCancelled: _ended,
    ev.ModelCallHeld: _held,
    ev.ModelCallSettled: _settled,
    ev.ModelCallFailed: _failed,
    ev.ModelCallInDoubt: _doubted,
    ev.ModelCallReconciled: _reconciled,
    ev.EffectIntended: _intended,
    ev.EffectCompleted: _completed,
    ev.EffectFailed: _not_done,
    ev.EffectReleased: _released,
    ev.EffectInDoubt: _in_doubt,
    ev.EffectUnanswered: _in_doubt,
    ev.EffectReopened: _in_doubt,
}


# --- Who goes on when there is room ---------------------------------------------------------------------------------------


def with_headroom(waiting: Iterable[Waiting]) -> dict[RunId, frozenset[str]]:
    """Of those who wait, in the order in which they came: the runs that fit together into what is left, and where; and those
    for whom there can be no room any more, who try again only to hear that."""
    left: dict[str, int | None] = {}
    found: dict[RunId, frozenset[str]] = {}
    for each in waiting:
        room = left.setdefault(each.scope, each.left)
        if room is not None and each.left is not None and each.wanted <= each.left:
            if each.wanted > room:
                continue
            left[each.scope] = room - each.wanted
        found[each.run] = found.get(each.run, frozenset()) | {each.scope}
    return found
