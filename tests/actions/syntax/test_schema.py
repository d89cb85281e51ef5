"""The JSON Schema for editors says the same as the reader, as far as a schema can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from holdfast.actions.syntax import keys
from holdfast.actions.syntax.keys import json_schema
from holdfast.actions.syntax.load import load
from holdfast.actions.syntax.mistake import Mistakes
from holdfast.actions.syntax.source import Source, data, read
from holdfast.errors import InvalidFile
from tests.actions.syntax import test_mistakes

REPORTS = Path(__file__).with_name("reports.yaml").read_text(encoding="utf-8")


def plain(text: str) -> Any:
    root = read(Source(text), Mistakes())
    assert root is not None
    return data(root)


def problems(value: Any) -> list[str]:
    return [each.message for each in jsonschema.Draft202012Validator(json_schema()).iter_errors(value)]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_a_file_that_is_right_fits() -> None:
    load(REPORTS, "reports")
    assert problems(plain(REPORTS)) == []
    assert problems(plain("env: {A: , B: 1}\njobs: {a: {runs-on: any, if: true, steps: [{run: x}]}}")) == []


UNSEEN = ("run: found nothing", "found the text 'x${{", "working-directory", "1:1: a workflow is")
"""A schema cannot see that a text is empty, only half an expression, or a way out of a directory."""


def of_the_shape() -> list[tuple[str, str]]:
    """The mistakes that a schema can see: a key or a value, not what one place says about another."""
    words = (" is no key of ", "is not supported: ", " needs '", "; allowed is ", "cannot be the name of", "are allowed. Use")
    found = [case for case in test_mistakes.EVERY if any(word in case[1] for word in words)]
    return [case for case in found if not any(word in case[1] for word in UNSEEN) and case[0]]


@pytest.mark.parametrize(("text", "told"), of_the_shape(), ids=[told.partition("\n")[0][:70] for _, told in of_the_shape()])
def test_a_mistake_in_the_shape_does_not_fit(text: str, told: str) -> None:
    with pytest.raises(InvalidFile):
        load(text, "file")
    assert problems(plain(text)), told


def test_every_key_of_the_table_is_in_the_schema_with_its_meaning() -> None:
    def fields(kind: Any) -> list[keys.Field]:
        inner = [
            each
            for name in ("fields", "item", "value", "scalar", "mapping")
            for each in (getattr(kind, name, ()) if name == "fields" else [getattr(kind, name, None)])
        ]
        found = [each for each in inner if isinstance(each, keys.Field)]
        deeper = [each.kind for each in found] + [each for each in inner if not isinstance(each, keys.Field)]
        return found + [each for kind_ in deeper if kind_ is not None for each in fields(kind_)]

    def described(schema: Any) -> set[str]:
        if isinstance(schema, list):
            return set().union(*map(described, schema))
        if not isinstance(schema, dict):
            return set()
        own = {schema["description"]} if isinstance(schema.get("description"), str) else set()
        return own.union(*map(described, schema.values()))

    wanted = {field.text for field in fields(keys.WORKFLOW)}
    assert len(wanted) > 30
    assert described(json_schema()) == wanted
