"""A call is intended once, has one outcome, and what is lost is known to be unknown."""

from __future__ import annotations

import pytest

from holdfast.core.rules.calls import COUNTED
from holdfast.core.values import policies
from holdfast.core.values.ids import CallId, Path
from holdfast.core.values.payload import inline
from holdfast.errors import AlreadyClosed, Conflict, InvalidDecision, InvalidInput, KeyReused, NotFound, Suspended
from tests.core.game import OTHER, TRANSIENT, Game, cmd, edge, error, ev, graph, kinds, loop, node


def books(game: Game) -> tuple[int, int, int]:
    """Settled, held, in doubt."""
    budget = game.state.budget
    return budget.settled_nanousd, budget.held_nanousd, budget.in_doubt_nanousd


# --- Money: held, settled, in doubt -----------------------------------------------------------------------------------


def test_the_worst_case_is_held_and_the_real_cost_settles_it() -> None:
    game = Game(graph("a"), limit=100)
    call = game.held("a", 60)
    assert books(game) == (0, 60, 0)
    game.settle(call, 20, "hello", tokens=(3, 4))
    assert books(game) == (20, 0, 0)
    assert game.state.tokens_used == 7
    assert game.op("a").outcome is not None
    assert game.op("a").outcome.value() == "hello"


def test_a_hold_settles_once() -> None:
    game = Game(graph("a"), limit=100)
    call = game.held("a", 60)
    game.settle(call, 20)
    for again in (lambda: game.settle(call, 20), lambda: game.refuse(call), lambda: game.doubt_money(call)):
        with pytest.raises(AlreadyClosed):
            again()
    assert books(game) == (20, 0, 0)


def test_a_call_that_was_never_made_has_no_outcome() -> None:
    game = Game(graph("a"), limit=100)
    with pytest.raises(AlreadyClosed):
        game.settle(CallId("0190-run:a#1:0:1"), 20)
    with pytest.raises(AlreadyClosed):
        game.did(game.held("a", 1))


def test_a_refused_call_costs_nothing() -> None:
    game = Game(graph("a"), limit=100)
    game.refuse(game.held("a", 60), TRANSIENT)
    assert books(game) == (0, 0, 0)
    assert game.op("a").error == TRANSIENT


def test_money_of_unknown_fate_counts_as_spent() -> None:
    game = Game(graph("a"), limit=100)
    game.doubt_money(game.held("a", 60))
    assert books(game) == (0, 0, 60)
    assert game.state.budget.available_nanousd == 40
    assert game.doubt_money(CallId("0190-run:a#1:0:1")) == [], "doubting it twice is no news"


def test_a_late_settlement_of_a_doubted_call_is_taken() -> None:
    game = Game(graph("a"), limit=100)
    call = game.held("a", 60)
    game.doubt_money(call)
    game.settle(call, 10)
    assert books(game) == (10, 0, 0)


def test_a_reply_without_a_price_is_used_and_its_whole_hold_stays_in_doubt() -> None:
    game = Game(graph("a"), limit=100)
    call = game.held("a", 60)
    game.doubt_money(call, inline("a reply"))
    assert game.op("a").status == "done"
    assert books(game) == (0, 0, 60)
    game.refuse(call)
    assert game.op("a").status == "done", "what the step has seen is not taken back"
    assert books(game) == (0, 0, 0)


def test_a_cost_above_its_bound_is_recorded_as_the_truth_it_is() -> None:
    game = Game(graph("a"), limit=100)
    settled = game.settle(game.held("a", 60), 70)[0]
    assert isinstance(settled, ev.ModelCallSettled)
    assert settled.over_bound
    assert books(game) == (70, 0, 0)


def test_a_call_in_doubt_is_reconciled_once_and_by_what_it_cost() -> None:
    game = Game(graph("a"), limit=100)
    call = game.held("a", 60)
    with pytest.raises(NotFound):
        game.reconcile(call, 1)  # it is in flight, not in doubt
    game.doubt_money(call)
    with pytest.raises(InvalidInput):
        game.reconcile(call, -1)
    game.reconcile(call, 15)
    assert books(game) == (15, 0, 0)
    with pytest.raises(NotFound):
        game.reconcile(call, 15)


@pytest.mark.parametrize(("cost", "settled", "in_doubt"), [(None, 0, 60), (15, 15, 0), (0, 0, 0)])
def test_an_interrupted_call_keeps_its_partial_text_and_its_counted_cost(cost: int | None, settled: int, in_doubt: int) -> None:
    game = Game(graph("a"), limit=100)
    call = game.held("a", 60)
    events = game.do(cmd.DoubtModelCall(call, TRANSIENT, None, True, inline("Dear A"), cost))
    assert [event.partial for event in events if isinstance(event, ev.ModelCallInDoubt)] == [inline("Dear A")]
    assert [event.rule for event in events if isinstance(event, ev.ModelCallReconciled)] == [COUNTED] * (cost is not None)
    assert books(game) == (settled, 0, in_doubt)
    again = game.do(cmd.DoubtModelCall(call, TRANSIENT, None, True, inline("Dear"), 20)) if cost is None else []
    assert again == []


def test_money_is_reconciled_after_the_run_has_ended() -> None:
    game = Game(graph("a"), limit=100)
    call = game.held("a", 60)
    game.doubt_money(call)
    game.complete("a")
    assert game.status == "completed"
    game.reconcile(call, 15)
    assert books(game) == (15, 0, 0)


def test_money_is_settled_after_the_run_has_ended() -> None:
    game = Game(graph("a"), limit=100)
    call = game.held("a", 60)
    game.cancel()
    assert game.status == "cancelled"
    game.settle(call, 15)
    assert books(game) == (15, 0, 0)


def test_a_process_that_dies_during_a_call_frees_no_money() -> None:
    game = Game(graph("a"), limit=100)
    first = game.held("a", 40)
    game.lose()
    assert books(game) == (0, 0, 40)
    assert game.op("a").status == "reopened"
    second = game.held("a", 40)
    assert second != first
    assert books(game) == (0, 40, 40)
    game.settle(first, 30, "the first reply")
    assert game.op("a").status == "open", "the repeat's reply is waited for, not the first one's"
    game.settle(second, 5, "the second reply")
    assert books(game) == (35, 0, 0)
    assert game.op("a").outcome == inline("the second reply")


def test_a_reply_that_comes_before_the_repeat_saves_the_repeat() -> None:
    game = Game(graph("a"), limit=100)
    call = game.held("a", 40)
    game.lose(by=None)
    game.settle(call, 30, "late but true")
    game.tick()
    assert game.op("a").status == "done"
    assert game.hold("a", 40) == []


def test_a_reply_that_comes_between_a_failure_and_its_retry_saves_the_retry() -> None:
    game = Game(graph("a"), limit=100)
    call = game.held("a", 40)
    game.doubt_money(call)
    game.settle(call, 30, "late but true")
    assert game.op("a").status == "failed", "the handler has seen it fail"
    game.fail("a", TRANSIENT, path="0")
    game.tick(10)
    assert game.op("a").outcome == inline("late but true")
    assert game.hold("a", 40) == []


def test_a_session_that_dies_after_the_run_ended_leaves_its_money_in_doubt() -> None:
    """Or the sweep would look at the run for ever, and the money would never be reconciled."""
    game = Game(graph("a"), limit=100)
    game.held("a", 40)
    events = game.cancel()
    assert game.rows(events).sessions == ("worker",)
    lost = game.lose(by=None)
    assert kinds(lost) == ["ModelCallInDoubt"]
    assert books(game) == (0, 0, 40)
    assert game.rows(lost).sessions == ()


# --- Effects: each policy ---------------------------------------------------------------------------------------------

POLICIES = ["read", "idempotent", "verify", "once"]


@pytest.mark.parametrize("policy", POLICIES)
def test_an_effect_is_intended_then_done(policy: str) -> None:
    game = Game(graph("a"))
    call = game.intended("a", policy)
    assert game.intend("a", policy) == [], "it is in flight"
    game.did(call, {"id": 7})
    assert game.op("a").outcome == inline({"id": 7})
    assert game.intend("a", policy) == [], "it is done"
    with pytest.raises(AlreadyClosed):
        game.did(call)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_tool_that_says_no_did_nothing(policy: str) -> None:
    game = Game(graph("a"))
    game.did_not(game.intended("a", policy), TRANSIENT)
    assert game.op("a").error == TRANSIENT
    assert not game.state.calls


@pytest.mark.parametrize("policy", POLICIES)
def test_an_intent_that_never_left_is_open_again(policy: str) -> None:
    game = Game(graph("a"))
    game.never_left(game.intended("a", policy))
    assert game.op("a").status == "reopened"
    assert game.intended("a", policy).endswith(":2")


@pytest.mark.parametrize("policy", ["read", "idempotent"])
def test_a_lost_call_that_may_be_repeated_is_repeated_under_its_key(policy: str) -> None:
    game = Game(graph("a"))
    first = game.intended("a", policy)
    key = game.op("a").key
    assert kinds(game.lose()) == ["AttemptLost", "EffectReopened", "StepStarted"]
    assert not game.state.gates
    second = game.intended("a", policy)
    assert (second, game.op("a").key) == (first[:-1] + "2", key)


@pytest.mark.parametrize("policy", ["once", "unheard_of"])
def test_a_lost_call_of_a_tool_that_declared_nothing_is_put_to_a_person(policy: str) -> None:
    game = Game(graph("a"))
    call = game.intended("a", policy)
    game.lose()
    assert game.op("a").status == "in_doubt"
    assert (game.gate.reason, game.gate.subject) == ("effect_unknown", call)
    shown = game.gate.shown.value()
    assert (shown["tool"], shown["request"], shown["call"]) == ("send", {"to": "bob"}, call)
    assert game.intend("a", policy) == [], "nothing is guessed"
    game.suspend("a")
    assert game.status == "requires_attention"


def test_a_lost_call_that_can_be_verified_is_looked_up_by_its_step() -> None:
    game = Game(graph("a"))
    call = game.intended("a", "verify")
    game.lose()
    assert game.op("a").status == "unverified"
    assert not game.state.gates
    assert [(wait.kind, wait.reason) for wait in game.waits] == [("effect", "unverified")]
    game.did(call, "found")
    assert game.op("a").outcome == inline("found")


def test_what_a_lookup_does_not_find_counts_only_when_the_tool_has_settled() -> None:
    """Counted from the last moment at which the call may have left: that is the doubt, not the intent."""
    game = Game(graph("a"))
    call = game.intended("a", "verify", settles_within_s=5)
    game.now_ms += 60_000
    game.lose()
    game.now_ms += 4_999
    with pytest.raises(Suspended, match="counts 5 s after"):
        game.reopen(call)
    game.now_ms += 1
    game.reopen(call)
    assert game.op("a").status == "reopened"


def test_a_lookup_is_believed_once() -> None:
    game = Game(graph("a"))
    call = game.intended("a", "verify")
    with pytest.raises(AlreadyClosed):
        game.reopen(call)  # in flight: its sender will say
    game.lose()
    game.reopen(call)
    with pytest.raises(AlreadyClosed):
        game.reopen(call)


@pytest.mark.parametrize("policy", ["once", "idempotent"])
def test_only_a_person_reopens_what_has_no_lookup(policy: str) -> None:
    game = Game(graph("a"))
    call = game.intended("a", policy)
    game.doubt(call)
    with pytest.raises(Conflict, match="has no lookup"):
        game.reopen(call)


def test_a_model_call_cannot_be_reopened_as_if_it_were_an_effect() -> None:
    """Its hold would be gone from the calls and stay in the books for ever."""
    game = Game(graph("a"), limit=100)
    call = game.held("a", 60)
    game.doubt_money(call)
    with pytest.raises(AlreadyClosed):
        game.reopen(call)
    assert books(game) == (0, 0, 60)


# --- A sender that lives but cannot say -------------------------------------------------------------------------------


def test_a_read_without_an_answer_failed() -> None:
    game = Game(graph("a"))
    assert kinds(game.doubt(game.intended("a", "read"))) == ["EffectFailed"]


def test_an_unanswered_idempotent_call_fails_its_step_and_is_repeated_by_the_retry() -> None:
    game = Game(graph("a"))
    first = game.intended("a", "idempotent")
    key = game.op("a").key
    game.doubt(first)
    assert game.op("a").error == TRANSIENT
    assert not game.state.gates
    game.fail("a", TRANSIENT, path="0")
    game.tick(10)
    second = game.intended("a", "idempotent")
    assert game.op("a").key == key
    assert list(game.state.calls) == [second], "the repeat stands for the first"
    game.did(second)
    game.complete("a")
    assert game.status == "completed"


def test_an_idempotent_call_without_a_repeat_is_known_to_be_unknown() -> None:
    """A run that called it failed, or undid everything but it, would be guessing."""
    game = Game(graph("a > b"))
    done = game.effect("a", path="0", compensation="undo")
    call = game.intended("a", "idempotent", path="1", compensation="undo")
    game.doubt(call)
    game.fail("a", error(policies.TOOL))
    assert (game.gate.reason, game.gate.subject) == ("effect_unknown", call)
    assert game.gate.allowed == ("answer", "reject")
    assert game.status == "requires_attention"
    assert "!compensate" not in game.statuses(), "what is undone is not known yet"
    game.decide("answer", data={"id": 7})
    assert [each.call for each in game.state.compensable] == [done, call]


def test_a_handler_that_goes_on_without_the_answer_leaves_the_question_to_a_person() -> None:
    game = Game(graph("a > b"))
    game.doubt(game.intended("a", "idempotent"))
    game.complete("a")
    assert game.active == ["b"], "the run goes on"
    assert game.gate.reason == "effect_unknown"
    game.complete("b")
    assert game.status == "requires_attention", "but it does not end"
    game.decide("reject")
    assert game.status == "completed"


def test_the_late_answer_of_an_unanswered_call_settles_it() -> None:
    game = Game(graph("a > b"))
    call = game.intended("a", "idempotent", compensation="undo")
    game.doubt(call)
    game.fail("a", TRANSIENT, path="0")
    game.did(call, "late but true")
    game.tick(10)
    assert game.op("a").outcome == inline("late but true")
    assert game.intend("a", "idempotent") == [], "no call begins from a state that shows its completion"
    assert len(game.state.compensable) == 1


def test_a_once_call_without_an_answer_is_put_to_a_person_while_the_attempt_leaves() -> None:
    game = Game(graph("a"))
    game.doubt(game.intended("a"))
    assert game.gate.reason == "effect_unknown"
    assert game.doubt(CallId("0190-run:a#1:0:1")) == []
    game.decide("answer", data="it did")
    assert kinds(game.suspend("a")) == ["StepSuspended", "StepStarted"], "the answer came before it had left"


# --- Questions about effects ------------------------------------------------------------------------------------------


def in_doubt(policy: str = "once", **more: object) -> tuple[Game, CallId]:
    game = Game(graph("a > b"))
    call = game.intended("a", policy, **more)
    game.lose()
    game.suspend("a")
    return game, call


def test_it_happened() -> None:
    game, _ = in_doubt(compensation="undo")
    game.decide("answer", data={"id": 7})
    game.tick()
    assert game.op("a").outcome == inline({"id": 7})
    assert game.events(ev.EffectCompleted)[0].by == "ann"
    assert len(game.state.compensable) == 1


def test_it_happened_needs_to_know_what_the_tool_said() -> None:
    game, _ = in_doubt()
    with pytest.raises(InvalidDecision, match="data=JSON"):
        game.decide("answer")


def test_it_did_not_happen() -> None:
    game, _ = in_doubt()
    game.decide("reject", reason="not in the outbox")
    game.tick()
    failure = game.op("a").error
    assert failure is not None
    assert (failure.error_class, failure.tool, failure.retryable) == (policies.TOOL, "send", False)
    assert failure.message == "ann found that this call of 'send' did not happen: not in the outbox"


def test_call_it_again() -> None:
    game, first = in_doubt()
    key = game.op("a").key
    game.decide("retry")
    assert game.events(ev.EffectReopened)[0].by == "ann"
    game.tick()
    second = game.intended("a")
    assert game.op("a").key == key
    game.did(second)
    with pytest.raises(AlreadyClosed):
        game.did(second)
    assert game.did(first, "it had happened too")[0] == ev.OutcomeOrphaned(first, inline("it had happened too"))
    with pytest.raises(AlreadyClosed):
        game.did(first)


def test_an_outcome_that_arrives_after_all_takes_the_question_back() -> None:
    game, call = in_doubt()
    assert kinds(game.did(call))[:2] == ["GateWithdrawn", "EffectCompleted"]
    assert game.op("a").status == "done"
    for other in (game.did_not, game.never_left, game.doubt):
        with pytest.raises(AlreadyClosed):
            other(call)


def test_an_intent_that_turns_out_never_to_have_left_takes_the_question_back() -> None:
    game, call = in_doubt()
    assert kinds(game.never_left(call))[:2] == ["GateWithdrawn", "EffectReleased"]
    assert game.op("a").status == "reopened"


def test_an_outcome_between_a_persons_retry_and_the_repeat_saves_the_repeat() -> None:
    """Else the effect would be there twice although the state already shows it."""
    game, call = in_doubt()
    game.decide("retry")
    game.did(call, "it had happened")
    game.tick()
    assert game.op("a").outcome == inline("it had happened")
    assert game.intend("a") == []


def test_an_orphaned_failure_is_kept_too() -> None:
    game, first = in_doubt()
    game.decide("retry")
    game.tick()
    game.intended("a")
    assert kinds(game.did_not(first)) == ["OutcomeOrphaned"]


@pytest.mark.parametrize("outcome", ["never_left", "doubt"])
def test_a_repeated_call_that_has_nothing_to_say_is_no_news(outcome: str) -> None:
    game, first = in_doubt()
    game.decide("retry")
    game.tick()
    game.intended("a")
    assert getattr(game, outcome)(first) == []


# --- When nobody is left to settle a doubt ----------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["verify", "idempotent"])
def test_a_run_that_is_cancelled_with_an_effect_in_doubt_asks_about_it(policy: str) -> None:
    """No step is left to look it up or to repeat it: without the question the run would wait for ever, or lie."""
    game = Game(graph("a > b"))
    call = game.intended("a", policy)
    game.lose(by=None)
    game.cancel()
    assert game.status == "requires_attention"
    assert (game.gate.subject, game.gate.allowed) == (call, ("answer", "reject"))
    game.decide("reject")
    assert game.status == "cancelled"


@pytest.mark.parametrize("policy", ["verify", "idempotent", "once"])
def test_a_call_that_is_lost_when_its_step_is_already_over_is_asked_about(policy: str) -> None:
    game = Game(graph("a > b"))
    call = game.intended("a", policy)
    game.cancel()
    assert game.status == "running", "its sender lives"
    assert [(wait.kind, wait.reason, wait.id) for wait in game.waits] == [("effect", "outcome_outstanding", call)]
    game.lose(by=None)
    assert game.gate.subject == call
    game.decide("answer", data={})
    assert game.status == "cancelled"


def test_a_read_in_doubt_keeps_no_run_from_ending() -> None:
    game = Game(graph("a > b"))
    game.intended("a", "read")
    game.lose(by=None)
    game.cancel()
    assert game.status == "cancelled"


def test_a_verified_effect_of_a_superseded_step_is_asked_about() -> None:
    game = Game(graph("t > s", "t > side", loop("s", "t", 2)))
    game.complete("t")
    call = game.intended("side", "verify")
    game.lose(by=OTHER)
    game.complete("s")
    assert game.gate.subject == call


def test_a_loser_whose_effect_is_in_doubt_holds_up_only_the_end() -> None:
    game = Game(graph("a > j", "b > j", node("j", join="any")))
    game.intended("a", "verify")
    game.lose()
    game.complete("b")
    assert game.active == ["j"]
    game.complete("j", "J")
    assert game.status == "requires_attention"
    game.decide("reject")
    assert game.output == "J"


def test_calling_again_is_not_offered_when_no_step_is_left_to_call() -> None:
    game, _ = in_doubt()
    assert "retry" in game.gate.allowed
    game.cancel()
    with pytest.raises(InvalidDecision, match="the step that made it is over"):
        game.decide("retry")
    game.decide("reject")
    assert game.status == "cancelled"


def test_a_repeat_that_a_cancelled_run_never_made_leaves_its_effect_unknown() -> None:
    game, call = in_doubt()
    game.decide("retry")
    game.cancel()
    assert game.gate.subject == call
    game.decide("answer", data="it did")
    assert game.status == "cancelled"


def test_a_parked_step_is_still_there_to_repeat_its_call() -> None:
    game = Game(graph("a > b", on_exhausted="dead_letter"))
    game.doubt(game.intended("a", "idempotent"))
    game.fail("a", error(), path="0")
    assert game.gate.reason == "exhausted", "one question at a time"
    game.decide("retry")
    game.tick()
    game.did(game.intended("a", "idempotent"))
    game.complete("a")
    assert game.active == ["b"]


def test_a_rejected_dead_letter_leaves_its_unknown_effect_to_be_asked_about() -> None:
    game = Game(graph("a > b", on_exhausted="dead_letter"))
    call = game.intended("a", "idempotent")
    game.doubt(call)
    game.fail("a", error(), path="0")
    game.decide("reject")
    assert game.gate.subject == call


def test_an_effect_in_doubt_is_asked_about_when_only_a_waiting_step_is_left() -> None:
    """Who waits for it has no call to look up: without the question both would wait for ever."""
    game = Game(graph("a > end", "b > end", node("a", continue_on_error=True)))
    call = game.intended("a", "verify", key="k")
    assert kinds(game.intend("b", "verify", key="k")) == ["EffectDeferred"]
    game.suspend("b")
    game.doubt(call)
    game.fail("a", error())
    assert game.gate.subject == call
    assert kinds(game.decide("answer", data={"id": 7}))[:2] == ["GateDecided", "EffectCompleted"]
    game.tick()
    assert kinds(game.intend("b", "verify", key="k")) == ["EffectReused"]


# --- Named effects ----------------------------------------------------------------------------------------------------


def pair(**limits: object) -> Game:
    return Game(graph("a > end", "b > end", **limits))


def test_who_means_the_same_effect_gets_the_recorded_outcome() -> None:
    game = pair()
    game.did(game.intended("a", key="invite:1"), {"id": 7})
    assert kinds(game.intend("b", key="invite:1")) == ["EffectReused"]
    assert game.op("b").outcome == inline({"id": 7})


def test_a_loop_that_means_the_same_effect_does_not_repeat_it() -> None:
    game = Game(graph("a > b", loop("b", "a", 2)))
    game.did(game.intended("a", key="invite:1"), {"id": 7})
    game.complete("a")
    game.complete("b")
    assert kinds(game.intend("a", key="invite:1")) == ["EffectReused"]


def test_who_means_an_effect_that_is_in_flight_waits_for_it() -> None:
    game = pair()
    call = game.intended("a", key="invite:1")
    assert kinds(game.intend("b", key="invite:1")) == ["EffectDeferred"]
    game.suspend("b")
    assert [(wait.kind, wait.reason) for wait in game.waits] == [("effect", "same_effect_in_flight")]
    game.did(call, "done")
    assert game.active == ["a", "b"]
    assert kinds(game.intend("b", key="invite:1")) == ["EffectReused"]


def test_the_same_name_for_another_request_is_an_error() -> None:
    game = pair()
    call = game.intended("a", key="invite:1")
    with pytest.raises(KeyReused, match=f"used for another request in call {call}"):
        game.intend("b", key="invite:1", args="others")
    game.did(call)
    with pytest.raises(KeyReused):
        game.intend("b", key="invite:1", args="others")


@pytest.mark.parametrize("doubt", ["lost", "unanswered"])
def test_the_same_name_for_another_request_is_an_error_even_in_doubt(doubt: str) -> None:
    game = pair()
    call = game.intended("a", "idempotent", key="invite:1")
    if doubt == "lost":
        game.lose()
    else:
        game.doubt(call)
    with pytest.raises(KeyReused):
        game.intend("b", "idempotent", key="invite:1", args="others")


def test_who_waits_for_an_effect_that_did_not_happen_calls_it() -> None:
    game = pair()
    call = game.intended("a", key="invite:1")
    game.intend("b", key="invite:1")
    game.suspend("b")
    game.did_not(call)
    assert game.intended("b", key="invite:1").startswith("0190-run:b#1")


def test_who_waits_for_an_effect_in_doubt_waits_for_the_answer() -> None:
    game = pair()
    call = game.intended("a", key="invite:1")
    game.intend("b", key="invite:1")
    game.suspend("b")
    game.doubt(call)
    assert game.active == ["a"]
    game.decide("answer", data="it did")
    game.tick()
    assert kinds(game.intend("b", key="invite:1")) == ["EffectReused"]


def test_another_step_may_make_the_repeat_and_both_get_its_outcome() -> None:
    game = pair()
    first = game.intended("a", "idempotent", key="invite:1")
    game.intend("b", "idempotent", key="invite:1")
    game.suspend("b")
    game.doubt(first)
    second = game.intended("b", "idempotent", key="invite:1")
    assert list(game.state.calls) == [second]
    game.fail("a", TRANSIENT, path="0")
    game.tick(10)
    assert kinds(game.intend("a", "idempotent", key="invite:1")) == ["EffectDeferred"]
    game.did(second, "once")
    assert kinds(game.intend("a", "idempotent", key="invite:1")) == ["EffectReused"]


def test_a_step_that_wants_the_same_effect_is_left_to_repeat_it() -> None:
    game = Game(graph("a > end", "b > end", node("a", continue_on_error=True)))
    first = game.intended("a", "idempotent", key="invite:1")
    game.intend("b", "idempotent", key="invite:1")
    game.suspend("b")
    game.doubt(first)
    game.fail("a", error())
    assert not game.state.gates, "b will call it"
    game.intended("b", "idempotent", key="invite:1")
    assert not game.state.gates


def test_the_repeat_by_another_step_takes_the_question_back() -> None:
    game = Game(graph("a > c", "b > c", node("a", continue_on_error=True)))
    first = game.intended("a", "idempotent", key="invite:1")
    game.doubt(first)
    game.fail("a", error())
    assert game.gate.subject == first
    assert kinds(game.intend("b", "idempotent", key="invite:1")) == ["GateWithdrawn", "EffectIntended"]


def test_two_branches_of_a_gather_that_mean_the_same_effect_make_it_once() -> None:
    game = Game(graph("a"))
    call = game.intended("a", path="0.0.0", key="k")
    assert kinds(game.intend("a", path="0.1.0", key="k")) == ["EffectDeferred"]
    game.did(call)
    assert kinds(game.suspend("a")) == ["StepSuspended", "StepStarted"], "the waiting branch goes on"
    assert kinds(game.intend("a", path="0.1.0", key="k")) == ["EffectReused"]


# --- Denied -----------------------------------------------------------------------------------------------------------


def deny(game: Game, path: str = "0") -> list[ev.Event]:
    refused = error(policies.DENIED)
    return game.do(cmd.DenyToolCall(*game.at("a"), Path(path), "send", "args", refused))


def test_a_denied_call_is_recorded_and_was_never_made() -> None:
    game = Game(graph("a"))
    assert kinds(deny(game)) == ["ToolCallDenied"]
    assert game.op("a").status == "failed"
    assert not game.state.calls


def test_a_call_that_was_already_made_cannot_be_denied_away() -> None:
    game = Game(graph("a"))
    call = game.intended("a")
    assert deny(game) == []
    game.did(call)
    assert deny(game) == []
    assert game.op("a").status == "done"


# --- Several at once --------------------------------------------------------------------------------------------------


def test_every_call_of_a_dead_session_gets_what_its_policy_says() -> None:
    game = Game(graph("a"), limit=100)
    game.held("a", 40, path="0.0.0")
    for number, policy in enumerate(["read", "idempotent", "verify", "once"], 1):
        game.intended("a", policy, path=f"0.{number}.0")
    game.lose()
    statuses = [game.op("a", f"0.{number}.0").status for number in range(5)]
    assert statuses == ["reopened", "reopened", "reopened", "unverified", "in_doubt"]
    assert len(game.state.gates) == 1


def test_a_call_of_an_earlier_attempt_is_awaited_by_the_next() -> None:
    game = Game(graph("a"))
    call = game.intended("a", path="0.0.0")
    game.await_signal("a", "go", path="0.1.0")
    game.suspend("a")
    assert [(wait.kind, wait.reason) for wait in game.waits][-1] == ("effect", "outcome_outstanding")
    game.signal("go")
    assert game.step("a").attempt == 2
    assert game.intend("a", path="0.0.0") == []
    game.did(call)
    assert kinds(game.suspend("a")) == ["StepSuspended", "StepStarted"], "the second attempt had not seen it"


def test_an_error_edge_does_not_wait_for_the_calls_that_its_source_left_behind() -> None:
    game = Game(graph(edge("a", "mend", on="error")))
    call = game.intended("a")
    game.fail("a")
    game.complete("mend", "M")
    assert game.status == "running", "the end waits for the effect"
    game.did(call)
    assert game.output == "M"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_call_that_its_sender_gave_up_unheard_is_repeated_without_a_failure(policy: str) -> None:
    """A process that is told to stop leaves no failure behind for the next attempt to find."""
    game = Game(graph("a"))
    call = game.intended("a", policy)
    game.do(cmd.DoubtEffect(call, TRANSIENT, reopens=True))
    expected = {"read": "reopened", "idempotent": "reopened", "verify": "unverified", "once": "in_doubt"}
    assert game.op("a").status == expected[policy]


def test_a_model_call_that_its_sender_gave_up_is_made_again() -> None:
    game = Game(graph("a"), limit=100)
    call = game.held("a", 40)
    game.do(cmd.DoubtModelCall(call, TRANSIENT, reopens=True))
    assert game.op("a").status == "reopened"
    assert books(game) == (0, 0, 40)
