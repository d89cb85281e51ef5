"""The fields of a JSON Schema as a table: what a gate asks for, what a workflow is started with.

Never here: whether an answer fits (core.values.schema).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.cli.page import table, terminal
from holdfast.cli.page.table import Column

VALUES: Final = (Column("field", 12), Column("type", 8), Column("needed", goes=1), Column("value", 10))
DEFAULTS: Final = (*VALUES[:3], Column("default", 10))


def show(form: Mapping[str, Any], values: Mapping[str, Any], columns: Sequence[Column] = VALUES) -> None:
    """Print the fields: name, type, whether it must be given, and the value that is there."""
    form = form.get("$defs", {}).get(form.get("$ref", "").removeprefix("#/$defs/"), form)
    if "properties" not in form:
        terminal.show(f"  {_type(form)}")
        return
    needed = form.get("required", [])
    table.show(
        columns,
        [
            (
                name,
                _type(shape),
                "yes" if name in needed else "no",
                json.dumps(values[name], ensure_ascii=False) if name in values else "-",
            )
            for name, shape in form["properties"].items()
        ],
    )


def defaults(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of the fields that are not given."""
    return {name: shape["default"] for name, shape in form.get("properties", {}).items() if "default" in shape}


def _type(shape: Mapping[str, Any]) -> str:
    if shapes := shape.get("anyOf", shape.get("oneOf")):
        return " or ".join(dict.fromkeys(map(_type, shapes)))
    return str(shape.get("type", "object" if "$ref" in shape else "any"))
