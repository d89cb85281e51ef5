"""Scopes above a run: a call's money and its tokens count in its tenant's and team's day and month, and it waits where there is
no room for either."""

from __future__ import annotations

import pytest

from holdfast.core.values import policies
from holdfast.core.values.ids import RunId
from holdfast.core.values.scopes import (
    ScopeWaiter,
    above,
    counts_tokens,
    family_of,
    in_tokens,
    in_words,
    level,
    money_family,
    money_scopes,
    over_at_ms,
    owner_scopes,
    with_headroom,
)
from tests.core.game import START_MS, TRANSIENT, Game, cmd, ev, graph, kinds
from tests.core.test_postings import DAY, DECEMBER, MONTH, NOVEMBER_14, moved, two

MIDNIGHT = 1_700_006_400_000
TEAM_DAY = "team/acme/search/day/2023-11-14"


# --- Names ------------------------------------------------------------------------------------------------------------


def test_a_day_and_a_month_are_those_of_utc() -> None:
    assert money_scopes("acme", None, MIDNIGHT - 1) == (DAY, MONTH)
    assert money_scopes("acme", None, MIDNIGHT) == ("tenant/acme/day/2023-11-15", MONTH)
    assert money_scopes("acme", None, DECEMBER) == ("tenant/acme/day/2023-12-01", "tenant/acme/month/2023-12")
    assert (over_at_ms(DAY), over_at_ms(MONTH)) == (MIDNIGHT, DECEMBER)
    assert over_at_ms("tenant/acme/month/2023-12") == DECEMBER + 31 * 86_400_000


def test_a_team_is_below_its_tenant() -> None:
    every = money_scopes("acme", "search", NOVEMBER_14)
    assert every == (DAY, MONTH, TEAM_DAY, "team/acme/search/month/2023-11")
    assert owner_scopes("acme", "search", NOVEMBER_14) == every[2:]
    assert owner_scopes("acme", None, NOVEMBER_14) == every[:2]


@pytest.mark.parametrize("name", ["acme", "2026", "a/b", "", "day", "a\0b", "Ärzte & Söhne", "x/day/2023-11-14"])
def test_whatever_a_tenant_is_called_its_scopes_are_its_own(name: str) -> None:
    for scope in money_scopes(name, name, NOVEMBER_14):
        kind, *_, period, _ = scope.split("/")
        assert family_of(scope) == money_family(name, name if kind == "team" else None, period)  # type: ignore[arg-type]
    assert not set(money_scopes(name, None, NOVEMBER_14)) & set(money_scopes(f"{name}/day", None, NOVEMBER_14))


def test_a_scope_can_be_described_to_a_person() -> None:
    assert in_words(DAY) == "tenant acme, day 2023-11-14"
    assert in_words("team/acme/r%20and%20d/month/2023-11") == "team r and d of acme, month 2023-11"
    assert in_words("tenant/acme/day") == "tenant acme, each day"
    assert in_words(in_tokens("tenant/acme/day")) == "tokens of tenant acme, each day"


def test_tokens_have_scopes_of_their_own_that_no_name_can_take() -> None:
    every = above("default", "tokens", (), NOVEMBER_14)
    assert every[4:] == tuple(map(in_tokens, every[:4]))
    assert len(set(every)) == 8
    assert [counts_tokens(scope) for scope in every] == [False] * 4 + [True] * 4
    day = in_tokens(DAY)
    assert (family_of(day), level(day), over_at_ms(day)) == ("tokens/tenant/acme/day", "tenant", MIDNIGHT)


# --- Where there is no room ---------------------------------------------------------------------------------------------


def test_a_call_without_room_in_a_scope_waits_there_and_asks_no_person() -> None:
    game = two()
    events = game.hold("b", 60, shortages=game.shortages(left=50, held=100, limit=500))
    (exceeded,) = events
    assert isinstance(exceeded, ev.ScopeExceeded)
    assert (exceeded.scope, exceeded.needed_nanousd, exceeded.limit_nanousd, exceeded.blocked) == (DAY, 60, 500, False)
    game.suspend("b")
    game.complete("a")
    assert game.status == "waiting"
    (wait,) = game.waits
    assert (wait.kind, wait.reason, wait.about, wait.step) == ("money", "tenant_holds_in_flight", DAY, "b#1")
    assert wait.due_at_ms == MIDNIGHT
    assert not game.state.gates
    assert game.state.budget.committed_nanousd == 0
    (waiter,) = game.rows(events).waiters
    assert (waiter.scope, waiter.family, waiter.wanted) == (DAY, "tenant/acme/day", 60)


def test_a_late_reply_ends_the_wait_for_room_and_the_call_is_not_repeated() -> None:
    game = Game(graph("a"))
    lost = game.held("a", 60)
    assert "StepStarted" in kinds(game.lose())
    game.hold("a", 60, shortages=game.shortages(left=50, held=100, limit=500))
    game.suspend("a")
    game.settle(lost, 40, "its reply")
    assert (game.op("a").status, game.waits) == ("done", [])
    assert "OperationReopened" not in kinds(game.do(cmd.Tick(headroom=frozenset({DAY}))))
    assert game.op("a").outcome.value() == "its reply"  # type: ignore[union-attr]


def test_a_call_for_whose_tokens_a_scope_has_no_room_waits_there_for_so_many() -> None:
    game = Game(graph("a"))
    day = in_tokens(DAY)
    assert kinds(game.hold("a", 60, 40, shortages={day: cmd.Shortage(500, 50, 0)})) == ["ModelCallHeld"]
    (exceeded,) = events = game.hold("a", 60, 51, path="1", shortages={day: cmd.Shortage(500, 50, 0)})
    assert isinstance(exceeded, ev.ScopeExceeded)
    assert (exceeded.scope, exceeded.needed_tokens, exceeded.limit_tokens, exceeded.limit_nanousd) == (day, 51, 500, 0)
    (waiter,) = game.rows(events).waiters
    assert (waiter.scope, waiter.family, waiter.wanted) == (day, "tokens/tenant/acme/day", 51)
    game.suspend("a")
    assert game.status == "budget_blocked"
    (wait,) = (each for each in game.waits if each.kind != "model")
    assert (wait.kind, wait.reason, wait.about, wait.due_at_ms) == ("tokens", "tenant_budget", day, MIDNIGHT)
    assert kinds(game.do(cmd.Tick(headroom=frozenset([day])))) == ["OperationReopened", "StepStarted"]
    (again,) = game.hold("a", 60, 51, path="1", shortages=game.shortages(left=59))
    assert again.scope == DAY, "room for its tokens is none for its money"  # type: ignore[attr-defined]


def test_what_would_not_fit_whatever_comes_back_blocks_its_run() -> None:
    game = Game(graph("a"), team="search")
    game.hold("a", 60, shortages=game.shortages(left=50, held=9, number=2))
    game.suspend("a")
    assert game.status == "budget_blocked"
    assert [(wait.reason, wait.about) for wait in game.waits] == [("team_budget", TEAM_DAY)]


def test_when_there_is_room_the_step_goes_on_and_holds() -> None:
    game = two()
    game.hold("b", 60, shortages=game.shortages())
    game.suspend("b")
    assert game.tick() == []
    assert game.do(cmd.Tick(headroom=frozenset([MONTH]))) == [], "another scope is none of its business"
    events = game.do(cmd.Tick(headroom=frozenset([DAY])))
    assert kinds(events) == ["OperationReopened", "StepStarted"]
    assert game.rows(events).waiters == ()
    assert kinds(game.hold("b", 60)) == ["ModelCallHeld"]


def test_room_that_is_found_while_the_waiting_attempt_is_leaving_is_not_missed() -> None:
    game = two()
    game.hold("b", 60, shortages=game.shortages())
    assert kinds(game.do(cmd.Tick(headroom=frozenset([DAY])))) == ["OperationReopened"]
    assert kinds(game.suspend("b")) == ["StepSuspended", "StepStarted"]


@pytest.mark.parametrize(("number", "begins"), [(0, MIDNIGHT), (1, DECEMBER)])
def test_a_new_day_or_month_lets_it_try_again(number: int, begins: int) -> None:
    game = Game(graph("a"))
    game.hold("a", 60, shortages=game.shortages(number=number))
    game.suspend("a")
    assert game.due_ms == begins - START_MS
    game.now_ms = begins - 1
    assert game.tick() == []
    game.now_ms = begins
    assert kinds(game.tick()) == ["OperationReopened", "StepStarted"]
    events = game.hold("a", 60)
    assert list(moved(game, events)) == list(money_scopes("acme", None, begins))


def test_a_smaller_way_to_make_the_call_is_taken_where_only_that_fits_the_scope() -> None:
    game = Game(graph("a"))
    cheaper = (cmd.CallCandidate("small", 40, 5), cmd.CallCandidate("tiny", 10, 5))
    (held,) = game.hold("a", 60, cheaper=cheaper, shortages=game.shortages(left=45))
    assert (held.sent_to, held.offer) == ("small", 1)  # type: ignore[attr-defined]
    (exceeded,) = game.hold("a", 60, path="1", cheaper=cheaper, shortages=game.shortages(left=5))
    assert exceeded.needed_nanousd == 10  # type: ignore[attr-defined]


def test_the_runs_own_limit_is_asked_first() -> None:
    game = Game(graph("a", limits={"cost_nanousd": 50}))
    assert kinds(game.hold("a", 60, shortages=game.shortages())) == ["HoldDeferred", "LimitNeared", "GateOpened"]


def test_a_run_that_shall_fail_at_a_limit_fails_at_one_above_it() -> None:
    game = Game(graph("a", on_limit="fail"))
    game.hold("a", 60, shortages=game.shortages(held=100))
    assert game.status == "running", "what comes back may be enough"
    game.hold("a", 60, shortages=game.shortages(), path="1")
    assert game.status == "failed"
    assert game.state.error is not None
    assert game.state.error.error_class == policies.LIMIT
    assert "tenant acme, day 2023-11-14" in game.state.error.message


def test_what_fails_for_want_of_tokens_says_how_many() -> None:
    game = Game(graph("a", on_limit="fail"))
    game.hold("a", 60, 700, shortages={in_tokens(DAY): cmd.Shortage(500, 50, 0)})
    assert game.state.error is not None
    assert "may use 700 tokens, for which tokens of tenant acme, day 2023-11-14" in game.state.error.message
    assert "limit of 500 tokens" in game.state.error.message


def test_a_paused_run_takes_no_other_turn_and_waits_again_when_it_goes_on() -> None:
    game = Game(graph("a"))
    game.hold("a", 60, shortages=game.shortages())
    game.suspend("a")
    assert game.rows(game.pause()).waiters == ()
    assert [waiter.scope for waiter in game.rows(game.resume()).waiters] == [DAY]


def test_a_step_that_ends_waits_no_more() -> None:
    game = two()
    game.hold("b", 60, shortages=game.shortages())
    game.hold("a", 60, shortages=game.shortages(), path="1")
    assert game.rows(game.fail("b", TRANSIENT)).waiters, "it is tried again"
    assert game.rows(game.cancel()).waiters == ()
    assert game.status == "cancelled"


def test_a_lost_attempt_keeps_its_wait() -> None:
    game = Game(graph("a"))
    game.hold("a", 60, shortages=game.shortages())
    game.lose()
    assert kinds(game.hold("a", 60)) == ["ModelCallHeld"]
    assert game.state.short == {}


# --- Who goes on --------------------------------------------------------------------------------------------------------


def waiting(run: str, wanted: int, left: int | None, scope: str = DAY) -> ScopeWaiter:
    return ScopeWaiter(RunId(run), scope, wanted, left)


def test_as_many_go_on_as_fit_together_in_the_order_in_which_they_came() -> None:
    found = with_headroom([waiting("a", 60, 100), waiting("b", 60, 100), waiting("c", 40, 100), waiting("d", 1, 100)])
    assert list(found) == ["a", "c"]


def test_scopes_do_not_stand_in_each_others_way() -> None:
    found = with_headroom([waiting("a", 60, 60), waiting("b", 60, None, MONTH), waiting("a", 5, 5, TEAM_DAY)])
    assert found == {"a": {DAY, TEAM_DAY}, "b": {MONTH}}
