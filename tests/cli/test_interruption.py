"""Ctrl-C, SIGTERM and readers that leave, at any moment of a run: it can be taken up again, and the message says how."""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli.page import terminal
from holdfast.cli.process.interruption import Interruption
from tests.cli.conftest import Said, Shell, spelled
from tests.forks import Fork

Start = Callable[..., Fork]
PATIENCE_S = 60
INTERRUPTED = 130


def read_until(running: Fork, words: str) -> str:
    """Wait until `words` stand on stderr; what stands there by then."""
    assert running.stderr is not None
    seen = ""
    while words not in seen:
        line = running.stderr.readline()
        assert line, seen
        seen += line
    return seen


def began(home: Path, running: Fork) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not (home / f"began-{running.pid}").exists():
        assert running.poll() is None
        assert time.monotonic() < until_s
        time.sleep(0.01)


def taken_up(shell: Shell, err: str) -> Said:
    """Type the command that the message tells, and look at the run."""
    (told,) = re.findall(r"^  (holdfast worker .*)$", err, re.MULTILINE)
    (run,) = re.findall(r"^Interrupted\. Run (\S+) keeps what it has done", err, re.MULTILINE)
    assert shell(*shlex.split(told)[1:]).code == 0
    return shell("runs", "show", run, "--json")


@pytest.mark.parametrize("after", ["Run ", "first started", "first completed", "second started"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_wherever_a_run_is_interrupted_it_can_be_taken_up_as_reported(
    shell: Shell, process: Start, after: str, sent: signal.Signals
) -> None:
    running = process("run", "flow:slow", STEP_S="0.05" if after in ("first completed", "second started") else "30")
    seen = read_until(running, after)
    running.send_signal(sent)
    out, err = running.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in err
    if "Interrupted" not in err:  # it was over by then
        assert (running.returncode, out) == (0, "2\n")
        return
    assert (running.returncode, out) == (INTERRUPTED, "")
    if "keeps what it has done" in err:
        assert taken_up(shell, seen + err).data["output"] == 2
    else:
        assert "is completed, and nothing of it is lost" in err


@pytest.mark.parametrize("times", [2, 3, 5])
def test_several_interrupts_in_a_row_say_the_same_once(shell: Shell, process: Start, home: Path, times: int) -> None:
    running = process("run", "flow:slow", STEP_S="30")
    began(home, running)
    for _ in range(times):
        running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode in (INTERRUPTED, -signal.SIGINT)
    assert out == ""
    assert "Traceback" not in err
    assert taken_up(shell, err).data["status"] == "completed"


def test_an_interrupt_that_comes_as_the_words_are_said_has_a_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython prints an OSError for a signal that had come when its handler became SIG_IGN; that is too rare to provoke here."""
    monkeypatch.setattr(terminal, "say_at_once", lambda words: None)
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Interruption(lambda: "words") as interruption:
            interruption.tell()
            assert all(callable(signal.getsignal(each)) and signal.getsignal(each) != signal.SIG_IGN for each in before)
            signal.raise_signal(signal.SIGINT)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def test_the_second_interrupt_ends_a_process_whose_step_lets_nothing_else_move(
    shell: Shell, process: Start, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = process("run", "flow:busy")
    began(home, running)
    until_s = time.monotonic() + PATIENCE_S
    while running.poll() is None and time.monotonic() < until_s:
        running.send_signal(signal.SIGINT)  # two that come before anybody has taken the first are one
        time.sleep(0.05)
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == INTERRUPTED
    monkeypatch.setenv("BRIEFLY", "1")
    assert taken_up(shell, err).data["output"] == "done"


def test_an_interrupt_before_the_start_says_that_nothing_was_started(home: Path, process: Start) -> None:
    (home / "mine.py").write_text("import time\nopen('there', 'w').close()\ntime.sleep(60)\n")
    running = process("run", "mine.py")
    while not (home / "there").exists():
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=PATIENCE_S) == ("", "Interrupted. Nothing was started.\n")
    assert running.returncode == INTERRUPTED
    assert not (home / "holdfast.db").exists()


def test_an_interrupt_while_the_output_is_written_says_where_it_can_be_seen(shell: Shell, process: Start) -> None:
    running = process("run", "flow:wordy")  # more than a pipe holds, and nobody reads it
    seen = read_until(running, "n19 completed")
    assert running.stdout is not None
    assert running.stdout.read(1) == "w"
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == INTERRUPTED
    ((run, told),) = re.findall(r"Run (\S+) is completed, and nothing of it is lost:\n  (.*)\n", seen + err)
    assert told == f"holdfast runs show {run}"
    assert shell("runs", "show", run, "--json").data["output"].startswith("word word")


def test_at_random_moments_nothing_that_was_sent_is_lost(shell: Shell, process: Start) -> None:
    moments = random.Random(3)
    told: set[str] = set()
    for _ in range(8):
        running = process("run", "flow:slow", STEP_S="0.1")
        time.sleep(moments.uniform(0.02, 0.6))  # whatever the moment turns out to be
        for _ in range(moments.choice((1, 2))):
            running.send_signal(moments.choice((signal.SIGINT, signal.SIGTERM)))
        out, err = running.communicate(timeout=PATIENCE_S)
        told |= set(re.findall(r"^Run (\S+) of slow", err, re.MULTILINE))
        if running.returncode == 0:
            assert out == "2\n"
        elif "Run " in err:
            assert running.returncode in (INTERRUPTED, -signal.SIGINT, -signal.SIGTERM)
            assert "Interrupted. Run " in err or ": completed, $0.00." in err
            assert "Traceback" not in err
    assert shell("worker", "flow:slow", "--until-idle").code == 0
    runs = {run["run_id"]: run["status"] for run in shell("runs", "list", "--json").data}
    assert told <= set(runs)
    assert set(runs.values()) <= {"completed"}


# --- Readers that leave -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", ["stdout", "stderr", "both"])
def test_a_reader_that_leaves_does_not_stop_the_run(shell: Shell, home: Path, stream: str) -> None:
    read, write = os.pipe()
    streams = {name: write if stream in (name, "both") else subprocess.PIPE for name in ("stdout", "stderr")}
    words = [sys.executable, "-m", "holdfast", "run", spelled("flow:wordy")]
    running = subprocess.Popen(words, text=True, **streams)  # type: ignore[call-overload]
    os.close(write)
    with os.fdopen(read) as reader:
        reader.read(1)
    out, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0
    assert "Traceback" not in (err or "")
    (run,) = shell("runs", "list", "--json").data
    assert run["status"] == "completed"
    if stream == "stdout":
        assert f"Run {run['run_id']}: completed" in err
    elif stream == "stderr":
        assert out.startswith("word word")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_stream_that_was_never_there_does_not_stop_the_run(shell: Shell, closed: str) -> None:
    words = shlex.join([sys.executable, "-m", "holdfast", "run", spelled("flow:slow")])
    assert subprocess.run(f"{words} {closed}", shell=True, capture_output=True, check=False).returncode == 0
    assert shell("runs", "list", "--json").data[0]["status"] == "completed"


@pytest.mark.parametrize("words", [("runs", "list"), ("runs", "events", "RUN"), ("--help",)])
def test_the_head_of_a_list_is_no_error(shell: Shell, words: tuple[str, ...]) -> None:
    run = shell("run", "flow:slow", "--json").data["run_id"]
    command = [sys.executable, "-m", "holdfast", *(run if word == "RUN" else word for word in words)]
    read, write = os.pipe()
    os.close(read)  # had enough before the first line
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


# --- Calls that have left ---------------------------------------------------------------------------------------------


def test_a_call_that_has_left_gets_its_time_to_bring_its_outcome_home(shell: Shell, process: Start, home: Path) -> None:
    running = process("run", "flow:wiring", STEP_S="4")
    began(home, running)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == INTERRUPTED
    assert re.search(r"Waiting for wire_money in wire: 30 s at most. Interrupt again to leave at once\.", err)
    assert "will be asked" not in err
    assert taken_up(shell, err).data["output"] == {"wired": 5}
    assert (home / "wired").read_text() == "x"


@pytest.mark.parametrize("again", [True, False])
def test_leaving_a_call_without_its_outcome_reports_what_will_be_asked(
    shell: Shell, process: Start, home: Path, again: bool
) -> None:
    running = process("run", "flow:wiring", *(() if again else ("--grace-s", "0.2")), STEP_S="60")
    began(home, running)
    running.send_signal(signal.SIGINT)
    if again:
        read_until(running, "Waiting for wire_money")
        running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == INTERRUPTED
    assert "wire_money" in err
    assert "a person will be asked whether it happened, before the run continues" in err
    shell("worker", "flow:wiring", "--until-idle")
    assert [gate["reason"] for gate in shell("gates", "list", "--json").data] == ["effect_unknown"]


@pytest.mark.parametrize("buffering", ["", "1"])
def test_what_user_code_prints_is_not_lost_by_kill_9(buffering: str) -> None:
    """Python without buffers says so of its streams in another way than by lines."""
    printing = (
        "import os, signal; from holdfast.cli.page import terminal; terminal.outlive_readers()\n"
        "with terminal.aside(): print('a line of a flow'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = os.environ | {"PYTHONUNBUFFERED": buffering}
    killed = subprocess.run([sys.executable, "-c", printing], capture_output=True, text=True, env=environment)
    assert (killed.returncode, killed.stderr) == (-signal.SIGKILL, "a line of a flow\n")
