"""`holdfast budget set|show --tenant`: what a person sees of a tenant's money, and what they may do about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.model_server import ModelServer, Rule, Usage
from tests.cli.conftest import Shell


def books(shell: Shell, *words: str) -> dict[str, dict[str, Any]]:
    found = shell("budget", "show", *words, "--json").data
    return {each["period"]: each for each in found["books"]}


def test_a_limit_can_be_set_before_the_first_run_and_taken_away_again(shell: Shell) -> None:
    said = shell("budget", "set", "--tenant", "acme", "--day-usd", "50", "--month-usd", "1000", "--json").data
    assert [each["limit_usd"] for each in said["books"]] == ["50.00", "1000.00"]
    assert {name: each["left_usd"] for name, each in books(shell, "--tenant", "acme").items()} == {
        "day": "50.00",
        "month": "1000.00",
    }
    shell("budget", "set", "--tenant", "acme", "--day-usd", "none")
    assert books(shell, "--tenant", "acme")["day"]["limit_usd"] is None
    assert books(shell, "--tenant", "acme")["month"]["limit_usd"] == "1000.00"
    assert "none" in shell("budget", "set", "--tenant", "acme", "--none").out
    assert books(shell, "--tenant", "acme")["month"]["limit_usd"] is None


def test_tokens_are_limited_and_shown_beside_money(shell: Shell) -> None:
    shell("budget", "set", "--tenant", "acme", "--day-usd", "50", "--day-tokens", "2000000", "--month-tokens", "9000000")
    day = books(shell, "--tenant", "acme")["day"]
    assert (day["limit_usd"], day["max_tokens"], day["settled_tokens"], day["left_tokens"]) == ("50.00", 2000000, 0, 2000000)
    shell("budget", "set", "--tenant", "acme", "--day-tokens", "none")
    assert [each["max_tokens"] for each in books(shell, "--tenant", "acme").values()] == [None, 9000000]
    assert books(shell, "--tenant", "acme")["day"]["limit_usd"] == "50.00", "the other limit stays"
    lines = shell("budget", "show", "--tenant", "acme").out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["tenant", "acme,"]] * 2 + [["tokens", "of"]] * 2
    assert "9000000" in lines[-1]
    shell("budget", "set", "--tenant", "acme", "--none")
    assert books(shell, "--tenant", "acme")["month"]["max_tokens"] is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["show"], "Pass either a run"),
        (["show", "a-run", "--tenant", "acme"], "Pass either a run"),
        (["show", "--team", "search"], "add --tenant NAME"),
        (["set", "--day-usd", "5"], "Pass --tenant NAME"),
        (["set", "--team", "search", "--day-usd", "5"], "add --tenant NAME"),
        (["set", "--tenant", "acme"], "--day-usd, --month-usd"),
        (["set", "--tenant", "acme", "--none", "--day-usd", "5"], "--day-usd, --month-usd"),
        (["set", "--tenant", "acme", "--day-usd", "much"], "Nothing was changed"),
        (["set", "--tenant", "acme", "--day-usd", "5", "--day-tokens", "-5"], "'-5' is no number of tokens"),
        (["set", "--tenant", "acme", "--day-tokens", "1.5"], "or `none` for no limit. Nothing was changed"),
        (["set", "--tenant", "acme", "--day-usd", "5", "--month-usd", "-5"], "Nothing was changed"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(shell: Shell, words: list[str], told: str) -> None:
    shell("budget", "set", "--tenant", "acme", "--day-usd", "7")
    said = shell("budget", *words)
    assert said.code == 2
    assert told in said.err
    assert books(shell, "--tenant", "acme")["day"]["limit_usd"] == "7.00"


def test_a_run_that_waits_for_tokens_of_its_tenant_says_so(shell: Shell, server: ModelServer, home: Path) -> None:
    server.script.add(Rule(usage=Usage(input_tokens=1, output_tokens=1), text="this much"))
    shell("budget", "set", "--tenant", "acme", "--month-tokens", "7")
    blocked = shell("run", "flow:affordable", "--tenant", "acme")
    assert blocked.code == 7
    assert "The tenant acme, month" in blocked.err
    assert "has no tokens for a call" in blocked.err
    assert "needs more tokens than are left: tokens of tenant acme, month" in blocked.err
    command = "holdfast budget set --tenant acme --month-tokens N"
    assert command in blocked.err
    shown = shell("budget", "show", "--tenant", "acme").out.partition("Runs that wait")[2]
    assert " tokens" in shown
    shell(*command.replace("N", "100000").split()[1:])
    (run,) = shell("runs", "list", "--json").data
    assert shell("run", "flow:affordable", "--tenant", "acme", "--key", "again").code == 0
    assert run["waiting_for"][0]["kind"] == "tokens"


def test_a_run_that_its_tenant_cannot_pay_says_so_and_goes_on_when_more_is_allowed(
    shell: Shell, server: ModelServer, home: Path
) -> None:
    server.script.add(Rule(usage=Usage(input_tokens=1, output_tokens=1), text="this much"))
    shell("budget", "set", "--tenant", "acme", "--team", "search", "--month-usd", "0.000001")
    blocked = shell("run", "flow:affordable", "--tenant", "acme", "--team", "search")
    assert blocked.code == 7
    assert "team search of acme, month" in blocked.err
    command = "holdfast budget set --tenant acme --team search --month-usd USD"
    assert command in blocked.err
    (run,) = shell("runs", "list", "--json").data
    assert run["status"] == "budget_blocked"
    (wait,) = run["waiting_for"]
    assert (wait["kind"], wait["reason"]) == ("money", "team_budget")
    shown = shell("budget", "show", "--tenant", "acme", "--team", "search").out
    assert run["run_id"] in shown.partition("Runs that wait")[2]
    shell(*command.replace("USD", "1").split()[1:])
    assert shell("worker", "flow:affordable", "--until-idle").code == 0
    assert shell("runs", "show", run["run_id"], "--json").data["status"] == "completed"
    month = books(shell, "--tenant", "acme", "--team", "search")["month"]
    assert (month["settled_usd"], month["held_usd"], month["waiting"]) == ("0.000006", "0.00", [])
    assert books(shell, "--tenant", "acme")["day"]["settled_usd"] == "0.000006"
