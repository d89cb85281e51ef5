"""Scripts in real processes: how they end, and that nothing of them is left, whatever they do."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.actions.shell import Limits, LogBounds, Script, ScriptEnd, run, runner
from holdfast.actions.shell.environment import MAX_VARIABLE_BYTES
from holdfast.errors import InvalidInput, OutcomeUnknown, ToolFailed
from holdfast.platform.machine import MachineClock

OF_THE_C_LIBRARY = 0b11 << 31
"""Signals 32 and 33, which nobody can send or reset: they are as whoever started the tests has them."""
PYTHON = shlex.quote(sys.executable)
"""As a word of a shell line: the folder may have a space in its name."""
QUICK = Limits(timeout_s=20.0, grace_s=0.3, linger_s=0.3)


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where scripts get their private folders. Nothing may be left there."""
    folder = tmp_path / "private"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    """No descriptor, no task and no child of this process is left by a script."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = open_files(), children.read_text()  # servers of other tests are children of this process too
    yield
    await asyncio.sleep(0)
    assert (open_files(), children.read_text()) == before
    assert len(asyncio.all_tasks()) == 1


def script(text: str, **given: Any) -> Script:
    facts = {"run": "r-1", "job": "build", "step": "test#1", "idempotency_key": "k-1", "folder": "/"}
    return Script(text=text, **(facts | given))


async def lines_of(text: str, limits: Limits = QUICK, **given: Any) -> tuple[ScriptEnd, list[str]]:
    lines: list[str] = []

    async def on_line(line: str) -> None:
        lines.append(line)

    return await run(script(text, **given), limits, clock=MachineClock(), on_line=on_line), lines


async def ending_of(text: str, limits: Limits = QUICK, **given: Any) -> ScriptEnd:
    return (await lines_of(text, limits, **given))[0]


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def command(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def until(met: Callable[[], Any], limit_s: float = 10.0) -> None:
    end_s = time.monotonic() + limit_s
    while not met():
        assert time.monotonic() < end_s, "it did not come to that"
        await asyncio.sleep(0.01)


def numbers(file: Path) -> list[int]:
    return [int(word) for word in file.read_text().split()] if file.exists() else []


# --- What a script is given -------------------------------------------------------------------------------------------


async def test_a_script_sees_its_variables_and_nothing_of_its_workers_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-canary")
    monkeypatch.setenv("PGPASSWORD", "sk-canary")
    text = "import json, os; print(json.dumps(dict(os.environ)))"
    _, lines = await lines_of(
        text, shell=f"{PYTHON} -S {{0}}", env={"MINE": "ä\nb", "HOLDFAST_JOB": "forged", "GITHUB_ENV": "forged"}
    )
    seen = json.loads(lines[0])
    assert "sk-canary" not in str(seen)
    assert set(seen) <= {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "TMPDIR",
        "MINE",
        "GITHUB_OUTPUT",
        "GITHUB_ENV",
        "GITHUB_PATH",
        "GITHUB_STEP_SUMMARY",
        "HOLDFAST_USAGE",
        "HOLDFAST_RUN",
        "HOLDFAST_JOB",
        "HOLDFAST_STEP",
        "HOLDFAST_IDEMPOTENCY_KEY",
    }
    assert seen["MINE"] == "ä\nb"
    assert (seen["HOLDFAST_RUN"], seen["HOLDFAST_JOB"], seen["HOLDFAST_STEP"]) == ("r-1", "build", "test#1")
    assert seen["HOLDFAST_IDEMPOTENCY_KEY"] == "k-1"
    assert seen["GITHUB_ENV"].startswith("/")


async def test_a_script_starts_without_input_open_files_core_dumps_or_ignored_signals(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    request.addfinalizer(lambda: resource.setrlimit(resource.RLIMIT_CORE, (soft, hard)))
    _, lines = await lines_of("pwd; readlink /proc/self/fd/0; ls /proc/self/fd | wc -l; ulimit -c", folder=str(tmp_path))
    assert lines == [str(tmp_path), "/dev/null", "4", "0"]  # 0, 1, 2, and the one that `ls` reads the list through
    _, lines = await lines_of("", shell="grep -hE SigBlk|SigIgn /proc/self/status {0}")
    masks = {name: int(mask, 16) & ~OF_THE_C_LIBRARY for name, mask in (line.split(":\t") for line in lines)}
    assert masks == {"SigBlk": 0, "SigIgn": 0}


async def test_the_folder_of_a_script_is_private_and_gone_afterwards(private: Path) -> None:
    _, lines = await lines_of('stat -c "%a %n" "$(dirname "$0")"; mkdir -p "$(dirname "$0")/$(printf "d/%.0s" {1..1500})"')
    mode, _, folder = lines[0].partition(" ")
    assert mode == "700"
    assert Path(folder).parent == private
    assert not Path(folder).exists()


@pytest.mark.parametrize(
    ("shell", "text", "code"),
    [
        (None, "false | true; exit 7", 7),
        ("bash", "false | true; exit 7", 1),
        ("bash", "yes | head -1 > /dev/null; exit 7", 141),  # SIGPIPE does what it does in a terminal
        ("sh", "false; exit 7", 1),
        ("bash +e {0}", "false; exit 7", 7),
        ("python", "import sys; sys.exit(7)", 7),
    ],
)
async def test_a_script_fails_as_its_shell_is_set_to(shell: str | None, text: str, code: int) -> None:
    ending = await ending_of(text, shell=shell, env={"PATH": os.environ["PATH"]})
    assert (ending.exit_code, ending.signal, ending.succeeded) == (code, None, False)
    assert str(ending) == f"It ended with exit code {code}."


@pytest.mark.parametrize("shell", [None, "bash", "bash -e {0}"])
async def test_a_steps_shell_is_found_on_the_workers_path_and_not_on_its_own(tmp_path: Path, shell: str | None) -> None:
    (tmp_path / "bash").write_text('#!/bin/sh\ntouch "$PWNED"\n')
    (tmp_path / "bash").chmod(0o755)
    given = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PWNED": str(tmp_path / "pwned")}
    ending = await ending_of('echo "path=$PATH" >> "$GITHUB_OUTPUT"', shell=shell, env=given)
    assert ending.outputs == {"path": given["PATH"]}
    assert not (tmp_path / "pwned").exists()


async def test_a_script_ended_by_a_signal_says_so() -> None:
    ending = await ending_of("kill -SEGV $$")
    assert (ending.exit_code, ending.signal, ending.succeeded) == (None, "SIGSEGV", False)
    assert (await ending_of("kill -40 $$")).signal == "signal 40"


async def test_the_connection_to_the_supervisor_is_closed_with_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is closed later takes the descriptor's next owner off the loop, and another script is waited for in vain."""
    made: list[asyncio.StreamWriter] = []
    connect = asyncio.open_connection

    async def noted(**given: Any) -> Any:
        found = await connect(**given)
        made.append(found[1])
        return found

    monkeypatch.setattr(asyncio, "open_connection", noted)
    assert (await ending_of("true")).succeeded
    (writer,) = made
    assert writer.is_closing()


async def test_many_scripts_at_once_all_end() -> None:
    places = asyncio.Semaphore(16)

    async def one(number: int) -> str:
        async with places:
            return (await ending_of(f"echo {number}")).log_tail

    async with asyncio.timeout(60):
        assert await asyncio.gather(*map(one, range(60))) == [f"{number}\n" for number in range(60)]


async def test_how_long_it_took_is_read_from_the_given_clock() -> None:
    class Clock(MachineClock):
        now_s = 100.0

        def monotonic_s(self) -> float:
            self.now_s += 5.0
            return self.now_s

    assert (await run(script("true"), QUICK, clock=Clock())).duration_s == 5.0


@pytest.mark.parametrize(
    ("given", "error", "why"),
    [
        ({"shell": "pwsh"}, InvalidInput, "unknown"),
        ({"shell": "fish-that-is-not-there {0}"}, ToolFailed, "is not there"),
        ({"env": {"A": "\0"}}, InvalidInput, "NUL"),
        ({"text": "a\0b"}, InvalidInput, "NUL"),
        ({"text": "\ud800"}, InvalidInput, "surrogate"),
        ({"text": "#" * (1024 * 1024 + 1)}, InvalidInput, "at most 1048576"),
        ({"folder": "/not/there"}, ToolFailed, "/not/there: No such file or directory. Nothing was run"),
    ],
)
async def test_what_cannot_be_run_is_refused_and_nothing_is_run(
    given: dict[str, str], error: type[Exception], why: str, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    with pytest.raises(error, match=why):
        await ending_of(**({"text": f"touch {witness}"} | given))
    assert not witness.exists()


async def test_a_folder_whose_name_has_a_newline_is_a_place_like_any_other(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match=r"a b/: No such file or directory. Nothing was run"):
        await ending_of("true", folder=f"{tmp_path}/a\nb/")
    (tmp_path / "a\nb").mkdir()
    assert (await ending_of("true", folder=f"{tmp_path}/a\nb/")).succeeded


async def test_a_program_that_cannot_be_executed_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("#!/not/there\n")
    (tmp_path / "mine").chmod(0o755)
    with pytest.raises(ToolFailed, match=r"mine: No such file or directory. Nothing was run"):
        await ending_of("true", shell=f"{tmp_path}/mine {{0}}")


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_time_that_is_no_end_is_refused(wrong: float) -> None:
    with pytest.raises(InvalidInput, match="timeout_s"):
        Limits(timeout_s=wrong)


async def test_the_largest_variable_that_is_let_through_is_one_that_the_system_passes() -> None:
    value = "x" * (MAX_VARIABLE_BYTES - len("A="))
    _, lines = await lines_of('echo "${#A}"', env={"A": value})
    assert lines == [str(len(value))]


# --- What a script says -----------------------------------------------------------------------------------------------


async def test_outputs_and_environment_are_read_also_after_a_failure() -> None:
    text = 'echo "a=1" >> $GITHUB_OUTPUT; printf "b<<E\\nx\\ny\\nE" >> "$GITHUB_OUTPUT"; echo "C=d" >> $GITHUB_ENV; exit 3'
    ending = await ending_of(text)
    assert ending.outputs == {"a": "1", "b": "x\ny"}
    assert ending.environment == {"C": "d"}
    assert (ending.exit_code, ending.file_problems) == (3, ())


async def test_an_output_is_one_however_it_is_spelled_and_a_variable_is_not() -> None:
    ending = await ending_of('for f in $GITHUB_OUTPUT $GITHUB_ENV; do printf "A=1\\na=2\\n" > $f; done')
    assert ending.outputs == {"A": "2"}
    assert ending.environment == {"A": "1", "a": "2"}


async def test_a_mistake_in_a_file_fails_the_script_and_what_stands_before_it_stays() -> None:
    ending = await ending_of('printf "a=1\\nwrong\\nb=2\\n" > $GITHUB_OUTPUT; printf "c=1\\nd<<E\\n" > $GITHUB_ENV')
    assert (ending.exit_code, ending.succeeded) == (0, False)
    assert (ending.outputs, ending.environment) == ({"a": "1"}, {"c": "1"})
    assert [problem.partition(":")[0] for problem in ending.file_problems] == [
        "The output file (GITHUB_OUTPUT) is wrong",
        "The environment file (GITHUB_ENV) is wrong",
    ]
    assert "line 2: 'wrong'" in str(ending)


async def test_a_mistake_in_a_file_is_reported_without_a_secret() -> None:
    given = script("echo 's3cret' > $GITHUB_OUTPUT; echo 's3cret' > $GITHUB_ENV")
    ending = await run(given, QUICK, clock=MachineClock(), redact=lambda text: text.replace("s3cret", "[secret]"))
    assert str(ending).count("'[secret]' is neither NAME=value nor NAME<<DELIMITER") == 2
    assert "s3cret" not in str(ending)


async def test_scripts_that_run_at_once_do_not_meet() -> None:
    text = 'echo "a=$HOLDFAST_STEP" >> $GITHUB_OUTPUT; sleep 0.2; cat $GITHUB_OUTPUT'
    endings = await asyncio.gather(*(ending_of(text, step=f"s#{number}") for number in range(12)))
    assert [ending.outputs for ending in endings] == [{"a": f"s#{number}"} for number in range(12)]
    assert [ending.log_tail for ending in endings] == [f"a=s#{number}\n" for number in range(12)]


async def test_files_that_a_script_replaced_are_not_followed() -> None:
    ending = await ending_of("ln -sf /etc/passwd $GITHUB_OUTPUT; rm $GITHUB_ENV; mkfifo $GITHUB_ENV")
    assert (ending.outputs, ending.environment, len(ending.file_problems)) == ({}, {}, 2)


async def test_what_something_in_the_background_writes_last_is_read_too() -> None:
    ending = await ending_of('(sleep 0.1; echo "late=1" >> $GITHUB_OUTPUT; echo said late) & true')
    assert ending.outputs == {"late": "1"}
    assert ending.log_tail == "said late\n"
    assert ending.left_over == 0


# --- The log ----------------------------------------------------------------------------------------------------------


async def test_lines_come_while_the_script_runs_masked_and_in_order(tmp_path: Path) -> None:
    lines: list[str] = []
    go_on = tmp_path / "go_on"

    async def on_line(line: str) -> None:
        lines.append(line)
        go_on.touch()  # only who was told of the first line can let the second come

    text = f"echo one s3cret; while ! test -e {go_on}; do sleep 0.01; done; echo two >&2; printf 'a\\0\\377b'"
    ending = await run(
        script(text), QUICK, clock=MachineClock(), on_line=on_line, redact=lambda text: text.replace("s3cret", "[secret]")
    )
    assert lines == ["one [secret]", "two", "a\ufffd\ufffdb"]
    assert ending.log_tail == "one [secret]\ntwo\na\ufffd\ufffdb"
    assert ending.succeeded


async def test_a_flood_is_counted_and_neither_kept_nor_waited_for() -> None:
    limits = Limits(timeout_s=60.0, log=LogBounds(total_bytes=100_000, lines=1000, tail_bytes=100))
    ending, lines = await lines_of("yes | head -c 100000000; echo the end", limits)
    assert len(lines) == 1001
    assert (ending.log.lines, ending.log.bytes) == (50_000_001, 100_000_008)
    assert ending.log.dropped_lines == 50_000_001 - 1000
    assert ending.log_tail.endswith("y\nthe end\n")
    assert lines[-1].startswith("… 49999001 more lines (99998008 bytes) are not shown")


async def test_a_line_of_a_hundred_megabytes_is_cut() -> None:
    ending, lines = await lines_of("head -c 100000000 /dev/zero", Limits(timeout_s=60.0))
    assert ending.succeeded
    assert len(lines) == 1
    assert len(lines[0]) < 70_000
    assert lines[0].endswith("… (99803392 bytes of this line are not shown)") or "bytes of this line are not shown" in lines[0]


async def test_a_script_that_closes_its_output_goes_on() -> None:
    ending = await ending_of('exec >&- 2>&- ; sleep 0.2; echo "a=1" >> $GITHUB_OUTPUT')
    assert ending.outputs == {"a": "1"}


async def test_a_slow_reader_of_lines_slows_the_script_down() -> None:
    taken = 0

    async def slow(_: str) -> None:
        nonlocal taken
        taken += 1
        await asyncio.sleep(3600)

    limits = Limits(timeout_s=0.5, grace_s=0.1, linger_s=0.1)
    runner_limit_s, runner._DRAIN_LIMIT_S = runner._DRAIN_LIMIT_S, 0.2
    try:
        ending = await run(script("yes"), limits, clock=MachineClock(), on_line=slow)
    finally:
        runner._DRAIN_LIMIT_S = runner_limit_s
    assert (taken, ending.timed_out, ending.log.unread) == (1, True, True)
    assert ending.log.bytes <= 64 * 1024


async def test_a_reader_that_cannot_take_a_line_ends_the_script(tmp_path: Path) -> None:
    async def broken(_: str) -> None:
        raise RuntimeError("no more")

    pids = tmp_path / "pids"
    with pytest.raises(RuntimeError, match="no more"):
        await run(script(f"echo $$ > {pids}; echo x; sleep 100"), QUICK, clock=MachineClock(), on_line=broken)
    assert not alive(*numbers(pids))


# --- How it ends ------------------------------------------------------------------------------------------------------

STUBBORN = """
import os, signal, sys, time
for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(each, signal.SIG_IGN)
for leaves_group in (False, True):
    for orphaned in (False, True):
        if os.fork() == 0:
            if leaves_group:
                os.setsid()
            if orphaned and os.fork():
                os._exit(0)
            with open(sys.argv[1], "a") as file:
                file.write(f"{os.getpid()} ")
            time.sleep(300)
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()} ")
time.sleep(300)
"""
"""Five processes that ignore SIGTERM, of which two leave the group and two have no parent any more."""


def stubborn(pids: Path) -> dict[str, str]:
    return {"text": STUBBORN, "shell": f"{PYTHON} -S {{0}} {pids}"}


async def test_a_time_out_asks_first(tmp_path: Path) -> None:
    ending = await ending_of(
        'trap "echo a=cleaned >> $GITHUB_OUTPUT; exit 0" TERM; echo up; while true; do sleep 0.05; done',
        Limits(timeout_s=0.5, grace_s=5.0),
    )
    assert (ending.timed_out, ending.exit_code, ending.succeeded) == (True, 0, False)
    assert ending.outputs == {"a": "cleaned"}
    assert 0.4 < ending.duration_s < 3.0
    assert str(ending) == "It did not end within its time and was ended."


async def test_a_time_out_ends_everything_that_a_script_has_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    ending = await ending_of(**stubborn(pids), limits=Limits(timeout_s=1.0, grace_s=0.2))
    assert (ending.timed_out, ending.signal, ending.survivors) == (True, "SIGKILL", 0)
    assert len(numbers(pids)) == 5
    assert [pid for pid in numbers(pids) if alive(pid)] == []


async def test_a_worker_that_is_busy_does_not_lengthen_a_time_out(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    task = asyncio.ensure_future(ending_of(f"echo $$ > {pids}; sleep 300", Limits(timeout_s=0.3, grace_s=0.1)))
    await until(lambda: numbers(pids))
    (pid,) = numbers(pids)
    ends_s = time.monotonic() + 60
    while alive(pid) and time.monotonic() < ends_s:
        time.sleep(0.01)  # nothing of the loop runs meanwhile
    assert not alive(pid)
    assert (await task).timed_out


async def test_processes_that_outlive_their_script_are_ended_and_do_not_delay_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    ending = await ending_of(f"sleep 300 & echo $! >> {pids}; (setsid sleep 300 & echo $! >> {pids}); exit 0")
    assert (ending.succeeded, ending.left_over, ending.log.unread) == (True, 2, False)
    assert [pid for pid in numbers(pids) if alive(pid)] == []
    assert ending.duration_s < 5.0


async def test_a_script_that_is_stopped_is_ended_too() -> None:
    ending = await ending_of("kill -STOP $$", Limits(timeout_s=0.3, grace_s=0.2))
    assert (ending.timed_out, ending.signal) == (True, "SIGTERM")


async def test_a_group_that_forks_all_the_time_is_ended() -> None:
    text = "import os, time\nos.fork(); os.fork(); os.fork()\nend = time.time() + 20\n"
    text += "while time.time() < end:\n if os.fork(): os._exit(0)\n time.sleep(0.001)\n"
    ending = await ending_of(
        text, shell=f"{PYTHON} -S {{0}} forks-all-the-time", limits=Limits(timeout_s=2.0, linger_s=0.2, grace_s=0.2)
    )
    assert ending.survivors == 0
    assert not any("forks-all-the-time" in command(each) for each in Path("/proc").glob("[0-9]*"))


async def test_cancelling_ends_everything_and_is_over_only_then(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    task = asyncio.ensure_future(ending_of(**stubborn(pids)))
    await until(lambda: len(numbers(pids)) == 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [pid for pid in numbers(pids) if alive(pid)] == []


async def test_cancelling_again_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    task = asyncio.ensure_future(ending_of(**stubborn(pids), limits=Limits(timeout_s=100.0, grace_s=100.0)))
    await until(lambda: len(numbers(pids)) == 5)
    task.cancel()
    await asyncio.sleep(0.2)
    assert all(alive(pid) for pid in numbers(pids))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10.0)
    assert [pid for pid in numbers(pids) if alive(pid)] == []


@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.01, 0.03])
async def test_cancelling_while_it_starts_leaves_nothing(after_s: float) -> None:
    task = asyncio.ensure_future(ending_of("sleep 100"))
    await asyncio.sleep(after_s)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


WORKER = """
import asyncio, sys, tempfile
from holdfast.platform.machine import MachineClock
from holdfast.actions.shell import Limits, Script, run
tempfile.tempdir = sys.argv[1]
facts = dict(run="r", job="j", step="s", idempotency_key="k", folder="/")
script = Script(text=sys.argv[2], shell=sys.argv[3], **facts)
limits = Limits(timeout_s=100.0, grace_s=100.0, file_bytes=10_000_000)
print(asyncio.run(run(script, limits, clock=MachineClock())).log_tail)
"""


WORKER_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parents[1])}


def worker_of(private: Path, text: str, shell: str) -> list[str]:
    return [sys.executable, "-c", WORKER, str(private), text, shell]


async def test_a_worker_killed_with_kill_9_leaves_no_process_and_no_folder(tmp_path: Path, private: Path) -> None:
    pids = tmp_path / "pids"
    given = stubborn(pids)
    worker = subprocess.Popen(worker_of(private, **given), env=WORKER_ENVIRONMENT)
    try:
        await until(lambda: len(numbers(pids)) == 5)
        assert list(private.iterdir()) != []
        assert all(alive(pid) for pid in numbers(pids))
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    await until(lambda: not any(alive(pid) for pid in numbers(pids)), 5.0)
    await until(lambda: list(private.iterdir()) == [], 5.0)


@pytest.mark.parametrize("how", ["KILL", "STOP"])
async def test_a_script_that_kills_its_supervisor_is_ended_with_an_unknown_outcome(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_SLACK_S", -100.0)  # two seconds of patience, long before the supervisor's own time-out
    pids = tmp_path / "pids"
    with pytest.raises(OutcomeUnknown, match="it is unknown how far"):
        await ending_of(
            f"sleep 300 & echo $$ $! > {pids}; kill -{how} $PPID; sleep 300",
            Limits(timeout_s=102.0 - runner.KILL_LIMIT_S, grace_s=0.0, linger_s=0.0),
        )
    await until(lambda: not any(alive(pid) for pid in numbers(pids)))


# --- Limits -----------------------------------------------------------------------------------------------------------


async def test_a_process_takes_no_more_memory_than_it_may() -> None:
    text = "print('up', flush=True); x = bytearray(600_000_000)"
    ending = await ending_of(text, Limits(timeout_s=20.0, memory_bytes=400_000_000), shell=f"{PYTHON} -S {{0}}")
    assert ending.exit_code == 1
    assert "MemoryError" in ending.log_tail


async def test_a_process_takes_no_more_time_of_the_cpu_than_it_may() -> None:
    ending = await ending_of("while :; do :; done", Limits(timeout_s=30.0, cpu_s=1))
    assert (ending.signal, ending.timed_out) == ("SIGXCPU", False)


async def test_a_file_grows_no_larger_than_it_may(tmp_path: Path) -> None:
    file = tmp_path / "file"
    ending = await ending_of(f"exec head -c 2000000 /dev/zero > {file}", Limits(timeout_s=20.0, file_bytes=1_000_000))
    assert ending.signal == "SIGXFSZ"
    assert file.stat().st_size == 1_000_000


async def test_the_number_of_processes_is_limited_and_every_limit_is_a_hard_one() -> None:
    _, lines = await lines_of("ulimit -Hu; ulimit -Su; ulimit -Hf", Limits(timeout_s=20.0, processes=4000, file_bytes=1024))
    assert lines == ["4000", "4000", "1"]


async def test_a_limit_of_the_worker_that_is_lower_stays(private: Path) -> None:
    worker = subprocess.run(
        ["bash", "-c", 'ulimit -f 1024; exec "$@"', "bash", *worker_of(private, "ulimit -Sf; ulimit -Hf", "bash {0}")],
        env=WORKER_ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert worker.stdout.split() == ["1024", "1024"], worker.stderr
