"""Who is asked to extend a limit sees what is done, by node and with its cost, what is under way, and what would come next."""

from __future__ import annotations

from holdfast.core.rules.interim import MAX_NODES, report
from tests.core.game import Game, graph, loop


def test_a_limits_gate_shows_what_is_done_with_its_cost_and_what_comes_next() -> None:
    game = Game(graph("plan > draft > publish"), limit=1_000_000_000)
    game.settle(game.held("plan", 250_000_000), 250_000_000)
    game.complete("plan")
    game.settle(game.held("draft", 600_000_000), 500_000_000)
    game.hold("draft", 600_000_000, path="1")
    assert game.gate.shown.value()["so_far"] == {
        "done": [{"node": "plan", "status": "completed", "visits": 1, "cost_usd": "0.25"}],
        "under_way": [{"node": "draft", "status": "active", "visits": 1, "cost_usd": "0.50"}],
        "next": ["publish"],
    }


def test_every_visit_of_a_node_counts_in_its_cost() -> None:
    game = Game(graph("a > b", loop("b", "a"), limits={"max_steps": 3}), limit=10**9)
    game.settle(game.held("a", 10**8), 10**8)
    game.complete("a")
    game.complete("b")
    game.settle(game.held("a", 10**8), 10**8)
    game.complete("a")
    assert game.gate.reason == "max_steps"
    assert game.gate.shown.value()["so_far"]["done"] == [{"node": "a", "status": "completed", "visits": 2, "cost_usd": "0.20"}]


def test_what_a_call_in_doubt_turned_out_to_have_cost_is_its_nodes() -> None:
    game = Game(graph("a"), limit=100)
    call = game.held("a", 60)
    game.doubt_money(call)
    game.reconcile(call, 50)
    assert game.state.cost_nanousd_by_node == {"a": 50}


def test_a_wide_graph_makes_no_long_question() -> None:
    names = [f"n{number}" for number in range(MAX_NODES + 5)]
    game = Game(graph(*names))
    shown = report(game.graph, game.state)
    assert len(shown["under_way"]) == MAX_NODES
    assert shown["more"] == {"under_way": 5}
