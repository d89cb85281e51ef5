"""An attempt opens at a place only what its journal holds there, and nothing new in a run that is paused or ending."""

from __future__ import annotations

import pytest

from holdfast.errors import Conflict, NonDeterministicStep, Suspended
from tests.core.game import Game, graph, kinds


def test_what_stands_in_the_journal_is_not_called_again() -> None:
    game = Game(graph("a"), limit=100)
    call = game.held("a", 40)
    assert game.hold("a", 40) == [], "it is in flight"
    game.settle(call, 10)
    assert game.hold("a", 40) == [], "it is done"


@pytest.mark.parametrize("change", [{"model": "n"}, {"args": "other"}])
def test_a_step_that_no_longer_does_what_its_journal_says_calls_nothing(change: dict[str, str]) -> None:
    game = Game(graph("a"), limit=100)
    game.settle(game.held("a", 40))
    with pytest.raises(NonDeterministicStep) as caught:
        game.hold("a", 40, **change)
    assert "the journal holds model 'm' (arguments args)" in caught.value.message
    assert f"asks for model {change.get('model', 'm')!r}" in caught.value.message
    assert "Nothing was called" in caught.value.message


def test_another_kind_of_operation_is_no_replay_either() -> None:
    game = Game(graph("a"), limit=100)
    game.settle(game.held("a", 40))
    with pytest.raises(NonDeterministicStep, match="the code now asks for tool 'send'"):
        game.intend("a")
    with pytest.raises(NonDeterministicStep, match="the code now asks for sleep"):
        game.sleep("a", 1)


def test_nothing_begins_in_a_paused_run() -> None:
    game = Game(graph("a > b", "c > d"))
    game.pause()
    game.complete("a")
    assert game.status == "paused"
    assert game.step("b").status == "ready"
    assert game.tick() == []
    assert game.due_ms is None
    for intent in (
        lambda: game.hold("c", 1),
        lambda: game.intend("c"),
        lambda: game.sleep("c", 1),
        lambda: game.await_signal("c", "x"),
        lambda: game.open_gate("c"),
    ):
        with pytest.raises(Suspended, match="paused"):
            intent()
    game.suspend("c")
    assert kinds(game.resume()) == ["RunResumed", "StepStarted", "StepStarted"]


def test_no_effect_begins_after_cancelling() -> None:
    game = Game(graph("a > b"))
    call = game.intended("a", path="0")
    game.cancel()
    with pytest.raises(Conflict):
        game.intend("a", path="1")
    game.did(call)
