"""Postings: the changes that events make in the books of scopes, of money, tokens, places, and limits where agents lend.

A call's money counts in the scopes of the time of its hold, however late it is settled: a settlement on the third of the month
goes to the day of the hold. Its tokens count beside it. A loan for a call moves limits with its hold, and the unused part goes
back with its outcome.

Never here: names of scopes (scopes), whether there is room (limits, shortages, the stores).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.state import State
from holdfast.core.nouns.team_budgets import unused
from holdfast.core.values.ids import RunId
from holdfast.core.values.scopes import (
    DAY_MS,
    budget_of,
    counts_tokens,
    dated_scopes,
    in_tokens,
    of_agent,
    run_scopes,
    tree_of,
    with_agents,
)


class Posting(msgspec.Struct, frozen=True):
    """The change that one append makes in the books of one scope: nano-dollars, tokens, or places. Each part may be negative.

    `family` is the subject of the scope's limit: all days of a tenant have one. A `bounded` posting is refused if the limit
    leaves no room for it; any other is a fact and is taken. One `in_turn` is also refused if there would be no room once all
    who wait in the scope before its run had theirs. After a refusal its run `waits` in the scope, unless the run has not begun
    or has ended: nothing would remove such a waiter if the append that says more never came, and all others would wait behind
    it. `limit`, if given, is that of the scope's family from this append on. `limit_change` is the change of its limit by loans
    for calls of agents. Of that it `lends` so much itself: at most half of what is left there.
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
    lends: int = 0

    @property
    def total(self) -> int:
        return self.settled + self.held + self.in_doubt


class _Move(msgspec.Struct, frozen=True):
    """The change that an event makes in the books of scopes: of a call's day and month and of what its run shares, there as
    `agent`, in money or, with `tokens`, in those; without `at_ms`, of the active runs; or of one `scope` alone."""

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
    lends: int = 0


def postings(after: State, events: Sequence[ev.Event]) -> tuple[Posting, ...]:
    """Return the changes that an append of `events`, which led to the state `after`, makes in the scopes above its run; one
    posting per scope."""
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
                    scope,
                    family,
                    before.settled + move.settled,
                    before.held + move.held,
                    before.in_doubt + move.in_doubt,
                    before.bounded or move.bounded,
                    before.in_turn or move.in_turn,
                    before.waits and move.waits,
                    before.limit,
                    before.limit_change + move.limit_change,
                    before.lends + move.lends,
                )
    return tuple(found.values())


def _scopes_of(after: State, move: _Move, shared: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    if move.scope is not None:
        return ((move.scope, move.scope),)
    if move.at_ms is None:
        return tuple((scope, scope) for scope in run_scopes(after.tenant))
    dated = dated_scopes(after.tenant, after.team, move.at_ms // DAY_MS, move.tokens)
    if not shared:
        return dated
    beside = (each for each in with_agents(shared, move.agent) if counts_tokens(each) == move.tokens)
    return (*dated, *((each, each) for each in beside))


def opened_by(event: ev.TreeOpened, run: RunId) -> tuple[str, ...]:
    """The scopes of the run's own tree that begin with this: of its money, of its tokens, of what it has a limit."""
    own = tree_of(run)
    limits_ = (own, event.limit_nanousd), (in_tokens(own), event.limit_tokens)
    return tuple(scope for scope, limit in limits_ if limit is not None)


def _of_tree(after: State, events: Sequence[ev.Event]) -> tuple[dict[str, Posting], tuple[str, ...]]:
    """Return the changes of an append in the scopes of the run's own tree, and the scopes that the run shared before it. The
    opening carries what was used before the tree."""
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
    """True if a limit of the run is its tree's too, so that it may be raised after the run has ended: a child that failed may
    have been resumed since."""
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
    return (*money, tokens, *_loan_moves(e.loans, e.agent))


def _loan_moves(loans: Mapping[str, int], agent: str | None) -> _Moves:
    """Yield the loans of agents to another for a call: each at most half of what it has left."""
    found: list[_Move] = []
    for lender, amount in loans.items():
        gives = _Move(scope=lender, limit_change=-amount, lends=amount, bounded=True, waits=False)
        found += gives, _to(lender, agent, amount)
    return tuple(found)


def _returned(loans: Mapping[str, int], agent: str | None) -> _Moves:
    found: list[_Move] = []
    for lender, amount in loans.items():
        found += _Move(scope=lender, limit_change=amount), _to(lender, agent, -amount)
    return tuple(found)


def _to(lender: str, agent: str | None, amount: int) -> _Move:
    """Return the change of the borrower's limit by a loan of an agent of its team."""
    budget = budget_of(lender)
    assert budget is not None, "only agents of a team lend"
    assert agent is not None, "and only to one of them"
    return _Move(scope=of_agent(budget, agent), limit_change=amount)


def _settled(e: ev.ModelCallSettled, after: State) -> _Moves:
    return _closed(e.hold, e.cost_nanousd, e.input_tokens + e.output_tokens)


def _reconciled(e: ev.ModelCallReconciled, after: State) -> _Moves:
    """The number of its tokens is unknown; never fewer than it was."""
    return _closed(e.hold, e.cost_nanousd, e.hold.tokens if e.hold is not None else 0)


def _failed(e: ev.ModelCallFailed, after: State) -> _Moves:
    return _closed(e.hold, 0, 0)


def _closed(hold: ev.Hold | None, cost_nanousd: int, tokens: int) -> _Moves:
    """Yield the use of a call, against its reservation, and the return of what was lent for it. Reservations of tokens by an
    early version are in no scope."""
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
    return (*given_up, held, *_loan_moves(e.loans, e.agent))


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
