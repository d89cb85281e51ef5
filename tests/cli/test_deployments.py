"""A workflow file that is edited while a run of it is in flight: what the command line says, and what may be typed then."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Said, Shell
from tests.forks import Fork

Start = Callable[..., Fork]
MAX_S = 60.0

FILE = """
from holdfast import Workflow, human_gate, task

wf = Workflow("letter", version={version})
wf.node("approve")(human_gate(lambda state: "Shall we?"))
wf.node("send")(task(lambda state: "sent by release {version}"))
wf.edge("approve", "send")
"""
ADDED = """
wf.node("file")(task(lambda state: state.events["send"].output + ", and filed"))
wf.edge("send", "file")
"""


@pytest.fixture
def typed(process: Start) -> Callable[..., Said]:
    """A command as a process of its own, which reads the file anew."""

    def run(*words: str) -> Said:
        done = process(*words)
        out, err = done.communicate(timeout=MAX_S)
        return Said(done.returncode, out, err)

    return run


@pytest.fixture
def worker(process: Start) -> Iterator[Callable[..., Fork]]:
    """A worker that does not wait long before it asks."""
    started = []

    def start(target: str) -> Fork:
        started.append(process("worker", target, HOLDFAST_WORKFLOW_GRACE_S="0.2"))
        return started[-1]

    yield start
    for each in started:
        each.terminate()
        each.communicate(timeout=MAX_S)


def until(shell: Shell, run: str, status: str) -> dict[str, Any]:
    """The run, once it has this status."""
    by_s = time.monotonic() + MAX_S
    while (found := shell("runs", "show", run, "--json").data)["status"] != status:
        assert time.monotonic() < by_s, found
        time.sleep(0.05)
    return dict(found)


@pytest.fixture
def stranded(typed: Callable[..., Said], shell: Shell, home: Path, worker: Start) -> str:
    """A run that was approved after its file had been edited, and that nobody can go on with."""
    (home / "flow.py").write_text(FILE.format(version=1))
    said = typed("run", "flow.py", "--json")
    assert said.code == 8
    run: str = said.data["run_id"]
    (home / "flow.py").rename(home / "before.py")
    (home / "flow.py").write_text(FILE.format(version=2) + ADDED)
    worker("flow.py")
    assert shell("gates", "approve", run).code == 0
    until(shell, run, "requires_attention")
    return run


def test_a_worker_that_stops_when_idle_says_what_it_leaves_and_what_to_do(
    typed: Callable[..., Said], shell: Shell, home: Path
) -> None:
    (home / "flow.py").write_text(FILE.format(version=1))
    run = typed("run", "flow.py", "--detach").out.strip()
    (home / "flow.py").write_text(FILE.format(version=2) + ADDED)
    said = typed("worker", "flow.py", "--until-idle", "--json")
    assert said.code == 8
    (left,) = said.data["left"]
    assert (left["run"], left["why"]) == (run, "workflow_missing")
    assert f"Left behind: 1 run of letter 1, started with another definition of it ({left['graph_hash'][:12]})" in said.err
    assert f"holdfast runs migrate {run} FILE.py:WORKFLOW" in said.err
    assert shell("runs", "migrate", run, "flow.py").code == 0
    said = typed("worker", "flow.py", "--until-idle", "--json")
    assert (said.code, said.data["left"]) == (0, [])


def test_a_run_whose_code_has_gone_says_so_at_once_and_when_a_person_is_asked(
    typed: Callable[..., Said], shell: Shell, home: Path
) -> None:
    (home / "flow.py").write_text(FILE.format(version=1))
    run = typed("run", "flow.py", "--detach").out.strip()
    told = shell("runs", "show", run).out
    assert re.search(r"No live process has had its workflow since .* a person is asked about it at .*Z", told)
    assert shell("runs", "show", run, "--json").data["workflow_missing_since"] is not None
    assert "No live process has the workflow of 1 of them (letter 1)" in shell("runs", "list").err
    assert typed("worker", "flow.py", "--until-idle").code == 0
    assert "No live process" not in shell("runs", "show", run).out + shell("runs", "list").err


def test_a_run_that_an_edit_has_stranded_says_what_is_wrong_and_what_to_do(stranded: str, shell: Shell) -> None:
    told = shell("runs", "show", stranded).out
    assert re.search(
        r"Start a process that loads 'letter' version 1, as `holdfast worker FILE\.py:letter` does, and the run goes on by"
        r" itself: no process can run it as this run knows it \(graph [0-9a-f]{12}\);"
        r" loaded under that name is version 2 \(graph [0-9a-f]{12}\)\. The run keeps what it has done\."
        r" Or have it go on with other code: `holdfast runs migrate`",
        told,
    )
    assert f"holdfast runs migrate {stranded} FILE.py:WORKFLOW" in told
    listed = shell("gates", "list").out
    assert "workflow_missing" in listed
    assert "no process can run letter 1" in listed
    (gate,) = shell("gates", "list", "--json").data
    assert (gate["reason"], gate["subject"], gate["state"]) == ("workflow_missing", "letter 1", "open")
    shown = shell("gates", "show", stranded, "--json").data
    begun = json.loads(shell("runs", "events", stranded, "--json").out.splitlines()[0])
    assert shown["shown"]["graph_hash"] == begun["graph_hash"]
    (loaded,) = shown["shown"]["loaded"]
    assert loaded["version"] == 2
    assert loaded["graph_hash"] != begun["graph_hash"]
    refused = shell("gates", "approve", gate["gate_id"])
    assert refused.code == 2
    assert "takes no decision" in refused.err


def test_it_goes_on_by_itself_when_the_old_file_is_back(
    stranded: str, typed: Callable[..., Said], shell: Shell, home: Path
) -> None:
    assert typed("worker", "before.py", "--until-idle").code == 0
    assert until(shell, stranded, "completed")["output"] == "sent by release 1"
    assert shell("gates", "list", "--json").data == []


@pytest.mark.parametrize("target", ["flow.py", "letter"])
def test_it_goes_on_with_the_new_file_when_it_is_migrated(target: str, stranded: str, shell: Shell) -> None:
    assert shell("runs", "migrate", stranded, "flow.py", "--version", "1").code == 2
    assert shell("runs", "migrate", stranded, target, "--as", "ann").code == 0
    assert until(shell, stranded, "completed")["output"] == "sent by release 2, and filed"
    assert "migrate" not in shell("runs", "show", stranded).out


def test_it_can_be_cancelled(stranded: str, shell: Shell) -> None:
    assert shell("runs", "cancel", stranded).code == 0
    assert until(shell, stranded, "cancelled")["waiting_for"] == []
