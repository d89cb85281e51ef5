"""A call of unknown outcome at the end of its step's tries: a person is asked, and the answer is what the step goes on with."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.rules.questions import EFFECT_UNKNOWN
from holdfast.core.values import policies
from holdfast.core.values.ids import CallId, SessionId
from holdfast.errors import Conflict, InvalidDecision
from tests.core.game import Game, cmd, edge, error, graph, kinds, node
from tests.core.test_mapping import opened

UNKNOWN = error(policies.UNKNOWN, retryable=True)
ONE_TRY = policies.RetryPolicy(max_attempts=1)


def lost(game: Game, name: str = "a", policy: str = "idempotent") -> CallId:
    """A call whose outcome is unknown, which is more than its step's policy tries."""
    call = game.intended(name, policy)
    game.do(cmd.DoubtEffect(call, UNKNOWN))
    game.fail(name, UNKNOWN, "0")
    return call


def asking(**options: Any) -> tuple[Game, CallId]:
    game = Game(graph("a > b", node("a", retry=ONE_TRY, **options)))
    return game, lost(game)


def failing(policy: str = "idempotent") -> tuple[Game, CallId]:
    """A run that another step has made fail, and that waits for what became of a call."""
    game = Game(graph("root > a", "root > b"))
    game.complete("root")
    call = game.intended("a", policy)
    game.do(cmd.DoubtEffect(call, UNKNOWN))
    game.fail("b")
    assert game.state.phase == "failing"
    assert game.gate.reason == EFFECT_UNKNOWN
    return game, call


def answer(game: Game, decision: str, **more: Any) -> None:
    game.decide(decision, **more)
    game.tick()


def test_a_call_of_unknown_outcome_is_tried_again_by_default() -> None:
    assert policies.retries(policies.DEFAULT_RETRY, UNKNOWN, 1)
    game = Game(graph("a"))
    call = game.intended("a", "idempotent")
    game.do(cmd.DoubtEffect(call, UNKNOWN))
    assert kinds(game.fail("a", UNKNOWN, "0")) == ["AttemptFailed"]


def test_where_nothing_tries_it_again_a_person_is_asked_before_the_run_fails() -> None:
    game, call = asking()
    assert (game.gate.reason, game.gate.subject) == (EFFECT_UNKNOWN, call)
    assert game.gate.allowed == ("answer", "reject", "retry")
    assert (game.state.phase, game.status, game.letters) == ("", "requires_attention", ["a#1"])


def test_the_answer_that_it_happened_is_what_the_step_goes_on_with() -> None:
    game, _ = asking()
    answer(game, "answer", data={"sent": True})
    assert game.op("a").status == "done"
    assert game.op("a").outcome.value() == {"sent": True}  # type: ignore[union-attr]
    game.complete("a")
    game.complete("b")
    assert game.status == "completed"


def test_a_person_who_has_it_called_again_gives_the_step_all_its_tries_again() -> None:
    game, call = asking()
    answer(game, "retry")
    again = game.intended("a", "idempotent")
    assert again != call
    game.did(again)
    game.complete("a")
    assert game.letters == []


def test_a_person_who_says_that_it_did_not_happen_fails_the_step() -> None:
    game, _ = asking()
    answer(game, "reject")
    assert (game.state.phase, game.op("a").status) == ("", "failed")
    assert game.op("a").error is not None
    game.fail("a", game.op("a").error, "0")
    assert game.status == "failed"


def test_a_late_outcome_withdraws_the_question_and_lets_the_step_continue() -> None:
    for outcome in ("did", "did_not", "never_left"):
        game, call = asking()
        getattr(game, outcome)(call)
        assert not game.state.gates, outcome
        assert game.statuses()["a"] in ("suspended", "active"), outcome


def test_a_failure_that_something_takes_up_needs_no_answer_first() -> None:
    game = Game(graph("a > b", edge("a", "mend", on="error"), node("a", retry=ONE_TRY)))
    lost(game)
    assert game.statuses()["mend"] == "active"
    assert game.gate.allowed == ("answer", "reject"), "the run does not end before somebody says what became of it"


def test_another_step_with_the_same_key_makes_the_call_and_resumes_the_failed_one() -> None:
    game = Game(graph("root > a", "root > b", node("a", retry=ONE_TRY)))
    game.complete("root")
    key = "the name"
    call = game.intended("a", "idempotent", key=key)
    game.do(cmd.DoubtEffect(call, UNKNOWN))
    game.fail("a", UNKNOWN, "0")
    other = game.intended("b", "idempotent", key=key)
    assert not game.state.gates
    game.did(other)
    assert game.statuses()["a"] in ("suspended", "active")


def test_a_cancelled_run_asks_on_but_offers_no_other_call() -> None:
    game, _ = asking()
    game.cancel()
    with pytest.raises(InvalidDecision, match="the step that made it is over"):
        game.decide("retry")
    game.decide("answer", data=1)
    assert game.status == "cancelled"


@pytest.mark.parametrize("policy", ["idempotent", "verify"])
def test_a_letter_of_a_repeatable_call_is_replayed_in_one_commit(policy: str) -> None:
    game, call = failing(policy)
    events = game.replay_letter("b#1")
    assert "RunReopened" in kinds(events)
    assert "GateWithdrawn" in kinds(events)
    assert (game.state.phase, game.letters, game.state.gates) == ("", [], {})
    if policy == "verify":
        game.reopen(call)
    else:  # its step had not told of the failure when it was called off
        game.fail("a", UNKNOWN, "0")
        game.tick(5)
    game.did(game.intended("a", policy))
    game.complete("a")
    game.complete("b")
    assert game.status == "completed"


def test_a_retry_also_resumes_a_failing_run_that_waits_for_a_harmless_call() -> None:
    game, _ = failing()
    placed = game.state.counted
    game.retry()
    assert (game.state.phase, game.state.counted) == ("", placed), "it has kept its place among the active runs"


def test_a_run_that_waits_for_what_may_not_be_done_twice_is_not_replayed() -> None:
    game, call = failing("once")
    with pytest.raises(Conflict, match="Resolve the call") as caught:
        game.replay_letter("b#1")
    assert call in str(caught.value)
    assert game.state.phase == "failing"


def test_a_run_whose_call_is_still_being_made_is_not_replayed() -> None:
    game = Game(graph("root > a", "root > b"))
    game.complete("root")
    game.intended("a", "idempotent")
    game.fail("b")
    with pytest.raises(Conflict, match="still being made"):
        game.replay_letter("b#1")


def test_a_letter_in_doubt_can_be_replayed_but_neither_edited_nor_resolved() -> None:
    game, _ = asking()
    with pytest.raises(Conflict, match=r"Settle the call .* or retry the dead letter unedited"):
        game.edit_letter("a#1")
    with pytest.raises(Conflict, match="Say what became of the call"):
        game.resolve_letter("a#1")
    events = game.replay_letter("a#1")
    assert kinds(events)[:2] == ["GateWithdrawn", "StepReplayed"]
    game.did(game.intended("a", "idempotent"))
    game.complete("a")
    assert game.letters == []


def test_a_failed_lookup_asks_a_person_and_a_replay_of_its_letter_looks_again() -> None:
    game = Game(graph("a", node("a", retry=ONE_TRY)))
    call = game.intended("a", "verify")
    game.doubt(call)
    game.fail("a", UNKNOWN)
    assert (game.gate.subject, game.letters) == (call, ["a#1"])
    game.replay_letter("a#1")
    assert game.op("a").status == "unverified"


def test_a_process_that_dies_again_and_again_at_a_harmless_call_leaves_a_question() -> None:
    game = Game(graph("a"))
    for number in range(policies.MAX_LOST_ATTEMPTS):
        game.intended("a", "idempotent")
        dying, game.session = game.session, SessionId(f"worker {number}")
        game.lose(dying, by=game.session)
    assert game.gate.reason == EFFECT_UNKNOWN
    assert game.letters == ["a#1"]


def test_an_item_of_a_map_waits_for_its_answer_while_the_others_go_on() -> None:
    game = opened(count=2)
    call = lost(game, "m[0]")
    assert game.gate.subject == call
    game.complete("m[1]")
    assert game.state.phase == ""
    answer(game, "answer", data="done")
    game.complete("m[0]")
    assert game.letters == []
    assert game.statuses()["m"] == "active"
