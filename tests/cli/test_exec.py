"""`holdfast exec` as a program and its caller see it: everything passes through, whatever is killed, and nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Engine, Workflow, task
from tests.cli.conftest import Shell
from tests.forks import Fork

Start = Callable[..., Fork]
PATIENCE_S = 60


def run_of(err: str) -> str:
    found = re.search(r"Run ([0-9a-f-]{36})", err)
    assert found, err
    return found[1]


def appeared(file: Path, running: Fork) -> str:
    """What a program has written into a file, once it has."""
    until_s = time.monotonic() + PATIENCE_S
    while not (file.exists() and file.read_text().endswith("\n")):
        assert running.poll() is None, running.stderr.read()
        assert time.monotonic() < until_s
        time.sleep(0.01)
    return file.read_text().strip()


def is_gone(pid: str) -> bool:
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def wait_until_gone(pid: str) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not is_gone(pid):
        assert time.monotonic() < until_s
        time.sleep(0.01)


def python(text: str) -> tuple[str, ...]:
    return "exec", "--", sys.executable, "-c", text


def test_arguments_input_output_folder_and_exit_code_pass_through(home: Path, shell: Shell) -> None:
    text = (
        "import os, sys; print(sys.argv[1:], os.getcwd(), os.environ['HOLDFAST_RUN']); print('oh', file=sys.stderr);"
        " print(sys.stdin.read(), end=''); sys.exit(3)"
    )
    words = [sys.executable, "-m", "holdfast", *python(text), "a b", "--json", "-x"]
    ended = subprocess.run(words, input="line\nlast", capture_output=True, text=True, cwd=home)
    run = run_of(ended.stderr)
    assert ended.returncode == 3
    assert ended.stdout == f"['a b', '--json', '-x'] {home} {run}\nline\nlast"
    lines = ended.stderr.splitlines()
    assert len(lines) == 3
    assert lines[1] == "oh"
    assert f"holdfast exec --resume {run}" in lines[0]
    shown = shell("runs", "show", run).out
    assert "The program ended with exit code 3." in shown
    assert "\noh\n" in shown
    assert "\nlast\n" in shown


def test_at_a_terminal_the_program_has_one_of_the_same_size(home: Path) -> None:
    control, terminal = pty.openpty()
    subprocess.run(["stty", "rows", "33", "cols", "77"], stdin=terminal, check=True)
    text = "import os, sys; print(sys.stdin.isatty(), sys.stderr.isatty(), *os.get_terminal_size())"
    ended = subprocess.run(
        [sys.executable, "-m", "holdfast", *python(text)], stdin=terminal, stdout=terminal, stderr=terminal, cwd=home
    )
    os.close(terminal)
    said = os.read(control, 10_000).decode()
    os.close(control)
    assert ended.returncode == 0
    assert "\r\nTrue True 77 33\r\n" in said


def test_a_program_that_a_signal_ends_gives_the_code_of_a_shell(process: Start) -> None:
    running = process(*python("import os; os.kill(os.getpid(), 9)"))
    _, err = running.communicate(PATIENCE_S)
    assert running.returncode == 128 + signal.SIGKILL
    assert "failed" in err


def test_with_its_command_killed_a_program_ends_and_is_started_again(home: Path, process: Start, shell: Shell) -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import os, time; print(os.getpid(), file=open(\"child\", \"w\")); time.sleep(600)'])"
    text = f"import os\nif not os.path.exists('child'):\n    exec({child!r})\nprint('done')"
    running = process(*python(text))
    pid = appeared(home / "child", running)
    running.kill()
    run = run_of(running.stderr.read())
    wait_until_gone(pid)

    other = process(*python("print('another')"))  # takes up nothing that is not its own
    assert other.communicate(PATIENCE_S)[0] == "another\n"
    assert shell("runs", "show", run, "--json").data["status"] == "running"

    resumed = process("exec", "--resume", run[:13])
    assert resumed.communicate(PATIENCE_S)[0] == "done\n"
    assert resumed.returncode == 0
    assert shell("runs", "show", run, "--json").data["output"] == {"exit_code": 0}


def test_a_first_ctrl_c_is_the_programs_and_a_second_ends_it(home: Path, process: Start, shell: Shell) -> None:
    text = (
        "import os, signal, time; signal.signal(signal.SIGINT, lambda *_: print('heard', file=open('heard', 'w')));"
        " print(os.getpid(), file=open('began', 'w')); [time.sleep(0.1) for _ in range(6000)]"
    )
    running = process(*python(text))
    pid = appeared(home / "began", running)
    running.send_signal(signal.SIGINT)
    assert appeared(home / "heard", running) == "heard"
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(PATIENCE_S)
    assert running.returncode == 130
    assert is_gone(pid)
    assert f"holdfast exec --resume {run_of(err)}" in err.splitlines()[-1]
    assert shell("runs", "show", run_of(err), "--json").data["status"] == "running"


def test_what_cannot_be_run_or_resumed_is_said_before_anything_is(shell: Shell) -> None:
    missing = shell("exec", "--", "no-such-program")
    assert missing.code == 2
    assert "no-such-program cannot be executed" in missing.err
    assert shell("exec").code == 2
    assert shell("exec", "--resume", "x", "--cost-limit", "1").code == 2
    assert shell("runs", "list", "--json").data == []


async def start_namesake(folder: Path) -> str:
    """A run of another workflow of the same name."""
    workflow = Workflow("exec")
    workflow.node("program")(task(lambda state: None))
    async with Engine.open(str(folder / "holdfast.db"), execute=False) as engine:
        return (await engine.start(workflow, {})).id


@pytest.mark.parametrize("ended", ["completed", "other", "namesake"])
def test_only_a_run_of_exec_that_can_go_on_is_resumed(ended: str, home: Path, shell: Shell, process: Start) -> None:
    if ended == "completed":
        done = process(*python("pass"))
        run = run_of(done.communicate(PATIENCE_S)[1])
        code, words = 4, "is completed. Nothing was done."
    elif ended == "namesake":
        run = asyncio.run(start_namesake(home))
        code, words = 2, "has no program"
    else:
        run = shell("run", "flow:broken", "--json").data["run_id"]
        code, words = 2, "continues those of `holdfast exec` only"
    refused = shell("exec", "--resume", run)
    assert refused.code == code
    assert words in refused.err
