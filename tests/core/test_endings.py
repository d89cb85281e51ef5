"""Pausing, cancelling, failing and completing: nothing new begins, nothing is forgotten, and everything ends once."""

from __future__ import annotations

import pytest

from holdfast.core.values import policies
from holdfast.errors import Conflict, Suspended
from tests.core.game import ANN, OTHER, TRANSIENT, Game, cmd, edge, error, graph, kinds, loop, node

# --- Outputs ----------------------------------------------------------------------------------------------------------


def test_the_output_of_the_only_end_node_is_the_runs() -> None:
    game = Game(graph("a > b"))
    game.complete("a", "A")
    assert kinds(game.complete("b", {"x": 1})) == ["StepCompleted", "RunCompleted"]
    assert game.output == {"x": 1}
    assert game.state.parts == {}


def test_several_end_nodes_are_a_map_by_node() -> None:
    game = Game(graph("root > a", "root > b"))
    game.complete("root")
    game.complete("b", 2)
    game.complete("a", 1)
    assert game.output == {"a": 1, "b": 2}


def test_only_the_end_nodes_that_were_reached_count() -> None:
    game = Game(graph(node("which", "branch"), "which > a", "which > b"))
    game.complete("which", None, "a")
    game.complete("a", 1)
    assert game.output == 1


def test_a_run_that_skipped_everything_completes_with_nothing() -> None:
    game = Game(graph(node("a", guard="g")))
    game.judge(allow=False)
    assert (game.output, game.state.parts) == (None, {})


def test_a_node_that_failed_and_was_let_continue_has_no_output() -> None:
    game = Game(graph("a", "b", node("a", continue_on_error=True)))
    game.fail("a")
    game.complete("b", 2)
    assert game.output == {"a": None, "b": 2}


# --- Pausing ----------------------------------------------------------------------------------------------------------


def test_what_is_in_flight_when_a_run_is_paused_is_recorded() -> None:
    game = Game(graph("a > b"), limit=100)
    money, effect = game.held("a", 10, path="0"), game.intended("a", path="1")
    game.pause()
    game.settle(money, 5)
    game.did(effect)
    game.complete("a")
    assert game.state.budget.settled_nanousd == 5


def test_a_pause_that_ends_while_the_refused_attempt_is_leaving_is_not_missed() -> None:
    game = Game(graph("a > b"))
    game.pause()
    with pytest.raises(Suspended):
        game.intend("a")
    game.resume()
    assert kinds(game.suspend("a")) == ["StepSuspended", "StepStarted"]


def test_what_waits_in_one_place_and_was_refused_in_another_goes_on_after_the_pause() -> None:
    game = Game(graph("a > b"))
    game.await_signal("a", "go", path="0.0.0")
    game.pause()
    with pytest.raises(Suspended):
        game.intend("a", path="0.1.0")
    game.suspend("a")
    assert kinds(game.resume()) == ["RunResumed", "StepStarted"]


def test_a_retry_that_falls_due_in_a_paused_run_waits_for_its_end() -> None:
    game = Game(graph("a > b"))
    game.fail("a", TRANSIENT)
    game.pause()
    assert kinds(game.tick(60)) == ["StepReady"]
    assert game.tick(60) == []
    assert kinds(game.resume()) == ["RunResumed", "StepStarted"]


def test_pausing_and_resuming_twice_is_once() -> None:
    game = Game(graph("a"))
    assert game.resume() == []
    game.pause()
    assert game.pause() == []
    game.resume()
    assert game.resume() == []


def test_a_process_that_executes_nothing_can_resume_a_run() -> None:
    game = Game(graph("a > b"))
    game.pause()
    game.complete("a")
    game.resume(session=None)
    assert game.due_ms == 0
    assert kinds(game.tick()) == ["StepStarted"]


# --- Cancelling -------------------------------------------------------------------------------------------------------


def test_a_cancelled_run_calls_everything_off() -> None:
    game = Game(graph("root > a > end", "root > b > end"))
    game.complete("root")
    game.sleep("b", 60)
    game.open_gate("a")
    assert kinds(game.cancel("changed my mind")) == [
        "RunCancelling",
        "StepCancelled",
        "GateWithdrawn",
        "StepCancelled",
        "RunCancelled",
    ]
    assert game.status == "cancelled"
    assert game.state.reason == "changed my mind"
    assert game.due_ms is None


def test_cancelling_waits_for_the_outcome_of_every_effect() -> None:
    game = Game(graph("a > b"))
    call = game.intended("a")
    game.cancel()
    assert game.status == "running"
    assert not game.state.ended
    with pytest.raises(Conflict):
        game.complete("a")
    assert kinds(game.did(call)) == ["EffectCompleted", "RunCancelled"]


def test_cancelling_with_an_effect_in_doubt_waits_for_the_answer() -> None:
    game = Game(graph("a > b"))
    game.doubt(game.intended("a"))
    game.cancel()
    assert game.status == "requires_attention"
    game.decide("reject")
    assert game.status == "cancelled"


def test_cancelling_twice_is_once() -> None:
    game = Game(graph("a > b"))
    game.intended("a")
    game.cancel()
    assert game.cancel() == []


def test_cancelling_ends_a_pause() -> None:
    """What has to be undone could not begin in it, and whoever cancels wants an end."""
    game = Game(graph("a > b"))
    game.effect("a", compensation="undo")
    game.pause()
    assert kinds(game.cancel())[:2] == ["RunResumed", "RunCancelling"]
    assert game.active == ["!compensate"]


def test_a_guard_that_was_asked_before_holds_nothing_up() -> None:
    game = Game(graph(edge("a", "b", guard="g"), "c > d"))
    game.complete("a")
    game.cancel()
    assert game.status == "cancelled"


# --- Failing ----------------------------------------------------------------------------------------------------------


def test_a_failing_run_ends_with_the_error_that_made_it_fail() -> None:
    game = Game(graph("a > end", "b > end"))
    game.intended("b")
    game.fail("a", error(policies.TOOL))
    assert (game.state.phase, game.status) == ("failing", "running")
    game.did_not(next(iter(game.state.calls)))
    assert game.status == "failed"
    assert game.state.error is not None
    assert game.state.error.error_class == policies.TOOL


def test_a_failing_run_can_be_cancelled() -> None:
    game = Game(graph("a > end", "b > end"))
    call = game.intended("b")
    game.fail("a")
    game.cancel()
    game.did(call)
    assert game.status == "cancelled"


def test_a_run_completes_only_when_every_effect_has_its_outcome() -> None:
    game = Game(graph("a > j", "b > j", node("j", join="any")))
    call = game.intended("b")
    game.complete("a")
    game.complete("j", "J")
    assert game.status == "running"
    assert [wait.reason for wait in game.waits] == ["outcome_outstanding"]
    game.did(call)
    assert game.output == "J"


def test_a_run_completes_while_money_is_in_doubt_or_in_flight() -> None:
    game = Game(graph("a"), limit=100)
    game.doubt_money(game.held("a", 10, path="0"))
    late = game.held("a", 10, path="1")
    game.complete("a", "A")
    assert game.output == "A"
    assert game.state.budget.committed_nanousd == 20
    game.settle(late, 1)
    assert game.state.budget.committed_nanousd == 11


# --- Compensating -----------------------------------------------------------------------------------------------------


def undone(game: Game, path: str, done: str) -> None:
    game.did(game.intended("!compensate", "idempotent", path=path, tool="undo", compensates=done))


def failing() -> tuple[Game, list[str]]:
    game = Game(graph("a > b > c"))
    calls = [game.effect("a", path=str(n), compensation="undo", args=str(n)) for n in range(2)]
    game.effect("a", path="2")
    game.complete("a")
    calls.append(game.effect("b", compensation="undo"))
    game.fail("b", error(policies.TOOL))
    return game, calls


def test_a_failing_run_undoes_what_it_did_and_then_ends() -> None:
    game, calls = failing()
    assert game.active == ["!compensate"]
    assert game.status == "running"
    assert [done.call for done in game.state.compensable] == calls, "in the order they were done; undone in reverse"
    for number, call in enumerate(reversed(calls)):
        undone(game, str(number), call)
    assert kinds(game.complete("!compensate")) == ["StepCompleted", "RunFailed"]


def test_a_cancelled_run_undoes_too_and_a_completed_one_does_not() -> None:
    game = Game(graph("a > b"))
    call = game.effect("a", compensation="undo")
    game.cancel()
    undone(game, "0", call)
    game.complete("!compensate")
    assert game.status == "cancelled"
    game = Game(graph("a"))
    game.effect("a", compensation="undo")
    game.complete("a", "A")
    assert game.output == "A"


def test_a_run_without_anything_to_undo_ends_at_once() -> None:
    game = Game(graph("a > b"))
    game.did_not(game.intended("a", path="0", compensation="undo"))
    game.effect("a", path="1")
    game.cancel()
    assert game.status == "cancelled"


def test_undoing_begins_only_when_it_is_known_what_happened() -> None:
    game = Game(graph("a > b"))
    game.effect("a", path="0", compensation="undo")
    call = game.intended("a", path="1", compensation="undo")
    game.cancel()
    assert game.active == []
    game.did(call)
    assert game.active == ["!compensate"]
    assert len(game.state.compensable) == 2


def test_undoing_survives_its_process_and_keeps_its_list() -> None:
    game, calls = failing()
    undone(game, "0", calls[2])
    before = list(game.state.compensable)
    game.intended("!compensate", "idempotent", path="1", tool="undo", compensates=calls[1])
    game.lose()
    assert (game.step("!compensate").attempt, game.step("!compensate").session) == (2, OTHER)
    assert game.state.compensable == before, "places in the journal are places in this list"
    assert game.op("!compensate", "0").status == "done"
    assert game.op("!compensate", "1").status == "reopened"


def test_undoing_that_fails_is_tried_again_by_itself_and_then_put_to_a_person() -> None:
    game, calls = failing()
    game.did_not(game.intended("!compensate", "idempotent", tool="undo", compensates=calls[2]), TRANSIENT)
    game.fail("!compensate", TRANSIENT, path="0")
    game.tick(60)
    assert game.active == ["!compensate"]
    game.did_not(game.intended("!compensate", "idempotent", tool="undo", compensates=calls[2]))
    game.fail("!compensate", error(policies.TOOL), path="0")
    assert (game.gate.reason, game.gate.allowed) == ("compensation_failed", ("retry", "answer"))
    assert game.status == "requires_attention"
    game.decide("retry")
    game.tick()
    assert game.op("!compensate").status == "reopened"
    game.complete("!compensate")
    assert game.status == "failed"


def test_what_was_undone_by_hand_ends_the_run() -> None:
    game, _ = failing()
    game.fail("!compensate")
    game.decide("answer", data=None)
    assert game.status == "failed"


def test_an_undoing_of_unknown_outcome_is_asked_about() -> None:
    game, calls = failing()
    call = game.intended("!compensate", "once", tool="undo", compensates=calls[2])
    game.lose()
    assert game.gate.subject == call
    game.decide("answer", data="undone")
    assert game.op("!compensate").status == "done"


def test_a_compensation_that_failed_in_a_cancelled_failing_run_keeps_its_question() -> None:
    game, _ = failing()
    game.fail("!compensate")
    game.cancel()
    assert game.gate.reason == "compensation_failed"
    game.decide("answer", data=None)
    assert game.status == "cancelled"


def test_no_process_with_slots_undoes_it_as_soon_as_one_looks() -> None:
    game = Game(graph("a > b"))
    game.effect("a", compensation="undo")
    game.do(cmd.CancelRun(), session=None)
    assert game.step("!compensate").status == "ready"
    assert game.due_ms == 0
    assert kinds(game.tick()) == ["StepStarted"]


def test_an_effect_of_a_superseded_visit_is_undone_too() -> None:
    game = Game(graph("a > b", loop("b", "a", 2)))
    first = game.effect("a", compensation="undo")
    game.complete("a")
    game.complete("b")
    second = game.effect("a", compensation="undo")
    game.cancel()
    assert [done.call for done in game.state.compensable] == [first, second]


# --- Migrating --------------------------------------------------------------------------------------------------------


def test_a_run_moves_to_another_version_and_goes_on_by_it() -> None:
    game = Game(graph("a > b"))
    newer = graph("a > b > c")
    assert kinds(game.do(cmd.MigrateRun(ANN), graph=newer)) == ["RunMigrated"]
    game.graph = newer
    game.complete("a")
    game.complete("b")
    assert game.active == ["c"]


def test_a_migration_is_followed_at_once() -> None:
    game = Game(graph("a > b", "side > end"))
    game.complete("a")
    newer = graph("a > b", "a > also", "side > end")
    game.do(cmd.MigrateRun(ANN), graph=newer)
    assert set(game.active) == {"b", "side", "also"}


def test_a_run_cannot_move_away_from_under_its_own_feet() -> None:
    game = Game(graph("a > b"))
    with pytest.raises(Conflict, match="is in 'a', which 'flow' version 1 does not have"):
        game.do(cmd.MigrateRun(), graph=graph("b"))


def test_a_dead_letter_holds_a_migration_up_too() -> None:
    game = Game(graph("a > b", on_exhausted="dead_letter"))
    game.fail("a")
    with pytest.raises(Conflict, match="is in 'a'"):
        game.do(cmd.MigrateRun(), graph=graph("b"))


def test_moving_to_the_same_version_is_no_move() -> None:
    game = Game(graph("a > b"))
    assert game.do(cmd.MigrateRun(), graph=graph("a > b")) == []


def test_a_guard_that_the_new_version_does_not_have_holds_nothing_up() -> None:
    game = Game(graph(edge("a", "b", guard="old")))
    game.complete("a")
    newer = graph(edge("a", "b", guard="new"))
    game.do(cmd.MigrateRun(), graph=newer)
    game.graph = newer
    assert [asked.guard for asked in game.state.asked.values()] == ["new"]
    game.judge()
    assert game.active == ["b"]
