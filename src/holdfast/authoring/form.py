"""The form of a question to a person: its schema, and what is filled in before anybody has answered.

Never here: who is asked, and what an answer comes to (core.gates).
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


def form_of(model: type[BaseModel], shown: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON Schema of `model`, and what is filled in: the fields that are `shown` under the same name, and those with a
    default."""
    schema = model.model_json_schema()
    fields = schema.get("properties", {})
    defaults = {name: shape["default"] for name, shape in fields.items() if "default" in shape}
    given = {name: shown[name] for name in fields if name in shown} if isinstance(shown, dict) else {}
    return schema, {**defaults, **given}
