"""A hint, as an adapter is made of it: whether it says more than plain JSON data, and what gives it a schema.

Pydantic knows nothing of msgspec Structs, attrs classes, and subclasses of text and numbers: these are annotated with what
reads and writes them. Never here: the adapter.
"""

from __future__ import annotations

import collections.abc
import functools
import operator
import sys
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, is_typeddict

import msgspec
import typing_extensions
from pydantic import BaseModel
from pydantic_core import core_schema

from holdfast.authoring.values.view import Fields

_PLAIN: Final = frozenset({str, int, float, bool, type(None), None, dict, list, object, Any, BaseModel})
_PLAIN_ORIGINS: Final = frozenset(
    {
        dict,
        list,
        Union,
        types.UnionType,
        Literal,
        collections.abc.Mapping,
        collections.abc.MutableMapping,
        collections.abc.Sequence,
        collections.abc.MutableSequence,
        collections.abc.Iterable,
        collections.abc.Collection,
    }
)
_NEVER: Final = (typing.NoReturn, typing_extensions.Never)
_AS_LIST: Final = frozenset({collections.abc.Iterable, collections.abc.Collection})
CONSTANTS: Final = frozenset({str, int, bool, type(None)})
"""The types of plain data that a Literal names."""


def label(hint: Any) -> str:
    """Return how a hint is written."""
    return hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else str(hint).replace("typing.", "")


def is_plain(hint: Any) -> bool:
    """True if a hint says nothing but what JSON data is anyway."""
    if isinstance(hint, TypeVar):
        return True
    if (inner := _aliased(hint)) is not hint:
        return is_plain(inner)
    origin = get_origin(hint)
    if origin is Annotated:
        return len(get_args(hint)) == 1
    if origin is None:
        if is_typeddict(hint):
            try:
                return all(map(is_plain, typing_extensions.get_type_hints(hint).values()))
            except NameError:
                return True
        return hint in _NEVER or hint in _PLAIN_ORIGINS or _is_plain_class(hint)
    if origin is Literal:
        return all(type(each) in CONSTANTS for each in get_args(hint))
    args = get_args(hint)
    if origin in (dict, collections.abc.Mapping, collections.abc.MutableMapping) and len(args) == 2 and not _is_text(args[0]):
        return False
    return origin in _PLAIN_ORIGINS and all(each is ... or is_plain(each) for each in args)


def _is_text(key: Any) -> bool:
    return key in (str, Any, object) or isinstance(key, TypeVar) or (get_origin(key) is Literal and is_plain(key))


def _is_plain_class(hint: Any) -> bool:
    try:
        return hint in _PLAIN or (isinstance(hint, type) and issubclass(hint, Fields))
    except TypeError:
        return False


def _aliased(hint: Any) -> Any:
    """Return what a `type` statement or a NewType stands for."""
    if isinstance(hint, typing.NewType):
        return hint.__supertype__
    return getattr(hint, "__value__", hint) if type(hint).__name__ == "TypeAliasType" else hint


def rewritten(hint: Any) -> Any:
    """Return a hint in which everything has a schema for Pydantic that has one at all."""
    if isinstance(hint, type) and get_origin(hint) is None:
        if issubclass(hint, msgspec.Struct) or hasattr(hint, "__attrs_attrs__") or hint is bytearray or _is_old(hint):
            return Annotated[hint, ByMsgspec(hint)]
        return Annotated[hint, _BySubclass(hint, base)] if (base := _base(hint)) is not None else hint
    origin, args = get_origin(hint), get_args(hint)
    if origin is None or origin is Literal or not args:
        return list[Any] if origin in _AS_LIST or hint in _AS_LIST else hint
    if origin is Annotated:
        return Annotated[(rewritten(args[0]), *hint.__metadata__)]
    made = tuple(_rewritten_argument(each) for each in args)
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, made) if all(isinstance(each, type) for each in made) else Union[made]  # noqa: UP007
    if origin in _AS_LIST:
        return list.__class_getitem__(made[0])
    if made == args:
        return hint
    return origin[made]


def _is_old(hint: type[Any]) -> bool:
    """True for a typed dict that Pydantic does not take before Python 3.12."""
    return sys.version_info < (3, 12) and is_typeddict(hint) and type(hint).__module__ == "typing"


def _rewritten_argument(each: Any) -> Any:
    return each if each is ... or isinstance(each, list) else rewritten(each)


def _base(hint: type[Any]) -> type[Any] | None:
    """Return the text or number that a class is, which nothing says how to make."""
    if hasattr(hint, "__get_pydantic_core_schema__") or hint.__module__ in ("builtins", "enum"):
        return None
    if any(base.__module__ == "enum" for base in hint.__mro__):
        return None
    return next((base for base in (str, int, float) if issubclass(hint, base) and hint is not base and hint is not bool), None)


# --- What Pydantic knows nothing of ----------------------------------------------------------------------------------


class ByMsgspec:
    """Annotates with a type that msgspec reads and writes: a Struct, an attrs class."""

    def __init__(self, hint: Any) -> None:
        self.hint = hint

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        write = core_schema.plain_serializer_function_ser_schema(self._write)
        return core_schema.no_info_plain_validator_function(self._read, serialization=write)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        _, parts = msgspec.json.schema_components((self.hint,), schema_hook=lambda kind: {"title": kind.__name__})
        (alone,) = parts.values() if len(parts) == 1 else ({},)
        return {} if b"$ref" in msgspec.json.encode(alone) else alone

    def _read(self, value: Any) -> Any:
        try:
            if not isinstance(value, dict | list | str | int | float | None):
                value = self._write(value)
            return msgspec.convert(value, self.hint, str_keys=True, dec_hook=_by_pydantic)
        except msgspec.ValidationError as problem:
            raise ValueError(str(problem)) from None

    def _write(self, value: Any) -> Any:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_pydantic_dump)


def _by_pydantic(hint: type[Any], value: Any) -> Any:
    return hint.model_validate(value, by_alias=True, by_name=True)


def _pydantic_dump(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"the type {type(value).__name__} does not exist in JSON")


class _BySubclass:
    """Annotates with a class that is a text or a number with another name."""

    def __init__(self, hint: type[Any], base: type[Any]) -> None:
        self.hint, self.base = hint, base

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(
            self._read,
            handler.generate_schema(self.base),
            serialization=core_schema.plain_serializer_function_ser_schema(self.base),
        )

    def _read(self, value: Any) -> Any:
        return value if isinstance(value, self.hint) else self.hint(value)


def is_known_to_msgspec(hint: Any) -> bool:
    """True if msgspec reads and writes all that a hint names."""
    try:
        found = msgspec.inspect.type_info(hint)
    except (TypeError, NameError, ValueError):
        return False
    if isinstance(found, msgspec.inspect.CustomType | msgspec.inspect.AnyType):
        return False
    try:
        return all(issubclass(each.cls, BaseModel) for each in _customs(found, set()))
    except RecursionError:
        return False


def _customs(info: Any, seen: set[int]) -> Iterator[msgspec.inspect.CustomType]:
    if id(info) in seen:
        return
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.CustomType):
        yield info
    elif isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field):
        for name in info.__struct_fields__:
            yield from _customs(getattr(info, name), seen)
    elif isinstance(info, tuple):
        for each in info:
            yield from _customs(each, seen)
