"""A tool with a declared price goes under the same limits as a model: held with its intent, settled by its outcome, in doubt when
that is lost."""

from __future__ import annotations

import pytest

from holdfast.core.facts import commands as cmd
from holdfast.errors import Conflict
from tests.core.game import OTHER, Game, ev, graph, kinds


def one(limit: int | None = 100, **more: object) -> Game:
    return Game(graph("a > end", "b > end", **more), limit=limit)


def books(game: Game) -> tuple[int, int, int]:
    budget = game.state.budget
    return budget.settled_nanousd, budget.held_nanousd, budget.in_doubt_nanousd


def test_a_price_is_held_with_the_intent_and_settled_by_the_answer() -> None:
    game = one()
    call = game.intended("a", nanousd=60)
    assert books(game) == (0, 60, 0)
    game.did(call)
    assert books(game) == (60, 0, 0)
    assert game.state.cost_nanousd_by_node == {"a": 60}


def test_a_tool_and_a_model_cannot_pass_a_limit_together() -> None:
    game = one()
    call = game.intended("a", nanousd=60)
    assert kinds(game.hold("b", 60)) == ["HoldDeferred"]
    game.suspend("b")
    game.did_not(call)
    assert books(game) == (0, 0, 0), "it says that it did nothing"
    assert game.active == ["a", "b"], "what waits for the hold goes on"
    game.held("b", 60)
    assert kinds(game.intend("a", nanousd=60, path="1")) == ["HoldDeferred"]
    assert [(wait.kind, wait.reason) for wait in game.waits] == [("money", "holds_in_flight")]


def test_a_tool_that_never_fits_asks_and_goes_on_when_the_limit_is_raised() -> None:
    game = one()
    assert kinds(game.intend("a", nanousd=150)) == ["HoldDeferred", "LimitNeared", "GateOpened"]
    assert game.gate.reason == "budget"
    assert game.gate.shown.value()["needed_limit_usd"] == "0.00000015"
    game.complete("b")
    game.suspend("a")
    assert game.status == "budget_blocked"
    game.raise_limit("cost", 200)
    game.intended("a", nanousd=150)


def test_a_call_that_never_left_costs_nothing() -> None:
    game = one()
    game.do(cmd.ReleaseEffect(game.intended("a", nanousd=60)))
    assert books(game) == (0, 0, 0)


@pytest.mark.parametrize(
    ("policy", "answer", "spent"), [("once", "answer", 60), ("once", "reject", 0), ("verify", "answer", 60)]
)
def test_a_lost_outcome_is_in_doubt_until_it_is_known(policy: str, answer: str, spent: int) -> None:
    game = one()
    call = game.intended("a", policy, nanousd=60, settles_within_s=0)
    game.doubt(call)
    assert books(game) == (0, 0, 60)
    if policy == "verify":
        game.suspend("a")
        game.tick()
        game.did(call)
    else:
        game.decide(answer, data={"said": True})
    assert books(game) == (spent, 0, 0)


def test_what_a_lost_call_of_a_tool_cost_follows_from_what_became_of_it() -> None:
    game = one()
    call = game.intended("a", nanousd=60)
    game.doubt(call)
    with pytest.raises(Conflict, match="effects resolve"):
        game.reconcile(call, 10)


def test_each_sending_of_a_repeat_counts() -> None:
    """Nobody knows whether the first was billed, so it is taken for spent once there is nobody left who would say."""
    game = one(limit=200)
    game.intended("a", "idempotent", nanousd=60)
    game.lose()
    game.session = OTHER
    assert books(game) == (0, 0, 60)
    again = game.intended("a", "idempotent", nanousd=60)
    assert books(game) == (60, 60, 0)
    game.did(again)
    assert books(game) == (120, 0, 0)


def test_a_read_without_a_known_end_may_have_been_billed() -> None:
    game = one()
    game.doubt(game.intended("a", "read", nanousd=60))
    assert books(game) == (60, 0, 0)


def test_a_scope_above_the_run_holds_a_price_too() -> None:
    game = one(limit=None)
    short = game.shortages(left=50, held=20)
    (event,) = game.intend("a", nanousd=60, shortages=short)
    assert isinstance(event, ev.ScopeExceeded)
    assert (event.kind, event.model, event.needed_nanousd, event.blocked) == ("tool", "send", 60, False)
    game.complete("b")
    game.suspend("a")
    assert [(wait.kind, wait.reason) for wait in game.waits] == [("money", "tenant_holds_in_flight")]
    game.do(cmd.Tick(headroom=frozenset(short)))
    game.intended("a", nanousd=60)


def test_undoing_is_never_held_back() -> None:
    game = Game(graph("a > b"), limit=100)
    done = game.intended("a", compensation="unsend", nanousd=100)
    game.did(done)
    game.complete("a")
    game.cancel()
    game.intended("!compensate", compensates=done)
    assert books(game) == (100, 0, 0)
