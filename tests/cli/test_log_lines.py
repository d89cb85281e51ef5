"""Lines of the log on standard error, in processes of their own: their ids, their form, and what cannot break them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.forks import Fork

FLOWS = """
import asyncio, logging, os, threading, warnings
from contextvars import copy_context
from holdfast import Context, flow, step

log = logging.getLogger("of_the_user")

@step
def plain(n: int) -> int:
    log.info("in a step", extra={"n": n, "run_id": "forged"})
    thread = threading.Thread(target=copy_context().run, args=(log.info, "in a thread"))
    thread.start(); thread.join()
    print("printed")
    return n

@flow
async def one(ctx: Context) -> int:
    async def task() -> int:
        log.info("in a task")
        return await plain(1)
    try:
        return await asyncio.create_task(task())
    finally:
        log.warning("two\\nlines %s", ctx.run_id)
        warnings.warn("a warning")

@flow
async def loud(ctx: Context) -> int:
    for number in range(12_000):
        log.warning("%d %s", number, "x" * 300)
    return 1

@step
def secret() -> None:
    key = os.environ["OPENAI_API_KEY"]
    log.warning("message %s", key, extra={"of": {"extra": [key]}})
    thread = threading.Thread(target=fail, args=(key,))
    thread.start(); thread.join()
    try:
        fail(key)
    except ValueError:
        log.exception("failed with %r", key.encode().hex())

def fail(key: str) -> None:
    raise ValueError(f"the key is {key}")

@flow
async def hushed(ctx: Context) -> None:
    await secret()
"""
JOBS = "jobs: {say: {runs-on: any, steps: [{run: 'echo hello'}]}}"
AS_JSON = {"HOLDFAST_LOGS": '{"format": "json", "level": "info"}'}
IDS = ("run_id", "step_id", "attempt", "tenant", "workflow")
KEY = "sk-canary-0123456789abcdef"

Start = Callable[..., Fork]


@pytest.fixture(autouse=True)
def flows(home: Path) -> None:
    (home / "flows.py").write_text(FLOWS)
    (home / "jobs.yaml").write_text(JOBS)


def parsed(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines()]


def test_each_line_of_a_run_in_json_parses_and_has_its_ids(process: Start) -> None:
    running = process("run", "flows.py:one", "--json", **AS_JSON)
    out, err = running.communicate()
    (run,) = (json.loads(line)["run_id"] for line in out.splitlines())
    everything = parsed(err.replace("printed\n", ""))
    lines = [each for each in everything if each["logger"] != "holdfast.command"]
    ids = [run, "flow#1", 1, "default", "one"]
    ours = [each for each in everything if each["logger"] == "holdfast.command"]
    assert [(each["message"], each["step_id"], each.get("attempt")) for each in ours if "step_id" in each] == [
        ("flow started", "flow#1", 1),
        ("flow: plain completed", "flow#1", None),
        ("flow completed", "flow#1", 1),
    ]
    assert {(each["run_id"], each["tenant"], each["workflow"]) for each in everything} == {(run, "default", "one")}
    assert {each["trace_id"] for each in everything} == {run.replace("-", "")}
    assert [(each["message"], each["level"], [each[name] for name in IDS]) for each in lines[:4]] == [
        ("in a task", "info", ids),
        ("in a step", "info", ids),
        ("in a thread", "info", ids),
        (f"two\nlines {run}", "warning", ids),
    ]
    assert lines[1]["extra"] == {"n": 1}
    assert (lines[4]["logger"], "a warning" in lines[4]["message"], lines[4]["run_id"]) == ("py.warnings", True, run)


def test_output_of_a_job_in_json_has_the_ids_of_its_step(process: Start) -> None:
    out, err = process("run", "jobs.yaml", "--json", **AS_JSON).communicate()
    (line,) = (each for each in parsed(err) if each["logger"] == "holdfast.job_log")
    run = json.loads(out)["run_id"]
    assert (line["message"], line["job"]) == ("hello", "say")
    assert [line[name] for name in IDS] == [run, "say#1", 1, "default", "jobs"]
    assert line["trace_id"] == run.replace("-", "")


def test_a_line_for_people_has_the_ids_behind_its_first_line(process: Start) -> None:
    out, err = process("run", "flows.py:one", "--json").communicate()
    run = json.loads(out)["run_id"]
    assert (
        f"two  run_id={run} step_id=flow#1 attempt=1 tenant=default workflow=one trace_id={run.replace('-', '')} span_id="
        in err
    )
    assert f"\n  lines {run}\n" in err
    assert "in a step" not in err  # of a lower level than is shown


@pytest.mark.parametrize("how", [AS_JSON, {"HOLDFAST_LOGS": '{"level": "info"}'}, {}], ids=["json", "console", "default"])
def test_no_line_has_a_secret_whoever_writes_it(process: Start, how: dict[str, str]) -> None:
    out, err = process("run", "flows.py:hushed", **how, OPENAI_API_KEY=KEY).communicate()
    assert "failed with" in err
    assert "A thread of this process has ended" in err
    for form in (KEY, KEY.encode().hex()):
        assert form not in out + err
    assert err.count("[secret]") >= (4 if how is not AS_JSON else 5)


@pytest.mark.parametrize(
    ("reader", "how"),
    [
        pytest.param(reader, how, marks=[pytest.mark.long] * (how == {} or reader != "closed"))
        for reader in ("closed", "full", "stuck")
        for how in (AS_JSON, {})
    ],
)
def test_no_reader_of_the_log_stops_a_run(home: Path, reader: str, how: dict[str, str]) -> None:
    reads, writes = os.pipe()
    if reader == "closed":
        os.close(reads)
    elif reader == "full":
        os.close(writes)
        writes = os.open("/dev/full", os.O_WRONLY)
    command = [sys.executable, "-m", "holdfast", "run", "flows.py:loud", "--json"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=writes, env=os.environ | how, cwd=home, timeout=60)
    finally:
        os.close(writes)
        if reader != "closed":
            os.close(reads)
    assert (done.returncode, json.loads(done.stdout)["output"]) == (0, 1)


def test_a_slow_reader_loses_lines_and_is_told_how_many(process: Start) -> None:
    running = process("run", "flows.py:loud", "--json", **AS_JSON)
    assert running.stdout is not None
    assert running.stderr is not None
    assert running.stdout.readline()  # of a run that has ended, and nobody has read what it logged
    lines = parsed(running.stderr.read())
    numbers = [int(each["message"].split()[0]) for each in lines if each["logger"] == "of_the_user"]
    assert numbers == [*range(len(numbers))]
    assert 1_000 < len(numbers) < 12_000
    assert [each for each in lines if each["message"].startswith("Lost ")]


def test_a_command_without_a_line_of_json_does_not_import_structlog(home: Path) -> None:
    program = "import sys; from holdfast.cli.app import invoke; invoke(sys.argv[1:]); print('structlog' in sys.modules)"
    found = []
    for words, how in ((["run", "flows.py:one"], {}), (["runs", "list"], AS_JSON)):
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, env=os.environ | how)
        found.append(done.stdout.splitlines()[-1])
    assert found == ["False", "False"]


def test_loggers_of_structlog_write_into_the_same_log(home: Path, process: Start) -> None:
    code = FLOWS.replace("import asyncio", "import structlog, asyncio").replace('log.info("in a step", extra={', "tell(**{")
    (home / "flows.py").write_text(code + 'def tell(**fields): structlog.get_logger("theirs").info("told", **fields)\n')
    (home / "main.py").write_text("import flows; one = flows.one\n")
    out, err = process("run", "main.py:one", "--json", **AS_JSON).communicate()
    (line,) = (each for each in parsed(err.replace("printed\n", "")) if each["message"] == "told")
    assert (line["run_id"], line["extra"]) == (json.loads(out)["run_id"], {"n": 1})


def test_settings_that_cannot_be_are_refused(process: Start) -> None:
    running = process("run", "flows.py:one", HOLDFAST_LOGS='{"format": "xml"}')
    assert "logs.format: it must be 'console' or 'json'" in running.communicate()[1]
    assert running.returncode == 2
