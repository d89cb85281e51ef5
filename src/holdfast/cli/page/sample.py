"""An example of what a form takes, so that a command that is printed can be pasted, and shows what may be changed.

Never here: whether it is the right answer (a person says that), whether it fits (the engine says that).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_DEEPEST: Final = 8
"""A form that refers to itself has no end."""


def of(form: Mapping[str, Any] | None, initial: Any) -> Any:
    """Data for the fields of `form`: their initial value, else something of their type. Without a form, nothing."""
    if form is None:
        return {}
    known = initial if isinstance(initial, dict) else {}
    fields = form.get("properties", {})
    return {name: known[name] if name in known else _value(shape, form, 0) for name, shape in fields.items()}


def left_open(form: Mapping[str, Any] | None, initial: Any) -> Any:
    """The same of those fields alone that must be given and have no value yet: what an approval has to fill in."""
    known = initial if isinstance(initial, dict) else {}
    needed = (form or {}).get("required", ())
    return {name: value for name, value in of(form, initial).items() if name in needed and known.get(name) is None}


def _value(shape: Any, form: Mapping[str, Any], depth: int) -> Any:
    """A value that fits a JSON Schema of the kinds that Pydantic writes, as far as one can be guessed."""
    if not isinstance(shape, dict) or depth > _DEEPEST:
        return None
    for name in ("const", "default"):
        if name in shape:
            return shape[name]
    if shape.get("enum"):
        return shape["enum"][0]
    if "$ref" in shape:
        return _value(form.get("$defs", {}).get(shape["$ref"].rpartition("/")[2]), form, depth + 1)
    for name in ("anyOf", "oneOf", "allOf"):
        if shape.get(name):
            return _value(shape[name][0], form, depth + 1)
    return _of_type(shape, form, depth)


def _of_type(shape: Mapping[str, Any], form: Mapping[str, Any], depth: int) -> Any:
    kind = shape.get("type")
    match kind[0] if isinstance(kind, list) else kind:
        case "boolean":
            return True
        case "integer" | "number":
            return _number(shape)
        case "array":
            return [_value(shape.get("items"), form, depth + 1)] * shape.get("minItems", 0)
        case "object":
            fields, needed = shape.get("properties", {}), shape.get("required", ())
            return {name: _value(fields.get(name), form, depth + 1) for name in needed}
        case "null":
            return None
        case _:
            return "...".ljust(shape.get("minLength", 0), ".")[: shape.get("maxLength")]


def _number(shape: Mapping[str, Any]) -> Any:
    if "exclusiveMinimum" in shape:
        return shape["exclusiveMinimum"] + 1
    return shape.get("minimum", min(0, shape.get("maximum", 0)))
