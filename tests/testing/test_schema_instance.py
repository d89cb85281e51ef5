"""What the scripted model fills in fits the schema, as Pydantic judges it."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter

from holdfast.testing.schema_instance import instance


class Priority(Enum):
    LOW = "low"
    VERY_HIGH = "very_high"


class Part(BaseModel):
    name: Annotated[str, Field(min_length=20, max_length=30)]
    kind: Literal["part"]


class Labour(BaseModel):
    hours: Annotated[float, Field(gt=0, lt=1)]
    kind: Literal["labour"]


class Node(BaseModel):
    value: int
    children: list[Node]
    parent: Node | None = None


class Everything(BaseModel):
    priority: Priority
    items: Annotated[list[Annotated[Part | Labour, Field(discriminator="kind")]], Field(min_length=2, max_length=3)]
    pair: tuple[int, str]
    due: date
    seen_at: AwareDatetime
    made_at: datetime | None
    reference: UUID
    price: Decimal
    odd: Annotated[int, Field(gt=10, lt=14, multiple_of=3)]
    below: Annotated[int, Field(le=-5)]
    tree: Node
    extra: dict[str, Any]
    anything: Any
    flag: bool


@pytest.mark.parametrize("text", ["", "Very high priority!", "﷽ 😀 \n" * 50])
@pytest.mark.parametrize("kind", [Everything, Node, list[Part], int, Literal[3, 4], Priority | None])
def test_every_instance_is_valid_and_the_same_each_time(kind: Any, text: str) -> None:
    adapter = TypeAdapter(kind)
    schema = adapter.json_schema()
    adapter.validate_python(instance(schema, text), strict=False)
    assert instance(schema, text) == instance(schema, text)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("nothing to see", {"low", "very_high"}),
        ("this is VERY high, not low", {"very_high"}),
        ("low, not very-high", {"low"}),
        ("below and slow", {"low", "very_high"}),
    ],
)
def test_an_enum_takes_the_value_the_text_mentions_first(text: str, chosen: set[str]) -> None:
    assert instance({"enum": ["low", "very_high"]}, text) in chosen


def test_an_email_is_taken_from_the_text() -> None:
    schema = {"type": "object", "properties": {"customer_email": {"type": "string"}}}
    assert instance(schema, "I am ada@example.org, hello") == {"customer_email": "ada@example.org"}
    assert instance(schema, "hello") == {"customer_email": "customer@example.com"}


def test_a_schema_that_never_ends_is_an_error() -> None:
    endless = {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"]}}}
    with pytest.raises(ValueError, match="No finite value"):
        instance(endless, "")
    with pytest.raises(ValueError, match="refers to"):
        instance({"$ref": "#/$defs/A"}, "")


def test_a_field_that_names_a_person_has_a_name() -> None:
    schema = {"properties": {"customer": {"type": "string"}, "reason": {"type": "string"}}}
    assert instance(schema, "Order 17 arrived broken.") == {"customer": "ada", "reason": "reason: Order 17 arrived broken."}
