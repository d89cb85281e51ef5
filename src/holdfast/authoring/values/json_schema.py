"""Arguments that are declared as a JSON Schema. Loaded only when one is used: the validator takes 30 ms.

Never here: a reference that is fetched from somewhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.authoring.values.arguments import in_one_line
from holdfast.core.values import schema as schemas
from holdfast.errors import SchemaMismatch, UsageError


class SchemaArguments:
    """A JSON Schema of an object. What it does not name is refused, unless it says `additionalProperties` itself."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises UsageError for what is no JSON Schema of an object."""
        if schema.get("type") != "object":
            raise UsageError('a JSON Schema of arguments has "type": "object"')
        self._schema = {"properties": {}, "additionalProperties": False, **schema}
        if flaw := schemas.flaw(self._schema):
            raise UsageError(f"this is no JSON Schema that can be used: {flaw}")

    @property
    def schema(self) -> dict[str, Any]:
        return dict(self._schema)

    def plain(self, raw: Any) -> dict[str, Any]:
        try:
            found = schemas.problems(self._schema, raw)
        except schemas.TooMuch as problem:
            raise SchemaMismatch(str(problem)) from None
        if found:
            raise SchemaMismatch(in_one_line(found))
        return dict(raw)

    def typed(self, plain: dict[str, Any]) -> dict[str, Any]:
        return plain
