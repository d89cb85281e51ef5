"""A suspended step has something that wakes it: nothing else is accepted, and what an early version left is found."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from holdfast.core.evolve import evolve
from holdfast.core.rules.readiness import stuck
from holdfast.core.values.policies import LOST, MAX_LOST_ATTEMPTS
from holdfast.core.views.status import waits_for_nothing
from holdfast.errors import Suspended
from tests.core.game import OTHER, START_MS, Game, cmd, ev, graph, kinds
from tests.core.test_mapping import MAPS, mapped


def left_by_an_early_version(game: Game, name: str) -> None:
    """Suspend a step as versions did that accepted a suspension which waits for nothing."""
    event = ev.StepSuspended(game.step(name).id, game.step(name).attempt)
    evolve(game.state, event, game.now_ms)
    game.history.append(ev.encode(event))
    game.times.append(game.now_ms)


def test_a_suspension_without_a_wait_loses_its_attempt_and_starts_the_next() -> None:
    game = Game(graph("a > b"))
    assert kinds(game.suspend("a")) == ["AttemptLost", "StepStarted"]
    assert (game.step("a").status, game.step("a").attempt) == ("active", 2)
    game.complete("a")
    assert game.active == ["b"]


def test_a_step_that_is_left_waiting_for_nothing_again_and_again_fails() -> None:
    game = Game(graph("a > b"))
    for _ in range(MAX_LOST_ATTEMPTS):
        game.suspend("a")
    assert game.status == "failed"
    assert game.state.error is not None
    assert game.state.error.error_class == LOST


def test_what_was_looked_at_before_an_attempt_is_given_up_stays() -> None:
    game = Game(graph("a > b"))
    value = cmd.Value(cmd.Path("0"), "now", 7)
    assert kinds(game.do(cmd.LoseAttempt(*game.at("a"), (value,)))) == ["ValueRecorded", "AttemptLost", "StepStarted"]
    assert game.op("a").status == "done"


def test_a_step_that_is_handed_over_is_no_lost_attempt() -> None:
    game = Game(graph("a > b"))
    assert kinds(game.do(cmd.SuspendStep(*game.at("a"), yields=True), session=OTHER)) == ["StepSuspended", "StepStarted"]
    assert game.step("a").losses == 0


def test_a_question_about_changed_code_wakes_no_attempt_that_leaves_without_stopping() -> None:
    """With that the question is taken back."""
    game = Game(graph("a > b"))
    game.do(cmd.RecordValues(*game.at("a"), (cmd.Value(cmd.Path("0"), "now", 7),)))
    game.stop("a")
    game.tick(5)
    assert kinds(game.suspend("a")) == ["AttemptLost", "StepStarted"]


WAYS: dict[str, Callable[[Game], object]] = {
    "a timer": lambda game: game.do(cmd.StartTimer(*game.at("a"), cmd.Path("0"), "sleep", 60_000)),
    "a signal": lambda game: game.await_signal("a", "go"),
    "a person": lambda game: game.open_gate("a"),
    "a child": lambda game: game.ask_for("a"),
    "a shared value": lambda game: game.do(cmd.AwaitSharedValue(*game.at("a"), cmd.Path("0"), "board", "case", "h", 1, None)),
    "a model's answer": lambda game: game.hold("a", 1),
    "a tool's answer": lambda game: game.intend("a"),
    "money": lambda game: game.hold("a", 10**9),
    "the same effect of another step": lambda game: (game.intend("b", key="k"), game.intend("a", key="k")),
    "somebody's word about an effect": lambda game: game.doubt(game.intended("a")),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_step_is_suspended_while_it_waits_for(way: str) -> None:
    game = Game(graph("a > end", "b > end"), limit=1000)
    WAYS[way](game)
    assert kinds(game.suspend("a")) == ["StepSuspended"]
    assert not waits_for_nothing(game.status, game.waits)


def test_a_step_is_suspended_while_items_of_its_map_are_under_way() -> None:
    game = Game(graph(MAPS, "m > after"))
    assert kinds(mapped(game, 2)) == ["ItemsMapped", "StepStarted", "StepStarted", "StepSuspended"]


def test_a_step_that_its_runs_limit_on_time_has_stopped_waits_for_that_limit() -> None:
    game = Game(graph("a > b", limits={"max_active_s": 10}))
    game.tick(10)
    with pytest.raises(Suspended):
        game.hold("a", 1)
    assert kinds(game.suspend("a")) == ["StepSuspended"]
    assert kinds(game.raise_limit("active", 100)) == ["GateDecided", "LimitRaised", "StepStarted"]


def test_a_step_whose_code_has_changed_for_good_waits_for_a_person() -> None:
    game = Game(graph("a > b"))
    game.sleep("a", 1)
    game.tick(1)
    while game.step("a").retry_at_ms is not None or game.step("a").status == "active":
        if game.step("a").status == "active":
            game.stop("a")
        else:
            game.tick(1000)
    assert game.step("a").status == "suspended"
    assert stuck(game.state) == []


# --- What an early version left ---------------------------------------------------------------------------------------


def test_a_step_that_waits_for_nothing_says_so_is_due_at_once_and_a_look_starts_it() -> None:
    game = Game(graph("a > b"))
    left_by_an_early_version(game, "a")
    assert [step.id for step in stuck(game.state)] == ["a#1"]
    assert game.status == "waiting"
    assert [(wait.kind, wait.reason, wait.step) for wait in game.waits] == [("nothing", "fault", "a#1")]
    assert game.due_ms == 0
    row = game.rows([]).run
    assert waits_for_nothing(row.status, msgspec.json.decode(row.waiting_for, type=list[type(game.waits[0])]))
    assert kinds(game.tick()) == ["StepStarted"]
    assert (game.step("a").attempt, game.waits, game.step("a").losses) == (2, [], 0)


def test_it_is_found_beside_steps_that_wait_for_something() -> None:
    game = Game(graph("a > end", "b > end", "c > end"))
    game.sleep("b", 60)
    game.complete("c")
    left_by_an_early_version(game, "a")
    assert [wait.kind for wait in game.waits] == ["nothing", "timer"]
    assert game.due_ms == 0
    assert kinds(game.tick()) == ["StepStarted"]


def test_a_look_by_who_executes_nothing_leaves_it_to_be_started() -> None:
    game = Game(graph("a > b"))
    left_by_an_early_version(game, "a")
    assert kinds(game.tick(session=None)) == ["StepReady"]
    assert kinds(game.tick(session=OTHER)) == ["StepStarted"]


def test_a_paused_run_that_is_stuck_goes_on_with_the_end_of_the_pause() -> None:
    game = Game(graph("a > b"))
    left_by_an_early_version(game, "a")
    game.do(cmd.Tick(), session=None)
    game.pause()
    assert kinds(game.resume()) == ["RunResumed", "StepStarted"]


def test_an_item_of_a_map_that_is_stuck_is_found() -> None:
    game = Game(graph(MAPS, "m > after"))
    mapped(game, 2)
    left_by_an_early_version(game, "m[1]")
    assert [step.id for step in stuck(game.state)] == ["m[1]#1"]
    assert kinds(game.tick()) == ["StepStarted"]


def test_early_rows_list_no_wait_for_a_run_that_is_stuck() -> None:
    game = Game(graph("a > b"))
    assert waits_for_nothing("waiting", [])
    assert not waits_for_nothing("running", [])
    assert not waits_for_nothing("paused", [])
    game.sleep("a", 60)
    assert not waits_for_nothing(game.status, game.waits)
    assert game.waits[0].due_at_ms == START_MS + 60_000
