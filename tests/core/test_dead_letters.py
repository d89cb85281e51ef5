"""Steps that have failed for good: listed until somebody says what is to become of them; tried again, nothing is done twice."""

from __future__ import annotations

import pytest

from holdfast.core.values import policies
from holdfast.core.values.payload import inline
from holdfast.errors import Conflict, InvalidDecision, NotFound, RunEnded
from tests.core.game import ANN, Game, Path, StepId, cmd, edge, error, graph, kinds, node


def parked() -> Game:
    """It has sent something, and failed at the next operation; a person is asked."""
    game = Game(graph("a > b", on_exhausted="dead_letter"))
    game.effect("a", "0", args="first")
    game.did_not(game.intended("a", "idempotent", "1", args="old"))
    game.fail("a", error(policies.TOOL), "1")
    return game


def failed() -> Game:
    game = Game(graph("a > b"))
    game.effect("a", "0", args="first")
    game.fail("a")
    return game


def test_what_failed_for_good_is_listed_with_its_attempts_until_it_is_replayed() -> None:
    game = Game(graph(node("a", retry=policies.RetryPolicy(max_attempts=2, initial_s=1, jitter=0))))
    game.fail("a", error(policies.TIMEOUT, retryable=True))
    assert game.letters == []
    game.tick(5)
    game.now_ms += 1000
    events = game.fail("a", error(policies.TIMEOUT, retryable=True))
    (letter,) = game.rows(events).dead_letters or ()
    assert (letter.node, letter.error_class, letter.attempts, letter.asked) == ("a", policies.TIMEOUT, 2, False)
    assert letter.last_at_ms - letter.first_at_ms == 6000
    assert (game.rows(game.retry()).dead_letters, game.letters) == ((), [])


@pytest.mark.parametrize("way", ["absorbed", "rejected", "cancelled"])
def test_what_something_takes_up_or_a_person_has_refused_is_no_dead_letter(way: str) -> None:
    if way == "absorbed":
        game = Game(graph(edge("a", "mend", on="error")))
        game.fail("a")
    elif way == "rejected":
        game = Game(graph(node("a", "human_gate")))
        game.decide("reject", game.human_gate("a"))
        assert game.status == "failed"
    else:
        game = parked()
        assert game.letters == ["a#1"]
        game.cancel()
    assert game.letters == []


def test_who_refuses_a_parked_step_has_resolved_it_and_so_has_who_gives_its_output() -> None:
    game = parked()
    assert kinds(game.decide("reject"))[:3] == ["GateDecided", "DeadLetterResolved", "RunFailing"]
    assert (game.status, game.letters) == ("failed", [])
    game = parked()
    game.decide("answer", data="by hand")
    assert (game.letters, game.statuses()["a"]) == ([], "completed")


def test_no_output_is_given_for_a_step_that_has_asked_a_person() -> None:
    game = Game(graph("a > b", on_exhausted="dead_letter"))
    game.open_gate("a", "0")
    game.suspend("a")
    game.decide("reject")
    game.tick()
    game.fail("a")
    assert game.gate.allowed == ("retry", "reject")
    with pytest.raises(InvalidDecision, match="retry, reject"):
        game.decide("answer", data="approved")


def test_a_letter_of_a_failed_run_is_resolved_but_one_with_a_question_is_not() -> None:
    game = failed()
    assert kinds(game.resolve_letter("a#1")) == ["DeadLetterResolved"]
    assert (game.status, game.letters) == ("failed", [])
    with pytest.raises(NotFound):
        game.resolve_letter("a#1")
    game.retry()
    game.fail("a")
    assert game.letters == ["a#1"], "it has failed once more"
    with pytest.raises(Conflict, match="waits for an answer"):
        parked().resolve_letter("a#1")


@pytest.mark.parametrize("start", [parked, failed])
def test_a_replay_with_new_input_keeps_the_same_operations_and_rekeys_the_others(start: object) -> None:
    game = start()  # type: ignore[operator]
    before = game.op("a", "0").key
    other = game.op("a", "1").key if start is parked else None
    assert kinds(game.edit_letter("a#1")) == ["DeadLetterEdited"]
    assert (game.state.input, game.letters) == (inline("edited"), ["a#1"])
    again = game.decide("retry") if start is parked else game.retry()
    assert [kind for kind in kinds(again) if kind in ("StepReplayed", "JournalDropped")] == ["StepReplayed", "JournalDropped"]
    game.tick()
    assert kinds(game.intend("a", path="0", args="first")) == ["OperationReused"]
    assert game.op("a", "0").key == before
    game.intend("a", "idempotent", "1", args="new")
    assert game.op("a", "1").key not in (None, before, other)
    assert not game.step("a").edited


@pytest.mark.parametrize("asked", [True, False])
def test_the_arguments_of_the_call_that_failed_are_a_persons_until_the_step_is_done(asked: bool) -> None:
    game = Game(graph("a > b", on_exhausted="dead_letter" if asked else "fail"))
    game.effect("a", "0", args="first")
    game.did_not(game.intended("a", "idempotent", "1", args="old", tool="other"))
    game.fail("a", error(policies.TOOL), "1")
    before = game.op("a", "0").key, game.op("a", "1").key
    data = game.state.input
    game.do(cmd.EditDeadLetter(StepId("a#1"), None, ANN, inline({"to": "you"})))
    edit = game.step("a").edits[Path("1")]
    assert (edit.tool, edit.arguments, game.state.input) == ("other", inline({"to": "you"}), data)
    game.decide("retry") if asked else game.retry()
    game.tick()
    assert kinds(game.intend("a", path="0", args="first")) == ["OperationReused"]
    game.did(game.intended("a", "idempotent", "1", args="new", tool="other"))
    assert game.op("a", "0").key == before[0]
    assert game.op("a", "1").key not in before
    game.complete("a")
    assert game.step("a").edits == {}


def test_arguments_are_edited_of_a_call_of_a_tool_only() -> None:
    game = failed()
    with pytest.raises(Conflict, match="edit the run's input instead"):
        game.do(cmd.EditDeadLetter(StepId("a#1"), None, ANN, inline({})))


def test_a_persons_answer_counts_only_for_the_same_question() -> None:
    game = Game(graph("a", on_exhausted="dead_letter"))
    game.open_gate("a", "0", shown="old")
    game.suspend("a")
    game.decide("approve")
    game.tick()
    game.fail("a")
    game.edit_letter("a#1")
    game.decide("retry")
    game.tick()
    assert kinds(game.open_gate("a", "0", shown="new")) == ["GateOpened"]
    assert "~1" in game.gate.gate


def test_nothing_is_edited_while_an_effect_of_it_has_no_outcome() -> None:
    game = Game(graph("a", on_exhausted="dead_letter"))
    call = game.intended("a", "idempotent")
    game.doubt(call)
    game.fail("a", error(policies.TOOL), "0")
    with pytest.raises(Conflict, match=r"Settle the call .* first"):
        game.edit_letter("a#1")
    game.did(call)
    assert kinds(game.edit_letter("a#1")) == ["DeadLetterEdited"]


def test_a_run_that_has_undone_what_it_did_is_not_tried_with_another_input() -> None:
    game = Game(graph("a > b"))
    game.did(game.intended("a", compensation="undo"))
    booked = game.state.compensable[0].call
    game.complete("a")
    game.fail("b")
    game.did(game.intended("!compensate", "idempotent", tool="undo", compensates=booked))
    game.complete("!compensate")
    assert game.letters == ["b#1"]
    with pytest.raises(RunEnded, match="undone"):
        game.edit_letter("b#1")
    game.resolve_letter("b#1")
    with pytest.raises((NotFound, InvalidDecision)):
        game.edit_letter("b#1")
