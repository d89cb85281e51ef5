"""Maps: which items are steps when, what is enough, and what becomes of the others."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.facts.costs import Tally
from holdfast.core.facts.events import Recorded
from holdfast.core.facts.graph import Node
from holdfast.core.facts.state import MAP, Map
from holdfast.core.rules.forking import ForkRequest, forked
from holdfast.core.values import policies
from holdfast.core.values.demand import Demand
from holdfast.core.values.ids import NodeName, Seq, StepId, item_name, map_of, root_of
from holdfast.core.values.payload import inline
from holdfast.core.values.policies import RetryPolicy
from holdfast.errors import Conflict
from tests.core.game import (
    COMPENSATE,
    START_MS,
    TRANSIENT,
    Game,
    Path,
    cmd,
    edge,
    error,
    ev,
    graph,
    kinds,
    loop,
    node,
    problems,
)

ONCE = RetryPolicy(max_attempts=1)
EACH = Node(NodeName("m"), "task", retry=ONCE)
MAPS = node("m", "map", each=EACH)
BAD = error()


def mapped(game: Game, count: int = 4, name: str = "m", path: str = "0", **more: Any) -> list[ev.Event]:
    """The step has a list done, and is left."""
    given = {"max_parallel": 2, "enough": count, **more}
    pages = {"pages": (inline([*range(count)]),), "starts": (0,)} if count else {}
    events = game.do(cmd.MapItems(*game.at(name), Path(path), name, "list", count, **given, **pages))
    return events + game.suspend(name)


def opened(*parts: Any, count: int = 4, **more: Any) -> Game:
    game = Game(graph(MAPS, *(parts or ("m > after",))))
    mapped(game, count, **more)
    return game


def map_in(game: Game, name: str = "m") -> Map:
    return game.state.maps[name]


def gather(game: Game, name: str = "m", path: str = "0") -> None:
    """What the next attempt does once the items have done enough."""
    value = cmd.Value(Path(path), MAP, None, inline([]), name, "list")
    game.do(cmd.RecordValues(*game.at(name), (value,)))


# --- Which are steps ------------------------------------------------------------------------------------------------------


def test_items_start_in_order_within_their_limit_and_leave_the_state_when_done() -> None:
    game = opened(count=5)
    assert list(game.state.steps) == ["m", "m[0]", "m[1]"]
    for name in ("m[1]", "m[0]", "m[2]", "m[4]", "m[3]"):
        assert len(game.state.steps) <= 3
        game.complete(name, name)
    assert list(game.state.steps) == ["m"]
    assert [game.step("m").status, map_in(game).ended] == ["active", "met"]
    done = {seq: ev.decode(game.history[seq - 1]) for seq in map_in(game).results}
    assert [event.step for event in done.values()] == [f"m[{n}]#1" for n in range(5)]  # type: ignore[attr-defined]
    gather(game)
    assert game.op("m").status == "done"
    assert (map_in(game).results, map_in(game).opened.pages) == ([], ()), "it is in the journal now"
    game.complete("m", [])
    assert (map_in(game).completed, game.step("after").status) == (5, "active")
    assert game.state.steps_started == 2, "how many items there are the map says"
    assert not any(name.startswith("m[") for name in game.state.visits)


def test_what_waits_for_a_slot_is_no_more_than_what_may_be_under_way() -> None:
    game = Game(graph(MAPS), slots=1)
    game.do(cmd.MapItems(*game.at("m"), Path("0"), "m", "list", 5, 3, 5))
    assert [game.step(f"m[{n}]").status for n in range(3)] == ["active", "ready", "ready"]
    assert kinds(game.complete("m[0]")) == ["StepCompleted", "StepStarted", "StepReady"]
    assert [*game.state.steps] == ["m", "m[1]", "m[2]", "m[3]"]


def test_an_empty_list_is_done() -> None:
    game = Game(graph(MAPS))
    assert kinds(mapped(game, 0)) == ["ItemsMapped", "MapEnded", "StepSuspended", "StepStarted"]


def test_an_item_is_tried_again_by_its_own_policy_and_waits_like_any_step() -> None:
    game = Game(graph(node("m", "map", each=Node(NodeName("m"), "task", retry=RetryPolicy(max_attempts=2, initial_s=10)))))
    mapped(game)
    assert kinds(game.fail("m[0]", TRANSIENT)) == ["AttemptFailed"]
    game.sleep("m[1]", 60)
    assert (game.status, [wait.step for wait in game.waits]) == ("waiting", ["m[0]#1", "m[1]#1"])
    game.tick(12)
    assert (game.step("m[0]").status, game.step("m[0]").attempt) == ("active", 2)
    assert kinds(game.fail("m[0]", TRANSIENT))[0] == "StepFailed"


def test_a_placed_item_starts_only_where_it_was_placed() -> None:
    game = Game(graph("a"))
    mapped(game, 3, "a", demand=Demand(labels=("gpu",)))
    assert list(game.state.unplaced) == ["a/0[0]", "a/0[1]"]
    game.tick(placed=["a/0[1]#1"])
    assert game.active == ["a/0[1]"]


def test_each_item_may_ask_for_something_else() -> None:
    game = Game(graph("a"))
    mapped(game, 3, "a", max_parallel=1, demands=(Demand(), Demand(labels=("gpu",)), Demand()), keys=("x", "y", "z"))
    assert game.active == ["a/0[x]"]
    game.complete("a/0[x]")
    assert list(game.state.unplaced) == ["a/0[y]"]
    game.tick(placed=["a/0[y]#1"])
    game.complete("a/0[y]")
    assert game.active == ["a/0[z]"]


# --- What is enough ---------------------------------------------------------------------------------------------------------


def test_an_item_that_fails_for_good_fails_its_map_and_the_maps_step() -> None:
    game = opened("m > after")
    assert kinds(game.fail("m[1]", BAD)) == ["StepFailed", "StepCancelled", "MapEnded", "StepStarted"]
    op = game.op("m")
    assert (op.status, op.error.error_class) == ("failed", policies.JOIN)
    assert op.error.message == "1 of 4 items of 'm' have failed, and none may: m[1]: it went wrong (error)"
    assert kinds(game.fail("m", op.error, "0"))[:2] == ["StepFailed", "RunFailing"]


def test_so_many_may_fail_and_leave_no_step_behind() -> None:
    game = opened(count=4, tolerated=2)
    assert kinds(game.fail("m[0]", BAD)) == ["StepFailed", "StepStarted"]
    game.fail("m[1]", BAD)
    assert list(game.state.steps) == ["m", "m[2]", "m[3]"]
    game.complete("m[2]")
    game.complete("m[3]")
    map_ = map_in(game)
    assert (map_.ended, map_.completed, map_.failed, len(map_.failures)) == ("met", 2, 2, 2)
    assert [seq > 0 for seq in map_.results] == [False, False, True, True]


def test_what_is_enough_calls_the_rest_off() -> None:
    game = opened(count=9, enough=2, tolerated=7, max_parallel=4)
    game.complete("m[3]")
    assert kinds(game.complete("m[0]")) == ["StepCompleted", *["StepCancelled"] * 3, "MapEnded", "StepStarted"]
    assert list(game.state.steps) == ["m"]
    assert map_in(game).next == 5, "the others never began"


@pytest.mark.parametrize("settles", [False, True])
def test_after_its_time_nothing_is_waited_for(settles: bool) -> None:
    game = opened(timeout_ms=60_000, settles=settles)
    game.complete("m[0]")
    assert (game.due_ms, game.tick(59)) == (60_000, [])
    assert kinds(game.tick(2)) == ["StepCancelled", "StepCancelled", "MapEnded", "StepStarted"]
    problem = game.op("m").error
    assert (problem is None) is settles
    if problem is not None:
        assert problem.message == "1 of 4 items of 'm' were done in 60 s, and 4 are needed."


# --- Endings --------------------------------------------------------------------------------------------------------------


def test_cancelling_reaches_every_item_and_a_pause_holds_back_new_items() -> None:
    game = opened()
    game.pause()
    game.complete("m[0]")
    assert (game.step("m[2]").status, game.active) == ("ready", ["m[1]"])
    game.cancel()
    assert game.state.ended == "cancelled"
    assert not game.state.unfinished


def test_a_run_that_failed_goes_on_with_those_items_that_came_to_nothing() -> None:
    game = opened("m > after")
    game.complete("m[0]")
    game.effect("m[1]")
    game.fail("m[2]", BAD)
    game.fail("m", game.op("m").error, "0")
    assert game.state.ended == "failed"
    told = kinds(game.retry())
    assert told == ["RunReopened", "StepReplayed", "MapReopened", "StepReplayed", "StepReplayed", *["StepStarted"] * 3]
    assert (game.op("m[1]").status, game.step("m[2]").attempt) == ("done", 2), "with its journal, and a new attempt"
    game.suspend("m")
    for name in ("m[1]", "m[2]", "m[3]"):
        game.complete(name)
    assert (map_in(game).ended, map_in(game).completed) == ("met", 4)


def test_no_more_items_are_taken_up_at_once_than_may_be_under_way() -> None:
    game = opened(count=5, max_parallel=2)
    for number in range(5):
        game.complete(f"m[{number}]", "failure", provisional=True)
    gather(game)
    game.complete("m", "failure", provisional=True)
    game.fail("after", BAD)
    game.retry()
    assert ({*game.active} - {"m"}, map_in(game).completed) == ({"m[0]", "m[1]"}, 0)
    game.suspend("m")
    game.complete("m[1]", "well")
    assert {*game.active} == {"m[0]", "m[2]"}
    for number in (0, 2, 3, 4):
        game.complete(f"m[{number}]", "well")
    assert (map_in(game).ended, map_in(game).completed) == ("met", 5)


def test_those_taken_up_come_before_those_that_had_not_begun() -> None:
    game = opened("m > after", "x > after", count=6, max_parallel=3)
    game.complete("m[0]", "failure", provisional=True)
    game.fail("x", BAD)
    assert game.state.ended == "failed"
    game.retry()
    assert {*game.active} == {"m", "x", "m[1]", "m[2]", "m[3]"}, "those that were under way"
    game.suspend("m")
    game.complete("m[1]")
    assert "m[0]" in game.active
    game.complete("m[2]")
    assert "m[4]" in game.active


def test_a_run_that_failed_elsewhere_takes_up_what_was_called_off_of_a_map() -> None:
    game = opened("m > after", "x > after")
    game.complete("m[0]")
    game.fail("x", BAD)
    assert game.state.ended == "failed"
    game.retry()
    assert {*game.active} == {"m", "x", "m[1]", "m[2]"}


def test_an_item_that_reports_failure_stops_new_items_and_lets_active_ones_end() -> None:
    game = opened(count=5, max_parallel=3, fail_fast=True)
    assert kinds(game.complete("m[0]", "failure", provisional=True)) == ["StepCompleted"], "and none begins in its place"
    assert not map_in(game).ended
    assert {*game.active} == {"m[1]", "m[2]"}
    assert kinds(game.sleep("m[1]", 60)) == ["StepSuspended", "StepCancelled"], "what it waits for is of no use"
    assert kinds(game.complete("m[2]", "cancelled", provisional=True)) == ["StepCompleted", "MapEnded", "StepStarted"]
    assert [seq > 0 for seq in map_in(game).results] == [True, False, True]


def test_a_reported_failure_is_begun_again_with_its_run_and_what_is_well_is_not() -> None:
    game = opened(count=5, max_parallel=2, fail_fast=True)
    game.complete("m[0]", "well")
    game.effect("m[1]")
    game.complete("m[1]", "failure", provisional=True)
    game.complete("m[2]", "cancelled", provisional=True)
    gather(game)
    game.complete("m", "failure", provisional=True)
    game.fail("after", BAD)
    assert game.state.ended == "failed"
    game.retry()
    assert (map_in(game).ended, map_in(game).completed, map_in(game).stopping) == ("", 1, False)
    assert {*game.active} >= {"m[1]", "m[2]"}
    assert game.op("m[1]").status == "done", "with its journal"
    game.suspend("m")
    for number in (1, 2, 3, 4):
        game.complete(f"m[{number}]", "well")
    assert (map_in(game).ended, map_in(game).completed) == ("met", 5)
    gather(game)
    game.complete("m", "well")
    assert (list(game.state.steps), map_in(game).opened.pages) == (["m", "after"], ())


def test_a_session_that_dies_takes_what_was_let_end_along() -> None:
    game = opened(count=4, max_parallel=2, fail_fast=True)
    game.complete("m[0]", "failure", provisional=True)
    assert kinds(game.lose())[:3] == ["AttemptLost", "StepCancelled", "MapEnded"]


def test_an_item_that_may_not_fail_is_a_dead_letter_and_the_others_go_on() -> None:
    game = Game(graph(MAPS, "m > after", on_exhausted="dead_letter"))
    mapped(game, 3)
    assert kinds(game.fail("m[0]", BAD)) == ["StepFailed", "GateOpened", "StepStarted"]
    game.complete("m[1]")
    game.complete("m[2]")
    assert (map_in(game).ended, game.status) == ("", "requires_attention")
    assert [step.id for step in game.state.dead_letters()] == ["m[0]#1"]
    game.decide("retry")
    assert game.state.dead_letters() == []
    game.tick()
    assert game.step("m[0]").attempt == 2
    game.fail("m[0]", BAD)
    assert kinds(game.decide("answer", data=7))[-1] == "MapEnded"
    assert map_in(game).completed == 3


def test_a_loop_over_a_map_begins_with_other_steps() -> None:
    game = opened("m > c", loop("c", "m"), node("c", "check"))
    for name in ("m[0]", "m[1]", "m[2]", "m[3]"):
        game.complete(name)
    game.complete("m", [])
    game.complete("c", None, "retry")
    assert ("m" in game.state.maps, game.at("m")) == (False, ("m#2", 1))
    mapped(game, 2)
    assert game.at("m[0]") == ("m[0]#2", 1)


def test_a_map_that_is_no_longer_needed_is_called_off_with_all_its_items() -> None:
    game = Game(graph(MAPS, edge("m", "j"), edge("x", "j"), node("j", join="any")))
    mapped(game)
    told = [event.step for event in game.complete("x") if isinstance(event, ev.StepCancelled)]
    assert told == ["m#1", "m[0]#1", "m[1]#1"]


def test_items_of_items_are_called_off_with_them_and_leave_nothing_behind() -> None:
    game = opened(count=2, max_parallel=1)
    mapped(game, 2, "m[0]")
    assert [*game.state.steps] == ["m", "m[0]", "m[0]/0[0]", "m[0]/0[1]"]
    game.complete("m[0]/0[0]")
    game.complete("m[0]/0[1]")
    gather(game, "m[0]")
    game.complete("m[0]")
    assert [*game.state.maps] == ["m"]
    mapped(game, 2, "m[1]")
    game.fail("m[1]/0[0]", BAD)
    game.fail("m[1]", BAD)
    assert (map_in(game).ended, [*game.state.unfinished]) == ("failed", ["m"])


def test_other_code_begins_a_map_of_another_name() -> None:
    game = Game(graph("a"))
    mapped(game, 2, "a")
    game.complete("a/0[0]")
    game.complete("a/0[1]")
    game.stop("a", "0")
    game.decide("approve")
    assert game.state.maps == {}
    game.tick()
    mapped(game, 2, "a")
    assert "a/0~1[0]" in game.state.steps


def test_a_session_that_dies_takes_its_items_along_and_another_goes_on_with_them() -> None:
    game = opened()
    events = game.lose()
    assert kinds(events)[:2] == ["AttemptLost", "AttemptLost"]
    assert [game.step(name).attempt for name in ("m[0]", "m[1]")] == [2, 2]


# --- Names ----------------------------------------------------------------------------------------------------------------


def test_a_key_has_no_sign_that_means_something_in_names() -> None:
    name = item_name("flow/2", "a b/[c]:#%>é")
    assert name == "flow/2[a%20b%2F%5Bc%5D%3A%23%25%3Eé]"
    assert (map_of(name), root_of(name), root_of(NodeName("plain"))) == ("flow/2", "flow", "plain")
    game = opened(count=2, keys=("x", "y"))
    assert [*game.state.steps] == ["m", "m[x]", "m[y]"]


def test_an_item_decides_nothing() -> None:
    wrong = node("m", "map", each=Node(NodeName("m"), "human_gate"))
    assert "an item cannot be a human_gate" in problems(wrong)[0]
    assert "says what is done for each item" in problems(node("m", "map"))[0]


def test_what_the_items_cost_is_counted_for_their_node() -> None:
    game = opened()
    game.settle(game.held("m[0]", 50), 40)
    tally = Tally(Seq(0))
    tally.take(Recorded(Seq(n), START_MS, event) for n, event in enumerate(game.events(), 1))
    assert [(each.cost.node, each.cost.cost_nanousd) for each in tally.costs()] == [("m", 40)]


def forked_from(game: Game, step: str) -> Any:
    """What a fork begins with, when it gets to `step`."""
    history = [Recorded(Seq(n), START_MS, event) for n, event in enumerate(game.events(), 1)]
    return forked(game.graph, history, ForkRequest(StepId(step)))


def test_what_undoes_a_run_opens_no_map() -> None:
    """None of its items would begin, and it would wait for them."""
    game = Game(graph("a > b"))
    game.effect("a", compensation="undo")
    game.complete("a")
    game.fail("b")
    assert game.active == [COMPENSATE]
    with pytest.raises(Conflict, match="no item begins"):
        mapped(game, name=COMPENSATE)


@pytest.mark.parametrize("undone", [False, True])
def test_a_fork_has_what_items_came_to_unless_that_was_undone(undone: bool) -> None:
    game = Game(graph("a > b"))
    mapped(game, 2, "a")
    game.effect("a/0[0]", compensation="undo")
    game.complete("a/0[0]")
    game.complete("a/0[1]")
    gather(game, "a")
    game.complete("a")
    game.complete("b") if not undone else game.cancel()
    if undone:
        call = game.state.compensable[0].call
        game.did(game.intended(COMPENSATE, "idempotent", tool="undo", compensates=call))
        game.complete(COMPENSATE)
    fork = forked_from(game, "a#1")
    assert {(done.step, done.kind) for done in fork.reused_operations} == (
        set() if undone else {("a#1", "map"), ("a/0[0]#1", "tool")}
    )
    if undone:
        assert forked_from(game, "b#1").begins_at == "a#1"
