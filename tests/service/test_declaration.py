"""What each command and query declares: a description of it, and of each of its fields."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.service import service  # noqa: F401 - declares all of them
from holdfast.service.declarations.declaration import declared

MAX_CHARACTERS = 200


def descriptions(kind: type[msgspec.Struct]) -> dict[str, str]:
    _, components = msgspec.json.schema_components([kind])
    fields: dict[str, Any] = components[kind.__name__]["properties"]
    return {name: field.get("description", "") for name, field in fields.items()}


def test_each_field_has_a_short_description() -> None:
    for kind in declared():
        found = descriptions(kind)
        assert found.keys() == {*kind.__struct_fields__}
        for name, text in found.items():
            assert text.endswith("."), f"{kind.__name__}.{name}: {text!r}"
            assert len(text) <= MAX_CHARACTERS, f"{kind.__name__}.{name}: {len(text)}"


def test_each_command_and_query_has_a_docstring() -> None:
    for kind in declared():
        assert (kind.__doc__ or "").endswith("."), kind.__name__
