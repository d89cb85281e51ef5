"""The consequences that a gate names are those that its decisions have."""

from __future__ import annotations

import pytest

from holdfast.core.people.consequences import consequences
from tests.core.game import Game, edge, graph, loop, node


def said(game: Game) -> dict[str, tuple[str, tuple[str, ...], int]]:
    return {each.decision: (each.follows, each.nodes, each.more) for each in consequences(game.graph, game.state, game.gate)}


def asking() -> Game:
    way = (
        edge("draft", "gate"),
        edge("gate", "publish"),
        loop("gate", "draft", 2, when="retry"),
        edge("gate", "file", when="later"),
    )
    game = Game(graph(node("gate", "human_gate", options={"decisions": ["approve", "reject", "retry", "later"]}), *way))
    game.complete("draft")
    game.human_gate("gate", allowed=("approve", "reject", "retry", "later"))
    return game


@pytest.mark.parametrize("decision", ["approve", "reject", "retry", "later"])
def test_a_decision_leads_where_the_gate_says(decision: str) -> None:
    game = asking()
    follows, nodes, _ = said(game)[decision]
    game.decide(decision)
    assert {*nodes} == {name for name, status in game.statuses().items() if status == "ready"}
    assert (follows == "run_fails") == (game.status == "failed")


def test_a_gate_names_the_loop_only_while_it_may_be_taken() -> None:
    game = asking()
    assert said(game)["retry"] == ("step_goes_on", ("draft",), 0)
    game.decide("retry")
    game.tick()
    game.complete("draft")
    game.human_gate("gate", allowed=("approve", "reject", "later"))
    assert said(game)["later"] == ("step_goes_on", ("file",), 0)
    assert said(game)["reject"] == ("run_fails", (), 0)


def test_a_rejection_that_the_graph_handles_fails_the_step_alone() -> None:
    game = Game(graph(node("gate", "human_gate"), "gate > publish", edge("gate", "clean", on="error")))
    game.human_gate("gate", allowed=("approve", "reject"))
    assert said(game)["reject"] == ("step_fails", ("clean",), 0)
    game.decide("reject")
    assert game.statuses()["clean"] == "ready"


def test_an_approval_of_several_counts_until_it_is_the_last() -> None:
    game = Game(graph(node("gate", "human_gate"), "gate > publish"))
    game.human_gate("gate", quorum=3, allowed=("approve", "edit", "reject"))
    assert said(game)["approve"] == ("counted", (), 2)
    assert said(game)["edit"] == ("asked_again", (), 0)
    game.decide("approve", by="ann")
    assert said(game)["approve"] == ("counted", (), 1)
    game.decide("approve", by="bob")
    assert said(game)["approve"] == ("step_goes_on", ("publish",), 0)


def test_a_failure_that_no_person_mends_fails_the_run() -> None:
    game = Game(graph("pay > publish", on_exhausted="dead_letter"))
    game.fail("pay")
    assert said(game) == {"retry": ("step_retried", (), 0), "answer": ("step_goes_on", (), 0), "reject": ("run_fails", (), 0)}
    game.decide("reject")
    assert game.status == "failed"
