"""Arguments that are declared as a JSON Schema. Loaded only where somebody does so: the validator takes 30 ms.

Never here: a reference that is fetched from somewhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema
import referencing.exceptions
import referencing.jsonschema

from holdfast.authoring.arguments import in_one_line
from holdfast.errors import SchemaMismatch, UsageError


class SchemaArguments:
    """A JSON Schema of an object. What it does not name is refused, unless it says `additionalProperties` itself."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises UsageError for what is no JSON Schema of an object."""
        if schema.get("type") != "object":
            raise UsageError('a JSON Schema of arguments has "type": "object"')
        self._schema = {"properties": {}, "additionalProperties": False, **schema}
        try:
            jsonschema.Draft202012Validator.check_schema(self._schema)
        except jsonschema.SchemaError as problem:
            raise UsageError(f"this is no JSON Schema: {problem.message}") from None
        # Only the schema itself counts: a reference to somewhere else is never fetched.
        registry = referencing.jsonschema.EMPTY_REGISTRY
        self._validator = jsonschema.Draft202012Validator(self._schema, registry=registry)

    @property
    def schema(self) -> dict[str, Any]:
        return dict(self._schema)

    def plain(self, raw: Any) -> dict[str, Any]:
        try:
            found = [
                f"{'.'.join(map(str, each.absolute_path)) or 'value'}: {each.message}"
                for each in self._validator.iter_errors(raw)
            ]
        except referencing.exceptions.Unresolvable as problem:
            raise SchemaMismatch(f"the schema refers to {problem.ref!r}, which is not in it") from None
        if found:
            raise SchemaMismatch(in_one_line(found))
        return dict(raw)

    def typed(self, plain: dict[str, Any]) -> dict[str, Any]:
        return plain
