"""Taking up a run that has failed: what failed is tried again, what was done stays done, and the rest is as final as ever."""

from __future__ import annotations

import pytest

from holdfast.core.facts.graph import Join
from holdfast.core.values import policies
from holdfast.core.values.policies import ErrorRecord
from holdfast.core.values.scopes import FLEET_RUNS
from holdfast.errors import Conflict, RunEnded
from tests.core.game import START_MS, Game, cmd, edge, error, graph, kinds, node

FULL = {FLEET_RUNS: cmd.Shortage(1, 0, 0)}


def failed(*parts: object, **more: object) -> Game:
    """A run of `a > b` that has completed `a` and failed in `b`, unless told otherwise."""
    game = Game(graph(*(parts or ("a > b",)), **more))  # type: ignore[arg-type]
    game.complete("a", "A")
    game.fail("b")
    assert game.status == "failed"
    return game


def test_a_failed_run_goes_on_where_it_failed_and_ends_like_any_other() -> None:
    game = failed("a > b", "b > c")
    assert kinds(game.retry()) == ["RunReopened", "StepReplayed", "StepStarted"]
    assert (game.status, game.active, game.step("b").attempt) == ("running", ["b"], 2)
    assert (game.state.error, game.state.ended_at_ms, game.state.reopened) == (None, 0, 1)
    game.complete("b")
    game.complete("c", "C")
    assert game.output == "C"
    with pytest.raises(RunEnded, match="completed"):
        game.retry()


def test_one_that_was_paused_before_it_failed_goes_on_too() -> None:
    """While it had ended nobody could let it go on, so whoever takes it up does."""
    game = Game(graph("a"))
    game.pause()
    game.fail("a")
    assert game.status == "failed"
    assert kinds(game.retry()) == ["RunReopened", "RunResumed", "StepReplayed", "StepStarted"]
    assert game.status == "running"


def test_a_reopened_step_keeps_its_effects_and_reopens_the_failed_operation() -> None:
    game = Game(graph("a"))
    game.effect("a", "0")
    game.did_not(game.intended("a", path="1"))
    game.fail("a", error(policies.TOOL), "1")
    game.retry()
    assert [game.op("a", path).status for path in ("0", "1")] == ["done", "reopened"]
    assert kinds(game.intend("a", path="1")) == ["EffectIntended"]


def test_what_was_called_off_comes_back_and_nothing_else_does() -> None:
    game = Game(
        graph("race > quick", "race > slow", "quick > join", "slow > join", node("join", join=Join("any")), "b > e", "c > d")
    )
    game.complete("race")
    game.sleep("c", 60)
    game.complete("quick")
    assert game.statuses()["slow"] == "cancelled"
    game.fail("b")
    assert game.statuses() | {"c": "cancelled", "join": "cancelled"} == game.statuses()
    game.retry()
    assert game.statuses() == {
        "race": "completed",
        "quick": "completed",
        "slow": "cancelled",
        "join": "active",
        "b": "active",
        "c": "active",
    }
    game.suspend("c")
    assert game.due_ms == 60_000
    game.tick(60)
    for name in ("b", "c", "join", "d", "e"):
        game.complete(name)
    assert game.status == "completed"


def test_a_person_asked_by_a_step_that_was_called_off_is_asked_again() -> None:
    game = Game(graph(node("sign", "human_gate"), "work > sign", "b > c"))
    game.complete("work")
    first = game.human_gate("sign")
    game.fail("b")
    game.retry()
    second = game.human_gate("sign")
    assert first != second
    game.complete("b")
    game.complete("c")
    game.decide("approve", gate=second)
    assert game.status == "completed"


def test_failed_branches_are_tried_again_unless_their_join_has_begun_without_them() -> None:
    game = Game(graph("a > a2", "a2 > j", "b > j", "c > j", node("j", join=Join("quorum", 2)), "j > end"))
    game.complete("c")
    game.fail("a")
    assert game.statuses()["a2"] == "skipped"
    game.fail("b")
    assert game.status == "failed"
    game.retry()
    assert game.statuses() == {"c": "completed", "a": "active", "b": "active"}
    game.fail("a")
    game.complete("b")
    game.fail("j")
    game.retry()
    assert (game.active, game.statuses()["a"]) == (["j"], "failed")


def test_a_failure_that_something_took_up_is_left_as_it_is() -> None:
    game = Game(graph(edge("a", "mend", on="error"), node("side", continue_on_error=True), "side > more", "b > c"))
    game.fail("a")
    game.fail("side")
    game.fail("b")
    game.retry()
    assert game.statuses() == {"a": "failed", "side": "failed", "mend": "active", "more": "active", "b": "active"}


def test_a_join_whose_time_was_up_waits_again() -> None:
    game = Game(graph("a > j", "b > j", node("j", join=Join("all", timeout_s=10))))
    game.complete("a")
    game.tick(10)
    assert game.status == "failed"
    game.tick(3600)
    game.retry()
    assert game.statuses() == {"a": "completed", "b": "active"}
    assert game.due_ms == 3_620_000
    game.complete("b")
    assert (game.active, game.step("j").id) == (["j"], "j#1")


def test_a_guard_that_broke_is_asked_again() -> None:
    game = Game(graph(edge("a", "b", guard="g"), "a > c"))
    game.complete("a")
    game.judge(allow=False, broken=ErrorRecord("b", policies.GUARD, "broke", False, START_MS))
    assert game.status == "failed"
    game.retry()
    game.judge()
    assert game.statuses()["b"] == "active"


def test_denied_error_edges_leave_the_failure_to_be_tried_again() -> None:
    game = Game(graph(edge("a", "mend", on="error", guard="g")))
    game.fail("a")
    game.judge(allow=False)
    assert game.status == "failed"
    game.retry()
    assert game.active == ["a"]
    game.fail("a")
    game.judge()
    assert game.statuses()["mend"] == "active"


def test_a_limit_that_made_it_fail_asks_from_then_on() -> None:
    game = Game(graph("a > b", on_limit="fail", limits={"max_steps": 1}))
    game.complete("a")
    assert game.status == "failed"
    game.retry()
    assert (game.status, game.gate.reason) == ("requires_attention", "max_steps")
    game.raise_limit("steps", 2)
    assert game.active == ["b"]


def test_money_that_was_spent_stays_spent() -> None:
    game = Game(graph("a", limits={"cost_nanousd": 100}))
    game.settle(game.held("a", 60), 60)
    game.fail("a")
    game.retry()
    assert (game.state.budget.settled_nanousd, game.state.budget.limit_nanousd) == (60, 100)
    assert kinds(game.hold("a", 60, path="1")) == ["HoldDeferred", "LimitNeared", "GateOpened"]


def test_it_waits_for_its_place_where_too_many_are_active_and_begins_nothing_before() -> None:
    game = failed("a > b", node("j", join=Join("all", timeout_s=10)), "a > j", "b > j")
    events = game.retry(shortages=FULL)
    assert kinds(events) == ["RunReopened", "StepReplayed"]
    assert [(wait.kind, wait.about) for wait in game.waits] == [("place", FLEET_RUNS)]
    assert (game.status, game.due_ms, game.state.counted) == ("waiting", None, False)
    assert game.tick(3600) == []
    game.do(cmd.Tick(headroom=frozenset({FLEET_RUNS})))
    assert (game.active, list(game.state.joins)) == (["b"], ["j"])


def test_a_retried_run_waits_for_room_only_after_it_asks_for_it_again() -> None:
    """Else the end of the day for which there was none would be due for as long as the run waits for its place."""
    game = Game(graph("a", on_limit="fail"))
    game.hold("a", 60, shortages=game.shortages())
    assert game.status == "failed"
    game.retry(shortages=FULL)
    assert ([wait.kind for wait in game.waits], game.due_ms) == (["place"], None)
    assert game.tick(86_400) == []
    game.do(cmd.Tick(headroom=frozenset({FLEET_RUNS})))
    assert kinds(game.hold("a", 60)) == ["ModelCallHeld"]


def test_its_place_is_taken_again_and_given_back_again() -> None:
    game = failed()
    taken = game.rows(game.retry()).postings
    assert {(each.scope, each.held, each.bounded) for each in taken} == {("tenant/acme/runs", 1, True), (FLEET_RUNS, 1, True)}
    given = game.rows(game.fail("b")).postings
    assert {(each.scope, each.held) for each in given} == {("tenant/acme/runs", -1), (FLEET_RUNS, -1)}
    assert game.status == "failed"


def test_one_that_completed_was_cancelled_or_has_not_ended_is_refused() -> None:
    game = Game(graph("a"))
    with pytest.raises(Conflict, match="has not ended"):
        game.retry()
    game.cancel()
    with pytest.raises(RunEnded, match="has ended \\(cancelled\\)"):
        game.retry()
    game = Game(graph("root > a", "root > b"))
    game.complete("root")
    game.doubt(game.intended("a"))
    game.fail("b")
    with pytest.raises(Conflict, match="Resolve the call"):
        game.retry()


def test_what_has_been_undone_is_not_taken_up() -> None:
    game = Game(graph("a > b"))
    game.effect("a", compensation="undo")
    game.complete("a")
    game.fail("b")
    call = game.intended("!compensate", compensates=game.state.compensable[0].call)
    with pytest.raises(RunEnded, match="or tried to"):
        game.retry()
    game.did(call)
    game.complete("!compensate")
    assert game.status == "failed"
    with pytest.raises(RunEnded, match="has undone what it did"):
        game.retry()


def test_what_a_person_rejected_is_not_asked_again() -> None:
    game = Game(graph(node("sign", "human_gate")))
    game.human_gate("sign")
    game.decide("reject")
    with pytest.raises(RunEnded, match="a person rejected it"):
        game.retry()


def test_a_step_that_completed_with_a_failure_reopens_and_its_followers_restart() -> None:
    """A job of a workflow file: its node has an output that tells of its failure, and the last node fails the run."""
    game = Game(graph("build > test", "build > tidy", "tidy > end", "test > end", "docs > end"))
    game.complete("docs")
    game.effect("build")
    game.complete("build", "no", provisional=True)
    game.complete("test", "skipped")
    game.complete("tidy")
    game.fail("end")
    game.retry()
    assert game.statuses() == {"docs": "completed", "build": "active"}
    assert (game.step("build").attempt, game.op("build").status) == (2, "done")
    game.complete("build", "yes")
    assert {(game.step(name).id, game.step(name).attempt) for name in ("test", "tidy")} == {("test#2", 1), ("tidy#2", 1)}
    for name in ("test", "tidy", "end"):
        game.complete(name, name)
    assert game.output == "end"
