"""The terms of a start reach a run's history and its state as they were given, or as its workflow has them."""

from __future__ import annotations

from typing import Any

from holdfast.core.facts import commands as cmd
from holdfast.core.facts.events import RunStarted
from holdfast.core.facts.state import State
from holdfast.core.facts.terms import Terms
from holdfast.core.values.ids import RunId
from holdfast.core.values.payload import inline
from tests.core.game import Game, graph

GIVEN: dict[str, Any] = {
    "max_tokens": 7,
    "max_model_calls": 2,
    "max_tool_calls": 3,
    "max_wall_s": 4.5,
    "on_limit": "record",
    "agent": "planner",
    "tags": ("red",),
    "labels": {"customer": "acme"},
    "on_end": "ops",
}


def began(**terms: Any) -> tuple[RunStarted, State]:
    game = Game(graph("a", limits={"max_tokens": 90, "max_wall_s": 60}), start=False)
    event = game.do(cmd.StartRun(RunId("0190-run"), "acme", inline(None), "", **terms))[0]
    assert isinstance(event, RunStarted)
    return event, game.state


def test_each_term_reaches_the_history_and_the_state() -> None:
    assert {*GIVEN} == {*Terms.__struct_fields__}
    event, state = began(**GIVEN)
    assert event.terms() == state.terms() == GIVEN


def test_a_limit_that_is_left_out_is_the_workflow_s() -> None:
    event, state = began()
    assert event.terms() == state.terms() == Terms(max_tokens=90, max_wall_s=60).terms()
