"""What a step's code goes on without waits no more; what was sent, or has its outcome, is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.values import policies
from holdfast.core.values.ids import Path
from holdfast.core.values.policies import RetryPolicy
from holdfast.errors import AlreadyDecided, NotFound, StaleAttempt
from tests.core.game import Game, cmd, error, ev, graph, kinds, node


def call_off(game: Game, *paths: str, values: tuple[cmd.Value, ...] = ()) -> list[ev.Event]:
    return game.do(cmd.CallOffOperations(*game.at("flow"), tuple(map(Path, paths)), values))


def a_flow(**given: Any) -> Game:
    return Game(graph(node("flow"), **given), naming=2)


def ended(game: Game, path: str = "0") -> tuple[str, str | None, int]:
    op = game.op("flow", path)
    return op.status, op.error and op.error.error_class, op.settled


OFF = ("failed", policies.CALLED_OFF)


def test_a_question_that_is_called_off_is_withdrawn() -> None:
    game = a_flow()
    game.open_gate("flow")
    gate = game.gate.gate
    assert kinds(call_off(game, "0")) == ["GateWithdrawn", "OperationCalledOff"]
    assert ended(game) == (*OFF, 1)
    with pytest.raises(NotFound):
        game.decide("approve", gate)
    assert kinds(game.complete("flow")) == ["StepCompleted", "RunCompleted"]


def test_a_decision_that_came_first_stands() -> None:
    game = a_flow()
    game.open_gate("flow")
    gate = game.gate.gate
    game.decide("approve")
    assert call_off(game, "0") == []
    assert ended(game) == ("done", None, 1)
    with pytest.raises(AlreadyDecided):
        game.decide("approve", gate)


def test_a_wait_that_is_called_off_takes_no_later_signal() -> None:
    game = a_flow()
    game.await_signal("flow", "go", 60, path="0")
    assert kinds(call_off(game, "0")) == ["OperationCalledOff"]
    assert kinds(game.signal("go", {"n": 1})) == ["SignalReceived"]
    game.await_signal("flow", "go", path="1")
    assert ended(game, "1") == ("done", None, 2)
    assert game.due_ms is None


def test_a_signal_that_came_for_what_is_called_off_is_kept_for_another_wait() -> None:
    game = a_flow()
    game.await_signal("flow", "go", path="0")
    for number in (1, 2):
        game.signal("go", number)
    assert kinds(call_off(game, "0")) == ["OperationCalledOff"]
    assert game.op("flow").status == "failed"
    assert kinds(game.await_signal("flow", "go", path="1")) == ["SignalAwaited", "SignalDelivered"]
    assert kinds(game.await_signal("flow", "go", path="2")) == ["SignalAwaited", "SignalDelivered"]
    got = [game.op("flow", path).outcome for path in ("1", "2")]
    assert [each and each.value() for each in got] == [1, 2]


def test_a_signal_that_came_for_what_is_called_off_goes_to_who_waits_for_it() -> None:
    game = a_flow()
    game.await_signal("flow", "go", path="0")
    game.await_signal("flow", "go", path="1")
    game.signal("go", 1)
    assert kinds(call_off(game, "0")) == ["OperationCalledOff", "SignalDelivered"]
    outcome = game.op("flow", "1").outcome
    assert outcome is not None
    assert outcome.value() == 1


def test_a_timer_that_is_called_off_never_fires() -> None:
    game = a_flow()
    timer = cmd.Timer(Path("@0"), "an hour", 3_600_000)
    game.await_signal("flow", "go", path="0")
    game.do(cmd.SuspendStep(*game.at("flow"), timers=(timer,)))
    game.signal("go")
    assert kinds(call_off(game, "@0")) == ["OperationCalledOff"]
    assert game.due_ms is None
    assert "TimerFired" not in kinds(game.tick(3_600))


def test_a_child_that_is_called_off_is_asked_to_cancel_and_its_end_changes_nothing() -> None:
    game = a_flow()
    child = game.child("flow")
    assert kinds(call_off(game, "0")) == ["OperationCalledOff", "ChildAbandoned"]
    assert ended(game) == (*OFF, 1)
    assert kinds(game.end_child(child, "cancelled")) == ["ChildEnded"]
    assert ended(game) == (*OFF, 1)


def test_who_asks_again_for_a_child_that_is_being_cancelled_has_another_in_its_place() -> None:
    game = a_flow()
    child = game.child("flow", key="c")
    call_off(game, "0")
    assert kinds(game.ask_for("flow", "1", key="c")) == ["ChildAwaited"]
    game.suspend("flow")
    assert kinds(game.end_child(child, "cancelled")) == ["ChildEnded", "StepStarted"]
    assert game.child("flow", "1", key="c") != child


def test_what_a_child_has_done_meanwhile_is_undone_with_its_run() -> None:
    game = a_flow()
    child = game.child("flow")
    call_off(game, "0")
    game.end_child(child, undoable=True)
    assert [each.child for each in game.state.compensable] == [child]


def test_a_child_in_the_background_goes_on_when_the_wait_for_it_is_called_off() -> None:
    game = a_flow()
    child = game.child("flow", background=True)
    game.await_child("flow", child)
    assert kinds(call_off(game, "1")) == ["OperationCalledOff"]
    assert not game.state.children[child].abandoned
    game.end_child(child)
    assert ended(game, "1") == (*OFF, 2)


def test_items_are_called_off_with_their_map_and_sent_effects_keep_their_outcome() -> None:
    game = a_flow()
    game.do(cmd.MapItems(*game.at("flow"), Path("0"), "check", "list", 4, 2, 4))
    call = game.intended("flow/0[1]")
    game.complete("flow/0[0]")
    assert kinds(call_off(game, "0")) == ["StepCancelled", "StepCancelled", "OperationCalledOff"]
    assert (game.state.maps, list(game.state.steps)) == ({}, ["flow"])
    assert ended(game) == (*OFF, 1)
    game.did(call)
    assert kinds(game.complete("flow")) == ["StepCompleted", "RunCompleted"]


def test_what_waits_for_money_is_ended() -> None:
    game = Game(graph(node("flow")), naming=2, limit=100)
    game.held("flow", 80, path="0")
    game.hold("flow", 50, path="1")
    assert game.op("flow", "1").status == "deferred"
    assert kinds(call_off(game, "1")) == ["OperationCalledOff"]
    assert (game.state.deferred, ended(game, "1")) == ({}, (*OFF, 1))


def test_what_waits_for_room_above_its_run_is_ended() -> None:
    game = a_flow()
    game.hold("flow", 50, shortages=game.shortages())
    call_off(game, "0")
    assert (game.state.short, ended(game)) == ({}, (*OFF, 1))


def test_what_is_to_be_tried_again_is_not() -> None:
    game = a_flow()
    policy = RetryPolicy(initial_s=1, jitter=0)
    problem = error(policies.TIMEOUT, retryable=True)
    game.do(cmd.FailFunction(*game.at("flow"), Path("0"), "price", "args", problem, policy))
    assert ended(game)[2] == 0, "what is tried again has no outcome"
    call_off(game, "0")
    assert (ended(game), game.due_ms) == ((*OFF, 2), None)


@pytest.mark.parametrize("policy", ["read", "idempotent", "verify", "once"])
@pytest.mark.parametrize("lost", [False, True])
def test_a_call_that_was_sent_is_left_alone(policy: str, lost: bool) -> None:
    game = a_flow()
    effect = game.intended("flow", policy, path="0", settles_within_s=1.0)
    model = game.held("flow", path="1")
    if lost:
        game.lose()
        game.session = cmd.SessionId("next")
        game.tick()
    before = game.op("flow").status
    events = call_off(game, "0", "1")
    assert kinds(events) == (["OperationCalledOff"] if lost else []), "a lost model call is only to be made again"
    assert (game.op("flow").status, effect in game.state.calls) == (before, True)
    if not lost:
        game.settle(model)
        assert ended(game, "1") == ("done", None, 1)


def test_several_are_called_off_at_once_in_the_order_in_which_they_are_named() -> None:
    game = a_flow()
    game.await_signal("flow", "go", path="0")
    game.open_gate("flow", path="~0.0")
    game.child("flow", path="~1.0")
    events = call_off(game, "~1.0", "0", "~0.0", "0", "7")
    assert [event.path for event in events if isinstance(event, ev.OperationCalledOff)] == ["~1.0", "0", "~0.0"]
    assert [game.op("flow", path).settled for path in ("~1.0", "0", "~0.0")] == [1, 2, 3]
    assert [wait.kind for wait in game.waits] == ["child"]


def test_it_does_not_bring_the_step_back() -> None:
    game = a_flow()
    game.await_signal("flow", "go", path="0")
    game.await_signal("flow", "stop", path="1")
    call_off(game, "0")
    assert kinds(game.suspend("flow")) == ["StepSuspended"]
    assert game.active == []


def test_only_the_step_s_own_attempt_calls_off() -> None:
    game = a_flow()
    game.await_signal("flow", "go", path="0")
    step, attempt = game.at("flow")
    game.suspend("flow")
    with pytest.raises(StaleAttempt):
        game.do(cmd.CallOffOperations(step, attempt, (Path("0"),)))
