"""The form of a question to a person: its schema, and the values filled in before it is answered.

Never here: who is asked, and what an answer comes to (core.people.gates).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import BaseModel

from holdfast.authoring.values.sensitive import sealed_by


class Form(NamedTuple):
    """The JSON Schema of a model, what is filled in, and what is shown, with the model's sensitive fields sealed in both."""

    schema: dict[str, Any]
    filled: dict[str, Any]
    shown: Any


def form_of(model: type[BaseModel], content: Any) -> Form:
    """Return the form that asks for a model beside what is `content`, JSON data. Filled in are its fields that are shown under
    the same name, and those with a default."""
    schema = model.model_json_schema()
    fields = schema.get("properties", {})
    defaults = {name: shape["default"] for name, shape in fields.items() if "default" in shape}
    if not isinstance(content, dict):
        return Form(schema, sealed_by(schema, defaults), content)
    given = sealed_by(schema, {name: content[name] for name in fields if name in content})
    return Form(schema, sealed_by(schema, {**defaults, **given}), {**content, **given})
