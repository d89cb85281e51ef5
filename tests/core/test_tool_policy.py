"""Rules about calls of tools: which decides, and that what cannot be compared is never let through."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.facts.graph import Graph
from holdfast.core.nouns.tool_policy import ToolRule, When, matching_rule, proposed
from tests.core.game import definition

RULES = (
    ToolRule("refund", "deny", (When("amount", ">", 1000),), reason="Too much"),
    ToolRule("refund", "ask", (When("amount", ">", "99.50"),)),
    ToolRule("refund", "allow", (When("order.kind", "in", ["lamp", "chair"]), When("amount", ">=", 0))),
    ToolRule("mail_*", "deny", (When("to", "matches", "*@example.com"),), tenant="acme"),
    ToolRule("*", "ask"),
)


@pytest.mark.parametrize(
    ("tool", "arguments", "number"),
    [
        ("refund", {"amount": 1001, "order": {"kind": "lamp"}}, 0),
        ("refund", {"amount": "1000.01"}, 0),
        ("refund", {"amount": 100, "order": {"kind": "lamp"}}, 1),
        ("refund", {"amount": 99.5, "order": {"kind": "lamp"}}, 2),
        ("refund", {"amount": 99, "order": {"kind": "ship"}}, 4),
        ("refund", {"amount": 99, "order": "lamp"}, 4),
        ("mail_all", {"to": "ann@example.com"}, 3),
        ("mail_all", {"to": "ann@example.org"}, 4),
        ("close_case", {}, 4),
    ],
)
def test_the_first_rule_decides_that_matches_the_tool_and_its_arguments(
    tool: str, arguments: dict[str, Any], number: int
) -> None:
    assert matching_rule(RULES, tool, arguments, "acme") is RULES[number]


@pytest.mark.parametrize("amount", [None, "much", True, [1], {"eur": 1}, float("nan"), float("inf"), "1_000 000"], ids=str)
def test_what_cannot_be_compared_is_asked_about_or_denied_and_never_let_through(amount: Any) -> None:
    given = {"amount": amount, "order": {"kind": "lamp"}}
    assert matching_rule(RULES, "refund", given, "acme") is RULES[0]
    assert matching_rule(RULES[2:3], "refund", given, "acme") is None
    assert matching_rule(RULES[:1], "refund", {}, "acme") is RULES[0], "nor what is not there at all"


def test_a_rule_is_for_its_tenant() -> None:
    assert matching_rule(RULES[3:4], "mail_all", {"to": "a@example.com"}, "other") is None


@pytest.mark.parametrize(
    ("operator", "value", "given", "holds"),
    [
        ("==", 1, "1.0", True),
        ("==", "a", "a", True),
        ("==", 1, "a", False),
        ("!=", 1, 2, True),
        ("!=", "a", "a", False),
        ("<", 2, 1, True),
        ("<=", 1, 1, True),
        (">=", 1, 1, True),
        (">", 1, 1, False),
        ("<", 2, "-3e1", True),
        ("in", [1, "a"], "a", True),
        ("in", [1, "a"], "b", False),
        ("matches", "a*", "abc", True),
        ("matches", "a?", "abc", False),
    ],
)
def test_each_comparison(operator: Any, value: Any, given: Any, holds: bool) -> None:
    rule = ToolRule("t", "allow", (When("x", operator, value),))
    assert (matching_rule([rule], "t", {"x": given}, "acme") is rule) == holds


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (ToolRule("t", "perhaps"), "action='perhaps' is none of allow, ask, deny"),  # type: ignore[arg-type]
        (ToolRule("t", "ask", (When("x", "~", 1),)), "'~' is no operator"),  # type: ignore[arg-type]
        (ToolRule("t", "ask", (When("x", "in", 1),)), "give a list"),
        (ToolRule("t", "ask", (When("x", "matches", 1),)), "give a text"),
        (ToolRule("t", "ask", (When("x", ">", "much"),)), "give a number"),
        (ToolRule("t", "deny", reviewers=("ann",)), "reviewers= is for a rule that asks"),
        (ToolRule("t", "allow", four_eyes=True), "four_eyes= is for a rule that asks"),
        (ToolRule("t", "deny", expires_after_s=60), "expires_after_s= is for a rule that asks"),
        (ToolRule("t", "allow", risk_level="high"), "risk_level= is for a rule that asks"),
        (ToolRule("t", "deny", evidence="case.ids"), "evidence= is for a rule that asks"),
        (ToolRule("t", "ask", risk_level="grave"), "risk_level='grave' is none of low"),  # type: ignore[arg-type]
        (ToolRule("t", "ask", expires_after_s=-1), "expires_after_s=-1 is no time"),
    ],
)
def test_an_empty_rule_is_reported_in_words(rule: ToolRule, words: str) -> None:
    assert words in next(rule.problems())


def test_a_workflow_without_rules_is_the_one_that_it_was() -> None:
    assert b"tool_rules" not in Graph(definition("a")).encoded
    assert b"tool_rules" in Graph(definition("a", tool_rules=RULES)).encoded


def test_a_call_that_needs_approval_shows_the_risk_and_evidence_of_its_rule() -> None:
    rule = ToolRule("pay", "ask", risk_level="high", evidence="case.ids")
    assert proposed("pay", {"case": {"ids": ["e1", "e2"]}}, rule) == ("pay", ("e1", "e2"), "high")
    for arguments in ({}, {"case": []}, {"case": {"ids": "e1"}}, {"case": {"ids": [1]}}, {"case": {"ids": ["x" * 201]}}):
        assert proposed("pay", arguments, rule) == ("pay", (), "high"), arguments
    assert proposed("pay", {"risk_level": "low"}, None) == ("pay", (), None)
