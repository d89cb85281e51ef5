"""A flow hears that its run is being cancelled, and cleans up; then all is as where nothing cleans up."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.values import policies
from holdfast.core.values.ids import NodeName, Path
from holdfast.core.values.policies import MAX_LOST_ATTEMPTS
from holdfast.errors import Conflict, StaleAttempt, Suspended
from tests.core.game import ANN, COMPENSATE, OTHER, TRANSIENT, Game, cmd, error, ev, graph, kinds, node


def a_flow(cleanup_s: float | None = None, **given: Any) -> Game:
    options = {} if cleanup_s is None else {"cleanup_s": cleanup_s}
    return Game(graph(node("flow", options=options)), naming=2, **given)


def waiting(**given: Any) -> Game:
    """A flow that has done something, and waits."""
    game = a_flow(**given)
    game.effect("flow", path="0", compensation="undo")
    game.await_signal("flow", "go", path="1")
    game.suspend("flow")
    return game


def test_a_cancelled_flow_records_its_cleanup_before_its_effects_are_undone() -> None:
    game = waiting()
    assert kinds(game.cancel()) == ["RunCancelling", "StepCancelling", "StepStarted"]
    step = game.step("flow")
    assert (step.cancelled_at, step.settlements, step.cancelled_ms) == (2, 2, game.now_ms)
    game.do(cmd.CallOffOperations(*game.at("flow"), (Path("1"),)))
    game.effect("flow", path="2")
    assert [game.op("flow", path).settled for path in ("0", "1", "2")] == [1, 3, 4]
    events = game.fail("flow", error(policies.CANCELLED))
    assert kinds(events) == ["StepCancelled", "StepStarted"]
    assert events[0].reason == "the run is being cancelled"  # type: ignore[attr-defined]
    assert game.active == [COMPENSATE]


def test_an_active_flow_comes_back_to_hear_of_it() -> None:
    game = a_flow()
    game.await_signal("flow", "go")
    assert kinds(game.cancel()) == ["RunCancelling", "StepCancelling"]
    assert kinds(game.suspend("flow")) == ["StepSuspended", "StepStarted"]
    assert kinds(game.complete("flow", "what it returned")) == ["StepCancelled", "RunCancelled"]
    assert game.state.output.value() is None


@pytest.mark.parametrize("problem", [error(policies.TIMEOUT, retryable=True), error()])
def test_a_clean_up_that_fails_is_reported_and_not_tried_again(problem: policies.ErrorRecord) -> None:
    game = waiting()
    game.cancel()
    (cancelled, *_) = game.fail("flow", problem, "2")
    assert isinstance(cancelled, ev.StepCancelled)
    assert cancelled.reason == f"the run is being cancelled, and its clean-up failed: {problem.message}"


def test_a_clean_up_may_wait_and_is_cut_short_when_its_time_is_over() -> None:
    game = waiting(cleanup_s=30)
    game.cancel()
    game.sleep("flow", 10, "2")
    assert (game.status, game.due_ms) == ("waiting", 10_000)
    assert kinds(game.tick(10)) == ["TimerFired", "StepStarted"]
    game.open_gate("flow", "3")
    game.suspend("flow")
    assert game.due_ms == 30_000
    events = game.tick(20)
    assert kinds(events)[:3] == ["StepCancelled", "GateWithdrawn", "StepStarted"]
    assert events[0].reason == "the run is being cancelled, and its clean-up took longer than 30 s"  # type: ignore[attr-defined]


def test_an_attempt_whose_time_is_over_changes_nothing() -> None:
    game = a_flow()
    game.cancel()
    at = game.at("flow")
    game.tick(60)
    assert game.status == "cancelled"
    with pytest.raises(Exception, match="ended"):
        game.do(cmd.RecordValues(*at, (cmd.Value(Path("0"), "now", 1),)))


def test_a_process_that_dies_in_a_clean_up_is_followed_by_another_and_only_so_often() -> None:
    game = a_flow()
    game.cancel()
    for number in range(MAX_LOST_ATTEMPTS):
        assert game.active == ["flow"]
        game.session = cmd.SessionId(f"worker {number}")
        game.do(cmd.LoseAttempt(*game.at("flow")))
    assert game.status == "cancelled"


def test_its_question_stands_until_its_code_has_heard_and_a_time_limit_takes_it_back() -> None:
    game = a_flow()
    game.open_gate("flow")
    game.suspend("flow")
    assert "GateWithdrawn" not in kinds(game.cancel())
    assert kinds(game.do(cmd.CallOffOperations(*game.at("flow"), (Path("0"),)))) == ["GateWithdrawn", "OperationCalledOff"]


def test_a_second_time_by_a_person_cuts_it_short_and_a_repeat_by_the_engine_does_not() -> None:
    game = waiting()
    game.cancel()
    assert game.do(cmd.CancelRun("again")) == []
    assert kinds(game.do(cmd.CancelRun("now", ANN, insists=True)))[:1] == ["StepCancelled"]
    assert game.active == [COMPENSATE]


@pytest.mark.parametrize("how", ["naming", "node", "cleanup_s", "nodes"])
def test_what_hears_of_nothing_is_called_off_at_once(how: str) -> None:
    if how == "naming":
        game = Game(graph(node("flow")), naming=1)
    elif how == "node":
        game = Game(graph(node("other")), naming=2)
    elif how == "nodes":
        game = Game(graph(node("flow"), node("other")), naming=2)
    else:
        game = a_flow(cleanup_s=0)
    assert kinds(game.cancel())[:2] == ["RunCancelling", "StepCancelled"]
    assert game.status == "cancelled"


def test_a_flow_that_has_not_begun_or_whose_code_has_changed_is_called_off_at_once() -> None:
    game = a_flow(session=None)
    assert "StepCancelled" in kinds(game.cancel())
    game = waiting()
    game.signal("go")
    game.tick()
    game.stop("flow", "1")
    game.tick(5)
    game.lose(by=None)
    assert game.step("flow").status == "suspended"
    assert "StepCancelled" in kinds(game.cancel())


def test_code_that_does_not_fit_its_journal_cleans_nothing_up() -> None:
    game = waiting()
    game.cancel()
    events = game.stop("flow", "0")
    assert events[0].reason.endswith("and its clean-up does not fit its journal")  # type: ignore[attr-defined]
    assert not game.state.gates


def test_a_failing_run_calls_its_flow_off_at_once() -> None:
    game = waiting()
    game.tick()
    game.signal("go")
    game.tick()
    game.fail("flow")
    assert "StepCancelling" not in kinds(game.events())


def test_nothing_else_begins_while_a_flow_cleans_up() -> None:
    game = a_flow()
    game.do(cmd.MapItems(*game.at("flow"), Path("0"), "check", "list", 3, 1, 3))
    assert game.step("flow/0[0]").status == "active"
    events = game.cancel()
    assert [event.step for event in events if isinstance(event, ev.StepCancelled)] == ["flow/0[0]#1"]
    op = game.op("flow")
    assert (op.status, op.error and op.error.error_class, op.settled) == ("failed", policies.CANCELLED, 2)
    assert game.do(cmd.CallOffOperations(*game.at("flow"), (Path("0"),))) == []
    with pytest.raises(Conflict, match="Clean up call by call"):
        game.do(cmd.MapItems(*game.at("flow"), Path("1"), "check", "list", 3, 1, 3))
    assert game.statuses() == {"flow": "active", "flow/0[0]": "cancelled"}


def test_children_are_cancelled_and_one_that_cleans_up_is_waited_for() -> None:
    game = a_flow()
    before, aside = game.child("flow", "0"), game.child("flow", "1", background=True)
    events = game.cancel()
    assert [event.child for event in events if isinstance(event, ev.ChildAbandoned)] == [before, aside]
    game.do(cmd.CallOffOperations(*game.at("flow"), (Path("0"),)))
    cleaner, other = game.child("flow", "2"), game.child("flow", "3", background=True)
    game.await_signal("flow", "nobody sends it", path="4")
    assert kinds(game.do(cmd.CallOffOperations(*game.at("flow"), (Path("4"),)))) == ["OperationCalledOff"]
    game.suspend("flow")
    game.end_child(before, "cancelled")
    assert not game.state.children[cleaner].abandoned
    game.end_child(cleaner)
    assert game.active == ["flow"]
    assert [event.child for event in game.complete("flow") if isinstance(event, ev.ChildAbandoned)] == [other]
    game.end_child(aside, "cancelled")
    assert kinds(game.end_child(other, "cancelled")) == ["ChildEnded", "RunCancelled"]


def test_what_waits_for_a_child_while_it_cleans_up_hears_that_it_was_cancelled() -> None:
    game = a_flow()
    child = game.child("flow")
    game.suspend("flow")
    game.cancel()
    game.suspend("flow")
    assert kinds(game.end_child(child, "cancelled")) == ["ChildEnded", "StepStarted"]
    assert (game.op("flow").error or error()).error_class == policies.CANCELLED


def test_a_pause_ends_with_it_and_a_later_one_lets_nothing_begin() -> None:
    game = waiting()
    game.pause()
    assert kinds(game.cancel()) == ["RunResumed", "RunCancelling", "StepCancelling", "StepStarted"]
    game.pause()
    with pytest.raises(Suspended, match="paused"):
        game.intend("flow", path="2")
    game.suspend("flow")
    game.tick(60)
    assert game.step("flow").status == "cancelled"


def test_a_flow_that_was_to_be_tried_again_is_not() -> None:
    game = a_flow()
    game.fail("flow", TRANSIENT)
    assert kinds(game.cancel()) == ["RunCancelling", "StepCancelled", "RunCancelled"]


def test_only_its_current_attempt_cleans_up() -> None:
    game = a_flow()
    at = game.at("flow")
    game.await_signal("flow", "go")
    game.suspend("flow")
    game.cancel()
    with pytest.raises(StaleAttempt):
        game.do(cmd.CompleteStep(*at, cmd.NULL))


def test_money_is_held_for_a_clean_up_as_for_all_else() -> None:
    game = a_flow(limit=100)
    game.cancel()
    call = game.held("flow", 80)
    game.settle(call, 80)
    assert "HoldDeferred" in kinds(game.hold("flow", 80, path="1"))
    assert game.gate.reason == "budget"
    game.suspend("flow")
    game.tick(60)
    assert (game.status, game.state.gates) == ("cancelled", {})


def test_a_process_that_executes_nothing_leaves_the_clean_up_to_another() -> None:
    game = waiting()
    assert kinds(game.do(cmd.CancelRun(), session=None)) == ["RunCancelling", "StepCancelling"]
    assert game.status == "running"
    assert game.due_ms == 0
    assert kinds(game.do(cmd.Tick(), session=OTHER)) == ["StepStarted"]
    assert game.state.active == {NodeName("flow"): None}
