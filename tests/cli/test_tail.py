"""`holdfast runs tail`: every event once, whoever goes on with it, and however it was stopped."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from typing import Any

from tests.cli.conftest import Shell
from tests.forks import Fork

GREET = ("run", "flow:greet", "-i", '{"customer": "Ada"}')


def events(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_a_tail_is_all_events_and_goes_on_after_any_line(shell: Shell) -> None:
    shell(*GREET)
    told = events(shell("runs", "tail", "--json").out)
    (run,) = {each["run_id"] for each in told}
    assert [each["type"] for each in told] == [
        json.loads(line)["type"] for line in shell("runs", "events", run, "--json").out.splitlines()
    ]
    shell(*GREET)
    for number, each in enumerate(told):
        rest = events(shell("runs", "tail", "--from", each["cursor"], "--json").out)
        assert [(one["run_id"], one["seq"]) for one in rest[: len(told) - number - 1]] == [
            (one["run_id"], one["seq"]) for one in told[number + 1 :]
        ]
        assert len(rest) == 2 * len(told) - number - 1
    assert shell("runs", "tail", "--from", "now").out == ""
    assert run in shell("runs", "tail").out


def test_the_events_of_a_fork_are_numbered_without_gaps(shell: Shell) -> None:
    """Its origin's place stands beside its own."""
    shell(*GREET)
    (run,) = [row["run_id"] for row in shell("runs", "list", "--json").data]
    (step,) = {each["step"] for each in events(shell("runs", "events", run, "--json").out) if each["type"] == "StepCompleted"}
    assert shell("runs", "fork", run, "--from", step, "--key", "again").code == 0
    told = events(shell("runs", "tail", "--json").out)
    (forked,) = [each for each in told if each["type"] == "RunForked"]
    numbers = [each["seq"] for each in told if each["run_id"] == forked["run_id"]]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert forked["origin_seq"] > 0


def test_what_is_no_cursor_is_reported_and_no_store_is_made_by_asking(shell: Shell) -> None:
    assert shell("runs", "tail").code == 3
    shell(*GREET)
    said = shell("runs", "tail", "--from", "yesterday")
    assert (said.code, said.out) == (2, "")
    assert "no cursor" in said.err
    said = shell("runs", "tail", "--from", "999999")
    assert said.code == 1
    assert "older copy" in said.err


def test_a_tail_that_follows_tells_what_comes_and_how_to_go_on(shell: Shell, process: Callable[..., Fork]) -> None:
    shell(*GREET)
    before = len(events(shell("runs", "tail", "--json").out))
    tail = process("runs", "tail", "--json", "--follow")
    assert tail.stdout is not None
    first = [tail.stdout.readline() for _ in range(before)]
    shell(*GREET)
    second = [tail.stdout.readline() for _ in range(before)]
    assert len({line for line in first + second if line}) == 2 * before
    time.sleep(0.1)
    tail.send_signal(signal.SIGINT)
    out, err = tail.communicate(timeout=20)
    assert (tail.returncode, out) == (130, "")
    assert f"--from {json.loads(second[-1])['cursor']} --json" in err


def test_a_tail_without_readers_ends(shell: Shell, process: Callable[..., Fork]) -> None:
    shell(*GREET)
    tail = process("runs", "tail", "--json", "--follow")
    assert tail.stdout is not None
    tail.stdout.readline()
    tail.stdout.close()
    for _ in range(2):  # the first may still go into the pipe
        shell(*GREET)
    assert tail.wait(timeout=20) == 0
