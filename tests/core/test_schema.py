"""Schemas of others take bounded time, and say what they always said of values that are small."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from holdfast.core.values.schema import TooMuch, flaw, matches, problems


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^a+$"}, "b"),
        ({"pattern": "b"}, "abc"),
        ({"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False}, {"x1": 1, "y": 2}),
        ({"patternProperties": {"^x": {}}, "additionalProperties": {"type": "integer"}}, {"x1": "a", "y": "b"}),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "b": 2}),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1}]),
        ({"uniqueItems": True}, [1, "1", [1], {"a": 1}]),
        ({"required": ["a"]}, {}),
        ({"$defs": {"x": {"type": "string"}}, "items": {"$ref": "#/$defs/x"}}, ["a", 1]),
        ({"type": "object"}, {}),
    ],
)
def test_what_fits_is_what_the_library_says_fits(schema: dict[str, Any], value: Any) -> None:
    assert flaw(schema) is None
    expected = [list(each.absolute_path) for each in jsonschema.Draft202012Validator(schema).iter_errors(value)]
    assert len(problems(schema, value)) == len(expected)


def test_a_pattern_takes_time_that_grows_with_its_text() -> None:
    assert not matches("^(a+)+$", "a" * 4_000 + "!")
    assert problems(
        {"properties": {"a": {"$schema": jsonschema.Draft202012Validator.META_SCHEMA["$id"], "pattern": "^(a+)+$"}}},
        {"a": "a" * 4_000 + "!"},
    )


@pytest.mark.parametrize("pattern", ["(?=a)a", r"(a)\1", "(", "(a{1000}){1000}"])
def test_a_pattern_that_cannot_be_bounded_is_refused_where_it_is_declared(pattern: str) -> None:
    assert "cannot be matched in bounded time" in str(flaw({"properties": {"a": {"pattern": pattern}}}))


def test_a_reference_to_somewhere_else_is_not_fetched() -> None:
    with pytest.raises(TooMuch, match="which is not in it"):
        problems({"$ref": "http://127.0.0.1:1/schema"}, 1)
