"""The typed state: what fields come to that several steps have patched, and what is told of patches that meet."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.facts.graph import FIELD_STRATEGIES, Graph
from holdfast.core.facts.typed_state import combined, misfits, patch_of
from holdfast.core.values import policies
from holdfast.core.values.ids import NodeName
from holdfast.core.values.policies import RetryPolicy
from tests.core.game import Game, definition, edge, ev, kinds, loop, node

FIELDS = {field: field for field in FIELD_STRATEGIES}
"""A field for each strategy, called as it."""


def game(*parts: str, **more: Any) -> Game:
    return Game(Graph(definition(*(parts or ("a > end", "b > end")), state=FIELDS, **more)))


def state_of(game: Game) -> dict[str, Any]:
    """The fields, folded from the history by the rule alone."""
    found: dict[str, Any] = {}
    for step in sorted(game.state.steps.values(), key=lambda step: step.ended_seq):
        if step.status == "completed":
            for field, value in patch_of(FIELDS, step.output, step.fields).items():
                found[field] = combined(FIELDS[field], found[field], value) if field in found else value
    return found


def conflicts(events: list[ev.Event]) -> list[ev.StateConflicted]:
    return [event for event in events if isinstance(event, ev.StateConflicted)]


@pytest.mark.parametrize(
    ("field", "first", "second", "comes_to", "is_told"),
    [
        ("last_write", 1, 2, 2, True),
        ("first_write", 1, 2, 1, True),
        ("merge", {"x": 1, "y": {"z": 1}}, {"x": 2, "y": {"w": 2}}, {"x": 1, "y": {"z": 1, "w": 2}}, True),
        ("append", [1], [2], [1, 2], False),
        ("sum", 1, 2.5, 3.5, False),
        ("last_write", 1, 1, 1, False),
    ],
)
def test_patches_that_meet_come_to_what_the_strategy_of_their_field_says(
    field: str, first: Any, second: Any, comes_to: Any, is_told: bool
) -> None:
    play = game()
    play.complete("a", {field: first})
    told = conflicts(play.complete("b", {field: second}))
    assert state_of(play) == {field: comes_to}
    if not is_told:
        assert told == []
        return
    (met,) = told
    assert (met.step, met.other, met.field, met.strategy) == ("b#1", "a#1", field, field)
    assert (met.current.value(), met.attempted.value()) == (first, second)
    assert met.resolved is not None
    assert met.resolved.value() == comes_to


@pytest.mark.parametrize("field", ["last_write", "first_write", "merge", "reject"])
def test_a_step_that_had_seen_the_value_replaces_it(field: str) -> None:
    play = game("a > b", "b > end")
    play.complete("a", {field: {"x": 1}})
    assert conflicts(play.complete("b", {field: {"x": 2}})) == []
    assert state_of(play) == {field: {"x": 2}}


def test_a_rejected_patch_fails_its_attempt_and_the_next_one_has_seen_the_other() -> None:
    nodes = [node("a"), node("b", retry=RetryPolicy(max_attempts=2, initial_s=1)), node("end")]
    play = Game(Graph(definition(*nodes, "a > end", "b > end", state=FIELDS)))
    play.complete("a", {"reject": 1, "sum": 1})
    events = play.complete("b", {"reject": 2, "sum": 1})
    assert kinds(events) == ["StateConflicted", "AttemptFailed"]
    (met,) = conflicts(events)
    assert (met.current.value(), met.attempted.value(), met.resolved) == (1, 2, None)
    assert state_of(play) == {"reject": 1, "sum": 1}
    play.tick(2)
    assert conflicts(play.complete("b", {"reject": 2, "sum": 1})) == []
    assert state_of(play) == {"reject": 2, "sum": 2}


def test_a_rejected_patch_fails_its_step_where_nothing_is_tried_again() -> None:
    play = game()
    play.complete("a", {"reject": 1})
    events = play.complete("b", {"reject": 2})
    assert kinds(events)[:3] == ["StateConflicted", "StepFailed", "RunFailing"]
    assert play.step("b").error.error_class == policies.CONFLICT
    assert "was written by a#1 meanwhile" in play.step("b").error.message


def test_what_a_person_says_counts_also_where_a_field_rejects() -> None:
    play = Game(Graph(definition(node("a"), node("g", "human_gate"), node("end"), "a > end", "g > end", state=FIELDS)))
    play.human_gate("g")
    play.complete("a", {"reject": 1})
    (met,) = conflicts(play.decide("edit", data={"reject": 2}))
    assert met.resolved is not None
    assert state_of(play) == {"reject": 2}


def test_what_a_loop_does_again_is_forgotten() -> None:
    play = Game(Graph(definition("draft > judge", loop("judge", "draft", max_visits=2), node("judge", "check"), state=FIELDS)))
    play.complete("draft", {"append": [1]})
    play.complete("judge", None, decisions="retry")
    play.complete("draft", {"append": [2]})
    assert state_of(play) == {"append": [2]}
    assert conflicts(play.complete("judge", {"append": [3]}, decisions="pass")) == []


def test_without_strategies_nothing_is_reported() -> None:
    play = Game(Graph(definition("a > end", "b > end")))
    play.complete("a", {"last_write": 1})
    assert kinds(play.complete("b", {"last_write": 2}))[0] == "StepCompleted"
    assert b'"state"' not in play.graph.encoded


def test_a_patch_that_cannot_be_combined_is_named() -> None:
    assert [*misfits(FIELDS, {"append": [1], "sum": 2, "merge": 3})] == []
    said = [*misfits(FIELDS, {"append": 1, "sum": True})]
    assert [each.partition(" ")[0] for each in said] == ["'append'", "'sum'"]


# --- Where a task goes on ---------------------------------------------------------------------------------------------


def test_a_task_may_name_where_it_goes_on() -> None:
    play = Game(Graph(definition("a > x", "a > y")))
    play.complete("a", {}, decisions="y")
    assert (play.step("y").status, play.step("x").status) == ("active", "skipped")


def test_a_task_that_names_nothing_leads_nowhere() -> None:
    play = Game(Graph(definition("a > x", "x > y")))
    play.complete("a", {"done": True}, decisions="")
    assert play.state.ended == "completed"
    assert {play.state.steps[NodeName(name)].status for name in "xy"} == {"skipped"}


def test_a_task_names_its_successors_and_nothing_else() -> None:
    play = Game(Graph(definition("a > x", "a > y")))
    play.complete("a", {}, decisions="elsewhere")
    error = play.step("a").error
    assert (error.error_class, error.message) == (policies.ROUTING, "'a' chose 'elsewhere', which is none of its ways: x, y.")


def test_a_guard_is_asked_about_a_way_that_a_task_names() -> None:
    play = Game(Graph(definition(edge("a", "x", guard="may"), "a > y")))
    assert "GuardAsked" in kinds(play.complete("a", {}, decisions="x"))
