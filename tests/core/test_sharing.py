"""What a step's writes of shared values, and its waits for others, do to its run."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.facts.state import SHARED_USE
from holdfast.core.nouns.shared_values import SharedConflict, SharedIndex, SharedValue, packed
from holdfast.core.values.ids import Path
from holdfast.core.values.payload import inline
from holdfast.core.views.projection import project
from holdfast.errors import NonDeterministicStep, SharedValueMoved
from tests.core.game import Game, cmd, ev, graph, kinds

PLACE = (Path("0"), "board", "case", "hash")
ONE = inline(SharedValue("tea", 1, 1, "a"))
CONFLICT = SharedConflict(0, 1, "bob", "merge", inline("tea"), inline("cake"))


def test_a_write_is_the_outcome_of_its_operation_and_a_row() -> None:
    game = Game(graph("a > b"))
    written = game.do(cmd.WriteSharedValue(*game.at("a"), *PLACE, 0, is_written=True, outcome=ONE))
    assert kinds(written) == ["SharedValueWritten"]
    assert (game.op("a").status, game.op("a").outcome) == ("done", ONE)
    [row] = project(game.state, written, executing=True).shared_values
    assert (row.space, row.key, row.base, row.body) == ("board", "case", 0, bytes(ONE.json))
    assert game.do(cmd.WriteSharedValue(*game.at("a"), *PLACE, 0, is_written=True, outcome=ONE)) == []


def test_a_write_is_taken_until_the_moment_that_it_says() -> None:
    game = Game(graph("a > b"))
    write = cmd.WriteSharedValue(*game.at("a"), *PLACE, 0, True, ONE, until_ms=game.now_ms)
    with pytest.raises(SharedValueMoved, match="before now"):
        game.do(write)
    assert kinds(game.do(msgspec.structs.replace(write, until_ms=game.now_ms + 1))) == ["SharedValueWritten"]


def test_a_write_carries_its_index_and_dropped_keys_and_each_use_is_counted() -> None:
    game = Game(graph("a > b"))
    index = SharedIndex("black tea", "tiny", packed((3, 4)))
    place = (*game.at("a"), *PLACE, 0)
    written = game.do(cmd.WriteSharedValue(*place, is_written=True, outcome=ONE, index=index, keep=1, dropped=("old",)))
    [row] = project(game.state, written, executing=True).shared_values
    assert (row.index, row.keep, row.dropped) == (index, 1, ("old",))
    found = [
        cmd.Value(Path("1"), SHARED_USE, None, inline([{"key": "case", "more": 1}]), name="board"),
        cmd.Value(Path("2"), SHARED_USE, None, inline([]), name="board"),
    ]
    events = game.do(cmd.RecordValues(*game.at("a"), tuple(found)))
    uses = project(game.state, events, executing=True).shared_uses
    assert [(use.space, use.keys, use.at_ms) for use in uses] == [("board", ("case",), game.now_ms)]


def test_another_write_at_its_place_is_another_operation() -> None:
    game = Game(graph("a > b"))
    game.do(cmd.WriteSharedValue(*game.at("a"), *PLACE, 0, is_written=True, outcome=ONE))
    with pytest.raises(NonDeterministicStep):
        game.do(cmd.WriteSharedValue(*game.at("a"), Path("0"), "board", "other", "hash", 0, True, ONE))


def test_a_conflict_stands_beside_what_became_of_the_write() -> None:
    game = Game(graph("a > b"))
    merged = cmd.WriteSharedValue(*game.at("a"), *PLACE, 1, is_written=True, outcome=ONE, conflict=CONFLICT)
    assert kinds(game.do(merged)) == ["SharedValueConflicted", "SharedValueWritten"]
    left = cmd.WriteSharedValue(
        *game.at("a"), Path("1"), "board", "case", "hash", 1, is_written=False, outcome=inline(None), conflict=CONFLICT
    )
    assert kinds(game.do(left)) == ["SharedValueConflicted", "ValueRecorded"]


def test_a_refused_write_has_failed_and_writes_no_row() -> None:
    game = Game(graph("a > b"))
    refused = cmd.WriteSharedValue(
        *game.at("a"), *PLACE, 1, is_written=False, outcome=inline(None), conflict=CONFLICT, refusal="too late"
    )
    events = game.do(refused)
    assert kinds(events) == ["SharedValueConflicted"]
    op = game.op("a")
    assert op.error is not None
    assert (op.status, op.error.error_class, op.error.message) == ("failed", "conflict", "too late")
    assert project(game.state, events, executing=True).shared_values == ()


def test_a_wait_is_over_when_the_version_is_there_and_once() -> None:
    game = Game(graph("a > b"))
    awaited = game.do(cmd.AwaitSharedValue(*game.at("a"), *PLACE, 0))
    [row] = project(game.state, awaited, executing=True).shared_waits or ()
    assert (row.step, row.path, row.key, row.after) == ("a#1", "0", "case", 0)
    game.suspend("a")
    assert [(wait.kind, wait.reason) for wait in game.waits] == [("shared_value", "board/case")]
    step = game.at("a")[0]
    arrived = game.do(cmd.BringSharedValue(step, Path("0"), ONE))
    assert kinds(arrived) == ["SharedValueArrived", "StepStarted"]
    assert project(game.state, arrived, executing=True).shared_waits == ()
    assert game.do(cmd.BringSharedValue(step, Path("0"), ONE)) == []


def test_a_wait_has_an_end() -> None:
    game = Game(graph("a > b"))
    game.do(cmd.AwaitSharedValue(*game.at("a"), *PLACE, 0, 1_000))
    game.suspend("a")
    assert game.tick(0.9) == []
    assert kinds(game.tick(0.2)) == ["SharedValueTimedOut", "StepStarted"]
    assert [e.error.error_class for e in game.events(ev.SharedValueTimedOut)] == ["timeout"]
