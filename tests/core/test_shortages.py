"""What is short above a run: room for a call, loans of its team, waiting, and being told what could be granted."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.facts.postings import Posting
from holdfast.core.nouns.team_budgets import Lender
from holdfast.core.values.ids import CallId
from holdfast.core.values.scopes import budget_of, in_tokens, in_words, is_team_budget, level, of_agent, team_budget
from holdfast.engine.runs.mailbox import _take_up
from tests.core.game import Game, cmd, ev, graph, kinds

TEAM = team_budget("acme", "research")
CRITIC, PLANNER, WRITER = (of_agent(TEAM, agent) for agent in ("critic", "planner", "writer"))


def short(left: dict[str, int], held: int = 0) -> dict[str, cmd.Shortage]:
    """What is known where each of these agents has so much left, and as much in flight."""
    team = tuple(Lender(scope, 100, amount, held, 1.0, 0) for scope, amount in left.items())
    return {each.scope: cmd.Shortage(each.limit, each.left, each.held, team) for each in team}


def teamed(**more: Any) -> Game:
    return Game(graph("a > end", "b > end"), shared=(TEAM, in_tokens(TEAM)), agent="writer", **more)


def postings(game: Game, events: list[ev.Event]) -> dict[str, Posting]:
    return {each.scope: each for each in game.rows(events).postings if level(each.scope) == "agent"}


def test_the_names_of_team_budgets_and_their_agents() -> None:
    assert (is_team_budget(TEAM), is_team_budget(in_tokens(TEAM)), is_team_budget(WRITER)) == (True, True, False)
    assert (budget_of(WRITER), budget_of(in_tokens(WRITER)), budget_of(TEAM)) == (TEAM, in_tokens(TEAM), None)
    assert in_words(WRITER) == "agent writer in team budget research of acme"
    assert in_words(in_tokens(TEAM)) == "tokens of team budget research of acme"
    odd = of_agent(team_budget("a/b", "c d"), "e/f")
    assert budget_of(odd) == team_budget("a/b", "c d")
    assert in_words(odd) == "agent e/f in team budget c d of a/b"


def test_a_call_counts_as_its_agents_in_money_and_in_tokens() -> None:
    game = teamed()
    (held,) = events = game.hold("a", 60, 40)
    assert isinstance(held, ev.ModelCallHeld)
    assert (held.agent, held.loans) == ("writer", {})
    found = {each.scope: each.held for each in game.rows(events).postings}
    assert found[TEAM] == found[WRITER] == 60
    assert found[in_tokens(TEAM)] == found[in_tokens(WRITER)] == 40


def test_a_hold_borrows_its_shortage_and_its_settlement_returns_the_rest() -> None:
    game = teamed()
    (held,) = events = game.hold("a", 60, 40, shortages=short({WRITER: 15, PLANNER: 60, CRITIC: 100}))
    assert isinstance(held, ev.ModelCallHeld)
    assert held.loans == {CRITIC: 45}
    moved = postings(game, events)
    assert moved[CRITIC] == Posting(CRITIC, CRITIC, bounded=True, waits=False, limit_change=-45, lends=45)
    assert (moved[WRITER].limit_change, moved[WRITER].held, moved[WRITER].waits) == (45, 60, True)
    moved = postings(game, game.settle(held.call, 25))
    assert (moved[CRITIC].limit_change, moved[WRITER].limit_change) == (35, -35)
    assert (moved[WRITER].settled, moved[WRITER].held) == (25, -60)
    assert not moved[CRITIC].bounded, "what goes back is never refused"


def test_money_and_tokens_are_lent_each_for_itself() -> None:
    game = teamed()
    known = short({WRITER: 50, PLANNER: 100}) | short({in_tokens(WRITER): 0, in_tokens(CRITIC): 100})
    (held,) = game.hold("a", 60, 40, shortages=known)
    assert isinstance(held, ev.ModelCallHeld)
    assert held.loans == {PLANNER: 10, in_tokens(CRITIC): 40}
    moved = postings(game, game.settle(held.call, 60, tokens=(10, 5)))
    assert PLANNER not in moved
    assert moved[in_tokens(CRITIC)].limit_change == 25


@pytest.mark.parametrize("outcome", ["refused", "doubted", "reconciled"])
def test_a_loan_goes_back_with_whatever_outcome_comes_and_stays_with_a_doubt(outcome: str) -> None:
    game = teamed()
    call: CallId = game.held("a", 60, shortages=short({WRITER: 10, CRITIC: 100}))
    if outcome == "refused":
        assert postings(game, game.refuse(call))[CRITIC].limit_change == 50
        return
    assert CRITIC not in postings(game, game.doubt_money(call))
    if outcome == "reconciled":
        moved = postings(game, game.reconcile(call, 40))
        assert (moved[CRITIC].limit_change, moved[WRITER].settled, moved[WRITER].in_doubt) == (20, 40, -60)


def test_a_tool_with_a_price_is_lent_for_too() -> None:
    game = teamed()
    (intended,) = game.intend("a", nanousd=60, shortages=short({WRITER: 20, CRITIC: 80}))
    assert isinstance(intended, ev.EffectIntended)
    assert (intended.agent, intended.loans) == ("writer", {CRITIC: 40})
    (free,) = game.intend("b")
    assert isinstance(free, ev.EffectIntended)
    assert free.agent is None


def test_what_no_agent_lends_waits_at_its_agent_and_says_what_could_be_granted() -> None:
    game = teamed()
    (exceeded,) = events = game.hold("a", 71, shortages=short({WRITER: 20, CRITIC: 60, PLANNER: 41}, held=30))
    assert isinstance(exceeded, ev.ScopeExceeded)
    assert (exceeded.scope, exceeded.grantable, exceeded.limit_nanousd, exceeded.blocked) == (WRITER, 70, 100, False)
    assert [(each.scope, each.wanted) for each in game.rows(events).waiters] == [(WRITER, 71)]
    assert {each.limit_change for each in game.rows(events).postings} <= {0}
    assert kinds(game.do(cmd.Tick(headroom=frozenset([WRITER])))) == ["OperationReopened"]


def test_what_no_agent_can_lend_whatever_comes_back_blocks_its_run() -> None:
    game = teamed()
    (exceeded,) = game.hold("a", 71, shortages=short({WRITER: 20, CRITIC: 100}))
    assert isinstance(exceeded, ev.ScopeExceeded)
    assert exceeded.blocked
    game.suspend("a")
    assert [wait.reason for wait in game.waits] == ["agent_budget"]


def test_where_limits_make_a_run_fail_it_reports_what_could_be_granted() -> None:
    game = Game(graph("a > end", on_limit="fail"), shared=(TEAM,), agent="writer")
    game.hold("a", 2_000_000_000, shortages=short({WRITER: 500_000_000, CRITIC: 1_000_000_000}))
    assert game.state.error is not None
    assert game.state.error.message == (
        "The next call to m may cost $2.00, for which agent writer in team budget research of acme has no room under its limit"
        " of $0.0000001. It could be granted $1.00, with all that others may lend it. Nothing was called."
    )


def test_what_has_been_lent_is_not_lent_again_from_the_same_knowledge() -> None:
    """Half of what the lender had is all that goes, however many calls are decided together."""
    game = teamed()
    known = short({WRITER: 0, CRITIC: 100})
    events = game.hold("a", 30, shortages=known)
    _take_up(known, game.state, events)
    assert (known[WRITER].left, known[CRITIC].left) == (0, 40)
    (second,) = events = game.hold("b", 20, shortages=known)
    assert isinstance(second, ev.ModelCallHeld)
    _take_up(known, game.state, events)
    assert kinds(game.hold("b", 1, path="1", shortages=known)) == ["ScopeExceeded"]
