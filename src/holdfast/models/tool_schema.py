"""The JSON Schema of a tool's parameters, as each provider takes it.

Never here: whether arguments fit one (authoring.json_schema).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from holdfast.core.values.payload import SENSITIVE

Schema: TypeAlias = dict[str, Any]

_NAMED: Final = frozenset({"$defs", "definitions", "patternProperties", "properties"})
_NESTED: Final = frozenset({"additionalProperties", "allOf", "anyOf", "items", "oneOf", "prefixItems"})
"""Keywords that hold schemas by name, and those that hold one or a list of them."""

_WORDS_FOR_NOBODY: Final = frozenset({"$schema", "title"})
_OF_TEXTS: Final = frozenset({SENSITIVE, "maxLength", "minLength", "pattern"})

# What OpenAI holds a model to word by word: "Structured outputs" in its guides, and what pydantic-ai 2.68 found refused
# (profiles/openai.py).
_LOOSE: Final = frozenset(
    {
        "allOf",
        "contains",
        "default",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "maxContains",
        "maxLength",
        "maxProperties",
        "minContains",
        "minLength",
        "minProperties",
        "not",
        "oneOf",
        "patternProperties",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    }
)
_FORMATS: Final = frozenset({"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"})
_TYPES: Final = frozenset({"$ref", "anyOf", "const", "enum", "type"})
_LOOK_AROUND: Final = re.compile(r"\(\?<?[=!]")
_DEFINITION: Final = re.compile(r"#(/(\$defs|definitions)/[^/]+)?")
_STRICT_DEPTH: Final = 10
_STRICT_PROPERTIES: Final = 5_000


def bare(schema: Schema) -> Schema:
    """Without titles: they repeat the names, and are paid for in every request."""
    made: Schema = _rewrite(_rooted(schema), lambda node: _without(_unsealed(node), _WORDS_FOR_NOBODY))
    return made


def _unsealed(node: Schema) -> Schema:
    """A sensitive text that a model was shown is sealed, and its answer may be the same."""
    return _without(node, _OF_TEXTS) if node.get(SENSITIVE) is True else node


def closed(schema: Schema) -> tuple[Schema, bool]:
    """For OpenAI: bare, its objects with no other members than they say; and whether a model can be held to it strictly."""
    made = _rewrite(_rooted(schema), _close)
    return made, _is_strict(made)


def _rooted(schema: Schema) -> Schema:
    """A schema that is one of its own definitions, spelled out: the root of parameters has to say that it is an object."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    definition = schema.get("$defs", {}).get(name)
    return {**_without(schema, {"$ref"}), **definition} if isinstance(definition, dict) else schema


def _close(node: Schema) -> Schema:
    node = _without(_unsealed(node), _WORDS_FOR_NOBODY | {"discriminator"})
    if "$ref" in node and len(node) > 1:
        node["anyOf"] = [{"$ref": node.pop("$ref")}]  # no other word may stand beside a reference
    if node.get("type") == "object":
        node.setdefault("properties", {})
        if node.get("additionalProperties") is None:
            node["additionalProperties"] = False
    return node


def _is_strict(schema: Schema) -> bool:
    nodes = list(_nodes(schema))
    properties = sum(len(node.get("properties", ())) for node, _ in nodes)
    depth = max(depth for _, depth in nodes)
    return properties <= _STRICT_PROPERTIES and depth <= _STRICT_DEPTH and all(_is_exact(node) for node, _ in nodes)


def _is_exact(node: Schema) -> bool:
    if not _LOOSE.isdisjoint(node) or node.get("format", "date") not in _FORMATS:
        return False
    if _LOOK_AROUND.search(str(node.get("pattern", ""))) or not _DEFINITION.fullmatch(node.get("$ref", "#")):
        return False
    match node.get("type"):
        case "object":
            required = node.get("required")
            closed = node["additionalProperties"] is False
            return closed and required is not None and set(node["properties"]) <= set(required)
        case "array":
            items = node.get("items")
            return bool(node.get("prefixItems")) or (isinstance(items, dict) and not _TYPES.isdisjoint(items))
        case list(types):
            return not {"array", "object"}.intersection(types)
        case _:
            return True


def _rewrite(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    """A copy with each schema in it changed, the inner ones first."""
    if isinstance(schema, list):
        return [_rewrite(each, change) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return change(
        {
            name: {key: _rewrite(each, change) for key, each in value.items()}
            if name in _NAMED and isinstance(value, dict)
            else _rewrite(value, change)
            if name in _NESTED
            else value
            for name, value in schema.items()
        }
    )


def _nodes(schema: Any, depth: int = 0) -> Iterator[tuple[Schema, int]]:
    """Each schema in it, and how many objects it lies in, itself among them."""
    if isinstance(schema, list):
        for each in schema:
            yield from _nodes(each, depth)
    elif isinstance(schema, dict):
        depth += "properties" in schema
        yield schema, depth
        for name, value in schema.items():
            if name in _NAMED and isinstance(value, dict):
                yield from _nodes(list(value.values()), depth)
            elif name in _NESTED:
                yield from _nodes(value, depth)


def _without(node: Schema, names: set[str] | frozenset[str]) -> Schema:
    return {name: value for name, value in node.items() if name not in names}
