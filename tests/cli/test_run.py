"""`holdfast run`: what it prints where, how it exits, and what a key promises."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from holdfast.cli import failure
from holdfast.testing.model_server import ModelServer
from tests.cli.conftest import Shell

KEYS = ["run_id", "workflow", "version", "status", "output", "cost_usd", "held_usd", "limit_usd", "error", "waiting_for"]


def test_the_output_is_on_stdout_and_the_rest_on_stderr(shell: Shell) -> None:
    said = shell("run", "flow:greet", "-i", '{"customer": "Ada"}')
    assert said.code == 0
    assert said.out == "Dear Ada\n"
    assert "greeting completed" in said.err
    assert "completed, $0.00 of $0.50" in said.err


def test_json_is_exactly_the_ten_fields(shell: Shell) -> None:
    said = shell("run", "flow:greet", "-i", '{"customer": "Ada"}', "--json", "--cost-limit", "0.25")
    assert list(said.data) == KEYS
    assert {**said.data, "run_id": "-"} == {
        "run_id": "-",
        "workflow": "greet",
        "version": 3,
        "status": "completed",
        "output": "Dear Ada",
        "cost_usd": "0.00",
        "held_usd": "0.00",
        "limit_usd": "0.25",
        "error": None,
        "waiting_for": [],
    }


def test_a_run_without_a_limit_says_null(shell: Shell) -> None:
    assert shell("run", "flow:letter", "-i", '{"customer": "Ada"}', "--json").data["limit_usd"] is None


def test_the_input_comes_from_a_file_or_from_stdin(shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "order.json").write_text('{"customer": "Bo"}')
    assert shell("run", "flow:greet", "-i", "@order.json").out == "Dear Bo\n"
    monkeypatch.setattr("sys.stdin", io.StringIO('{"customer": "Cy"}'))
    assert shell("run", "flow:greet", "-i", "@-").out == "Dear Cy\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-i", "{bad"], "--input is not JSON"),
        (["-i", "@missing.json"], "missing.json cannot be read"),
        (["-i", '{"pieces": "many"}'], "customer: Field required"),
        (["-i", '{"customer": "Ada"}', "--cost-limit", "much"], "'much' is not an amount of dollars"),
        (["--sideways"], "No such option: --sideways"),
    ],
)
def test_what_is_typed_wrong_exits_2_in_one_paragraph(shell: Shell, words: list[str], told: str) -> None:
    said = shell("run", "flow:greet", *words)
    assert said.code == 2
    assert said.out == ""
    assert told in said.err
    assert "Traceback" not in said.err


def test_an_error_with_json_is_an_object_on_stderr(shell: Shell) -> None:
    said = shell("run", "flow:greet", "-i", "{bad", "--json")
    assert said.out == ""
    assert json.loads(said.err)["error"]["class"] == "UsageError"


def test_the_unexpected_shows_where_it_happened_and_that_runs_are_safe(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError) as raised:
        raise RuntimeError("not thought of")
    assert failure.tell(raised.value, as_json=False) == 1
    told = capsys.readouterr().err
    assert told.startswith("Traceback")
    assert "Runs are safe" in told
    assert told.endswith("Error: RuntimeError: not thought of\n")


def test_a_failed_run_exits_1_with_its_error_as_data(shell: Shell) -> None:
    said = shell("run", "flow:broken", "--json")
    assert said.code == 1
    error = said.data["error"]
    assert list(error) == ["node", "error_class", "message", "retryable", "at", "tool", "trace"]
    assert error["node"] == "work"
    assert re.match(r"\d{4}-\d\d-\d\dT.*Z$", error["at"])


def test_what_others_wrote_cannot_command_the_terminal(shell: Shell) -> None:
    said = shell("run", "flow:broken")
    assert "\\x1b[31m" in said.err
    assert "\x1b" not in said.err + said.out


def test_a_run_that_asks_a_person_exits_8_and_says_what_to_type(shell: Shell) -> None:
    said = shell("run", "flow:letter", "-i", '{"customer": "Ada"}', "--store", "other.db")
    assert said.code == 8
    assert said.out == ""
    assert re.search(r"holdfast gates show '\S+:approval#1:0' --store other.db", said.err)


def test_timers_are_followed_and_signals_waited_for(shell: Shell) -> None:
    said = shell("run", "flow:patient", "--json")
    assert said.code == 8
    (wait,) = said.data["waiting_for"]
    assert (wait["kind"], wait["reason"]) == ("signal", "go")


def test_a_run_that_its_key_has_started_before_is_announced_as_that(shell: Shell) -> None:
    words = ("run", "flow:greet", "-i", '{"customer": "Ada"}', "--key", "k")
    first, second = (shell(*words).err.splitlines()[0] for _ in range(2))
    assert re.fullmatch(r"Run \S+ of greet 3", first), first
    assert re.fullmatch(rf"{first} already exists \(started [\d.]+ s ago\); showing it\.", second), second


def test_the_same_key_is_the_same_run_and_another_input_a_conflict(shell: Shell) -> None:
    words = ("run", "flow:greet", "--key", "k", "--json")
    first = shell(*words, "-i", '{"customer": "Ada"}')
    again = shell(*words, "-i", '{"pieces": 1, "customer": "Ada"}')
    assert again.data == first.data
    other = shell(*words, "-i", '{"customer": "Bo"}')
    assert other.code == 4
    assert shell(*words, "-i", '{"customer": "Bo"}', "--tenant", "acme").code == 0


def test_a_detached_run_is_driven_by_a_worker(shell: Shell) -> None:
    said = shell("run", "flow:greet", "-i", '{"customer": "Ada"}', "--detach")
    assert said.code == 0
    run = said.out.strip()
    assert shell("runs", "show", run, "--json").data["status"] == "running"
    summary = shell("worker", "flow:greet", "flow:letter", "--until-idle", "--json")
    assert summary.code == 0
    assert summary.data["completed"] == 1
    assert shell("runs", "show", run, "--json").data["output"] == "Dear Ada"


def test_a_blocked_run_exits_7_and_goes_on_with_more_money(shell: Shell, server: ModelServer) -> None:
    said = shell("run", "flow:costly", "--json")
    assert said.code == 7
    assert server.calls == []
    run = said.data["run_id"]
    assert "waits for a higher limit: its next call does not fit what is left" in shell("runs", "show", run).out
    told = shell("gates", "show", run)
    (command,) = re.findall(r"holdfast (budget raise \S+ \S+)", told.out)
    assert shell(*command.split()).code == 0
    assert shell("worker", "flow:costly", "--until-idle").code == 0
    after = shell("runs", "show", run, "--json").data
    assert after["status"] == "completed"
    assert 0 < float(after["cost_usd"]) <= float(after["limit_usd"])
    assert len(server.calls) == 1
