"""No expression is a bomb: each of these ends in a clear error, or a value, with little time and memory."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest

from holdfast.actions.expressions import ExpressionError, meter, parse
from holdfast.actions.expressions.json_text import NESTING_LIMIT
from holdfast.actions.expressions.lexer import LENGTH_LIMIT
from holdfast.actions.expressions.meter import ITEM_SIZE_BYTES, MEMORY_LIMIT_BYTES
from holdfast.actions.expressions.parser import DEPTH_LIMIT

MEMORY, LOOKS = "makes more than 1,048,576 bytes", "looks at more than"


def refusal(text: str, **contexts: Any) -> str:
    with pytest.raises(ExpressionError) as caught:
        parse(text).evaluate(contexts)
    return caught.value.message


def test_an_expression_has_21000_characters_at_most() -> None:
    longest = "'" + "x" * (LENGTH_LIMIT - 2) + "'"
    assert len(parse(longest).evaluate({})) == LENGTH_LIMIT - 2  # type: ignore[arg-type]
    assert "may have 21,000 characters; this one has 21,001" in refusal(longest + " ")


def test_characters_are_counted_as_github_counts_them() -> None:
    """In UTF-16, where a smiley is two."""
    assert parse("'" + "😀" * (LENGTH_LIMIT // 2 - 1) + "'").evaluate({})
    assert "may have 21,000 characters" in refusal("'" + "😀" * (LENGTH_LIMIT // 2) + "'")


DEEP = {
    "steps": lambda depth: "a" + ".b" * (depth - 1),
    "indices": lambda depth: "a" + "[0]" * (depth - 1),
    "indices in one another": lambda depth: "a[" * (depth - 1) + "0" + "]" * (depth - 1),
    "stars": lambda depth: "a" + ".*" * (depth - 1),
    "not": lambda depth: "!" * (depth - 1) + "a",
    "comparisons": lambda depth: "1" + " == 1" * (depth - 1),
    "calls": lambda depth: "join(" * (depth - 1) + "a" + ")" * (depth - 1),
    "chains in calls": lambda depth: "join(a && " * (depth // 2 - 1) + "!" * (depth % 2 + 1) + "a" + ")" * (depth // 2 - 1),
}


@pytest.mark.parametrize("form", DEEP)
def test_an_expression_is_50_deep_at_most(form: str) -> None:
    parse(DEEP[form](DEPTH_LIMIT)).evaluate({"a": None})
    assert "may be 50 deep" in refusal(DEEP[form](DEPTH_LIMIT + 1), a=None)


def test_brackets_and_chains_are_not_deep() -> None:
    assert parse("(" * 10_000 + "7" + ")" * 10_000).evaluate({}) == 7
    assert parse(" || ".join(["0"] * 4_000)).evaluate({}) == 0
    assert parse("(0 || " * 2_500 + "7" + ")" * 2_500).evaluate({}) == 7


def test_texts_that_double_are_stopped() -> None:
    text = "'12345678'"
    for _ in range(40):
        text = f"format('{{0}}{{0}}', {text})"
    assert MEMORY in refusal(text)


def test_texts_that_are_escaped_again_and_again_are_stopped() -> None:
    text = "'\"'"
    for _ in range(45):
        text = f"toJSON({text})"
    assert MEMORY in refusal(text)


def test_everything_made_counts_together() -> None:
    third = "x" * (MEMORY_LIMIT_BYTES // 3)
    assert parse("!format('{0}', a) || !join(a)").evaluate({"a": third}) is False
    assert MEMORY in refusal("!format('{0}', a) || !toJSON(a) || !format('{0}', a)", a=third)
    assert MEMORY in refusal("!fromJSON(a) || !fromJSON(a)", a='"' + third * 2 + '"')
    assert MEMORY in refusal("join(a, b)", a=[1] * 5, b=third)
    assert MEMORY in refusal("join(a)", a=["é" * 100_000] * 6)


def test_a_star_collects_a_bounded_number_of_items() -> None:
    most = MEMORY_LIMIT_BYTES // ITEM_SIZE_BYTES
    assert len(parse("a.*").evaluate({"a": [0] * most})) == most  # type: ignore[arg-type]
    assert MEMORY in refusal("a.*", a=[0] * (most + 1))
    assert MEMORY in refusal("a.*.*", a=[[0] * 1_000] * 1_000)
    assert MEMORY in refusal("a.*.b", a=[{"b": 1}] * 100_000)


def test_what_is_looked_at_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way to look, against a tenth of the limit; against all of it, below."""
    monkeypatch.setattr(meter, "CHARACTERS_LIMIT", 1_600_000)
    many = list(range(30_000))
    assert LOOKS in refusal(" || ".join(["contains(a, 'x')"] * 9), a=many)
    assert LOOKS in refusal(" || ".join(["a.missing"] * 9), a={str(each): each for each in many})
    assert LOOKS in refusal(" || ".join(["join(a, '') == 1"] * 9), a=[""] * 30_000)
    assert LOOKS in refusal("format(a, '')", a="{0}" * 200_000)
    assert LOOKS in refusal("format(a)", a="{{" * 200_000 + "}")
    long = "x" * 300_000
    assert LOOKS in refusal("a == b || a == b || a == b", a=long + "1", b=long + "2")
    assert LOOKS in refusal(" || ".join(["a == 1"] * 9), a=long)
    assert LOOKS in refusal(" || ".join(["startsWith(a, 1)"] * 9), a=long)
    assert LOOKS in refusal(" || ".join(["a[b]"] * 9), a=[], b=long)
    assert LOOKS in refusal("contains(a, b)", a=[long + "1"] * 9, b=long)


def test_json_is_nested_100_deep_at_most() -> None:
    def nested(depth: int) -> list[Any]:
        return [nested(depth - 1)] if depth > 1 else []

    deepest = parse("fromJSON(a)").evaluate({"a": "[" * NESTING_LIMIT + "]" * NESTING_LIMIT})
    assert deepest == nested(NESTING_LIMIT)
    assert parse("toJSON(a)").evaluate({"a": deepest})
    assert "nested 100 deep at most" in refusal("fromJSON(a)", a="[" * 101 + "]" * 101)
    assert "nested 100 deep at most" in refusal("fromJSON(a)", a='{"a":' * 150_000)
    assert "nested 100 deep at most" in refusal("toJSON(a)", a=nested(101))
    assert parse("fromJSON(a)").evaluate({"a": '"' + "[" * 1_000 + '\\"["'}) == "[" * 1_000 + '"['


HOSTILE = {
    "brackets": "(" * LENGTH_LIMIT,
    "nots": "!" * LENGTH_LIMIT,
    "indices": "a[" * (LENGTH_LIMIT // 2),
    "calls": "join(" * (LENGTH_LIMIT // 5),
    "quotes": "'" * (LENGTH_LIMIT - 1),
    "one chain": "||".join(["0"] * 6_900),
    "two chains": "1&&0||" * 3_400 + "1",
    "arguments": "format(" + ",".join("1" * 10_000) + ")",
    "looks": "||".join(["contains(a,'x')"] * 1_000),
    "digits": "||".join(["n==1"] * 1_000),
    "properties": "||".join(["o.x"] * 4_000),
    "comparisons": "||".join(["s==t"] * 2_000),
    "JSON": "||".join(["!fromJSON(j)"] * 1_000),
}


VALUES = {
    "a": list(range(200_000)),
    "n": "1" * 1_000_000,
    "o": {str(each): each for each in range(100_000)},
    "s": "é" * 1_000_000,
    "t": "é" * 1_000_000 + "!",
    "j": "[" + "[]," * 50_000 + "0]",
}


def evaluate(text: str) -> None:
    try:
        parse(text).evaluate(VALUES)
    except ExpressionError as problem:
        print(problem.message)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] if name == "looks" else []) for name in HOSTILE])
def test_a_hostile_expression_is_over_soon_and_needs_little_memory(name: str) -> None:
    """To trace the memory takes time: what is over soon with it is without. One makes nothing, but is slow to trace."""
    traced = name != "looks"
    began_s, peak_bytes = time.process_time(), 0
    if traced:
        tracemalloc.start()
    try:
        evaluate(HOSTILE[name])
        if traced:
            _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A second or two by itself; the machine may be slow and busy.
    assert time.process_time() - began_s < 20
    assert peak_bytes < 64 * 1024 * 1024
