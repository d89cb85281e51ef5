"""Which nodes start, which never will, and what a guard or a failed branch means for those after it."""

from __future__ import annotations

import time

import pytest

from holdfast.core.decide import decide
from holdfast.core.facts.graph import Join
from holdfast.core.facts.state import Question, State
from holdfast.core.values.ids import StepId
from holdfast.core.values.policies import GUARD
from tests.core.game import NULL, RUN, WORKER, Game, cmd, edge, error, ev, graph, kinds, loop, node


def fan(join: Join | str, *more: object) -> Game:
    """root fans out to a, b and c, which meet in `join`."""
    return Game(graph("root > a > join", "root > b > join", "root > c > join", node("join", join=join), *more))


# --- Fan-out and branches ---------------------------------------------------------------------------------------------


def test_a_completed_node_starts_all_that_follow_it_in_the_same_commit() -> None:
    game = Game(graph("root > a", "root > b"))
    assert kinds(game.complete("root")) == ["StepCompleted", "StepStarted", "StepStarted"]
    assert game.active == ["a", "b"]


def test_a_branch_takes_only_the_ways_it_names_and_skipping_spreads() -> None:
    game = Game(graph(node("which", "branch"), "which > a > a2 > a3", "which > b", "a3 > end", "b > end"))
    game.complete("which", None, "b")
    assert game.statuses() == {"which": "completed", "a": "skipped", "b": "active", "a2": "skipped", "a3": "skipped"}
    game.complete("b")
    assert game.active == ["end"], "the node after both ways waits only for the one that was taken"


def test_a_branch_may_take_several_ways_and_name_them_by_decision_or_by_target() -> None:
    game = Game(graph(node("which", "branch"), edge("which", "a", when="x"), "which > b", "which > c"))
    game.complete("which", None, "x c")
    assert game.active == ["a", "c"]
    assert game.statuses()["b"] == "skipped"


def test_a_branch_that_chooses_nothing_ends_its_way() -> None:
    game = Game(graph(node("which", "branch"), "which > a"))
    game.complete("which", "nowhere", "")
    assert game.output == "nowhere"


# --- Joins ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["all", "all_required", "best_effort"])
def test_a_join_waits_for_all_its_branches(mode: str) -> None:
    game = fan(mode)
    game.complete("root")
    game.complete("a")
    game.complete("c")
    assert game.active == ["b"]
    game.complete("b")
    assert game.active == ["join"]


def skip_a(join: Join | str) -> Game:
    """a was not chosen; b and c were."""
    game = Game(graph(node("root", "branch"), "root > a > join", "root > b > join", "root > c > join", node("join", join=join)))
    game.complete("root", None, "b c")
    return game


@pytest.mark.parametrize(("mode", "starts"), [("all", True), ("best_effort", True), ("any", True), ("all_required", False)])
def test_what_a_branch_left_out_counts_only_for_a_join_that_requires_everything(mode: str, starts: bool) -> None:
    game = skip_a(mode)
    game.complete("b", "B")
    if mode != "any":
        game.complete("c", "C")
    assert (game.active == ["join"]) is starts
    assert game.statuses()["join"] == ("active" if starts else "skipped")


def test_a_join_that_requires_everything_is_skipped_as_soon_as_one_branch_is_lost() -> None:
    game = skip_a("all_required")
    assert game.statuses()["join"] == "skipped"
    assert game.step("join").reason == "a required incoming edge was not taken"
    game.complete("b", "B")
    game.complete("c", "C")
    assert game.output == {"b": "B", "c": "C"}, "what led to a skipped node is where the run ended"


def test_any_starts_with_the_first_and_calls_the_losers_off() -> None:
    game = fan("any")
    game.complete("root")
    events = game.complete("b")
    assert kinds(events) == ["StepCompleted", "StepCancelled", "StepCancelled", "StepStarted"]
    assert game.statuses() == {"root": "completed", "a": "cancelled", "b": "completed", "c": "cancelled", "join": "active"}


def test_losers_that_have_not_begun_never_will() -> None:
    game = Game(graph("fast > join", "slow > slow2 > slow3 > join", node("join", join="any")))
    game.complete("fast")
    assert game.statuses() == {
        "fast": "completed",
        "slow": "cancelled",
        "slow2": "skipped",
        "slow3": "skipped",
        "join": "active",
    }


def test_a_branch_that_leads_elsewhere_too_is_no_loser() -> None:
    game = Game(graph("a > join", "b > join", "b > audit", node("join", join="any")))
    game.complete("a")
    assert game.active == ["b", "join"]


def test_a_loser_that_became_ready_in_the_same_commit_is_not_started() -> None:
    game = Game(graph("a > slow > join", "a > join", node("join", join="any")))
    events = game.complete("a")
    assert game.statuses()["slow"] == "skipped"
    assert [event.step for event in events if isinstance(event, ev.StepStarted)] == ["join#1"]


def test_a_quorum_needs_its_number() -> None:
    game = fan(Join("quorum", 2))
    game.complete("root")
    game.complete("a")
    assert game.active == ["b", "c"]
    game.complete("c")
    assert game.active == ["join"]
    assert game.statuses()["b"] == "cancelled"


def test_a_quorum_that_cannot_be_met_is_skipped() -> None:
    game = Game(graph(node("root", "branch"), "root > a > join", "root > b > join", node("join", join=Join("quorum", 2))))
    game.complete("root", None, "a")
    assert game.step("join").reason == "only 1 of the 2 branches it needs can arrive"
    game.complete("a", "A")
    assert game.output == "A"


def test_best_effort_starts_though_nothing_arrived() -> None:
    game = fan("best_effort")
    game.complete("root")
    for name in "abc":
        game.fail(name)
    assert game.active == ["join"]


# --- Optional edges ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["all", "all_required"])
def test_an_optional_branch_is_not_waited_for_and_called_off(mode: str) -> None:
    game = Game(graph("must > join", "may > join2", edge("may2", "join", optional=True), "may > may2", node("join", join=mode)))
    game.complete("must")
    assert game.statuses()["join"] == "active"
    assert game.statuses()["may"] == "active", "it also leads elsewhere"
    assert game.statuses()["may2"] == "skipped"


@pytest.mark.parametrize("mode", ["all", "all_required"])
def test_an_optional_branch_that_fails_costs_the_run_nothing(mode: str) -> None:
    game = Game(graph("must > join", edge("may", "join", optional=True), node("join", join=mode)))
    game.fail("may")
    assert game.status == "running"
    game.complete("must")
    assert game.active == ["join"]


def test_an_optional_branch_counts_where_nothing_else_arrived() -> None:
    game = Game(graph(node("root", "branch"), "root > must > join", "root > may", edge("may", "join", optional=True)))
    game.complete("root", None, "may")
    assert "join" not in game.statuses(), "all that is required was decided, but nothing was taken yet"
    game.complete("may")
    assert game.active == ["join"]


def test_where_every_edge_is_optional_every_edge_is_waited_for() -> None:
    game = Game(graph(edge("a", "join", optional=True), edge("b", "join", optional=True)))
    game.complete("a")
    assert game.active == ["b"]
    game.complete("b")
    assert game.active == ["join"]


# --- Failed branches --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("join", ["any", "best_effort", Join("quorum", 2)])
def test_a_tolerant_join_absorbs_a_failed_branch(join: Join | str) -> None:
    game = fan(join)
    game.complete("root")
    game.fail("a")
    assert game.status == "running"
    game.complete("b")
    if game.statuses()["c"] == "active":
        game.complete("c")
    assert game.active == ["join"]


@pytest.mark.parametrize("join", ["any", Join("quorum", 2)])
def test_a_tolerant_join_that_can_no_longer_be_met_fails_the_run(join: Join | str) -> None:
    game = fan(join)
    game.complete("root")
    for name in "abc":
        if game.status == "running":
            game.fail(name, error(message_of := f"class {name}"))
    assert game.status == "failed"
    assert game.state.error is not None
    assert game.state.error.error_class == message_of


def test_a_join_of_all_fails_the_run_with_its_first_failed_branch() -> None:
    game = fan("all")
    game.complete("root")
    game.fail("b")
    assert game.status == "failed"
    assert game.statuses()["a"] == "cancelled"


def test_a_branch_is_as_long_as_it_is() -> None:
    """Its first node failing is the branch failing, however many nodes there are before the join."""
    game = Game(graph("a > a2 > a3 > join", "b > join", node("join", join="best_effort")))
    game.fail("a")
    assert game.statuses() == {"a": "failed", "b": "active", "a2": "skipped", "a3": "skipped"}
    game.complete("b")
    assert game.active == ["join"]


def test_a_branch_that_also_leads_elsewhere_cannot_fail_quietly() -> None:
    game = Game(graph("a > a2 > join", "a2 > report", "b > join", node("join", join="best_effort")))
    game.fail("a")
    assert game.status == "failed"


def test_half_a_branch_does_not_go_on_as_if_it_were_whole() -> None:
    """a and c meet inside the branch: without a, what comes after them would be missing its half."""
    game = Game(graph("a > both", "c > both", "both > join", "b > join", node("join", join="best_effort")))
    game.fail("a")
    assert game.status == "failed"


def test_an_unmet_join_with_failures_fails_the_run_though_its_last_branch_skipped() -> None:
    game = Game(graph("a > join", node("b", "branch"), "b > b2 > join", "b > other", node("join", join="any")))
    game.fail("a")
    assert game.status == "running"
    game.complete("b", None, "other")
    assert game.status == "failed"


def test_a_join_that_failures_left_unmet_is_itself_only_a_branch_of_a_tolerant_one() -> None:
    game = Game(
        graph("a > j1", "b > j1", "j1 > j2", "c > j2", node("j1", join=Join("quorum", 2)), node("j2", join="best_effort"))
    )
    game.fail("a")
    assert game.statuses()["j1"] == "skipped"
    assert game.status == "running"
    game.complete("b")
    game.complete("c")
    assert game.active == ["j2"]


def test_an_error_edge_is_the_only_one_taken() -> None:
    game = Game(graph("a > b", edge("a", "mend", on="error")))
    game.fail("a")
    assert game.statuses() == {"a": "failed", "b": "skipped", "mend": "active"}


def test_an_error_edge_is_not_taken_without_an_error() -> None:
    game = Game(graph("a > b", edge("a", "mend", on="error")))
    game.complete("a")
    assert game.statuses() == {"a": "completed", "b": "active", "mend": "skipped"}


def test_a_node_that_continues_on_error_takes_its_edges_without_an_output() -> None:
    game = Game(graph("a > b", node("a", continue_on_error=True)))
    game.fail("a")
    assert game.active == ["b"]
    game.complete("b", "B")
    assert game.output == "B"


def test_error_edges_come_before_continuing() -> None:
    game = Game(graph("a > b", edge("a", "mend", on="error"), node("a", continue_on_error=True)))
    game.fail("a")
    assert game.active == ["mend"]


# --- Guards -----------------------------------------------------------------------------------------------------------


def test_an_edge_waits_for_its_guard() -> None:
    game = Game(graph(edge("a", "b", guard="safe")))
    assert kinds(game.complete("a")) == ["StepCompleted", "GuardAsked"]
    assert game.status == "running", "a question to a guard is no wait for anybody"
    assert game.due_ms == 0, "if the process that asked has died, another must ask"
    game.judge()
    assert game.active == ["b"]


def test_a_denied_edge_is_recorded_with_its_reason_and_not_taken() -> None:
    game = Game(graph(edge("a", "b", guard="safe"), "b > c"))
    game.complete("a", "A")
    (judged,) = game.judge(allow=False, reason="too hot")[:1]
    assert judged == ev.GuardJudged("a#1", "b", "safe", False, "too hot")
    assert game.statuses() == {"a": "completed", "b": "skipped", "c": "skipped"}
    assert game.output == "A"


def test_a_guard_of_a_node_skips_it() -> None:
    game = Game(graph("a > b > c", node("b", guard="safe")))
    game.complete("a", "A")
    assert game.state.asked
    game.judge(allow=False)
    assert game.step("b").reason == "its guard 'safe' denied it"
    assert game.output == "A", "the run ended where the guard stopped it"


def test_a_guard_of_the_first_node_speaks_before_it_starts() -> None:
    game = Game(graph(node("a", guard="safe")))
    assert game.active == []
    game.judge()
    assert game.active == ["a"]


def test_only_the_guard_of_the_chosen_way_is_asked() -> None:
    game = Game(graph(node("g", "branch"), edge("g", "a", guard="x"), edge("g", "b", guard="y")))
    game.complete("g", None, "b")
    assert [asked.guard for asked in game.state.asked.values()] == ["y"]


def test_two_ways_to_the_same_node_have_guards_of_their_own() -> None:
    """The verdict about one says nothing about the other."""
    flow = graph(
        node("g", "branch"), edge("g", "b", when="x", guard="gx"), edge("g", "b", when="y", guard="gy"), node("b", join="any")
    )
    game = Game(flow)
    game.complete("g", None, "x y")
    assert {asked.guard for asked in game.state.asked.values()} == {"gx", "gy"}
    first, second = game.state.asked.values()
    game.do(verdict(first, allowed=False))
    assert "b" not in game.statuses()
    game.do(verdict(second, allowed=True))
    assert game.active == ["b"]


def verdict(asked: Question, *, allowed: bool) -> cmd.JudgeGuards:
    return cmd.JudgeGuards((cmd.Verdict(asked.step, asked.target, asked.guard, allowed),))


def test_a_guard_that_breaks_fails_the_run() -> None:
    game = Game(graph(edge("a", "b", guard="safe")))
    game.complete("a")
    game.judge(allow=True, broken=error(GUARD))
    assert game.status == "failed"
    assert game.events(ev.GuardJudged)[0].allowed is False, "a broken guard has allowed nothing"


def test_a_guard_is_heard_once() -> None:
    game = Game(graph(edge("a", "b", guard="safe")))
    game.complete("a")
    asked = next(iter(game.state.asked.values()))
    game.do(verdict(asked, allowed=False))
    if not game.state.ended:
        assert game.do(verdict(asked, allowed=True)) == []
    assert game.statuses()["b"] == "skipped"


def test_an_unrequested_verdict_changes_nothing() -> None:
    game = Game(graph("a > b"))
    assert game.do(cmd.JudgeGuards((cmd.Verdict("a#1", "b", "safe", False),))) == []


def test_an_error_edge_that_every_guard_denies_lets_the_failure_through() -> None:
    game = Game(graph("a > b", edge("a", "mend", on="error", guard="mendable"), edge("a", "mend2", on="error", guard="g2")))
    game.fail("a")
    assert game.status == "running"
    game.judge(allow=False)
    assert game.status == "failed"


def test_an_error_edge_that_a_guard_allows_is_taken() -> None:
    game = Game(graph("a > b", edge("a", "mend", on="error", guard="mendable"), edge("a", "mend2", on="error", guard="g2")))
    game.fail("a")
    first, second = game.state.asked.values()
    game.do(verdict(first, allowed=False))
    game.do(verdict(second, allowed=True))
    assert game.active == ["mend2"]


def test_a_run_does_not_complete_while_a_guard_has_to_speak() -> None:
    game = Game(graph(edge("a", "b", guard="safe")))
    game.complete("a")
    assert not game.state.ended


# --- Loops ------------------------------------------------------------------------------------------------------------


def test_nothing_goes_on_from_a_node_while_its_loop_may_take_the_run_back() -> None:
    """What the loop's source would have met must neither start nor call anybody off."""
    flow = graph("t > s > j", "x > j", node("j", join="any"), loop("s", "t", 2, guard="again"))
    game = Game(flow)
    game.complete("t")
    game.complete("s")
    assert game.statuses()["x"] == "active"
    game.judge(allow=True)
    assert game.active == ["x", "t"]
    assert "j" not in game.statuses()


def test_a_loop_that_is_about_to_be_taken_counts_for_no_join() -> None:
    """Two guards speak together: `a` reaches the quorum, and `s` goes back instead of being its second."""
    flow = graph(
        "t > s > j", edge("a", "j", guard="on"), "x > j", node("j", join=Join("quorum", 2)), loop("s", "t", 2, guard="again")
    )
    game = Game(flow)
    game.complete("t")
    game.complete("a")
    game.complete("s")
    game.judge(allow=True)
    assert game.statuses() == {"a": "completed", "x": "active", "t": "active"}


def test_a_loop_back_in_the_same_commit_keeps_a_guarded_node_from_starting() -> None:
    """Two guards speak together: one lets `b` start, the other sends everything after `t` back."""
    flow = graph("t > a", "t > s", edge("a", "b", guard="on"), "s > end", loop("s", "t", 2, guard="again"))
    game = Game(flow)
    game.complete("t")
    game.complete("a")
    game.complete("s")
    events = game.judge(allow=True)
    assert [event.step for event in events if isinstance(event, ev.StepStarted)] == ["t#2"]
    assert game.statuses() == {"t": "active"}


# --- Wide graphs ------------------------------------------------------------------------------------------------------


def test_a_join_of_many_branches_is_judged_in_a_moment() -> None:
    count = 600
    flow = graph(*(f"root > n{i} > join" for i in range(count)))
    state, worker = State(), cmd.Worker(WORKER, count)
    decide(flow, state, cmd.StartRun(RUN, "acme", NULL, ""), 1, worker)
    decide(flow, state, cmd.CompleteStep(StepId("root#1"), 1, NULL), 1, worker)
    began = time.process_time()
    for number in range(count):
        decide(flow, state, cmd.CompleteStep(StepId(f"n{number}#1"), 1, NULL), 1, worker)
    assert time.process_time() - began < 1
    assert list(state.active) == ["join"]
