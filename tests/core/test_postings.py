"""What events move in the books of scopes: where a call's money and its tokens count, and when."""

from __future__ import annotations

import msgspec

from holdfast.core.facts.postings import postings
from holdfast.core.values import policies
from holdfast.core.values.ids import CallId
from holdfast.core.values.payload import NULL
from holdfast.core.values.scopes import counts_tokens, money_scopes
from tests.core.game import START_MS, Game, error, ev, graph

NOVEMBER_14 = START_MS
"""22:13:20 on 14 November 2023, UTC."""
DECEMBER = 1_701_388_800_000
DAY, MONTH = "tenant/acme/day/2023-11-14", "tenant/acme/month/2023-11"


def two(**more: object) -> Game:
    """Two branches at work at the same time."""
    return Game(graph("a > end", "b > end", **more))


def moved(game: Game, events: list[ev.Event], *, tokens: bool = False) -> dict[str, tuple[int, int, int]]:
    """What they move of money, or of tokens, by the scope that has that of money."""
    return {
        posting.scope.removeprefix("tokens/"): (posting.settled, posting.held, posting.in_doubt)
        for posting in game.rows(events).postings
        if not posting.scope.endswith("/runs") and counts_tokens(posting.scope) == tokens
    }


def test_a_hold_counts_in_every_scope_of_its_run_and_may_be_refused_there() -> None:
    game = Game(graph("a"), team="search")
    events = game.hold("a", 60)
    assert set(moved(game, events).values()) == {(0, 60, 0)}
    assert list(moved(game, events)) == list(money_scopes("acme", "search", NOVEMBER_14))
    assert all(posting.bounded for posting in game.rows(events).postings)


def test_what_closes_a_call_is_taken_whatever_the_limit() -> None:
    game = Game(graph("a"))
    settled = game.settle(game.held("a", 60), 45)
    assert moved(game, settled) == {DAY: (45, -60, 0), MONTH: (45, -60, 0)}
    refused = game.refuse(game.held("a", 60, path="1"), error(policies.MODEL))
    assert moved(game, refused) == {DAY: (0, -60, 0), MONTH: (0, -60, 0)}
    call = game.held("a", 60, path="2")
    doubted = game.doubt_money(call)
    assert moved(game, doubted) == {DAY: (0, -60, 60), MONTH: (0, -60, 60)}
    reconciled = game.reconcile(call, 20)
    assert moved(game, reconciled) == {DAY: (20, 0, -60), MONTH: (20, 0, -60)}
    for events in (settled, refused, doubted, reconciled):
        assert not any(posting.bounded for posting in game.rows(events).postings)


def test_a_settlement_counts_on_the_day_of_its_hold_however_late_it_comes() -> None:
    game = two()
    early, late = game.held("a", 60), game.held("b", 60)
    game.now_ms = DECEMBER + 5
    assert moved(game, game.settle(early, 45)) == {DAY: (45, -60, 0), MONTH: (45, -60, 0)}
    game.doubt_money(late)
    game.now_ms += 40 * 86_400_000
    assert moved(game, game.reconcile(late, 60)) == {DAY: (60, 0, -60), MONTH: (60, 0, -60)}


def test_one_commit_moves_each_scope_once() -> None:
    game = two()
    call = game.held("a", 60)
    events = [*game.settle(call, 45), *game.hold("b", 10), *game.hold("a", 20, path="1")]
    (day, month, *_) = game.rows(events).postings
    assert (day.scope, day.settled, day.held, day.total, day.bounded) == (DAY, 45, -30, 15, True)
    assert month.scope == MONTH


def test_a_hold_counts_its_tokens_beside_its_money() -> None:
    game = Game(graph("a"), team="search")
    events = game.hold("a", 60, 500)
    assert set(moved(game, events, tokens=True).values()) == {(0, 500, 0)}
    assert list(moved(game, events, tokens=True)) == list(money_scopes("acme", "search", NOVEMBER_14))
    assert all(posting.bounded for posting in game.rows(events).postings)


def test_a_reply_settles_its_used_tokens_and_unknown_use_counts_in_full() -> None:
    game = Game(graph("a"))
    settled = game.settle(game.held("a", 60, 500), 45, tokens=(300, 20))
    assert moved(game, settled, tokens=True) == {DAY: (320, -500, 0), MONTH: (320, -500, 0)}
    refused = game.refuse(game.held("a", 60, 500, path="1"), error(policies.MODEL))
    assert moved(game, refused, tokens=True) == {DAY: (0, -500, 0), MONTH: (0, -500, 0)}
    call = game.held("a", 60, 500, path="2")
    doubted = game.doubt_money(call)
    assert moved(game, doubted, tokens=True) == {DAY: (0, -500, 500), MONTH: (0, -500, 500)}
    assert moved(game, game.reconcile(call, 0), tokens=True) == {DAY: (500, 0, -500), MONTH: (500, 0, -500)}


def early(game: Game, *left_out: str) -> None:
    """Have the latest hold be one of a version that knew less."""
    held = game.events(ev.ModelCallHeld)[-1]
    game.history[-1] = ev.encode(msgspec.structs.replace(held, **dict.fromkeys(left_out, False)))
    for name in left_out:
        setattr(game.state.calls[held.call], name, False)
    game.scopes.clear()


def test_a_hold_of_an_early_version_moves_no_scope() -> None:
    """It counted in none, so closing it must give nothing back."""
    game = Game(graph("a"))
    call = game.held("a", 60, 500)
    early(game, "scoped", "tokens_scoped")
    assert moved(game, [ev.decode(game.history[-1])]) == {}
    settled = game.settle(call, 45, tokens=(300, 20))
    assert (moved(game, settled), moved(game, settled, tokens=True)) == ({}, {})


def test_of_a_hold_whose_tokens_no_scope_has_only_what_it_used_is_counted() -> None:
    game = Game(graph("a"))
    call = game.state.calls[game.held("a", 60, 500)]
    call.tokens_scoped = False
    assert call.hold == ev.Hold(60, NOVEMBER_14, tokens=0)
    settled = ev.ModelCallSettled(CallId("c"), 45, 300, 20, NULL, hold=call.hold)
    (_, _, day, month) = postings(game.state, [settled])
    assert {(each.settled, each.held, each.in_doubt) for each in (day, month)} == {(320, 0, 0)}
    doubted = postings(game.state, [ev.ModelCallInDoubt(CallId("c"), error(policies.MODEL), hold=call.hold)])
    assert [each.scope for each in doubted] == [DAY, MONTH]
