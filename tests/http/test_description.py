"""The description of the API is one that generators of clients take whole, and with names that read well.

tests/e2e/test_clients.py generates clients and runs them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from holdfast.http.openapi import document

REFERENCE: Final = "#/components/schemas/"


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """All objects of the description, each after the one that it is in."""
    if isinstance(schema, dict):
        yield schema
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from parts(each)


def test_values_that_stand_at_two_places_or_beside_null_have_a_name() -> None:
    """A generator makes a type of each place otherwise: of a run's status one for each row."""
    told = document()
    named = told["components"]["schemas"]
    found = Counter(json.dumps(each["enum"]) for each in parts(told) if "enum" in each)
    assert [values for values, times in found.items() if times > 1] == []
    assert [each for each in parts(told) if any("enum" in one for one in each.get("anyOf", ()))] == []
    assert named["RunStatus"]["type"] == "string"
    for row in ("RunRow", "RunWhole", "RunStatusRow"):
        assert named[row]["properties"]["status"]["$ref"] == f"{REFERENCE}RunStatus"


def test_each_schema_is_referred_to_and_each_reference_leads_to_one() -> None:
    told = document()
    meant = {each["$ref"] for each in parts(told) if "$ref" in each}
    there = {f"#/components/{room}/{name}" for room in ("schemas", "responses") for name in told["components"][room]}
    assert meant == there


def test_an_object_of_any_fields_is_described_as_one() -> None:
    """openapi-typescript takes one that says nothing for an object without fields."""
    for each in parts(document()):
        if each.get("type") == "object":
            assert each.keys() & {"properties", "additionalProperties"}, each
    assert document()["components"]["schemas"]["EventRow"]["additionalProperties"] is True, (
        "an event has the fields of its type"
    )


def test_no_schema_that_is_referred_to_has_a_default() -> None:
    """openapi-typescript takes a field that has one for always there, and a program would have to send it."""
    for name, schema in document()["components"]["schemas"].items():
        assert [each for each in parts(schema) if "default" in each] == [], name


def test_every_field_that_is_sent_or_answered_is_described() -> None:
    told = document()
    fields = [each for part in parts(told) for each in part.get("properties", {}).items() if part.get("type") == "object"]
    fields += [(each["name"], each) for part in parts(told["paths"]) for each in part.get("parameters", ())]
    assert [name for name, each in fields if not each.get("description", "").endswith(".")] == []


STARTS: Final = {"What", "Who", "Whose", "Whoever", "Whether", "How", "Those"}
WORDS: Final = {"somebody", "nobody", "anybody", "everybody", "whoever", "anew", "told"}
"""Words of the house that a stranger reads twice."""


def test_each_description_is_in_plain_english() -> None:
    texts = {each["description"] for each in parts(document()) if isinstance(each.get("description"), str)}
    assert sorted(text for text in texts if text.split()[0] in STARTS) == []
    assert sorted(text for text in texts if WORDS & {*re.findall(r"\w+", text.lower())}) == []


def test_an_object_within_a_list_or_a_choice_has_a_title() -> None:
    """A generator would call its type after its place: SayBodyPartsType0Item."""
    inner = [each for part in parts(document()) for each in [part.get("items", {}), *part.get("anyOf", ())]]
    assert [each for each in inner if each.get("type") == "object" and "title" not in each] == []


def test_operations_are_called_after_what_they_do() -> None:
    found = {
        f"{method} {path.removeprefix('/api/v1')}": each["operationId"]
        for path, operations in document()["paths"].items()
        for method, each in operations.items()
    }
    assert found["post /runs"] == "start"
    assert found["get /runs"] == "list_runs"
    assert found["get /runs/{parent}/children"] == "list_children"
    assert found["get /runs/{run}"] == "get_run"
    assert found["post /gates/{gate}/decision"] == "decide"
    assert found["post /dead-letters/{letter}/retry"] == "retry_dead_letter"
    assert all(each.isidentifier() for each in found.values())
