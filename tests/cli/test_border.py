"""A worker outlives the code that it executes: what ends badly fails, and all else in the process goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.forks import Fork

FILE = """
import argparse, sys
from holdfast import flow, step, tool

class ApiError(Exception):
    def __str__(self):
        return {}["detail"]

@step
def parses():
    argparse.ArgumentParser().parse_args(["--no-such-option"])

@step
async def leaves():
    sys.exit(3)

@step
def first():
    return next(iter([]))

@tool(effect="idempotent")
async def call():
    raise ApiError

@flow
async def exits(ctx):
    await parses()

@flow
async def exits_at_once(ctx):
    await leaves()

@flow
async def finds_nothing(ctx):
    return await first()

@flow
async def cannot_say(ctx):
    raise ApiError

@flow(tools=[call])
async def cannot_say_of_a_call(ctx):
    await ctx.tool("call")

@flow
async def fine(ctx):
    await ctx.sleep(0.2)
    return "fine"
"""
WORDS = {
    "exits": "its code asked the process to exit with 2",
    "exits_at_once": "its code asked the process to exit with 3",
    "finds_nothing": "StopIteration",
    "cannot_say": "ApiError",
    "cannot_say_of_a_call": "ApiError",
}


@pytest.fixture
def file(home: Path) -> str:
    (home / "work.py").write_text(FILE)
    return "work.py"


def test_a_worker_outlives_whatever_its_steps_raise(shell: Shell, process: Callable[..., Fork], file: str) -> None:
    names = [*WORDS, *WORDS, "fine"]
    for number, name in enumerate(names):
        assert shell("run", f"{file}:{name}", "--key", f"{name}-{number}", "--detach").code == 0
    worker = process("worker", *(f"{file}:{name}" for name in dict.fromkeys(names)), "--slots", "2", "--until-idle")
    _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0, said
    assert "Traceback" not in said
    assert "please report" not in said
    runs = shell("runs", "list", "--json").data
    assert len(runs) == len(names)
    for run in runs:
        told = shell("runs", "show", run["run_id"], "--json").data
        assert told["status"] == ("completed" if run["workflow"] == "fine" else "failed"), told
        assert told["error"] is None or WORDS[run["workflow"]] in told["error"]["message"]
