"""`holdfast workflows`, and `holdfast run` of a workflow that only its name says."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.cli.runs.run import RunFollower
from tests.actions.jobs.kit import workflow
from tests.cli.conftest import Shell
from tests.cli.flows import Order, greet, letter

ADA = '{"customer": "Ada"}'
FLOW = "name: build\njobs: {a: {runs-on: gpu, steps: [{run: echo hi}]}}"

NODE = """

@early.node("work")
def work(state):
    return 1
"""
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def loaded(shell: Shell, home: Path) -> Shell:
    """A store that knows three workflows, one of them from a file."""
    (home / "build.yaml").write_text(FLOW)
    for words in (("flow:letter", "-i", ADA), ("flow:greet", "-i", ADA), ("build.yaml",)):
        assert shell("run", *words, "--detach").code == 0
    return shell


def test_workflows_are_listed_with_who_can_run_them(loaded: Shell) -> None:
    head, *lines = loaded("workflows", "list").out.splitlines()
    assert head.split() == ["WORKFLOW", "VERSION", "GRAPH", "LOADED", "PROCESSES"]
    assert [line.split()[:3] for line in lines[1:]] == [["greet", "3", greet.hash[:12]], ["letter", "1", letter.hash[:12]]]
    assert [line.split()[-1] for line in lines] == ["0", "0", "0"]
    (first,) = loaded("workflows", "list", "--limit", "1", "--json").data
    assert first.keys() == {"workflow", "version", "graph_hash", "tenant", "loaded_at", "processes", "talks"}
    more = shlex.split(loaded("workflows", "list", "--limit", "1").err.partition(": ")[2])
    for after in ("build", more[-1]):
        found = loaded("workflows", "list", "--after", after, "--json").data
        assert [each["workflow"] for each in found] == ["greet", "letter"]


def test_a_list_of_workflows_goes_on_with_the_earlier_versions(loaded: Shell, home: Path) -> None:
    (home / "early.py").write_text("from holdfast import Workflow\n\nearly = Workflow('greet', version=2)\n" + NODE)
    assert loaded("run", "early.py:early", "--detach").code == 0
    more = shlex.split(loaded("workflows", "list", "--limit", "2").err.partition(": ")[2])
    found = loaded("workflows", "list", "--after", more[-1], "--json").data
    assert [(each["workflow"], each["version"]) for each in found] == [("greet", 2), ("letter", 1)]


def test_a_workflow_is_shown_with_its_form_and_its_nodes(loaded: Shell) -> None:
    told = [line.split() for line in loaded("workflows", "show", "letter").out.splitlines()]
    for line in (
        ["Workflow", "letter", "1"],
        ["customer", "string", "yes", "-"],
        ["pieces", "integer", "no", "1"],
        ["approval", "human_gate", "draft"],
    ):
        assert line in told
    found = loaded("workflows", "show", "greet", "--version", "3", "--json").data
    assert (found["input_schema"]["title"], found["definition"]["name"]) == (Order.__name__, "greet")
    assert "anything" in loaded("workflows", "show", "build").out
    said = loaded("workflows", "show", "greet", "--version", "4")
    assert (said.code, "version 4 of workflow 'greet'" in said.err) == (3, True)


@contextlib.contextmanager
def working(process: Start, *words: str) -> Iterator[None]:
    worker = process("worker", *words)
    try:
        yield
    finally:
        worker.terminate()
        worker.communicate(timeout=60)


def test_a_run_of_a_name_is_followed_while_a_worker_drives_it(loaded: Shell, process: Start) -> None:
    with working(process, "flow:greet"):
        said = loaded("run", "greet", "-i", '{"customer": "Bob"}')
    assert (said.code, said.out) == (0, "Dear Bob\n"), said.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("greet", "-i", ADA, "--detach"), 0, "Started. A worker takes it up:"),
        (("greet", "-i", ADA, "--detach"), 0, "holdfast worker FILE.py:greet"),
        (("greet", "-i", "{}"), 2, "'customer' is a required property. No run was started."),
        (("greet", "-i", ADA, "--here"), 2, "needs the code of greet"),
        (("nobody",), 3, "There is no workflow 'nobody' in this store"),
        (("greet", "--store", "elsewhere.db"), 2, "'greet' names no file or module"),
    ],
)
def test_a_run_of_a_name_says_what_it_needs(loaded: Shell, words: tuple[str, ...], code: int, told: str) -> None:
    said = loaded("run", *words)
    assert said.code == code, said
    assert told in said.err


def test_a_run_of_a_name_that_no_process_executes_shows_at_once_what_does(loaded: Shell, process: Start) -> None:
    waiting = process("run", "greet", "-i", ADA)
    lines = [waiting.stderr.readline().strip() for _ in range(4)]
    waiting.terminate()
    waiting.communicate(timeout=60)
    assert lines[1] == "Started. It waits: no worker has its workflow now. Start one elsewhere:"
    assert lines[2:] == [
        "holdfast worker FILE.py:greet",
        "A name runs nothing in this process; a file does: holdfast run FILE.py:greet",
    ]


def test_leaving_a_run_of_a_name_says_what_would_execute_it() -> None:
    following = RunFollower("build", None)
    following.run = "019aa8b2"
    following.means(workflow(FLOW))
    assert "holdfast worker --yaml --label gpu --until-idle" in following.words()
