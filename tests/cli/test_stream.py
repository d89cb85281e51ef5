"""`holdfast runs stream`, and what `run` shows at a terminal: what is said in a run, once, and harmless to the terminal."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest

from holdfast.cli.page import terminal
from holdfast.cli.runs import stream
from holdfast.core.facts.streams import StreamEvent
from holdfast.core.values.ids import RunId
from holdfast.service import view
from holdfast.testing.model_server import ModelServer, Rule
from tests.cli.conftest import Shell
from tests.forks import Fork

HOSTILE = "Dear Ada,\nRun 1: completed.\n\x1b]0;owned\x07 it is \x1b[31mlate, and comes on Tuesday."
ASKED = ("run", "flow:talkative", "-i", '"where?"')


def test_what_came_of_a_request_is_shown_apart_from_its_arguments() -> None:
    written: list[str] = []
    shown, source = stream.StreamPrinter(written.append), "flow#1:0:1:look:toolu_1"
    shown.hear(view.of_told(StreamEvent(RunId("r"), "model", "arguments", source, 0, "@1", text="{}")))
    for number, outcome in enumerate(("completed", "failed")):
        told = StreamEvent(
            RunId("r"), "tools", "result", f"{source}:result", 0, "@1", text="one\n\x1b[31mtwo" * number, outcome=outcome
        )
        assert view.of_told(told)["outcome"] == outcome
        shown.hear(view.of_told(told))
    assert "".join(written) == (f"{source}:\n  {{}}\n{source}:result:\n  \n{source}:result (failed):\n  one\n  \\x1b[31mtwo\n")


@pytest.fixture(autouse=True)
def _speaks(server: ModelServer) -> None:
    server.script.add(Rule(text=HOSTILE))


def test_what_was_said_is_printed_and_nothing_of_it_commands_the_terminal(shell: Shell) -> None:
    assert shell(*ASKED).code == 0
    (row,) = shell("runs", "list", "--json").data
    said = shell("runs", "stream", row["run_id"])
    assert said.out == (
        "flow#1:0:1:\n  Dear Ada,\n  Run 1: completed.\n  \\x1b]0;owned\\x07 it is \\x1b[31mlate, and comes on Tuesday.\n"
        'progress 0: {"asked": "where?"}\nprogress 1: "\\u001b[31mred"\n'
    )
    told = [json.loads(line) for line in shell("runs", "stream", row["run_id"], "--json").out.splitlines()]
    assert [each["kind"] for each in told] == ["text", "end", "value", "value"]
    assert told[0]["text"] == HOSTILE
    for number, each in enumerate(told):
        rest = shell("runs", "stream", row["run_id"], "--from", each["cursor"], "--json").out.splitlines()
        assert [json.loads(line) for line in rest] == told[number + 1 :]
    last = shell("runs", "stream", row["run_id"], "--name", "progress", "--from", "-1").out
    assert last == 'progress 1: "\\u001b[31mred"\n'
    part = shell("runs", "stream", row["run_id"], "--name", "flow#1:0:1", "--from", str(len(HOSTILE) - 8)).out
    assert part == "flow#1:0:1:\n  Tuesday.\n"


def test_an_escape_that_comes_in_two_pieces_commands_no_terminal_whatever_prints_it() -> None:
    written: list[str] = []
    shown = stream.StreamPrinter(written.append)
    for kind, source in (("thinking", "flow#1:0:1:thinking"), ("text", "flow#1:0:1"), ("arguments", "flow#1:0:1:a:b")):
        for offset, text in enumerate(("\x1b", "]0;owned\x07\n")):
            told = view.of_told(StreamEvent(RunId("r"), "model", kind, source, offset, "@1", text=text))
            shown.hear(told)
            assert told["text"] == text
    shown.rest()
    assert "".join(written) == "".join(
        f"{source}:\n  \\x1b]0;owned\\x07\n  \n" for source in ("flow#1:0:1:thinking", "flow#1:0:1", "flow#1:0:1:a:b")
    )


@pytest.mark.parametrize("words", [("--from", "yesterday"), ("--from", "3"), ("--name", "model", "--from", "3")])
def test_what_is_no_place_is_reported(shell: Shell, words: tuple[str, ...]) -> None:
    shell(*ASKED)
    (row,) = shell("runs", "list", "--json").data
    said = shell("runs", "stream", row["run_id"], *words)
    assert (said.code, said.out) == (2, "")
    assert "is no place" in said.err


def test_who_follows_hears_what_comes_and_how_to_go_on(shell: Shell, process: Callable[..., Fork]) -> None:
    shell("run", "flow:talkative", "-i", '"wait"')
    (row,) = shell("runs", "list", "--json").data
    following = process("runs", "stream", row["run_id"], "--json", "--follow")
    assert following.stdout is not None
    told = [json.loads(following.stdout.readline()) for _ in range(4)]
    following.send_signal(signal.SIGINT)
    out, err = following.communicate(timeout=20)
    assert (following.returncode, out) == (130, "")
    assert f"--from '{told[-1]['cursor']}'" in err or f"--from {told[-1]['cursor']}" in err


def test_run_shows_it_as_it_comes_at_a_terminal_and_nowhere_else(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = shell(*ASKED)
    assert "Tuesday" not in quiet.err
    with monkeypatch.context() as patched:
        patched.setattr(terminal, "interactive", lambda _: True)
        patched.setattr(terminal, "STYLES", {})
        live = shell(*ASKED)
        as_json = shell(*ASKED, "--json")
    assert "Tuesday" in live.err
    assert 'progress 0: {"asked": "where?"}' in live.err
    assert "\x1b]0;owned" not in live.err
    assert "Tuesday" not in as_json.err
