"""The arguments of a tool: its schema, as a model sees it, and the check of given data.

Never here: a tool, what it does with its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from holdfast.authoring.values.sensitive import mask_name, opened
from holdfast.core.values.payload import SENSITIVE
from holdfast.errors import Misfit, SchemaMismatch

_MAX_PROBLEMS = 10


class Arguments(Protocol):
    """The declared arguments of one tool."""

    @property
    def schema(self) -> dict[str, Any]:
        """Their JSON Schema."""
        ...

    def plain(self, raw: Any) -> dict[str, Any]:
        """`raw` as validated plain JSON data. Raises SchemaMismatch with everything that does not fit."""
        ...

    def typed(self, plain: dict[str, Any]) -> dict[str, Any]:
        """Validated arguments as what the tool's function takes."""
        ...


class ObjectArguments:
    """The arguments of a function: it gets the Python objects that its hints ask for, and fills in its own defaults."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model

    @property
    def schema(self) -> dict[str, Any]:
        return _untitled(self._model.model_json_schema())

    def plain(self, raw: Any) -> dict[str, Any]:
        return _validated(self._model, raw).model_dump(mode="json", exclude_unset=True)

    def typed(self, plain: dict[str, Any]) -> dict[str, Any]:
        model = self._model.model_validate(plain)
        return {name: getattr(model, name) for name in model.model_fields_set}


class DataArguments:
    """The fields of a Pydantic model, handed on as JSON data under their aliases.

    Defaults are part of it, because they are not filled in later; only a default of None is left out.
    """

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model
        self._is_sensitive = SENSITIVE in str(model.model_json_schema())

    @property
    def schema(self) -> dict[str, Any]:
        return _untitled(self._model.model_json_schema())

    def plain(self, raw: Any) -> dict[str, Any]:
        valid = _validated(self._model, raw)
        given = valid.model_dump(mode="json", by_alias=True, exclude_unset=True)
        every: dict[str, Any] = valid.model_dump(mode="json", by_alias=True)
        return {name: value for name, value in every.items() if value is not None or name in given}

    def typed(self, plain: dict[str, Any]) -> dict[str, Any]:
        if not self._is_sensitive:
            return plain
        with opened():
            return {**plain, **self._model.model_validate(plain).model_dump(mode="json", by_alias=True, exclude_unset=True)}


def describe(problem: ValidationError, whole: str = "value") -> str:
    """Everything that a validation found, on one line; without what was given. `whole` names what has no place in it."""
    return in_one_line(misfits(problem, whole))


def misfits(problem: ValidationError, whole: str = "value") -> list[Misfit]:
    """Everything that a validation found, with its places; without what was given."""
    found = problem.errors(include_url=False, include_input=False)
    places = [[*map(mask_name, each["loc"])] for each in found]
    return [Misfit(f"{'.'.join(path) or whole}: {each['msg']}", path) for path, each in zip(places, found, strict=True)]


def in_one_line(names: Sequence[str]) -> str:
    """The first of what a validation found, and how much more there is."""
    more = len(names) - _MAX_PROBLEMS
    return "; ".join(names[:_MAX_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")


def _validated(model: type[BaseModel], raw: Any) -> BaseModel:
    try:
        return model.model_validate(raw)
    except ValidationError as problem:
        raise SchemaMismatch(describe(problem)) from None


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    schema.pop("title", None)
    return schema
