"""What holds for all commands: --json, completion, printed commands that can be pasted, one message for one error."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from holdfast import __version__
from holdfast.cli import connect
from holdfast.cli.app import app
from holdfast.cli.page import sample
from holdfast.cli.process import dev_server
from holdfast.testing.model_server import ModelServer
from tests.cli.conftest import Shell
from tests.cli.test_runs import started
from tests.forks import Fork

Start = Callable[..., Fork]


def commands(of: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, each in getattr(of, "commands", {}).items():
        yield from commands(each, (*path, name))
    if not hasattr(of, "commands"):
        yield " ".join(path), of


def test_every_command_takes_json() -> None:
    lacking = {
        name
        for name, command in commands(typer.main.get_command(app))
        if "--json" not in {word for each in command.params for word in each.opts}
    }
    own_output = {"top": "a screen of what `runs list`, `queue` and others have", "exec": "a program's", "mcp": "a protocol's"}
    assert lacking == own_output.keys()


def test_help_is_whole_in_a_terminal_of_80_columns(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich cuts a word that is wider than its column. No text of ours has its sign for that."""
    monkeypatch.setenv("COLUMNS", "80")
    for name, _ in commands(typer.main.get_command(app)):
        cut = [line for line in shell(*name.split(), "--help").out.splitlines() if "…" in line]
        assert cut == [], name


def test_the_version_is_said(shell: Shell) -> None:
    assert shell("--version").out == f"holdfast {__version__}\n"
    assert shell().err == ""


def test_a_shell_is_offered_commands_and_the_ids_of_runs(shell: Shell) -> None:
    run = started(shell, "broken")

    def offered(words: str) -> list[str]:
        given = {"_HOLDFAST_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()))}
        command = [sys.executable, "-c", "from holdfast.cli import main; main()"]
        found = subprocess.run(command, env=os.environ | given, capture_output=True, text=True)
        assert found.stderr == ""
        return found.stdout.split()

    assert "retention" not in offered("holdfast ")
    assert "pools" in offered("holdfast ")
    assert offered("holdfast runs show ") == [run]


def pasted(shell: Shell, said: str) -> list[str]:
    """The commands that a text tells people to type."""
    return [line.strip() for line in said.splitlines() if line.startswith("  holdfast ")]


@pytest.mark.parametrize("flow", ["release", "three_steps", "affordable", "patient"])
def test_what_is_printed_to_be_pasted_works(shell: Shell, server: ModelServer, flow: str) -> None:
    shell("run", f"flow:{flow}", "--cost-limit", "0.000001")
    (row,) = shell("runs", "list", "--json").data
    waits = shell("runs", "show", row["run_id"]).out
    gates = [shell("gates", "show", each["gate_id"]).out for each in shell("gates", "list", "--json").data]
    words = [shlex.split(each)[1:] for each in pasted(shell, "\n".join([waits, *gates]))]
    assert words
    asks = [each for each in words if each[1] not in ("reject", "retry")]
    for each in asks[-1:]:
        assert shell(*each).code == 0, each


def test_an_approval_that_is_printed_fills_in_what_the_form_has_left_open(shell: Shell) -> None:
    shell("run", "flow:release")
    ((gate,),) = [shell("gates", "list", "--json").data]
    approve = shlex.split(pasted(shell, shell("gates", "show", gate["gate_id"]).out)[0])[1:]
    assert approve[:2] == ["gates", "approve"]
    assert shell(*approve).code == 0, approve


def test_an_example_fits_the_form_that_it_is_for() -> None:
    form = {
        "properties": {
            "publish": {"type": "boolean"},
            "count": {"type": "integer", "minimum": 3},
            "tone": {"enum": ["dry", "warm"]},
            "name": {"type": "string", "minLength": 5},
            "kept": {"type": "string"},
            "who": {"$ref": "#/$defs/Who"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "$defs": {"Who": {"type": "object", "properties": {"id": {"type": "number"}}, "required": ["id"]}},
    }
    assert sample.of(form, {"kept": "as it is"}) == {
        "publish": True,
        "count": 3,
        "tone": "dry",
        "name": ".....",
        "kept": "as it is",
        "who": {"id": 0},
        "note": "...",
        "tags": [],
    }


def test_a_password_is_not_printed_and_the_command_works_all_the_same() -> None:
    command = connect.typed("runs", "list", store="postgresql://ann:secret@db/holdfast")
    assert "secret" not in command
    shell = command.replace("holdfast runs list", "echo")
    where = {"HOLDFAST_STORE": "postgresql://ann:secret@db/holdfast", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", shell], env=where, capture_output=True, text=True, check=True)
    assert done.stdout == "--store postgresql://ann:secret@db/holdfast\n"
    where.pop("HOLDFAST_STORE")
    left = subprocess.run(["sh", "-c", shell], env=where, capture_output=True, text=True, check=False)
    assert left.returncode != 0
    assert "the address of the store" in left.stderr


def test_costs_are_shown_without_a_roll_up_before(shell: Shell, server: ModelServer) -> None:
    run = shell("run", "flow:affordable", "--json").data
    (cost,) = shell("costs", "show", "--json").data
    assert cost["cost_usd"] == run["cost_usd"]
    assert float(cost["cost_usd"]) > 0
    assert shell("costs", "rollup", "--json").data == {"up_to_date": True}


def test_who_waits_for_a_locked_store_hears_of_it_after_a_second(shell: Shell, process: Start) -> None:
    started(shell, "broken")
    with sqlite3.connect("holdfast.db", isolation_level=None) as db:
        db.execute("begin immediate")
        waiting = process("admission", "set", "--fleet", "--runs", "5")
        assert waiting.stderr is not None
        line = waiting.stderr.readline()
        db.execute("rollback")
    assert "A program other than Holdfast holds the lock of" in line
    assert waiting.communicate(timeout=30)
    assert waiting.returncode == 0


def test_a_run_is_shown_whole_as_json(shell: Shell) -> None:
    shell("run", "flow:payment")
    (row,) = shell("runs", "list", "--json").data
    found = shell("runs", "show", row["run_id"], "--json").data
    (step,) = found["steps"]
    assert (step["step"], step["attempts"], step["worker"].rpartition(":")[2].isdigit()) == ("pay#1", 1, True)
    assert step["began_at"] <= step["changed_at"]
    assert [effect["state"] for effect in found["effects"]] == ["in_doubt"]
    assert found["tenant"] == "default"
    assert found["started_at"] == row["started_at"]
    assert json.dumps(found)


def test_an_error_in_a_tool_says_where_in_its_code(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-a-key-of-some-length")
    said = shell("run", "flow:falling")
    assert re.search(r"fell over \[secret\] \(flows\.py:\d+ in fall\)", said.err), said.err
    (row,) = shell("runs", "list", "--json").data
    told = shell("runs", "show", row["run_id"]).out
    assert re.search(r'Trace\n +File ".*flows\.py", line \d+, in fall\n', told), told
    assert "holdfast/tools" not in told
    error = shell("runs", "show", row["run_id"], "--json").data["steps"][0]["error"]
    assert "raise RuntimeError" in error["trace"]
    everywhere = shell("runs", "events", row["run_id"], "--json").out + told + said.err
    assert "sk-ant-a-key" not in everywhere
    assert "raise RuntimeError" in everywhere
    for words in (("runs", "list"), ("runs", "events", row["run_id"]), ("effects", "list")):
        assert "raise RuntimeError" not in shell(*words).out


def test_a_kept_token_goes_to_no_server_after_the_death_of_its_own(tmp_path: Path) -> None:
    store, kept = tmp_path / "holdfast.db", dev_server.DevServer("http://127.0.0.1:1", "a token")
    assert dev_server.find_living(store) is None
    dev_server.keep(store, kept)
    assert dev_server.find_living(store) == kept
    dev_server._HELD.pop().close()  # as its end does
    assert dev_server.find_living(store) is None
    assert dev_server.find(store) == kept, "the next one has the same token"
