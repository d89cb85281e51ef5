"""`holdfast runs explain`: what happened in a run, what it waits for, who can do what, and what it costs, in sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.testing.model_server import ModelServer
from tests.cli.conftest import Said, Shell

FLOWS = """
from holdfast import Context, flow, step
from holdfast import Workflow, human_gate

tries = []


@step(retry=3)
def shaky(n: int) -> int:
    tries.append(n)
    if len(tries) < 3:
        raise ConnectionError("no route to host")
    return n


@flow
async def asking(ctx: Context) -> str:
    await shaky(1)
    answer = await ctx.ask({"question": "Send it?"}, decisions=["approve", "reject"], reviewers=["ann", "role:legal"])
    return answer.decision


@flow
async def failing(ctx: Context) -> None:
    raise ValueError("this cannot be")


@flow
async def told(ctx: Context) -> None:
    await ctx.wait_signal("paid")


@flow
async def sleepy(ctx: Context) -> None:
    await ctx.sleep(3_600)


@flow
async def parent(ctx: Context) -> None:
    await ctx.child(told)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "explained.py"
    found.write_text(FLOWS)
    return found


def started(shell: Shell, file: Path, name: str) -> str:
    run = shell("run", f"{file}:{name}", "--detach").out.strip()
    shell("worker", f"{file}:{name}", "--until-idle")
    return run


def explained(shell: Shell, run: str) -> str:
    """The explanation; every line of it but commands and what users wrote fits 80 columns."""
    said: Said = shell("runs", "explain", run)
    assert said.code == 0, said.err
    assert all(len(line) <= 80 for line in said.out.splitlines() if not line.startswith("    ")), said.out
    return said.out


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_run_that_asks_says_what_it_did_and_who_can_decide(shell: Shell, file: Path) -> None:
    run = started(shell, file, "asking")
    told = explained(shell, run)
    words = flat(told)
    assert f"Run {run} of asking 1 (waiting). It waits." in words
    assert "'shaky' in flow#1 failed 2 times. The last error was" in words
    assert "was started by ida" in words
    assert "It asks ann, role:legal: question in flow#1. It has waited since" in words
    assert "ann, role:legal can decide: approve, reject." in words
    gate = shell("gates", "list", "--json").data[0]["gate_id"]
    assert f"    holdfast gates show '{gate}'" in told
    assert "It has spent $0.00; it has no cost limit." in words
    assert "No limit of its own bounds what it can still cost." in words
    shell("gates", "approve", gate, "--as", "ann")
    shell("worker", f"{file}:asking", "--until-idle")
    words = flat(explained(shell, run))
    assert "It has completed. What happened" in words
    assert "The question of flow#1 (question) was answered by ann: approve." in words
    assert "It costs nothing more." in words


def test_a_failed_run_says_why_and_how_to_retry_it(shell: Shell, file: Path) -> None:
    run = started(shell, file, "failing")
    told = explained(shell, run)
    assert f"Run {run} of failing 1. It has failed." in flat(told)
    assert flat(told).count("ValueError: this cannot be") == 1
    assert "An operator can retry it, or fork it from an earlier step." in flat(told)
    assert f"    holdfast runs retry {run}" in told
    assert "holdfast" not in shell("runs", "explain", run, "--no-commands").out


def test_a_parent_says_what_its_child_waits_for(shell: Shell, file: Path) -> None:
    run = shell("run", f"{file}:parent", "--detach").out.strip()
    shell("worker", f"{file}:parent", f"{file}:told", "--until-idle")
    told = explained(shell, run)
    child = shell("runs", "list", "--workflow", "told", "--json").data[0]["run_id"]
    assert f"waits for its child {child}." in flat(told)
    assert "It has asked for 1 child run; 1 has not ended." in flat(told)
    assert "It waits for the signal 'paid'." in told
    assert f"holdfast runs signal {child} paid" in told
    assert f"It is a child of run {run}" in flat(explained(shell, child))
    shell("runs", "pause", child)
    paused = explained(shell, child)
    assert "It is paused: no new step starts." in flat(paused)
    assert f"    holdfast runs resume {child}" in paused


def test_a_paused_run_that_sleeps_goes_on_only_after_it_is_resumed(shell: Shell, file: Path) -> None:
    run = started(shell, file, "sleepy")
    assert "It goes on by itself; no action is needed." in flat(explained(shell, run))
    shell("runs", "pause", run)
    words = flat(explained(shell, run))
    assert "It goes on by itself" not in words
    assert "The run goes on only after it is resumed." in words


def test_a_run_without_room_says_who_can_raise_its_limit(shell: Shell, server: ModelServer) -> None:
    run = shell("run", "flow:costly", "--json").data["run_id"]
    words = flat(explained(shell, run))
    assert "It has spent $0.00 of its limit of $0.000001." in words
    assert "It can cost at most $0.000001 more, unless its limit is raised." in words
    assert f"holdfast budget raise {run}" in words
    done = [shell("run", "flow:affordable", "--json").data["run_id"] for _ in range(3)]
    waiting = shell("run", "flow:affordable", "--detach").out.strip()
    assert "The last 3 completed runs of affordable 1 cost $" in flat(explained(shell, waiting))
    assert "It made 1 model call and 0 tool calls." in flat(explained(shell, done[0]))


def test_a_run_without_a_process_says_so(shell: Shell, file: Path) -> None:
    run = shell("run", f"{file}:told", "--detach").out.strip()
    words = flat(explained(shell, run))
    assert "No live process has had its workflow since then." in words
    assert "No action is needed." not in words
    assert "What can be done - Someone must start a process that has its workflow." in words
    rows = shell("runs", "explain", run, "--json").data
    assert rows["status"] == "running"
    assert re.fullmatch(r"\d{4}-.*", rows["happened"][0]["at"])
    assert "holdfast " not in str(rows), "commands are the command line's"
