"""A limit stops a run where it is, keeps what it has, and asks; nothing goes past it, and what is extended goes on."""

from __future__ import annotations

import pytest

from holdfast.core.rules import limits
from holdfast.core.values import policies
from holdfast.core.views.status import due_at_ms
from holdfast.errors import InvalidDecision, Suspended
from tests.core.game import NULL, OTHER, RUN, START_MS, TRANSIENT, Game, cmd, error, ev, graph, kinds, loop, node


def two(**limits: int) -> Game:
    """Two branches at work at the same time."""
    return Game(graph("a > end", "b > end", limits=limits))


# --- Money ------------------------------------------------------------------------------------------------------------


def test_parallel_branches_cannot_jointly_overshoot() -> None:
    game = two(cost_nanousd=100)
    game.held("a", 60)
    assert kinds(game.hold("b", 60)) == ["HoldDeferred"]
    assert game.state.budget.committed_nanousd == 60


def test_a_hold_that_waits_for_other_holds_asks_no_person_and_continues_with_room() -> None:
    game = two(cost_nanousd=100)
    call = game.held("a", 60)
    game.hold("b", 60)
    game.suspend("b")
    assert not game.state.gates
    assert [(wait.kind, wait.reason, wait.step) for wait in game.waits] == [("money", "holds_in_flight", "b#1")]
    assert kinds(game.settle(call, 30)) == ["ModelCallSettled", "StepStarted"]
    game.held("b", 60)


def test_a_waiting_attempt_that_suspends_does_not_miss_a_settlement() -> None:
    game = two(cost_nanousd=100)
    call = game.held("a", 60)
    game.hold("b", 60)
    game.settle(call, 30)
    assert kinds(game.suspend("b")) == ["StepSuspended", "StepStarted"]


def test_what_does_not_fit_at_all_opens_one_gate_that_says_what_is_needed() -> None:
    game = two(cost_nanousd=100)
    game.settle(game.held("a", 60), 60)
    assert kinds(game.hold("a", 50, path="1")) == ["HoldDeferred", "LimitNeared", "GateOpened"]
    assert kinds(game.hold("b", 70)) == ["HoldDeferred"], "one question about one limit"
    shown = game.gate.shown.value()
    assert (game.gate.reason, game.gate.allowed, game.gate.subject) == ("budget", ("answer", "reject"), "cost")
    assert (shown["worst_case_usd"], shown["limit_usd"], shown["needed_limit_usd"]) == ("0.00000005", "0.0000001", "0.00000011")
    game.suspend("a")
    game.suspend("b")
    assert game.status == "budget_blocked"
    assert {(wait.kind, wait.reason) for wait in game.waits} == {("gate", "budget"), ("money", "over_limit")}
    assert game.due_ms is None, "nothing is due until somebody answers"


def test_a_raised_limit_lets_the_run_go_on_from_the_same_place() -> None:
    game = two(cost_nanousd=100)
    game.settle(game.held("a", 10, path="0"), 10, "kept")
    game.hold("a", 150, path="1")
    game.suspend("a")
    assert kinds(game.raise_limit("cost", 200)) == ["GateDecided", "LimitRaised", "StepStarted"]
    assert game.op("a", "0").status == "done"
    game.held("a", 150, path="1")


def test_the_form_of_a_limits_gate_begins_with_what_all_that_waits_needs() -> None:
    game = two(cost_nanousd=100)
    game.settle(game.held("a", 60), 60)
    game.hold("a", 50, path="1")
    game.hold("b", 70)
    form, begins = limits.answer_form(game.state, game.gate.reason) or ({}, {})
    assert (form["required"], begins) == (["limit_usd"], {"limit_usd": "0.00000018"})
    with pytest.raises(InvalidDecision, match=r"needs \$0\.00000011\. The gate is still open"):
        game.decide("answer", data={"limit_usd": "0.000000109"})
    game.decide("answer", data=begins)
    assert game.state.budget.limit_nanousd == 180


def test_the_form_of_a_limit_on_tokens_counts_them_and_too_few_are_refused() -> None:
    game = Game(graph("a", limits={"max_tokens": 50}))
    game.hold("a", 1, tokens=60)
    form, begins = limits.answer_form(game.state, game.gate.reason) or ({}, {})
    assert (form["properties"]["tokens"]["type"], begins) == ("integer", {"tokens": 60})
    with pytest.raises(InvalidDecision, match="it needs 60"):
        game.decide("answer", data={"tokens": 59})
    assert limits.answer_form(game.state, "question") is None


def test_answering_the_gate_raises_the_limit() -> None:
    game = two(cost_nanousd=100)
    game.hold("a", 150)
    game.suspend("a")
    game.decide("answer", data={"limit_usd": "0.0000002"})
    assert game.state.budget.limit_nanousd == 200
    game.tick()
    game.held("a", 150)


def test_a_limit_that_is_raised_too_little_asks_again() -> None:
    game = two(cost_nanousd=100)
    game.hold("a", 150)
    game.suspend("a")
    game.raise_limit("cost", 120)
    assert kinds(game.hold("a", 150)) == ["HoldDeferred", "LimitNeared", "GateOpened"]


def test_a_refused_extension_fails_the_run() -> None:
    game = two(cost_nanousd=100)
    game.hold("a", 150)
    game.decide("reject", reason="too dear")
    assert game.status == "failed"
    assert game.state.error is not None
    assert (game.state.error.error_class, game.state.error.message) == (policies.LIMIT, "The limit was not extended: too dear.")


def test_a_workflow_may_prefer_to_fail() -> None:
    game = Game(graph("a > end", "b > end", on_limit="fail"), limit=100)
    game.hold("a", 150)
    assert game.status == "failed"
    assert game.statuses() == {"a": "cancelled", "b": "cancelled"}


def test_money_in_doubt_does_not_come_back_so_who_waits_for_it_must_ask() -> None:
    game = two(cost_nanousd=100)
    call = game.held("a", 60)
    game.hold("b", 60)
    game.suspend("b")
    assert kinds(game.doubt_money(call)) == ["ModelCallInDoubt", "StepStarted", "LimitNeared"]
    assert kinds(game.hold("b", 60)) == ["HoldDeferred", "LimitNeared", "GateOpened"]


def test_who_is_blocked_is_not_started_for_nothing_by_what_others_settle() -> None:
    game = two(cost_nanousd=100)
    game.hold("b", 150)
    game.suspend("b")
    game.settle(game.held("a", 10), 5)
    assert game.step("b").attempt == 1
    assert len(game.events(ev.GateOpened)) == 1


def test_room_that_comes_back_by_itself_takes_the_question_back() -> None:
    game = two(cost_nanousd=100)
    call = game.held("a", 60)
    game.doubt_money(call)
    game.hold("b", 60)
    game.suspend("b")
    assert game.gate.reason == "budget"
    events = game.reconcile(call, 10)
    assert kinds(events) == ["ModelCallReconciled", "StepStarted", "GateWithdrawn"]
    game.settle(game.held("b", 60), 60)
    game.complete("a")
    game.complete("b")
    game.complete("end")
    assert game.status == "completed"


def test_a_question_about_money_for_a_step_that_was_called_off_is_taken_back() -> None:
    game = Game(graph("a > j", "b > j", node("j", join="any")), limit=100)
    game.hold("b", 150)
    game.suspend("b")
    game.complete("a")
    assert not game.state.gates
    game.complete("j", "J")
    assert game.output == "J"


def test_a_cheaper_offer_is_taken_where_the_first_does_not_fit() -> None:
    game = two(cost_nanousd=100)
    (held,) = game.hold("a", 150, model="big", cheaper=(cmd.CallCandidate("small", 40, 9),))
    assert isinstance(held, ev.ModelCallHeld)
    assert (held.model, held.sent_to, held.offer, held.hold_nanousd, held.tokens) == ("big", "small", 1, 40, 9)


def test_no_offer_that_fits_asks_about_the_cheapest() -> None:
    game = two(cost_nanousd=100)
    game.hold("a", 150, model="big", cheaper=(cmd.CallCandidate("small", 120, 9),))
    assert game.gate.shown.value()["model"] == "small"


def test_an_offer_must_fit_every_limit() -> None:
    game = Game(graph("a"), limit=100)
    game = Game(graph("a", limits={"cost_nanousd": 100, "max_tokens": 50}))
    (held,) = game.hold("a", 10, 60, cheaper=(cmd.CallCandidate("short", 20, 40),))
    assert isinstance(held, ev.ModelCallHeld)
    assert held.sent_to == "short"


# --- Tokens -----------------------------------------------------------------------------------------------------------


def test_parallel_branches_cannot_jointly_overshoot_their_tokens() -> None:
    game = two(max_tokens=100)
    call = game.held("a", 0, 60)
    assert kinds(game.hold("b", 0, 60)) == ["HoldDeferred"]
    game.suspend("b")
    assert game.waits[0].reason == "holds_in_flight"
    assert kinds(game.settle(call, 0, tokens=(10, 10))) == ["ModelCallSettled", "StepStarted"]
    game.held("b", 0, 60)


def test_tokens_that_do_not_fit_at_all_ask() -> None:
    game = two(max_tokens=100)
    game.settle(game.held("a", 0, 60), 0, tokens=(30, 20))
    game.hold("b", 0, 60)
    game.suspend("b")
    shown = game.gate.shown.value()
    assert game.gate.reason == "max_tokens"
    assert shown["message"].startswith("The next call may use 60 tokens; 50 of 100 are used.")
    assert kinds(game.hold("a", 0, 1, path="1")) == ["HoldDeferred"], "the run is stopped where it is"
    game.suspend("a")
    assert game.status == "requires_attention"
    game.raise_limit("tokens", 200)
    assert set(game.active) == {"a", "b"}
    game.held("b", 0, 60)
    game.held("a", 0, 1, path="1")


def test_tokens_of_a_call_in_doubt_count_as_used() -> None:
    game = two(max_tokens=100)
    call = game.held("a", 0, 60)
    game.doubt_money(call)
    assert kinds(game.hold("b", 0, 60)) == ["HoldDeferred", "LimitNeared", "GateOpened"]
    game.reconcile(call, 0)
    assert game.state.tokens_used == 60, "nobody knows how many it was, but not more"


def test_what_a_token_gate_held_back_goes_on_when_the_gate_is_taken_back() -> None:
    """The big call's step is called off; the small call of another branch had been stopped by the gate."""
    game = Game(graph("a > j", "b > j", "c > end", node("j", join="any"), limits={"max_tokens": 100}))
    game.hold("b", 0, 150)
    game.suspend("b")
    game.hold("c", 0, 10)
    game.suspend("c")
    game.complete("a")
    assert not game.state.gates
    assert game.active == ["j", "c"]
    game.held("c", 0, 10)


# --- Steps ------------------------------------------------------------------------------------------------------------


def test_a_run_stops_at_its_last_step_and_asks() -> None:
    game = Game(graph("a > b > c", limits={"max_steps": 2}))
    game.complete("a")
    assert kinds(game.complete("b")) == ["StepCompleted", "GateOpened", "StepReady"]
    assert game.gate.reason == "max_steps"
    assert game.status == "requires_attention"
    assert game.due_ms is None
    assert game.tick(10) == []
    assert kinds(game.raise_limit("steps", 3)) == ["GateDecided", "LimitRaised", "StepStarted", "LimitNeared"]
    game.complete("c")
    assert game.status == "completed"


def test_a_limit_on_steps_is_reached_once_however_many_wait_for_it() -> None:
    game = Game(graph("root > a", "root > b", "root > c", limits={"max_steps": 2}))
    game.complete("root")
    assert len(game.events(ev.GateOpened)) == 1
    assert game.active == ["a"]
    game.raise_limit("steps", 3)
    assert game.active == ["a", "b"]
    assert len(game.state.gates) == 1, "it is reached again"


def test_retries_and_resumes_are_no_new_steps() -> None:
    game = Game(graph("a > b", limits={"max_steps": 1}))
    game.fail("a", TRANSIENT)
    game.tick(10)
    game.sleep("a", 5)
    game.tick(5)
    game.lose()
    assert game.step("a").attempt == 4
    assert not game.state.gates


def test_an_endless_loop_stops_at_the_limit() -> None:
    game = Game(graph("a > b", loop("b", "a", 1_000_000), limits={"max_steps": 10}))
    while game.active:
        game.complete(game.active[0])
    assert game.gate.reason == "max_steps"
    assert game.state.steps_started == 10


def test_a_workflow_that_prefers_to_fail_fails_at_the_last_step() -> None:
    game = Game(graph("a > b", limits={"max_steps": 1}, on_limit="fail"))
    game.complete("a")
    assert game.status == "failed"


def test_a_limit_on_steps_that_nothing_runs_into_any_more_needs_no_answer() -> None:
    game = Game(graph("a > j", "b > b2 > j", node("j", join="any"), limits={"max_steps": 2}))
    game.complete("b")
    assert game.gate.reason == "max_steps"
    game.complete("a")
    assert game.gate.reason == "max_steps", "the join cannot start either"
    game.raise_limit("steps", 3)
    game.complete("j", "J")
    assert game.output == "J"


# --- Active time ------------------------------------------------------------------------------------------------------


def test_only_work_counts_as_active_time() -> None:
    game = Game(graph("a > b", limits={"max_active_s": 10}))
    assert game.due_ms == 5_000, "half of it is told"
    game.now_ms += 4_000
    game.sleep("a", 1000)
    assert game.state.active_ms == 4_000
    game.tick(1000)
    assert game.due_ms == 1_004_000 + 1_000


def test_parallel_work_counts_once() -> None:
    game = two(max_active_s=10)
    game.now_ms += 4_000
    game.complete("a")
    game.now_ms += 1_000
    game.complete("b")
    assert game.state.active_ms == 5_000


def test_a_run_out_of_time_begins_nothing_new_and_asks() -> None:
    game = two(max_active_s=10)
    assert kinds(game.tick(10)) == ["LimitNeared", "GateOpened"]
    assert game.gate.reason == "max_active"
    assert game.tick(1) == [], "one question"
    assert game.due_ms is None, "nothing is due before the answer, though an attempt runs"
    for intent in (lambda: game.hold("a", 1), lambda: game.intend("a"), lambda: game.sleep("a", 1)):
        with pytest.raises(Suspended, match="used up its active time"):
            intent()
    game.complete("a")
    game.suspend("b")
    assert game.status == "requires_attention"
    assert kinds(game.raise_limit("active", 100)) == ["GateDecided", "LimitRaised", "StepStarted"]
    game.held("b", 1)


def test_an_extension_that_comes_while_the_refused_attempt_is_leaving_is_not_missed() -> None:
    game = two(max_active_s=10)
    game.tick(10)
    with pytest.raises(Suspended):
        game.hold("a", 1)
    game.raise_limit("active", 100)
    assert kinds(game.suspend("a")) == ["StepSuspended", "StepStarted"]


def test_a_model_call_is_when_being_out_of_time_is_noticed_too() -> None:
    game = two(max_active_s=10)
    game.now_ms += 10_000
    assert kinds(game.hold("a", 1)) == ["HoldDeferred", "LimitNeared", "GateOpened"]
    game.suspend("a")
    game.raise_limit("active", 100)
    game.held("a", 1)


def test_a_run_that_has_nothing_left_to_do_needs_no_more_time() -> None:
    game = Game(graph("a", limits={"max_active_s": 10}))
    game.tick(10)
    game.complete("a", "A")
    assert game.output == "A"


def test_a_fraction_of_a_millisecond_makes_no_process_look_too_early() -> None:
    game = Game(graph("a", limits={"max_active_s": 0.0015, "max_lifespan_s": 0.0025}))
    assert game.due_ms == 1, "half of it is told"
    game.now_ms = START_MS + 2
    assert kinds(game.tick()) == ["LimitNeared", "GateOpened"]
    assert game.due_ms == 3
    game.now_ms = START_MS + 3
    assert kinds(game.tick()) == ["LifespanPassed", "GateOpened"]


# --- Lifespan ---------------------------------------------------------------------------------------------------------


def test_a_lifespan_stops_nothing_and_only_summons() -> None:
    game = Game(graph("a > b", limits={"max_lifespan_s": 60}))
    game.sleep("a", 3600)
    assert game.due_ms == 60_000
    assert kinds(game.tick(60)) == ["LifespanPassed", "GateOpened"]
    assert game.status == "requires_attention"
    assert game.tick(1) == []
    game.tick(3600)
    game.complete("a")
    game.complete("b")
    assert game.status == "completed"
    assert not game.state.gates


def test_a_lifespan_that_passes_while_a_run_is_ending_needs_no_answer() -> None:
    game = Game(graph("a > b", limits={"max_lifespan_s": 60}))
    call = game.intended("a")
    game.cancel()
    assert kinds(game.tick(60)) == ["LifespanPassed", "GateOpened"]
    assert kinds(game.did(call)) == ["EffectCompleted", "GateWithdrawn", "RunCancelled"]


def test_an_extended_lifespan_passes_again() -> None:
    game = Game(graph("a > b", limits={"max_lifespan_s": 60}))
    game.tick(60)
    game.decide("answer", data={"lifespan": 120})
    assert game.due_ms == 120_000
    assert kinds(game.tick(60)) == ["LifespanPassed", "GateOpened"]


# --- Raising ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "value", "says"),
    [
        ("cost", 100, r"The limit on cost is \$0.0000001; \$0.0000001 would not raise it"),
        ("steps", 5, "The limit on steps is 1000; 5 would not raise it"),
        ("tokens", 5, "no limit on tokens, so there is nothing to raise"),
        ("luck", 5, "no limit 'luck'; the limits are cost, steps, tokens, model_calls, tool_calls, active, wall, lifespan"),
    ],
)
def test_what_would_raise_nothing_is_refused(limit: str, value: int, says: str) -> None:
    game = Game(graph("a"), limit=100)
    with pytest.raises(InvalidDecision, match=says):
        game.raise_limit(limit, value)


def test_a_lifespan_that_no_store_could_keep_is_as_good_as_none() -> None:
    """Such a run could not be appended to any more, and kept its worker from all others."""
    game = Game(graph("a", limits={"max_lifespan_s": 600}))
    game.raise_limit("lifespan", 10**19)
    assert 0 < (due_at_ms(game.state, executing=True) or 0) < 2**63
    assert game.state.max_lifespan_s == 10**19


@pytest.mark.parametrize("data", [None, {}, {"limit_usd": "a lot"}, {"limit_usd": "0.00000001"}, {"limit_usd": None}])
def test_an_answer_that_names_no_higher_limit_leaves_the_gate_open(data: object) -> None:
    game = Game(graph("a"), limit=100)
    game.hold("a", 150)
    with pytest.raises(InvalidDecision):
        game.decide("answer", data=data)
    assert game.gate.reason == "budget"


@pytest.mark.parametrize("value", ["many", None, float("inf"), [1]])
def test_an_answer_that_is_no_number_leaves_the_gate_open(value: object) -> None:
    game = Game(graph("a > b", limits={"max_steps": 1}))
    game.complete("a")
    with pytest.raises(InvalidDecision):
        game.decide("answer", data={"steps": value})
    game.decide("answer", data={"steps": 2})
    assert game.state.max_steps == 2


def test_a_limit_may_be_raised_before_it_is_reached() -> None:
    game = Game(graph("a"), limit=100)
    assert kinds(game.raise_limit("cost", 200)) == ["LimitRaised"]
    game.held("a", 150)


def test_what_is_undone_is_not_held_back_by_limits() -> None:
    game = Game(graph("a > b > c", limits={"max_steps": 2}))
    game.effect("a", compensation="undo")
    game.complete("a")
    game.complete("b")
    assert game.gate.reason == "max_steps"
    game.cancel()
    assert game.active == ["!compensate"]
    assert not game.state.gates


def test_a_failing_run_is_not_asked_about_its_limits() -> None:
    game = two(cost_nanousd=100)
    game.hold("a", 150)
    game.fail("b", error())
    assert game.status == "failed"
    assert game.tick(session=OTHER) == []


# --- Calls ------------------------------------------------------------------------------------------------------------


def test_branches_at_once_cannot_make_more_calls_than_the_cap() -> None:
    game = two(max_model_calls=1)
    call = game.held("a")
    assert kinds(game.hold("b")) == ["HoldDeferred", "GateOpened"]
    assert (game.gate.reason, game.gate.subject) == ("max_model_calls", "model_calls")
    game.suspend("b")
    game.settle(call)
    assert [(wait.kind, wait.reason) for wait in game.waits] == [("gate", "max_model_calls"), ("calls", "over_limit")]
    assert kinds(game.raise_limit("model_calls", 3)) == ["GateDecided", "LimitRaised", "StepStarted"]
    game.held("b")


def test_a_call_that_never_left_does_not_count_and_one_that_was_refused_does() -> None:
    game = two(max_model_calls=2)
    call = game.held("a")
    game.do(cmd.FailModelCall(call, error(), reopens=True))
    assert game.state.model_calls == 0
    game.refuse(game.held("a"))
    assert game.state.model_calls == 1


def test_room_that_a_call_leaves_which_never_left_takes_the_question_back() -> None:
    game = two(max_model_calls=1)
    call = game.held("a")
    game.hold("b")
    game.suspend("b")
    events = game.do(cmd.FailModelCall(call, error(), reopens=True))
    assert kinds(events) == ["ModelCallFailed", "StepStarted", "GateWithdrawn"]
    game.held("b")


def test_tools_have_a_cap_of_their_own_and_an_answer_raises_it() -> None:
    game = two(max_tool_calls=1)
    game.did(game.intended("a"))
    assert kinds(game.intend("b")) == ["HoldDeferred", "GateOpened"]
    assert game.gate.reason == "max_tool_calls"
    game.complete("a")
    game.suspend("b")
    assert game.status == "requires_attention"
    game.decide("answer", data={"tool_calls": 2})
    game.tick()
    game.intended("b")


def test_an_effect_that_another_call_has_costs_no_call() -> None:
    game = two(max_tool_calls=1)
    game.did(game.intended("a", key="k"), "done")
    assert kinds(game.intend("b", key="k")) == ["EffectReused"]


def test_undoing_is_not_what_a_cap_is_about() -> None:
    game = Game(graph("a > b", limits={"max_tool_calls": 1}))
    done = game.intended("a", compensation="unsend")
    game.did(done)
    game.complete("a")
    game.cancel()
    game.intended("!compensate", compensates=done)
    assert game.state.tool_calls == 1


def test_a_workflow_may_prefer_to_fail_at_a_cap() -> None:
    game = Game(graph("a", limits={"max_tool_calls": 1}, on_limit="fail"))
    game.did(game.intended("a"))
    game.intend("a", path="1")
    assert game.status == "failed"
    assert game.state.error is not None
    assert (
        "The run has used up its calls of tools, 1 of 1; the next is of send. Nothing was called." in game.state.error.message
    )


# --- Wall time --------------------------------------------------------------------------------------------------------


def test_wall_time_counts_waits_too_and_nothing_new_begins_after_it() -> None:
    game = Game(graph("a > b", limits={"max_wall_s": 60}))
    game.await_signal("a", "go")
    game.suspend("a")
    assert kinds(game.tick(60)) == ["LimitNeared", "GateOpened"]
    assert (game.gate.reason, game.status, game.due_ms) == ("max_wall", "requires_attention", None)
    game.signal("go")
    assert not game.active, "the signal is kept, and nobody goes on with it"
    assert kinds(game.raise_limit("wall", 120)) == ["GateDecided", "LimitRaised", "StepStarted", "LimitNeared"]
    game.complete("a")
    assert game.active == ["b"]


def test_a_call_is_when_wall_time_is_noticed_too() -> None:
    game = two(max_wall_s=60)
    game.now_ms += 60_000
    assert kinds(game.hold("a", 1)) == ["HoldDeferred", "LimitNeared", "GateOpened"]
    with pytest.raises(Suspended, match="as old as it may"):
        game.intend("b")
    game.suspend("a")
    game.raise_limit("wall", 100)
    game.held("a", 1)


def test_a_tools_call_is_when_wall_time_is_noticed_too() -> None:
    game = two(max_wall_s=60)
    game.now_ms += 60_000
    assert kinds(game.intend("b")) == ["HoldDeferred", "LimitNeared", "GateOpened"]
    game.suspend("b")
    game.raise_limit("wall", 100)
    game.intended("b")


# --- A dry run --------------------------------------------------------------------------------------------------------


def test_recorded_limits_stop_nothing_and_report_each_crossing_once() -> None:
    limits = {"cost_nanousd": 100, "max_tokens": 10, "max_model_calls": 1, "max_tool_calls": 1, "max_steps": 1}
    game = Game(graph("a > b", limits={**limits, "max_wall_s": 60}, on_limit="record"))
    for path in "012":
        game.settle(game.held("a", 90, 9, path), 90, tokens=(5, 4))
    for path in "34":
        game.did(game.intended("a", path=path))
    game.complete("a")
    game.tick(61)
    assert game.active == ["b"]
    assert game.tick(1) == []
    assert game.due_ms is None
    game.complete("b", "B")
    assert game.output == "B"
    assert [event.limit for event in game.events(ev.LimitWouldStop)] == [
        "model_calls",
        "cost",
        "tokens",
        "tool_calls",
        "steps",
        "wall",
    ]
    assert not game.events(ev.GateOpened)
    assert game.state.budget.settled_nanousd == 270


def test_a_start_may_make_a_dry_run_of_any_workflow() -> None:
    game = Game(graph("a", limits={"cost_nanousd": 100}), start=False)
    game.do(cmd.StartRun(RUN, "acme", NULL, "", on_limit="record"))
    game.held("a", 150)
    (event,) = game.events(ev.LimitWouldStop)
    assert (event.limit, "Nothing was called" in event.message) == ("cost", False)


def test_a_dry_run_tells_of_what_calls_in_flight_together_have_used() -> None:
    game = Game(graph("a", "b", on_limit="record"), limit=100)
    calls = [game.held(name, 80) for name in "ab"]
    assert game.events(ev.LimitWouldStop) == [], "what comes back of one might have been enough for the other"
    game.settle(calls[0], 80)
    game.settle(calls[1], 70)
    (event,) = game.events(ev.LimitWouldStop)
    assert (event.limit, event.message) == ("cost", "The run has used $0.00000015, and may use $0.0000001.")


def test_scopes_above_a_dry_run_hold() -> None:
    game = Game(graph("a", on_limit="record"))
    assert kinds(game.hold("a", 60, shortages=game.shortages(left=50))) == ["ScopeExceeded"]


# --- A reply billed above its bound --------------------------------------------------------------------------------------


def test_a_reply_above_its_bound_raises_the_bound_of_its_model_for_the_run() -> None:
    game = Game(graph("a"), limit=1000)
    game.settle(game.held("a", 100, 100), 250, tokens=(200, 50))
    assert game.state.bound_percents == {"m": 250}
    events = game.hold("a", 100, 100, path="1")
    (held,) = [event for event in events if isinstance(event, ev.ModelCallHeld)]
    assert (held.hold_nanousd, held.tokens, held.bound_percent) == (250, 250, 250)
    game.settle(held.call, 250, tokens=(200, 50))
    assert game.state.bound_percents == {"m": 250}, "it was within the bound that it had"
    assert kinds(game.hold("a", 220, 100, path="2")) == ["HoldDeferred", "LimitNeared", "GateOpened"]
    game.held("a", 220, 100, path="3", model="another")


def test_tokens_above_their_bound_raise_only_that_bound_if_the_cost_stayed_below() -> None:
    game = Game(graph("a"), limit=1000)
    game.settle(game.held("a", 100, 100), 100, tokens=(120, 10))
    assert (game.state.bound_percents, game.state.token_bound_percents) == ({}, {"m": 130})
    (held,) = [event for event in game.hold("a", 100, 100, path="1") if isinstance(event, ev.ModelCallHeld)]
    assert (held.hold_nanousd, held.tokens, held.token_bound_percent) == (100, 130, 130)


def test_calls_in_flight_raise_a_bound_by_what_each_says_and_not_by_one_another() -> None:
    game = two(cost_nanousd=1000)
    calls = [game.held("a", 100, 100, str(number)) for number in range(3)]
    for call in calls:
        game.settle(call, 200, tokens=(150, 50))
    assert game.state.bound_percents == {"m": 200}
    again = game.held("b", 100, 100)
    game.settle(again, 300, tokens=(250, 50))
    assert game.state.bound_percents == {"m": 300}
