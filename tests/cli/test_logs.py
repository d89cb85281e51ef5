"""`holdfast logs`: what jobs have printed, from any process on the store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Shell
from tests.forks import Fork

FLOW = """
jobs:
  say:
    runs-on: any
    strategy: {max-parallel: 1, matrix: {n: [1, 2]}}
    steps: [{run: 'echo "hello ${{ matrix.n }}"; echo "::add-mask::hush"; echo hush'}]
  then: {runs-on: any, needs: say, steps: [{run: 'printf "\\033[31mred"'}]}
"""


def test_what_the_jobs_of_a_run_have_printed_is_read_afterwards(shell: Shell, home: Path) -> None:
    (home / "flow.yaml").write_text(FLOW)
    assert shell("run", "flow.yaml").code == 0
    (run,) = (each["run_id"] for each in shell("runs", "list", "--json").data)
    said = shell("logs", run)
    assert said.out.splitlines() == [
        "say (1) | hello 1",
        "say (1) | ::add-mask::***",
        "say (1) | ***",
        "say (2) | hello 2",
        "say (2) | ::add-mask::***",
        "say (2) | ***",
        "then | \\x1b[31mred",
    ]
    assert shell("logs", run, "then", "-f").out == "then | \\x1b[31mred\n"
    lines = [json.loads(line) for line in shell("logs", run, "say", "--json").out.splitlines()]
    assert lines[0] == {"job": "say (1)", "attempt": 1, "line": "hello 1"}
    nobody = shell("logs", run, "nobody")
    assert (nobody.code, "These did: say (1), say (2), then." in nobody.err) == (3, True)


def test_what_a_killed_worker_printed_is_there_and_is_followed(shell: Shell, home: Path, process: Callable[..., Fork]) -> None:
    (home / "flow.yaml").write_text("jobs: {a: {runs-on: any, steps: [{run: 'echo begun; sleep 60'}]}}")
    running = process("run", "flow.yaml", HOLDFAST_LEASE_S="3")
    assert running.stderr is not None
    first = running.stderr.readline()
    assert first.startswith("Run ")
    following = process("logs", first.split()[1], "-f")
    assert following.stdout is not None
    assert following.stdout.readline() == "a | begun\n"
    running.kill()
    running.communicate()
    assert shell("logs", first.split()[1]).out == "a | begun\n"
    shell("runs", "cancel", first.split()[1])
    deadline_s = time.monotonic() + 60
    while following.poll() is None:
        assert time.monotonic() < deadline_s, "it follows a run that has ended"
        time.sleep(0.05)
    assert following.returncode == 0
