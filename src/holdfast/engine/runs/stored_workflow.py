"""A workflow as the store knows it: what a process that has not its code needs to show a form and to start a run.

An input is brought into the form in which the code would have written it, to the last character: a worker takes it as it
stands in the history, and a start key tells inputs apart by their text.

Never here: executing one.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Self

import msgspec
from pydantic import BaseModel

from holdfast.authoring.values.arguments import in_one_line
from holdfast.authoring.values.input_schema import KEPT_AS, as_enforced, as_shown, requires_input
from holdfast.authoring.values.sensitive import sealed_by
from holdfast.core.facts.graph import Graph
from holdfast.errors import InvalidInput
from holdfast.ports import WorkflowRecord

MAX_LOOKS: Final = 100_000
"""At one input (core.values.schema): two seconds in a thread at the worst, and some thousand rows of a few fields."""


class StoredWorkflow(NamedTuple):
    """The definition that was loaded last under a name and version."""

    name: str
    version: int
    graph: Graph
    input_schema: dict[str, Any] | None
    """The JSON Schema of what a start must fit; None where anything does."""
    loaded_at_ms: int | None
    """Time since when it is this one, by the store's time; None if unknown."""
    tenant: str | None = None
    """Who has submitted its file; None for code."""

    @classmethod
    def of(cls, record: WorkflowRecord, graph: Graph) -> Self:
        schema = None if record.input_schema is None else msgspec.json.decode(record.input_schema)
        return cls(record.name, record.version, graph, schema, record.loaded_at_ms, record.tenant)

    @property
    def shown_input_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the input as people and their forms are shown it; None where nothing is known."""
        return as_shown(self.input_schema)

    @property
    def hash(self) -> str:
        return self.graph.hash

    def validated_input(self, raw: Any) -> Any:
        """`raw`, which is JSON data or a Pydantic model, as the plain JSON data that a run starts with: as the workflow's code
        would have it, as far as its schema says that. Raises InvalidInput if it does not fit."""
        from holdfast.core.values import schema as schemas  # noqa: PLC0415 - the validator takes 30 ms to load

        if isinstance(raw, BaseModel):
            raw = raw.model_dump(mode="json", by_alias=True)
        if (schema := as_enforced(self.input_schema)) is None:
            return {} if raw is None else raw
        try:
            if raw is None and (raw := _of_nothing(schema)) is _MISSING:
                raise requires_input(self.name, schema.get("title", "of any form"))
            found = schemas.problems(schema, raw, looks=MAX_LOOKS, formats=True)
            if not found:
                filled = schemas.filled(schema, raw, KEPT_AS, looks=MAX_LOOKS)
                return sealed_by(schema, filled)
        except schemas.TooMuch as problem:
            raise InvalidInput(
                f"The input of workflow {self.name!r} cannot be held against its schema: {problem}. No run was started; a"
                " process that has the workflow's code can start one."
            ) from None
        raise InvalidInput(
            f"The input does not fit {schema.get('title', 'the input')} of workflow {self.name!r}:"
            f" {in_one_line(found)}. No run was started.",
            field="input",
            misfits=found,
        )


_MISSING: Final = object()
_NAMES_FIELDS: Final = frozenset({"properties", "required", "$ref", "allOf"})


def _of_nothing(schema: dict[str, Any]) -> Any:
    """Return what stands for an input that was not given: the default, None where that fits, or an object without fields where
    the schema names its fields; else it is missing."""
    from holdfast.core.values import schema as schemas  # noqa: PLC0415 - the validator takes 30 ms to load

    if "default" in schema:
        return schema["default"]
    takes_none = schema.get("type") != "object" and not schemas.problems(schema, None, looks=MAX_LOOKS)
    if takes_none:
        return None
    return {} if _NAMES_FIELDS & schema.keys() else _MISSING
