"""An attempt speaks for its step as long as it is its latest, and what it looked at comes with what it says."""

from __future__ import annotations

import pytest

from holdfast.core.values.ids import Path, StepId
from holdfast.errors import RunEnded, StaleAttempt
from tests.core.game import NULL, OTHER, TRANSIENT, Game, cmd, graph, loop


def of_an_attempt(step: StepId, attempt: int) -> list[cmd.AttemptCommand]:
    """Results and intents: all that an attempt may say about its step."""
    offer = cmd.CallCandidate("m", 1, 1)
    return [
        cmd.CompleteStep(step, attempt, NULL),
        cmd.FailAttempt(step, attempt, TRANSIENT),
        cmd.SuspendStep(step, attempt),
        cmd.RecordValues(step, attempt, (cmd.Value(Path("done"), "result", None, NULL),)),
        cmd.LoseAttempt(step, attempt),
        cmd.HoldModelCall(step, attempt, Path("0"), "m", "h", (offer,)),
        cmd.IntendEffect(step, attempt, Path("0"), "send", "once", "h", NULL),
        cmd.DenyToolCall(step, attempt, Path("0"), "send", "h", TRANSIENT),
        cmd.StartTimer(step, attempt, Path("0"), "h", 1),
        cmd.AwaitSignal(step, attempt, Path("0"), "s", "h"),
        cmd.ReadMessages(step, attempt, Path("0")),
        cmd.OpenGate(step, attempt, Path("0"), "question", "h", NULL, "h", ("answer",)),
    ]


def test_an_attempt_that_was_lost_is_refused_with_an_error() -> None:
    game = Game(graph("a > b"))
    game.lose()
    assert (game.step("a").attempt, game.step("a").session) == (2, OTHER)
    for command in of_an_attempt(StepId("a#1"), 1):
        with pytest.raises(StaleAttempt, match="Attempt 1 of step a#1 no longer counts: the step is active at attempt 2"):
            game.do(command)


def test_a_superseded_step_is_refused_with_an_error() -> None:
    game = Game(graph("t > s", "t > side", loop("s", "t", 2)))
    game.complete("t")
    game.complete("s")
    for command in of_an_attempt(StepId("side#1"), 1):
        with pytest.raises(StaleAttempt, match="no longer wanted"):
            game.do(command)


def test_a_result_counts_once() -> None:
    game = Game(graph("a > b"))
    again = cmd.CompleteStep(*game.at("a"), game.state.input)
    game.do(again)
    with pytest.raises(StaleAttempt):
        game.do(again)


def test_an_ended_run_takes_no_result() -> None:
    game = Game(graph("a"))
    command = cmd.CompleteStep(*game.at("a"), game.state.input)
    game.cancel()
    with pytest.raises(RunEnded):
        game.do(command)


def test_what_a_step_looked_at_is_recorded_with_its_next_commit() -> None:
    game = Game(graph("a > b"))
    value = cmd.Value(Path("0"), "now", 123)
    game.do(cmd.StartTimer(*game.at("a"), Path("1"), "x", 60_000, values=(value,)))
    op = game.op("a", "0")
    assert (op.kind, op.name, op.status) == ("now", "now", "done")
    assert op.outcome is not None
    assert op.outcome.value() == 123


def test_time_never_runs_backwards_within_a_run() -> None:
    """Whatever the clock of the process says that decides next."""
    game = Game(graph("a > b"))
    game.tick(60)
    game.complete("a")
    at_ms = game.state.at_ms
    game.now_ms -= 30_000
    game.complete("b")
    assert game.times[-1] == game.state.at_ms == at_ms
