"""A run's status is derived, what it waits for is always listed, and somebody looks when something is due."""

from __future__ import annotations

import pytest

from holdfast.core.views.status import MAX_SLOTS_TOLD, describe, due_at_ms
from tests.core.game import START_MS, TRANSIENT, Game, edge, graph, node


def test_the_first_that_holds_is_the_status() -> None:
    """ended > paused > running > requires_attention > budget_blocked > waiting, all of them true at once."""
    game = Game(graph("a > end", "b > end", "c > end", "d > end", node("d", "human_gate")), limit=100)
    game.human_gate("d")
    game.hold("a", 150)
    game.suspend("a")
    game.doubt(game.intended("b"))
    game.suspend("b")
    assert game.status == "running"
    game.sleep("c", 60)
    game.pause()
    assert game.status == "paused"
    game.resume()
    assert game.status == "requires_attention"
    game.decide(
        "answer", next(id_ for id_, gate in game.state.gates.items() if gate.opened.reason == "effect_unknown"), data={}
    )
    game.tick()
    game.complete("b")
    assert game.status == "budget_blocked"
    game.raise_limit("cost", 200)
    game.settle(game.held("a", 150))
    game.complete("a")
    assert game.status == "waiting"
    game.cancel()
    assert game.status == "cancelled"


def test_a_step_that_may_start_makes_a_run_running_even_where_money_has_run_out() -> None:
    game = Game(graph("a > end", "b > c > end"), limit=100)
    game.hold("a", 150)
    game.suspend("a")
    game.complete("b", session=None)
    assert game.step("c").status == "ready"
    assert game.status == "running"


def test_a_step_that_a_limit_holds_back_does_not() -> None:
    game = Game(graph("a > b", limits={"max_steps": 1}))
    game.complete("a", session=None)
    assert game.step("b").status == "ready"
    assert game.status == "requires_attention"


def test_waiting_for_lists_everything_whatever_the_status_says() -> None:
    game = Game(graph("a > end", "b > end", "c > end", "d > end", "e > end", "f > end", node("f", "human_gate")), limit=100)
    game.sleep("a", 60)
    game.await_signal("b", "go", timeout_s=30)
    game.suspend("b")
    game.fail("c", TRANSIENT)
    game.hold("d", 150)
    game.suspend("d")
    game.doubt(game.intended("e"))
    game.suspend("e")
    game.human_gate("f", timeout_ms=10_000)
    expected = {
        ("gate", "approval", "f#1"),
        ("gate", "budget", None),
        ("gate", "effect_unknown", None),
        ("timer", "sleep", "a#1"),
        ("signal", "go", "b#1"),
        ("retry", "timeout", "c#1"),
        ("money", "over_limit", "d#1"),
    }
    assert {(wait.kind, wait.reason, wait.step) for wait in game.waits} == expected
    game.pause()
    assert {(wait.kind, wait.reason, wait.step) for wait in game.waits} == expected
    assert game.status == "paused"


def test_a_step_that_only_has_to_be_started_waits_for_a_slot() -> None:
    game = Game(graph("a > b > end", "a > c > end"))
    assert game.waits == []
    game.complete("a", slots=1)
    assert [(wait.kind, wait.reason, wait.step) for wait in game.waits] == [("slot", "start", "c#1")]
    assert game.status == "running"
    game.pause()
    assert game.waits == [], "it waits for the person who paused it"
    game.resume()
    game.tick(slots=1)
    assert game.waits == []


def test_a_step_that_a_limit_holds_back_waits_for_no_slot() -> None:
    game = Game(graph("a > b", limits={"max_steps": 1}))
    game.complete("a", session=None)
    assert [wait.kind for wait in game.waits] == ["gate"]


def test_of_many_steps_that_wait_for_a_slot_only_the_first_are_listed() -> None:
    game = Game(graph(*(f"a > b{number} > end" for number in range(MAX_SLOTS_TOLD + 5))))
    game.complete("a", slots=0)
    assert [wait.step for wait in game.waits] == [f"b{number}#1" for number in range(MAX_SLOTS_TOLD)]


def test_a_wait_is_plain_data() -> None:
    game = Game(graph("a > b"))
    game.sleep("a", 60)
    assert describe(game.waits[0]) == {
        "kind": "timer",
        "reason": "sleep",
        "id": "a#1:0",
        "since_ms": START_MS,
        "step": "a#1",
        "due_at_ms": START_MS + 60_000,
    }


def test_the_earliest_of_all_that_falls_due_is_when_a_process_must_look() -> None:
    game = Game(graph("a > end", "b > end", "c > end", node("c", "human_gate"), limits={"max_lifespan_s": 500}))
    assert game.due_ms == 500_000
    game.human_gate("c", timeout_ms=400_000)
    assert game.due_ms == 400_000
    game.sleep("a", 300)
    assert game.due_ms == 300_000
    game.await_signal("b", "go", timeout_s=200)
    assert game.due_ms == 200_000


def test_an_attempt_that_runs_is_watched_by_its_own_process() -> None:
    game = Game(graph("a > b"))
    assert game.due_ms is None


def test_a_process_that_executes_has_a_second_to_take_its_own_ready_steps() -> None:
    game = Game(graph("a > b"))
    game.complete("a", slots=0)
    assert due_at_ms(game.state, executing=True) == START_MS + 1000
    assert due_at_ms(game.state, executing=False) == START_MS


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
def test_an_ended_run_waits_for_nothing_and_is_never_due(how: str) -> None:
    game = Game(graph(node("a", timeout_s=5), limits={"max_lifespan_s": 60, "max_active_s": 60}))
    {"completed": game.complete, "failed": game.fail, "cancelled": lambda _: game.cancel()}[how]("a")
    assert game.status == how
    assert game.waits == []
    assert game.due_ms is None


def test_a_run_that_only_an_outcome_can_end_is_running() -> None:
    game = Game(graph(edge("a", "b", optional=True)))
    game.intended("a")
    game.cancel()
    assert game.status == "running"
    assert game.due_ms is None
