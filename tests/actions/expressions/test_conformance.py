"""GitHub's own cases, where they are at hand: beside the project, in shared/conformance. The rules are in
test_expressions.py in our own words, so nothing is lost without them.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from holdfast.actions.expressions import ExpressionError, is_true, parse, to_text
from holdfast.actions.expressions.value import kind_of

CASES = Path(__file__).resolve().parents[4] / "shared" / "conformance" / "expressions.jsonl"

RUNNER_DIFFERS: dict[str, str] = {}
"""Cases, by id, in which GitHub's C# runner says otherwise, and why. None of the 703 touches a point on which the runner
and the TypeScript evaluator, whose cases these are, disagree.
"""


def test_githubs_own_cases_agree() -> None:
    if not CASES.exists():
        pytest.skip(f"GitHub's cases are not here: {CASES}")
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    assert len(cases) == 703
    wrong = {
        case["id"]: (case["expr"], found, expected)
        for case in cases
        if case["id"] not in RUNNER_DIFFERS
        and (found := outcome(case["expr"], case["contexts"])) != (expected := expectation(case["expect"]))
    }
    assert wrong == {}


def outcome(text: str, contexts: dict[str, Any]) -> dict[str, Any]:
    try:
        value = parse(text).evaluate(contexts)
    except ExpressionError:
        return {"error": True}
    return {
        "kind": str(kind_of(value)).capitalize(),
        # JSON has no such number, so the cases write null.
        "value": None if isinstance(value, float) and not math.isfinite(value) else value,
        "string": to_text(value),
        "truthy": is_true(value),
    }


def expectation(expect: dict[str, Any]) -> dict[str, Any]:
    return {"error": True} if "error" in expect else expect
