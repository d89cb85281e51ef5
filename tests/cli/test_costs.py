"""`holdfast costs`: what a person sees of the roll-up."""

from __future__ import annotations

import pytest

from holdfast.testing.model_server import Fault, ModelServer, Rule, Usage
from tests.cli.conftest import Shell


def test_costs_are_shown_by_tenant_day_and_model(shell: Shell, server: ModelServer) -> None:
    server.script.add(Rule(usage=Usage(input_tokens=2, output_tokens=1), text="."))
    for tenant in ("acme", "acme", "umbrella"):
        shell("run", "flow:affordable", "--tenant", tenant)
    found = shell("costs", "show", "--json").data
    assert [(each["tenant"], each["calls"], each["input_tokens"], each["cost_usd"]) for each in found] == [
        ("acme", 2, 4, "0.000014"),
        ("umbrella", 1, 2, "0.000007"),
    ]
    day = found[0]["day"]
    assert {(each["workflow"], each["node"], each["model"]) for each in found} == {("affordable", "answer", "claude-haiku-4-5")}
    assert len(shell("costs", "show", "--day", day, "--tenant", "acme", "--json").data) == 1
    assert len(shell("costs", "show", "--month", day[:7], "--json").data) == 2
    assert shell("costs", "show", "--day", "1999-01-01", "--json").data == []
    told = shell("costs", "show")
    assert "umbrella" in told.out
    assert "In all $0.000021." in told.err


@pytest.mark.parametrize("words", [["--day", "yesterday"], ["--month", "2026"], ["--day", "2026-01-01", "--month", "2026-01"]])
def test_what_is_no_day_is_refused(shell: Shell, words: list[str]) -> None:
    shell("admission", "set", "--fleet", "--none")
    assert shell("costs", "show", *words).code == 2


def test_money_in_doubt_is_listed_and_reconciled_by_command(shell: Shell, server: ModelServer) -> None:
    server.script.add(Rule(times=3, fault=Fault("missing_usage")))
    for _ in range(3):
        shell("run", "flow:affordable")
    found = shell("budget", "doubts", "--json").data
    assert len(found) == 3
    assert "In doubt: 3 calls of 3 runs" in shell("budget", "doubts").err
    assert not shell("budget", "doubts", "--older-than", "1h", "--json").data
    assert shell("budget", "reconcile", found[0]["call"], "--cost", "0.001", "--as", "ada").code == 0
    for words in (["--unspent"], ["--all"], [found[1]["call"], "--all", "--unspent"], ["--all", "--unspent", "--cost", "1"]):
        assert shell("budget", "reconcile", *words).code == 2, words
    refused = shell("budget", "reconcile", "--all", "--unspent")
    assert (refused.code, "2 calls of 2 runs" in refused.err, "--yes" in refused.err) == (2, True, True), "no prompt"
    assert shell("budget", "reconcile", "--all", "--unspent", "--yes", "--json").data["reconciled"] == [
        each["call"] for each in found[1:]
    ]
    assert not shell("budget", "doubts", "--json").data
    assert shell("budget", "reconcile", found[0]["call"], "--unspent").code == 3
