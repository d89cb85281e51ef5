"""How steps start, complete, fail, are tried again, are lost, parked, sent back and fenced off."""

from __future__ import annotations

import pytest

from holdfast.core.facts.graph import Join
from holdfast.core.values import policies
from holdfast.core.values.ids import Path
from holdfast.core.values.policies import RetryPolicy, delay_ms
from holdfast.errors import Conflict, InvalidDecision
from tests.core.game import OTHER, START_MS, TRANSIENT, Game, cmd, edge, error, ev, graph, kinds, loop, node

# --- Starting ---------------------------------------------------------------------------------------------------------


def test_a_run_starts_its_first_steps_in_its_first_commit() -> None:
    game = Game(graph("a > c", "b > c"), start=False)
    assert kinds(game.start({"n": 1}, key="k", by="ann")) == ["RunStarted", "StepStarted", "StepStarted"]
    assert game.state.input.value() == {"n": 1}
    assert (game.state.key, game.state.by, game.state.started_at_ms) == ("k", "ann", START_MS)


def test_a_run_starts_once() -> None:
    game = Game(graph("a"))
    with pytest.raises(Conflict, match="already been started"):
        game.start()


def test_a_runs_own_limit_comes_before_its_workflows() -> None:
    assert Game(graph("a", limits={"cost_nanousd": 5}), limit=7).state.budget.limit_nanousd == 7
    assert Game(graph("a", limits={"cost_nanousd": 5})).state.budget.limit_nanousd == 5
    assert Game(graph("a"), limit=0).state.budget.limit_nanousd == 0


def test_who_executes_nothing_starts_nothing_but_says_what_is_ready() -> None:
    game = Game(graph("a > b"), start=False)
    assert kinds(game.start(session=None)) == ["RunStarted", "StepReady"]
    assert game.due_ms == 0
    assert kinds(game.tick()) == ["StepStarted"]
    assert game.step("a").attempt == 1


def test_a_session_starts_only_as_many_steps_as_it_has_slots() -> None:
    game = Game(graph("root > a", "root > b", "root > c"))
    assert kinds(game.complete("root", slots=2)) == ["StepCompleted", "StepStarted", "StepStarted", "StepReady"]
    assert kinds(game.tick(slots=0)) == []
    assert kinds(game.tick(session=OTHER)) == ["StepStarted"]


# --- The fence of attempts --------------------------------------------------------------------------------------------


def test_an_attempt_whose_worker_is_gone_is_followed_by_another_of_the_same_session() -> None:
    game = Game(graph("a > b"))
    before = game.step("a").session
    said = game.do(cmd.LoseAttempt(*game.at("a")))
    assert kinds(said) == ["AttemptLost", "StepStarted"]
    assert (game.step("a").attempt, game.step("a").session, game.step("a").failures) == (2, before, 0)


def test_a_step_whose_workers_are_gone_each_time_is_taken_for_the_cause() -> None:
    game = Game(graph("a > b"))
    for _ in range(policies.MAX_LOST_ATTEMPTS):
        assert game.step("a").status == "active"
        game.do(cmd.LoseAttempt(*game.at("a")))
    assert game.state.ended == "failed"
    assert game.state.error is not None
    assert game.state.error.error_class == policies.LOST


# --- Failing and trying again -----------------------------------------------------------------------------------------


def test_a_failed_attempt_is_tried_again_when_its_time_has_come() -> None:
    game = Game(graph("a > b"))
    game.fail("a", TRANSIENT)
    wait_ms = delay_ms(policies.DEFAULT_RETRY, TRANSIENT, 1, "0190-run/a#1")
    assert game.due_ms == wait_ms
    assert game.status == "waiting"
    assert [(wait.kind, wait.reason, wait.due_at_ms) for wait in game.waits] == [("retry", "timeout", START_MS + wait_ms)]
    assert game.tick((wait_ms - 1) / 1000) == []
    assert kinds(game.tick(0.001)) == ["StepStarted"]
    assert (game.step("a").attempt, game.step("a").failures) == (2, 1)


def test_attempts_are_used_up_and_then_the_run_fails_with_the_last_error() -> None:
    game = Game(graph("a > b", node("a", retry=RetryPolicy(max_attempts=3, initial_s=1, jitter=0))))
    for _ in range(2):
        game.fail("a", TRANSIENT)
        game.tick(60)
    game.fail("a", error(policies.NETWORK, retryable=True))
    assert game.status == "failed"
    assert game.state.error is not None
    assert game.state.error.error_class == policies.NETWORK
    assert len(game.state.errors) == 3


def test_a_rate_limit_uses_up_none_of_the_other_attempts() -> None:
    """Waiting is all that it asks for: ten of them leave a later time-out its own tries."""
    game = Game(graph("a > b"))
    limited = error(policies.RATE_LIMIT, retryable=True)
    for _ in range(9):
        game.fail("a", limited)
        game.tick(100)
    for _ in range(2):
        game.fail("a", TRANSIENT)
        game.tick(100)
    assert game.step("a").attempt == 12
    game.fail("a", limited)
    assert game.status == "failed"


def test_a_retry_reopens_only_the_operation_that_failed() -> None:
    game = Game(graph("a > b"))
    game.settle(game.held("a", path="0"), output="kept")
    game.refuse(game.held("a", path="1"), TRANSIENT)
    game.fail("a", TRANSIENT, path="1")
    game.tick(10)
    assert (game.op("a", "0").status, game.op("a", "1").status) == ("done", "reopened")
    assert game.held("a", path="1").endswith(":1:2"), "a repeat is another call"


def test_an_error_that_the_handler_survived_stays_what_it_was() -> None:
    game = Game(graph("a > b"))
    game.refuse(game.held("a", path="0"), TRANSIENT)
    game.fail("a", TRANSIENT, path=None)
    game.tick(10)
    assert game.op("a", "0").status == "failed"


# --- Losing -----------------------------------------------------------------------------------------------------------


def test_a_lost_attempt_goes_on_elsewhere_and_counts_as_no_failure() -> None:
    game = Game(graph("a > b"))
    assert kinds(game.lose()) == ["AttemptLost", "StepStarted"]
    assert (game.step("a").failures, game.step("a").losses) == (0, 1)


def test_only_the_attempts_of_the_dead_are_lost() -> None:
    game = Game(graph("a > c", "b > c"), start=False)
    game.start(session=None)
    game.tick(slots=1)
    game.tick(session=OTHER, slots=1)
    assert kinds(game.lose()) == ["AttemptLost", "StepStarted"]
    assert game.step("b").attempt == 1


def test_a_step_that_kills_its_process_again_and_again_is_given_up() -> None:
    game = Game(graph("a > b"))
    for _ in range(policies.MAX_LOST_ATTEMPTS - 1):
        game.lose(game.step("a").session, by=OTHER)
        assert game.status == "running"
    game.lose(OTHER)
    assert game.status == "failed"
    assert game.state.error is not None
    assert game.state.error.error_class == policies.LOST
    assert "died in each of 5 attempts" in game.state.error.message


def test_resuming_counts_against_nothing() -> None:
    game = Game(graph("a > b"))
    for number in range(20):
        game.sleep("a", 1, path=str(number))
        game.tick(1)
    assert (game.step("a").attempt, game.step("a").failures, game.step("a").losses) == (21, 0, 0)
    assert game.state.steps_started == 1


def test_a_step_that_yields_goes_on_at_once_elsewhere() -> None:
    game = Game(graph("a > b"))
    game.do(cmd.SuspendStep(*game.at("a"), yields=True), session=None)
    assert game.due_ms == 0
    assert kinds(game.tick(session=OTHER)) == ["StepStarted"]


# --- Suspending -------------------------------------------------------------------------------------------------------


def test_an_outcome_that_comes_while_the_attempt_is_leaving_lets_it_go_on() -> None:
    game = Game(graph("a > b"))
    game.await_signal("a", "go")
    game.signal("go", 1)
    assert kinds(game.suspend("a")) == ["StepSuspended", "StepStarted"]


def test_an_outcome_that_the_attempt_brought_itself_is_no_reason_to_go_on_twice() -> None:
    """A step that calls a model and then sleeps is run again once: when the time has come."""
    game = Game(graph("a > b"))
    game.settle(game.held("a", path="0"))
    game.did(game.intended("a", path="1"))
    assert kinds(game.sleep("a", 60, path="2")) == ["StepSuspended"]
    assert game.step("a").attempt == 1


def test_a_step_waits_for_several_things_and_goes_on_with_each() -> None:
    game = Game(graph("a > b"))
    game.do(cmd.StartTimer(*game.at("a"), Path("0.0.0"), "x", 60_000))
    game.await_signal("a", "go", path="0.1.0")
    game.suspend("a")
    assert kinds(game.signal("go")) == ["SignalReceived", "SignalDelivered", "StepStarted"]
    game.suspend("a")
    assert game.status == "waiting"
    assert kinds(game.tick(60)) == ["TimerFired", "StepStarted"]


def test_a_completed_step_keeps_its_output_and_no_journal() -> None:
    game = Game(graph("a > b"))
    game.effect("a")
    game.complete("a", {"x": 1})
    assert game.step("a").journal == {}
    assert game.step("a").output.value() == {"x": 1}


# --- Decisions that lead nowhere --------------------------------------------------------------------------------------


def failed_with(game: Game, klass: str) -> str:
    assert game.status == "failed"
    assert game.state.error is not None
    assert game.state.error.error_class == klass
    return game.state.error.message


def test_a_branch_that_names_no_way_of_its_own_fails_and_lists_them() -> None:
    game = Game(graph(node("a", "branch"), edge("a", "b", when="x"), "a > c"))
    game.complete("a", None, "z")
    assert failed_with(game, policies.ROUTING) == "'a' chose 'z', which is none of its ways: c, x."


def test_a_check_that_does_not_pass_fails_the_run_unless_an_edge_follows() -> None:
    game = Game(graph(node("a", "check"), "a > b"))
    game.complete("a", None, "fail")
    failed_with(game, policies.CHECK_FAILED)
    game = Game(graph(node("a", "check"), "a > b", edge("a", "mend", when="fail")))
    game.complete("a", None, "fail")
    assert game.active == ["mend"]


def test_a_check_that_only_advises_lets_the_run_go_on() -> None:
    game = Game(graph(node("a", "check", continue_on_error=True), "a > b"))
    game.complete("a", None, "fail")
    assert game.active == ["b"]


# --- Loops ------------------------------------------------------------------------------------------------------------


def test_a_loop_is_bounded_and_then_the_run_goes_on() -> None:
    game = Game(graph("a > b > c", loop("b", "a", 3)))
    for visit in (1, 2, 3):
        assert game.step("a").id == f"a#{visit}"
        game.complete("a")
        game.complete("b")
    assert game.active == ["c"]


def test_a_loop_supersedes_everything_after_its_target_and_nothing_else() -> None:
    game = Game(graph("start > t > s > end", "t > side > side2", "start > apart", loop("s", "t", 2)))
    game.complete("start")
    game.complete("t")
    game.complete("side")
    (taken,) = [event for event in game.complete("s") if isinstance(event, ev.LoopTaken)]
    assert set(taken.superseded) == {"t#1", "s#1", "side#1", "side2#1"}
    assert game.statuses() == {"start": "completed", "apart": "active", "t": "active"}
    assert game.step("t").id == "t#2"


def test_a_check_sends_back_until_its_loop_is_used_up() -> None:
    game = Game(graph("draft > good", node("good", "check"), "good > end", loop("good", "draft", 2)))
    game.complete("draft")
    game.complete("good", None, "retry")
    assert game.step("draft").id == "draft#2"
    game.complete("draft")
    game.complete("good", None, "retry")
    assert "visited 2 times, which is all that its loop allows" in failed_with(game, policies.CHECK_FAILED)


def test_a_branch_whose_loop_is_used_up_fails_unless_another_way_has_that_name() -> None:
    flow = ("a > b", node("b", "branch"), loop("b", "a", 2, when="again"))
    game = Game(graph(*flow, edge("b", "end", when="done")))
    for _ in range(2):
        game.complete("a")
        game.complete("b", None, "again")
    failed_with(game, policies.LOOP_EXHAUSTED)
    game = Game(graph(*flow, edge("b", "way_out", when="again")))
    for _ in range(2):
        game.complete("a")
        game.complete("b", None, "again")
    assert game.active == ["way_out"]


def test_an_exhausted_loop_may_be_taken_up_by_an_error_edge() -> None:
    game = Game(graph("a > c", node("c", "check"), "c > end", loop("c", "a", 2), edge("c", "person", on="error")))
    for _ in range(2):
        game.complete("a")
        game.complete("c", None, "retry")
    assert game.active == ["person"]


def test_a_denied_loop_is_not_taken() -> None:
    game = Game(graph("a > b > c", loop("b", "a", 3, guard="again")))
    game.complete("a")
    game.complete("b")
    assert game.active == []
    game.judge(allow=False)
    assert game.active == ["c"]


def test_guards_are_asked_again_on_every_visit() -> None:
    game = Game(graph("t > s > end", edge("t", "x", guard="g"), loop("s", "t", 3, guard="again")))
    for visit in (1, 2):
        game.complete("t")
        assert [asked.step for asked in game.state.asked.values()] == [f"t#{visit}"]
        game.judge()
        game.complete("x")
        game.complete("s")
        game.judge()
    assert game.step("t").id == "t#3"


def test_a_guard_of_a_superseded_step_need_not_speak_any_more() -> None:
    game = Game(graph("t > s", "t > side", edge("side", "x", guard="g"), loop("s", "t", 2)))
    game.complete("t")
    game.complete("side")
    assert game.state.asked
    game.complete("s")
    assert not game.state.asked


def test_a_guard_of_a_node_that_a_loop_overtook_is_asked_again() -> None:
    """`x` was about to be judged on what the loop has made history."""
    flow = graph("t > x", "t > s > end", node("x", guard="g"), loop("s", "t", 2))
    game = Game(flow)
    game.complete("t")
    assert len(game.state.asked) == 1
    game.complete("s")
    assert not game.state.asked
    game.complete("t")
    assert [asked.step for asked in game.state.asked.values()] == ["x#1"]


def test_a_join_inside_a_loop_is_armed_again() -> None:
    flow = graph("t > a > j", "t > b > j", "t > s > end", node("j", join=Join("all", timeout_s=60)), loop("s", "t", 2))
    game = Game(flow)
    game.complete("t")
    game.complete("a")
    assert game.due_ms == 60_000
    game.now_ms += 50_000
    game.complete("s")
    assert game.due_ms is None, "what had reached the join is history"
    game.complete("t")
    game.complete("a")
    assert game.due_ms == 110_000, "a full minute from the branch that counts"


def test_a_best_effort_join_that_timed_out_before_the_loop_waits_again_after_it() -> None:
    flow = graph(
        "t > a > j", "t > b > j", "t > s > end", node("j", join=Join("best_effort", timeout_s=60), guard="g"), loop("s", "t", 2)
    )
    game = Game(flow)
    game.complete("t")
    game.complete("a")
    game.tick(60)
    assert game.state.joins == {"j": None}
    game.complete("s")
    game.complete("t")
    assert game.statuses()["a"] == "active"
    assert not game.state.asked


def test_an_inner_loops_target_that_an_outer_loop_overtook_waits_for_its_join_again() -> None:
    flow = graph("t > a > b > end", "t > s > out", node("a", guard="g"), loop("b", "a", 3), loop("s", "t", 2))
    game = Game(flow)
    game.complete("t")
    game.judge()
    game.complete("a")
    game.complete("b")
    assert game.state.asked, "the guard of a#2 has not spoken"
    game.complete("s")
    assert game.active == ["t"]
    assert not game.state.asked, "`a` waits for `t` again"


def test_calls_of_a_superseded_step_keep_their_outcomes() -> None:
    game = Game(graph("t > s", "t > side", loop("s", "t", 2)), limit=100)
    game.complete("t")
    money, effect = game.held("side", 60), game.intended("side", path="1", compensation="undo")
    game.complete("s")
    game.settle(money, 40)
    game.did(effect)
    assert game.state.budget.settled_nanousd == 40
    assert [done.call for done in game.state.compensable] == [effect]


def test_a_superseded_timer_wakes_no_step() -> None:
    game = Game(graph("t > s", "t > side", loop("s", "t", 2)))
    game.complete("t")
    game.sleep("side", 60)
    game.complete("s")
    assert game.due_ms is None
    assert game.tick(100) == []


def test_a_gate_that_a_finished_step_had_left_open_is_withdrawn_by_the_loop() -> None:
    game = Game(graph("t > s", "t > side", loop("s", "t", 2), on_exhausted="dead_letter"))
    game.complete("t")
    game.fail("side")
    assert game.gate.reason == "exhausted"
    game.complete("s")
    assert not game.state.gates


# --- Dead letters -----------------------------------------------------------------------------------------------------


def parked(*parts: object) -> Game:
    game = Game(graph(*(parts or ("a > b",)), on_exhausted="dead_letter"))
    game.effect("a", path="0")
    game.did_not(game.intended("a", path="1"), error(policies.TOOL))
    game.fail("a", error(policies.TOOL), path="1")
    return game


def test_a_dead_letter_waits_for_a_person() -> None:
    game = parked()
    assert game.gate.reason == "exhausted"
    assert game.gate.allowed == ("retry", "answer", "reject")
    assert game.status == "requires_attention"
    assert game.tick(1000) == []
    assert game.statuses() == {"a": "failed"}, "what follows waits: it is neither skipped nor started"


def test_a_replayed_dead_letter_keeps_its_journal_and_its_keys() -> None:
    game = parked()
    key = game.op("a", "1").key
    game.decide("retry")
    game.tick()
    assert game.op("a", "0").status == "done"
    assert game.op("a", "1").status == "reopened", "the operation that failed is tried again"
    game.intend("a", path="1")
    assert game.op("a", "1").key == key
    assert game.step("a").attempt == 2


def test_a_replayed_dead_letter_has_all_its_attempts_again() -> None:
    game = parked("a > b", node("a", retry=RetryPolicy(max_attempts=2)))
    game.decide("retry")
    game.tick()
    game.fail("a", TRANSIENT)
    assert game.step("a").status == "retrying"


def test_an_answered_dead_letter_goes_on_with_the_answer() -> None:
    game = parked()
    game.decide("answer", data={"by hand": True})
    game.tick()
    assert game.active == ["b"]
    assert game.step("a").output.value() == {"by hand": True}


def test_a_rejected_dead_letter_fails_the_run() -> None:
    game = parked()
    game.decide("reject")
    assert game.status == "failed"


def test_a_node_that_decides_cannot_have_its_decision_made_up() -> None:
    """Its output does not say which way to go: taking every edge would pass for approval."""
    game = Game(graph("a > b", node("a", "human_gate"), on_exhausted="dead_letter"))
    game.fail("a")
    assert game.gate.allowed == ("retry", "reject")
    with pytest.raises(InvalidDecision):
        game.decide("answer", data={})


def test_a_parked_loser_is_called_off_with_its_question() -> None:
    """Two nodes of a branch: one has completed elsewhere's join by the time the other is a dead letter."""
    flow = graph("x > both", "b > both", "both > j", "c > j", node("j", join="any"), on_exhausted="dead_letter")
    game = Game(flow)
    game.fail("x")
    assert game.gate.subject == "x#1", "half a branch cannot fail quietly, so it is parked"
    game.complete("c")
    assert game.statuses()["x"] == "cancelled"
    assert not game.state.gates
    game.complete("j", "J")
    assert game.output == "J"


def test_a_failure_that_the_graph_takes_up_is_no_dead_letter() -> None:
    game = Game(graph("a > b", edge("a", "mend", on="error"), on_exhausted="dead_letter"))
    game.fail("a")
    assert game.active == ["mend"]


def test_a_rejection_is_no_dead_letter() -> None:
    game = Game(graph(node("a", "human_gate"), "a > b", on_exhausted="dead_letter"))
    game.human_gate("a")
    game.decide("reject")
    assert game.status == "failed"


def test_a_gate_inside_a_parked_step_can_still_be_answered() -> None:
    game = Game(graph("a > b", on_exhausted="dead_letter"))
    game.open_gate("a", "0.0.0")
    game.fail("a")
    question = next(gate for gate in game.state.gates.values() if gate.opened.reason == "question").opened.gate
    game.decide("answer", question)
    dead = game.gate.gate
    game.decide("retry", dead)
    game.tick()
    assert game.op("a", "0.0.0").status == "done"
