"""Looking finds what is due, lost or startable, once; a second look finds nothing."""

from __future__ import annotations

import pytest

from holdfast.core.facts.graph import Join
from holdfast.core.values import policies
from tests.core.game import OTHER, TRANSIENT, WORKER, Game, edge, error, ev, graph, kinds, node


def test_two_ticks_at_once_find_everything_once() -> None:
    game = Game(graph("a > end", "b > end", "c > end"))
    game.sleep("a", 5)
    game.fail("b", TRANSIENT)
    game.now_ms += 60_000
    found = game.lose()
    assert set(kinds(found)) == {"AttemptLost", "TimerFired", "StepStarted"}
    assert game.lose() == []


def test_a_look_that_finds_nothing_changes_nothing() -> None:
    game = Game(graph("a > b"))
    assert game.tick(10**6) == []
    assert game.tick(dead=[OTHER]) == []


def test_a_step_that_was_ready_when_its_process_died_is_found() -> None:
    game = Game(graph("a > b"))
    game.complete("a", session=None)
    assert game.due_ms == 0
    assert kinds(game.tick(session=OTHER)) == ["StepStarted"]


def test_a_look_by_who_executes_nothing_still_finds_what_is_lost() -> None:
    game = Game(graph("a > b"))
    assert kinds(game.lose(by=None)) == ["AttemptLost"]
    assert game.due_ms == 0
    assert kinds(game.tick(session=OTHER)) == ["StepStarted"]


def test_the_last_lost_attempt_fails_its_run_and_settles_its_calls_in_one_commit() -> None:
    game = Game(graph("a > b"), limit=100)
    for _ in range(policies.MAX_LOST_ATTEMPTS - 1):
        game.lose(game.step("a").session, by=WORKER)
    game.held("a", 10, path="0.0.0")
    call = game.intended("a", path="0.1.0")
    game.lose()
    assert game.state.phase == "failing"
    assert game.state.budget.in_doubt_nanousd == 10
    assert game.gate.subject == call


# --- Joins that do not wait for ever ----------------------------------------------------------------------------------


def slow(join: Join, *more: object) -> Game:
    game = Game(graph("a > join > after", "b > join", node("join", join=join), *more))
    game.complete("a", "A")
    return game


@pytest.mark.parametrize("mode", ["all", "all_required", "quorum"])
def test_a_join_that_waits_too_long_fails(mode: str) -> None:
    game = slow(Join(mode, 2 if mode == "quorum" else 0, timeout_s=60))
    assert game.due_ms == 60_000
    assert game.tick(59.999) == []
    assert "JoinTimedOut" in kinds(game.tick(0.001))
    assert game.status == "failed"
    assert game.state.error is not None
    assert game.state.error.error_class == policies.JOIN
    assert game.state.error.message == "The branches before 'join' did not arrive in 60.0 s."


def test_a_best_effort_join_starts_with_what_it_has_and_calls_the_rest_off() -> None:
    game = slow(Join("best_effort", timeout_s=60))
    game.tick(60)
    assert game.active == ["join"]
    assert game.statuses()["b"] == "cancelled"


def test_a_join_waits_from_its_first_branch_on() -> None:
    game = Game(graph("a > join", "b > join", node("join", join=Join("all", timeout_s=60))))
    assert game.due_ms is None
    game.now_ms += 1_000_000
    game.complete("a")
    assert game.due_ms == 1_060_000


def test_a_join_that_was_met_in_time_does_not_time_out() -> None:
    game = slow(Join("all", timeout_s=60))
    game.complete("b")
    assert game.tick(60) == []
    assert game.active == ["join"]


def test_a_join_that_timed_out_is_taken_up_by_its_error_edge() -> None:
    game = slow(Join("all", timeout_s=60), edge("join", "late", on="error"))
    game.tick(60)
    assert set(game.active) == {"b", "late"}
    game.complete("b")
    game.complete("late")
    assert game.status == "completed", "the branch that came too late changes nothing"


def test_a_join_that_timed_out_may_be_a_dead_letter() -> None:
    game = Game(graph("a > join", "b > join", node("join", join=Join("all", timeout_s=60)), on_exhausted="dead_letter"))
    game.complete("a")
    game.tick(60)
    assert game.gate.subject == "join#1"
    game.decide("retry")
    game.tick()
    assert set(game.active) == {"b", "join"}


def test_a_join_does_not_time_out_in_an_ending_run() -> None:
    game = Game(graph("a > join", "b > b2 > join", node("join", join=Join("all", timeout_s=60)), on_exhausted="dead_letter"))
    game.complete("a")
    game.intended("b")
    game.cancel()
    assert game.due_ms is None
    assert game.tick(60) == []
    assert not game.events(ev.JoinTimedOut)


def test_several_joins_that_time_out_together_fail_the_run_once() -> None:
    game = Game(
        graph(
            "a > j1",
            "x > j1",
            "a > j2",
            "x > j2",
            node("j1", join=Join("all", timeout_s=60)),
            node("j2", join=Join("all", timeout_s=60)),
        )
    )
    game.complete("a")
    game.tick(60)
    assert game.status == "failed"
    assert len(game.events(ev.JoinTimedOut)) == 1


def test_a_join_that_waits_for_its_guard_is_not_late() -> None:
    """Every branch has arrived; only the guard has not spoken yet."""
    game = Game(graph("a > join", "b > join", node("join", join=Join("all", timeout_s=60), guard="g")))
    game.complete("a")
    game.complete("b")
    assert game.state.asked
    game.tick(60)
    assert game.status == "running"
    game.judge()
    assert game.active == ["join"]


def test_an_error_of_a_lost_join_keeps_its_class() -> None:
    assert error(policies.JOIN).error_class in policies.NEVER_RETRIED
