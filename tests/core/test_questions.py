"""What the engine asks by itself is taken back when nobody needs the answer any more."""

from __future__ import annotations

import pytest

from holdfast.errors import NotFound
from tests.core.game import Game, edge, ev, graph, loop, node


def test_a_step_that_completes_takes_its_questions_back() -> None:
    """A handler may give up waiting in one branch of a gather because another one failed."""
    game = Game(graph("a > b"))
    game.open_gate("a", "0.0.0")
    game.complete("a")
    assert not game.state.gates
    game.complete("b")
    assert game.status == "completed"


def test_a_step_whose_failure_is_taken_up_takes_its_questions_back() -> None:
    game = Game(graph(edge("a", "mend", on="error")))
    game.open_gate("a", "0.0.0")
    game.fail("a")
    assert not game.state.gates
    game.complete("mend")
    assert game.status == "completed"


def test_a_superseded_gate_is_withdrawn() -> None:
    game = Game(graph("t > s", "t > ask", node("ask", "human_gate"), loop("s", "t", 2)))
    game.complete("t")
    gate = game.human_gate("ask")
    game.complete("s")
    assert game.events(ev.GateWithdrawn)[0].gate == gate
    with pytest.raises(NotFound):
        game.decide("approve", gate)
