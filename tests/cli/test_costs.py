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


def test_costs_are_summed_up_by_any_field_and_forecast_against_limits(shell: Shell, server: ModelServer) -> None:
    server.script.add(Rule(usage=Usage(input_tokens=2, output_tokens=1), text="."))
    for tenant, tag in (("acme", "new"), ("acme", "old"), ("umbrella", "new")):
        shell("run", "flow:affordable", "--tenant", tenant, "--run-tag", tag)
    told = shell("costs", "summary", "--by", "tenant", "--by", "model").out
    assert told.splitlines()[0].split() == ["TENANT", "MODEL", "CALLS", "TOKENS", "IN", "TOKENS", "OUT", "COST"]
    assert ("acme" in told, "$0.000014" in told) == (True, True)
    found = shell("costs", "labels", "--json").data
    assert [(each["value"], each["runs"], each["cost_usd"]) for each in found] == [
        ("new", 2, "0.000014"),
        ("old", 1, "0.000007"),
    ]
    first = shell("costs", "runs", "--limit", "1")
    assert ("$0.000007" in first.out, "holdfast costs runs --after 1" in first.err) == (True, True)
    assert shell("costs", "extra", "--json").data == []
    shell("budget", "set", "--tenant", "acme", "--day-usd", "0.00001", "--month-tokens", "1000000")
    day, month = shell("costs", "forecast", "--json").data
    assert (day["used_usd"], day["limit_usd"], day["reached_at"] is not None, day["method"]) == (
        "0.000014",
        "0.00001",
        True,
        "today",
    )
    assert (month["used_tokens"], month["max_tokens"], month["used_usd"]) == (6, 1_000_000, None)
    assert "1000000 tokens" in shell("costs", "forecast", "--tenant", "acme").out


@pytest.mark.parametrize(
    "words",
    [["summary", "--by", "colour"], ["extra", "--by", "hour"], ["runs", "--first-day", "soon"], ["labels", "--last-day", "x"]],
)
def test_a_field_or_day_of_costs_that_does_not_exist_is_refused(shell: Shell, words: list[str]) -> None:
    shell("admission", "set", "--fleet", "--none")
    assert shell("costs", *words).code == 2


@pytest.mark.parametrize("verb", ["summary", "runs", "labels", "extra"])
@pytest.mark.parametrize(
    "days",
    [
        ["--first-day", "2026-13-01"],
        ["--last-day", "2026-02-30"],
        ["--first-day", "20261121"],
        ["--first-day", "0abc"],
        ["--first-day", "2026-11-02", "--last-day", "2026-11-01"],
    ],
)
def test_days_that_no_calendar_has_in_this_order_are_refused(shell: Shell, verb: str, days: list[str]) -> None:
    shell("admission", "set", "--fleet", "--none")
    said = shell("costs", verb, *days)
    assert (said.code, "_day is" in said.err) == (2, True), said


@pytest.mark.parametrize("verb", ["summary", "extra", "forecast"])
def test_costs_without_rows_say_so_in_a_sentence(shell: Shell, verb: str) -> None:
    shell("admission", "set", "--fleet", "--none")
    said = shell("costs", verb)
    assert (said.code, said.out, said.err.startswith("No ")) == (0, "", True), said
    assert shell("costs", verb, "--json").data == []


def test_costs_of_a_month_end_with_its_last_day(shell: Shell) -> None:
    shell("admission", "set", "--fleet", "--none")
    assert shell("costs", "show", "--month", "2026-02").code == 0


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
