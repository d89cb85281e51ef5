"""What is said while a run is at work is read once, before a model call that was not begun, and stays where it was read."""

from __future__ import annotations

import pytest

from holdfast.core.values.ids import Path
from holdfast.core.values.payload import inline
from holdfast.errors import RunEnded, Suspended
from tests.core.game import TRANSIENT, Game, cmd, ev, graph, kinds


def said(game: Game, *numbers: int) -> list[str]:
    return [kind for number in numbers for kind in kinds(game.do(cmd.SendMessage(number, inline(f"said {number}"))))]


def read(game: Game, path: str) -> list[tuple[str, int]]:
    events = game.do(cmd.ReadMessages(*game.at("a"), Path(path)))
    return [(event.path, event.number) for event in events if isinstance(event, ev.MessageRead)]


def test_a_message_is_kept_once_however_often_it_is_sent() -> None:
    game = Game(graph("a"))
    assert said(game, 2, 2, 5, 2, 5) == ["MessageReceived"] * 2
    assert [game.state.has_read(number) for number in (1, 2, 5, 6)] == [True, False, False, False]


def test_the_next_call_reads_all_that_has_come_and_no_other_does() -> None:
    game = Game(graph("a"))
    said(game, 2, 3)
    assert read(game, "0") == [("0.message.0", 2), ("0.message.1", 3)]
    assert read(game, "0") == read(game, "1") == []
    assert game.op("a", "0.message.1").outcome == inline("said 3")
    said(game, 4)
    assert read(game, "0") == [], "what was asked there stands"
    assert read(game, "1") == [("1.message.0", 4)]
    assert all(map(game.state.has_read, (2, 3, 4)))


def test_a_call_in_progress_is_sent_nothing_more() -> None:
    game = Game(graph("a"))
    call = game.held("a", 5)
    said(game, 2)
    assert read(game, "0") == []
    game.do(cmd.FailModelCall(call, TRANSIENT, reopens=True))
    assert read(game, "0") == [], "it is sent again as it was"
    assert read(game, "1") == [("1.message.0", 2)]


def test_nothing_is_read_while_the_run_is_paused_and_nothing_sent_after_its_end() -> None:
    game = Game(graph("a"))
    game.pause()
    assert said(game, 2) == ["MessageReceived"]
    with pytest.raises(Suspended):
        read(game, "0")
    game.resume()
    game.complete("a")
    with pytest.raises(RunEnded):
        said(game, 3)
    assert not game.state.has_read(2)


def test_what_a_failed_run_had_not_read_is_not_its_any_more_once_it_goes_on() -> None:
    game = Game(graph("a"))
    said(game, 2)
    read(game, "0")
    said(game, 4, 5)
    game.fail("a")
    assert game.state.ended == "failed"
    game.do(cmd.RetryRun())
    assert [game.state.has_read(number) for number in (2, 4, 5)] == [True, False, False]
    assert read(game, "1") == []
