"""What a function says that it returns, made of the JSON data that was recorded of it.

What a step returns is kept as JSON. A flow gets the same object on its first run and on every replay: made anew of that JSON,
by the function's return hint where that names something with declared fields. Never here: making JSON of it (plain).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, get_args, get_origin

import msgspec
from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError

from holdfast.authoring.arguments import describe
from holdfast.authoring.view import fields
from holdfast.errors import SchemaMismatch

Reader = Callable[[Any], Any]
_REFUSALS: Final = (PydanticUserError, TypeError, ValueError)

_MOST_REMEMBERED: Final = 1024
"""Hints of functions; to make a reader of one takes longer than to use it a hundred times."""
_UNFIT: Final = "What was recorded is not what the function says that it returns"


def reader_of(function: Callable[..., Any], names: Mapping[str, Any] | None = None) -> Reader:
    """Makes what `function` returns of the JSON that was recorded: by its return hint, or where that says nothing (or cannot
    be known, or is plain data anyway) plain data with objects as Fields. The reader raises SchemaMismatch.

    `names` are those that the hint may use besides the function's module's.
    """
    if inspect.isfunction(function) and "return" not in function.__annotations__:
        return fields
    try:
        hint = inspect.signature(function, locals=names, eval_str=True).return_annotation
        named = [*_named(hint)]
        if any(issubclass(each, msgspec.Struct) for each in named):
            return lambda value: _converted(value, hint)
        if any(issubclass(each, BaseModel | tuple) or dataclasses.is_dataclass(each) for each in named):
            return _adapted(hint)
    except NameError:
        if names is not None:  # it may be defined further down in the module
            return _later(function)
    except _REFUSALS:
        pass  # a hint for people
    return fields


def _later(function: Callable[..., Any]) -> Reader:
    known: list[Reader] = []

    def read(value: Any) -> Any:
        if not known:
            known.append(reader_of(function))
        return known[0](value)

    return read


def _named(hint: Any) -> Iterator[type]:
    """The classes that a hint names."""
    for each in (get_origin(hint) or hint, *get_args(hint)):
        if isinstance(each, type) and get_origin(each) is None:
            yield each
        elif each is not hint and get_args(each):
            yield from _named(each)


@lru_cache(_MOST_REMEMBERED)
def _adapted(hint: Any) -> Reader:
    adapter: TypeAdapter[Any] = TypeAdapter(hint)

    def read(value: Any) -> Any:
        try:
            return adapter.validate_python(value, by_alias=True, by_name=True)
        except ValidationError as problem:
            raise SchemaMismatch(
                f"What was recorded is not what the function says that it returns: {describe(problem)}."
            ) from None

    return read


def _converted(value: Any, hint: Any) -> Any:
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as problem:
        raise SchemaMismatch(f"{_UNFIT}: {problem}.") from None
