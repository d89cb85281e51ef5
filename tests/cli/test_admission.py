"""`holdfast admission` and `holdfast run --queue`: how many runs may be active, and what becomes of those beyond."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shell
from tests.cli.test_runs import finished

LETTER = ("flow:letter", "-i", '{"customer": "Ada"}', "--tenant", "acme")


def test_beyond_the_cap_a_start_is_refused_with_the_time_to_try_again(shell: Shell) -> None:
    assert shell("admission", "set", "--tenant", "acme", "--runs", "1", "--json").data["cap"] == 1
    assert shell("run", *LETTER).code == 8
    refused = shell("run", *LETTER)
    assert refused.code == 4
    assert "try again in 1 s" in refused.err
    assert len(shell("runs", "list", "--json").data) == 1
    shown = shell("admission", "show", "--tenant", "acme", "--json").data
    assert shown == {"scope": "active runs of tenant acme", "active": 1, "cap": 1, "waiting": []}


def test_a_queued_run_says_what_it_waits_for_and_begins_when_there_is_a_place(shell: Shell) -> None:
    shell("admission", "set", "--fleet", "--runs", "1")
    first = shell("run", *LETTER, "--json").data["run_id"]
    queued = shell("run", "flow:greet", "-i", '{"customer": "Ada"}', "--queue", "--detach").out.strip()
    told = shell("runs", "show", queued).out
    assert "holdfast admission show --fleet" in told
    assert queued in shell("admission", "show", "--fleet").out.partition("wait for a place")[2]
    assert finished(shell, "greet", queued)["status"] == "waiting"
    shell("runs", "cancel", first)
    assert finished(shell, "greet", queued)["status"] == "completed"
    assert shell("admission", "set", "--fleet", "--none", "--json").data["cap"] is None


@pytest.mark.parametrize(
    "words",
    [
        ["show"],
        ["show", "--fleet", "--tenant", "x"],
        ["set", "--fleet"],
        ["set", "--runs", "1"],
        ["set", "--fleet", "--runs", "1", "--none"],
        ["set", "--fleet", "--runs", "-1"],
    ],
)
def test_what_makes_no_sense_is_refused(shell: Shell, words: list[str]) -> None:
    assert shell("admission", *words).code == 2
