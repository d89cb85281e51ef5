"""Labels: who takes the runs of a workflow that asks for some, and what others are told."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.conftest import Shell


def test_a_worker_takes_what_it_has_the_labels_for_and_leaves_the_rest(shell: Shell) -> None:
    both = ("flow:greet", "flow:rendering")
    told = shell("run", "flow:rendering", "--detach")
    assert re.search(r"flows\.py:rendering'? --label gpu --label zone=eu", told.err), (
        told.err
    )  # quoted where its folder asks for it
    picture = told.out.strip()
    greeting = shell("run", "flow:greet", "--detach", "--input", '{"customer": "Ann"}').out.strip()
    said = shell("worker", *both, "--until-idle", "--label", "gpu")
    assert (said.code, "rendering 1 is left to workers with zone=eu." in said.err) == (0, True)
    assert status_of(shell, greeting) == "completed"
    assert status_of(shell, picture) == "running"
    said = shell("worker", *both, "--until-idle", "--label", "zone=eu", "--label", "gpu", "--label", "more")
    assert (said.code, "left to" in said.err) == (0, False)
    assert status_of(shell, picture) == "completed"


def test_a_worker_that_would_take_nothing_learns_which_labels(shell: Shell) -> None:
    said = shell("worker", "flow:rendering", "--label", "zone=us")
    assert (said.code, "pass --label gpu --label zone=eu" in said.err) == (2, True)


def test_a_run_in_this_process_needs_the_labels_too(shell: Shell, home: Path) -> None:
    said = shell("run", "flow:rendering")
    assert (said.code, "nothing was started" in said.err, "--label gpu --label zone=eu" in said.err) == (2, True, True)
    assert not (home / "holdfast.db").exists()
    assert shell("run", "flow:rendering", "--label", "gpu", "--label", "zone=eu").out == "a picture\n"


def status_of(shell: Shell, run: str) -> str:
    status: str = shell("runs", "show", run, "--json").data["status"]
    return status
