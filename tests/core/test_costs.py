"""What calls cost, counted from a history: on the day of the hold, once, whenever the cost became known."""

from __future__ import annotations

from holdfast.core.facts.costs import Cost, Tally
from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import Seq
from tests.core.game import OTHER, Game, cmd, error, graph

DAY_MS = 86_400_000


def counted(game: Game, after: int = 0) -> list[Cost]:
    tally = Tally(Seq(after))
    tally.take(
        Recorded(Seq(n), at_ms, event) for n, (event, at_ms) in enumerate(zip(game.events(), game.times, strict=True), 1)
    )
    return [each.cost for each in tally.costs()]


def test_calls_are_added_up_by_day_node_and_model() -> None:
    game = Game(graph("a > end", "b > end"))
    for path in ("0", "1"):
        game.settle(game.held("a", 60, path=path, model="m"), 45, tokens=(5, 7))
    game.settle(game.held("a", 60, path="2", cheaper=(cmd.CallCandidate("n", 10, 0),), shortages=game.shortages(left=20)), 9)
    call = game.held("b", 60)
    game.now_ms += DAY_MS
    game.settle(game.held("b", 60, path="1"), 20, tokens=(1, 1))
    game.settle(call, 30, tokens=(2, 3))
    acme = ("acme", "flow")
    assert counted(game) == [
        Cost("2023-11-14", *acme, "a", "m", 2, 10, 14, 90),
        Cost("2023-11-14", *acme, "a", "n", 1, 0, 0, 9),
        Cost("2023-11-14", *acme, "b", "m", 1, 2, 3, 30),
        Cost("2023-11-15", *acme, "b", "m", 1, 1, 1, 20),
    ]


def test_what_was_refused_costs_nothing_and_what_is_in_doubt_nothing_yet() -> None:
    game = Game(graph("a"))
    game.refuse(game.held("a", 60), error())
    call = game.held("a", 60, path="1")
    game.doubt_money(call)
    assert counted(game) == []
    game.now_ms += 40 * DAY_MS
    game.reconcile(call, 20)
    assert counted(game) == [Cost("2023-11-14", "acme", "flow", "a", "m", 1, 0, 0, 20)]


def test_what_was_counted_before_is_not_counted_again() -> None:
    game = Game(graph("a"))
    early, late = game.held("a", 60), game.held("a", 60, path="1")
    game.settle(early, 45)
    seq = game.state.seq
    assert counted(game, seq) == []
    game.settle(late, 15)
    assert [cost.cost_nanousd for cost in counted(game, seq)] == [15]
    assert [cost.cost_nanousd for cost in counted(game)] == [60]


def test_tools_that_have_a_price_are_counted_by_their_name_each_sending_once() -> None:
    game = Game(graph("a"))
    game.did(game.intended("a", "read", nanousd=50))
    game.did(game.intended("a", "read", "1"))
    game.did_not(game.intended("a", path="2", nanousd=50))
    game.doubt(game.intended("a", "read", "3", nanousd=20))
    game.intended("a", "idempotent", "4", nanousd=60)
    game.lose()
    game.session = OTHER
    again = game.intended("a", "idempotent", "4", nanousd=60)
    assert counted(game) == [Cost("2023-11-14", "acme", "flow", "a", "tool send", 3, 0, 0, 130)]
    game.did(again)
    assert counted(game) == [Cost("2023-11-14", "acme", "flow", "a", "tool send", 4, 0, 0, 190)]
