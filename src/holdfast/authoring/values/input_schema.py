"""The JSON Schema of what a workflow is started with: what a process without its code holds an input against, shows as a form
and fills in from.

It says of a Pydantic model what a schema can say: its fields under the names that a start gives, what each takes, and what
is there when nothing is given. What only the code knows (validators, values that a function makes up) it cannot say.
Never here: an input.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Final
from weakref import WeakKeyDictionary

from pydantic import BaseModel, PydanticUserError, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from holdfast.errors import InvalidInput, Misfit

KEPT_AS: Final = "x-kept-as"
"""Of a property: under which name its value is in the run's input, where that is another (the field's own, of one with an
alias)."""
SHOWN_AS: Final = "x-shown-as"
"""Of an input that is one value: its schema by the type of its parameter, for people. Nothing is held against it: the code of
the workflow takes more, such as numbers in quotes."""
_PLAIN: Final = (list, dict, set, frozenset, tuple, str, int, float, bool)
"""Factories that make the same value each time that they are called."""


_MADE: Final[WeakKeyDictionary[type[BaseModel], dict[str, Any]]] = WeakKeyDictionary()
"""To make one takes milliseconds, and a process asks for it whenever it is given the workflow."""


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of `model`. What it fills in by a function that may say something else each time is required here."""
    if model not in _MADE:
        by_alias = model.model_config.get("serialize_by_alias")
        _MADE[model] = model.model_json_schema(schema_generator=_InputSchema if by_alias else _KeptByName)
    return _MADE[model]


def shown_schema(type_: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the schema of a type as far as one can say it."""
    try:
        return type_.json_schema(schema_generator=_InputSchema)
    except PydanticUserError:
        return {}


def as_shown(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema of an input as people are shown it."""
    return schema if schema is None else schema.get(SHOWN_AS, schema)


def as_enforced(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what an input is held against; None where anything fits."""
    return None if schema is None else {name: value for name, value in schema.items() if name != SHOWN_AS} or None


def described_parameters(doc: str | None) -> dict[str, str]:
    """Return what a docstring says of each parameter, in a section `Args:`."""
    lines = inspect.cleandoc(doc or "").splitlines()
    found: dict[str, str] = {}
    if (start := next((at for at, line in enumerate(lines) if line.strip() in _SECTIONS), None)) is None:
        return found
    name = ""
    for line in lines[start + 1 :]:
        if line and not line[0].isspace():
            break
        if begins := _PARAMETER.match(line):
            name, found[begins[1]] = begins[1], begins[2].strip()
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


_SECTIONS: Final = frozenset({"Args:", "Arguments:", "Parameters:"})
_PARAMETER: Final = re.compile(r"\s{1,8}\*{0,2}(\w+)(?: \([^)]*\))?:(.*)")


def requires_input(workflow: str, name: str) -> InvalidInput:
    """Return the refusal of a start that gives nothing for an input that must be given."""
    return InvalidInput(
        f"Workflow {workflow!r} requires an input: {name}. Pass it as JSON data. No run was started.",
        field="input",
        misfits=[Misfit(f"{name}: Field required")],
    )


class _InputSchema(GenerateJsonSchema):
    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        made: Any = schema.get("default_factory")
        return made() if _is_constant(made) else super().get_default_value(schema)

    def field_is_required(
        self, field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField, total: bool
    ) -> bool:
        made = field["schema"].get("default_factory")
        return (made is not None and not _is_constant(made)) or super().field_is_required(field, total)

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        return {}  # what no schema can say is not held against anything


class _KeptByName(_InputSchema):
    """Fields are given under their aliases and kept under their names, as Pydantic does it by default."""

    def model_fields_schema(self, schema: core_schema.ModelFieldsSchema) -> JsonSchemaValue:
        found = super().model_fields_schema(schema)
        for name, field in schema["fields"].items():
            alias = _given_as(field.get("validation_alias", name))
            if alias != name and alias in found["properties"]:
                found["properties"][alias][KEPT_AS] = name
        return found


def _given_as(alias: str | list[Any]) -> str:
    """Under which name a field is given; of several that Pydantic takes, the first that is a name."""
    return alias if isinstance(alias, str) else next((each[0] for each in alias if len(each) == 1), "")


def _is_constant(value: Any) -> bool:
    """Return True if a default that is made at each use is always the same."""
    if isinstance(value, type) and issubclass(value, BaseModel):
        fields = value.model_fields.values()
        return all(not each.is_required() and _is_constant(each.default_factory or list) for each in fields)
    return value in _PLAIN
