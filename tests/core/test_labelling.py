"""Labels of a run: changed by people at any time, and by its code once at each place."""

from __future__ import annotations

import pytest

from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import LABEL
from holdfast.core.values.ids import Path
from holdfast.core.views.projection import project
from holdfast.errors import InvalidInput, StaleAttempt
from tests.core.game import ANN, Game, graph, kinds

MANY = dict.fromkeys([f"k{number}" for number in range(33)], "v")


def labelled(game: Game, labels: dict[str, str | None], node: str = "a") -> cmd.RecordValues:
    return cmd.RecordValues(*game.at(node), (cmd.Value(Path("0"), LABEL, labels),))


def test_people_label_a_run_under_way_and_ended_and_no_change_is_no_event() -> None:
    game = Game(graph("a"))
    assert kinds(game.do(cmd.LabelRun({"a": "1", "b": "2"}, ANN))) == ["RunLabelled"]
    assert game.do(cmd.LabelRun({"a": "1", "none": None}, ANN)) == []
    game.complete("a")
    assert game.state.ended == "completed"
    (event,) = game.do(cmd.LabelRun({"a": None, "c": "3"}, ANN))
    assert (event.labels, event.by) == ({"a": None, "c": "3"}, ANN.name)  # type: ignore[attr-defined]
    assert game.state.labels == {"b": "2", "c": "3"}


def test_code_labels_its_run_only_while_its_attempt_counts() -> None:
    game = Game(graph("a > b"))
    late = labelled(game, {"late": "yes"})
    assert kinds(game.do(labelled(game, {"a": "1"}))) == ["ValueRecorded", "RunLabelled"]
    assert game.state.labels == {"a": "1"}
    game.complete("a")
    with pytest.raises(StaleAttempt):
        game.do(late)
    assert game.state.labels == {"a": "1"}


def test_too_many_labels_are_refused_and_leave_a_run_as_it_was() -> None:
    game = Game(graph("a"))
    for command in (cmd.LabelRun(MANY), labelled(game, {**MANY})):
        before = game.state.seq
        with pytest.raises(InvalidInput, match="33 labels"):
            game.do(command)
        assert (game.state.seq, game.state.labels) == (before, {})


def test_labels_of_one_commit_are_counted_together() -> None:
    game = Game(graph("a"))
    few = [dict.fromkeys([f"k{number}" for number in range(first, first + 20)], "1") for first in (0, 20)]
    values = tuple(cmd.Value(Path(str(place)), LABEL, labels) for place, labels in enumerate(few))
    with pytest.raises(InvalidInput, match="40 labels"):
        game.do(cmd.RecordValues(*game.at("a"), values))
    assert game.state.labels == {}


def test_the_rows_are_all_that_a_run_has_wherever_it_was_labelled() -> None:
    game = Game(graph("a"), start=False)
    start = game.do(cmd.StartRun(game.state.run, "acme", game.state.input, "", tags=("red",), labels={"a": "1"}))
    assert project(game.state, start, executing=True).labels == (("", "red"), ("a", "1"))
    events = game.do(cmd.LabelRun({"a": None}))
    assert project(game.state, events, executing=True).labels == (("", "red"),)
    assert project(game.state, game.complete("a"), executing=True).labels is None
