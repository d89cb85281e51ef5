"""A value that fits a JSON schema, the same one every time: what a model that understood the text might have filled in.

Covers what Pydantic and the providers' strict modes write; `pattern`, `not` and conditionals are not looked at.
"""

import math
import re
from typing import Any

from holdfast.testing.wire import sha256

Schema = dict[str, Any]

DEEP = 6  # beyond this depth whatever is optional is left out, so that recursive schemas come to an end
DEEPEST = 32
NUMBERS = 10  # an integer without a maximum is one of the first so many
EXCERPT = 60
FORMATS = {
    "date-time": "2026-01-15T09:30:00Z",
    "date": "2026-01-15",
    "time": "09:30:00Z",
    "duration": "PT30M",
    "email": "customer@example.com",
    "uri": "https://example.com/",
    "uuid": "3f2b7c1e-8a54-4d0e-9c61-5b7f0a2d4e68",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
}
NAMED = {"name": "Ada Lovelace"} | dict.fromkeys(("customer", "user", "person", "author", "recipient"), "ada")
"""Texts of fields that are the name of a person."""


def instance(schema: Schema, text: str) -> Any:
    """A value for `schema` that depends on nothing but the schema and `text`.

    An enum's value is the one that `text` mentions first, otherwise one chosen by a hash, as numbers and booleans are.
    Raises ValueError for a schema that only an infinite value fits, or that refers to what is not there.
    """
    return _Instance(schema, text).of(schema, "", 0)


class _Instance:
    def __init__(self, root: Schema, text: str) -> None:
        self._root = root
        self._text = text

    def of(self, schema: Any, name: str, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError(f"No finite value fits the schema at {name!r}.")
        if not isinstance(schema, dict):
            return None  # `true`: anything fits
        schema = self._resolve(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._choose(schema["enum"], name)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self._alternative(schema[key], name, depth)
        return self._instance_of(schema, name, depth)

    def _resolve(self, schema: Schema) -> Schema:
        """The schema with its reference and its `allOf` merged in."""
        for _ in range(DEEPEST):
            if "$ref" not in schema and "allOf" not in schema:
                break
            schema = dict(schema)
            parts = [self._subschema(schema.pop("$ref"))] if "$ref" in schema else schema.pop("allOf")
            for part in parts:
                merged = {**part, **schema}
                for key in ("properties", "$defs"):
                    if key in part and key in schema:
                        merged[key] = {**part[key], **schema[key]}
                if "required" in part and "required" in schema:
                    merged["required"] = [*part["required"], *schema["required"]]
                schema = merged
        return schema

    def _subschema(self, reference: str) -> Schema:
        """Return the part of the schema's own document that a pointer names, by RFC 6901."""
        found: Any = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            raise ValueError(f"The schema refers to {reference!r}, which it does not have.")
        return found

    def _alternative(self, alternatives: list[Any], name: str, depth: int) -> Any:
        """The first that is not null; deep inside, null where it is allowed."""
        nulls = [each for each in alternatives if isinstance(each, dict) and each.get("type") == "null"]
        others = [each for each in alternatives if each not in nulls]
        return self.of((nulls or others if depth > DEEP else others or nulls)[0], name, depth + 1)

    def _instance_of(self, schema: Schema, name: str, depth: int) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        if isinstance(kind, list):
            kind = next((each for each in kind if each != "null"), "null")
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, name, depth)
            case "string":
                return self._string(schema, name)
            case "integer" | "number":
                return self._number(schema, name, is_integer=kind == "integer")
            case "boolean":
                return self._hash(name) % 2 == 1
            case _:
                return None

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        wanted = {key: each for key, each in schema.get("properties", {}).items() if depth <= DEEP or key in required}
        return {key: self.of(each, key, depth + 1) for key, each in wanted.items()}

    def _array(self, schema: Schema, name: str, depth: int) -> list[Any]:
        fixed = [self.of(each, name, depth + 1) for each in schema.get("prefixItems", ())]
        least = schema.get("minItems", 0 if depth > DEEP else 1)
        more = min(least, schema.get("maxItems", least)) - len(fixed)
        return fixed + [self.of(schema.get("items"), f"{name} {at + 1}", depth + 1) for at in range(more)]

    def _string(self, schema: Schema, name: str) -> str:
        if "format" in schema:
            return FORMATS.get(schema["format"], "text")
        if "email" in name.lower():
            found = re.search(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", self._text)
            return found[0] if found else FORMATS["email"]
        excerpt = " ".join(self._text.split())[:EXCERPT]
        value = NAMED.get(name.lower()) or (f"{name.replace('_', ' ')}: {excerpt}" if name else excerpt)
        value = value.ljust(schema.get("minLength", 0), ".")
        return value[: schema.get("maxLength", len(value))]

    def _number(self, schema: Schema, name: str, *, is_integer: bool) -> int | float:
        step = schema.get("multipleOf", 1)
        low: float | None = schema.get("minimum", schema.get("exclusiveMinimum"))
        high: float | None = schema.get("maximum", schema.get("exclusiveMaximum"))
        if low is None:
            low = 0 if high is None or high > 0 else high - NUMBERS * step
        first = math.ceil(low / step)
        if "exclusiveMinimum" in schema and first * step <= low:
            first += 1
        last = first + NUMBERS - 1 if high is None else math.floor(high / step)
        if "exclusiveMaximum" in schema and last * step >= high:
            last -= 1
        if last < first and high is not None:  # a range narrower than a step holds only fractions
            return (low + high) / 2
        value = (first + self._hash(name) % (last - first + 1)) * step
        return int(value) if is_integer else float(value)

    def _choose(self, values: list[Any], name: str) -> Any:
        mentioned = [(place, value) for value in values if (place := self._place(value)) is not None]
        if mentioned:
            return min(mentioned, key=lambda each: each[0])[1]
        return values[self._hash(name) % len(values)]

    def _place(self, value: Any) -> int | None:
        """Return the position at which the text mentions the value, as a word of its own or the beginning of one; None if
        nowhere."""
        words = r"[\s_-]+".join(re.escape(word) for word in re.split(r"[\s_-]+", str(value)) if word)
        found = re.search(rf"\b{words}", self._text, re.IGNORECASE) if words else None
        return found.start() if found else None

    def _hash(self, name: str) -> int:
        return int(sha256(f"{name}\n{self._text}")[:12], 16)
