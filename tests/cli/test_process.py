"""What only a real process can show: how quickly it starts, what signals do to it, and how it behaves at a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer.main

from holdfast.cli.app import _COMMANDS, _create_command, app
from tests.cli.conftest import Shell, spelled
from tests.forks import Fork

Start = Callable[..., Fork]
QUICK_S = 0.15
"""What the commands and their options cost to define, on a machine that is busy besides."""
EMPTY_APP = "import typer; app = typer.Typer(); app.command()(lambda: None); app(['--help'])"


def cpu_s(*arguments: str) -> float:
    """The processor time of the quickest of four such processes."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(4))


def began(home: Path, process: Fork) -> None:
    """Wait until the process is in its first step."""
    while not (home / f"began-{process.pid}").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_help_is_hardly_slower_than_an_empty_app() -> None:
    assert cpu_s("-m", "holdfast", "--help") < cpu_s("-c", EMPTY_APP) + QUICK_S


def test_a_list_of_commands_says_what_each_says_of_itself_and_loads_none() -> None:
    commands: Any = typer.main.get_command(app)
    for name, command in commands.commands.items():
        words = " ".join(command.help.split("\n\n")[0].split())
        assert _COMMANDS[name].about == words, name
    program = "import sys; from holdfast.cli.app import invoke; invoke(['--help']); print(*sys.modules, file=sys.stderr)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr.split()
    assert [name for name in loaded if name in {"pydantic", "apsw", "asyncio", "holdfast.core.facts.state"}] == []
    assert {name for name in loaded if name.startswith("holdfast.cli.")} == {
        f"holdfast.cli.{name}"
        for name in (
            "app",
            "failure",
            "group",
            "page",
            "page.terminal",
            "page.line_writer",
            "page.log_output",
            "page.exit_code",
            "process",
            "process.parent",
        )
    }


def test_of_a_group_the_one_command_is_made_that_is_meant(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    """To make one takes milliseconds, and `runs` has more than twenty."""
    made: list[str] = []
    make = typer.main.get_command_from_info

    def noted(command_info: Any, **options: Any) -> Any:
        made.append(command_info.callback.__name__)
        return make(command_info, **options)

    monkeypatch.setattr(typer.main, "get_command_from_info", noted)
    _create_command.cache_clear()
    for _ in range(2):
        assert shell("runs", "list", "--help").code == 0
    assert len(made) == 1, made


def test_looking_at_lists_waits_for_no_engine(shell: Shell, home: Path) -> None:
    assert shell("run", "flow:slow").code == 0
    for words in (["runs", "list"], ["gates", "list"]):
        program = f"import sys; from holdfast.cli.app import invoke; invoke({words}); print(*sys.modules, file=sys.stderr)"
        looked = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=home)
        loaded = looked.stderr.split()
        rooms = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("holdfast.")}
        assert looked.stdout, words
        assert "rich.console" not in loaded  # a pipe has no colour
        assert rooms.isdisjoint({f"holdfast.{room}" for room in ("authoring", "compose", "engine", "models", "tools")})


def test_an_interrupted_run_says_how_to_go_on_and_can(shell: Shell, process: Start, home: Path) -> None:
    running = process("run", "flow:slow", STEP_S="60")
    began(home, running)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=20)
    assert running.returncode == 130
    assert out == ""
    (run,) = re.findall(r"Run (\S+) keeps what it has done", err)
    assert re.search(r"flows\.py:slow'? --until-idle", err), err  # quoted where its folder asks for it
    assert "\x1b" not in err
    assert "Traceback" not in err
    assert shell("worker", "flow:slow", "--until-idle").code == 0
    assert shell("runs", "show", run, "--json").data["output"] == 2


def test_a_plain_function_that_never_returns_does_not_keep_its_process(process: Start, home: Path) -> None:
    running = process("run", "flow:stuck")
    began(home, running)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=20)
    assert running.returncode == 130


def test_a_worker_that_is_stopped_finishes_its_step_and_takes_nothing_new(shell: Shell, process: Start, home: Path) -> None:
    run = shell("run", "flow:slow", "--detach").out.strip()
    working = process("worker", "flow:slow", "--json", STEP_S="0.5")
    began(home, working)
    working.send_signal(signal.SIGTERM)
    out, err = working.communicate(timeout=20)
    assert working.returncode == 0
    assert "SIGTERM: nothing new is taken" in err
    assert '"steps": 1' in out
    steps = [line for line in shell("runs", "show", run).out.splitlines() if "#1" in line]
    assert [line.split()[:2] for line in steps] == [["first#1", "completed"], ["second#1", "ready"]]


def test_a_decision_typed_elsewhere_is_taken_up_by_a_running_worker(shell: Shell, process: Start, home: Path) -> None:
    run = shell("run", "flow:letter", "-i", '{"customer": "Ada"}', "--json").data["run_id"]
    working = process("worker", "flow:letter")
    assert working.stderr is not None
    assert working.stderr.readline().startswith("Worker on")
    assert shell("gates", "approve", run, "--as", "bob").code == 0
    while shell("runs", "show", run, "--json").data["status"] != "completed":
        assert working.poll() is None
    working.terminate()
    working.communicate(timeout=20)
    history = [json.loads(line) for line in shell("runs", "events", run, "--json").out.splitlines()]
    decided, sending = (
        next(e for e in history if e["type"] == kind and e.get("step") in (None, "send#1"))
        for kind in ("GateDecided", "StepStarted")
    )
    assert datetime.fromisoformat(sending["at"]) - datetime.fromisoformat(decided["at"]) < timedelta(seconds=1)


def test_a_terminal_sees_the_run_move_and_a_pipe_sees_lines(home: Path) -> None:
    words = [sys.executable, "-m", "holdfast", "run", spelled("flow:slow")]
    child, terminal = pty.fork()
    if not child:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, words)
    seen = b""
    while select.select([terminal], [], [], 20)[0]:
        try:
            seen += os.read(terminal, 65536)
        except OSError:
            break  # the other end is closed
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert b"\x1b[" in seen
    assert "✓".encode() in seen
    piped = subprocess.run(words, check=True, capture_output=True, text=True)
    assert piped.stdout == "2\n"
    assert "\x1b" not in piped.stderr
    assert "first completed\nsecond started" in piped.stderr
    assert "at work" in piped.stderr  # what a step prints is no data of the command's
