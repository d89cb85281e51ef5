"""A user's value as JSON, or why it is none: the one rule for whatever a history keeps.

A value is kept where it reads back as it was given. What JSON has no kind for is refused, with its place and the way out,
instead of quietly becoming something else. What has declared fields (a Pydantic model, a dataclass, a msgspec Struct) says
by these what it is in JSON, and is kept as that.

Never here: where it is kept, redaction.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import ipaddress
import math
import re
import uuid
from collections.abc import Awaitable, Generator, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

import msgspec
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from holdfast.authoring.values.round_trip import lost_secret
from holdfast.authoring.values.sensitive import SensitiveText, sealed
from holdfast.errors import InvalidInput
from holdfast.platform.border import is_ours, name_of

_MAX_DEPTH: Final = 200
"""Arrays and objects inside one another that can be stored. How deep a process can read depends on its stack and on its
version of Python (3.11 reads fewer than 1,000 levels), and a history that a process cannot read is lost."""

_WAYS_OUT: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    ((set, frozenset), "Use sorted(...) or list(...)"),
    ((bytes, bytearray, memoryview), "Use text, with .decode() or base64"),
    (decimal.Decimal, "Use str(...)"),
    ((datetime.datetime, datetime.date, datetime.time), "Use .isoformat()"),
    (datetime.timedelta, "Use .total_seconds()"),
    (uuid.UUID, "Use str(...)"),
    (enum.Enum, "Use its .value"),
)
"""The types whose values would read back as something else, and what to use instead."""
_BYTES_REMEDY: Final = (
    "Set model_config = ConfigDict(ser_json_bytes='base64', val_json_bytes='base64') in the model that has the bytes"
)
_FIELD: Final = "or declare the type, as a field of a Pydantic model or a dataclass or in the type hint of the function"
_REFUSED: Final = "This value cannot be stored: "
_OF_LIBRARIES: Final[Mapping[tuple[str, str], str]] = {
    ("numpy", "ndarray"): "Use .tolist()",
    ("numpy", "generic"): "Use .item()",
    ("pandas", "DataFrame"): 'Use .to_dict("records"), with None for missing values',
    ("pandas", "Series"): "Use .tolist()",
    ("pandas", "Index"): "Use .tolist()",
    ("pandas", "NaTType"): "Use None",
    ("pandas", "NAType"): "Use None",
    ("sqlalchemy", "Row"): "Use dict(row._mapping)",
    ("sqlalchemy", "RowMapping"): "Use dict(...)",
    ("sqlalchemy", "DeclarativeBase"): "Use a dict of the columns that you need, such as {'id': row.id}",
    ("polars", "DataFrame"): "Use .to_dicts()",
    ("polars", "Series"): "Use .to_list()",
}
"""By the package and the name of a class or of one that it is made of: what to use instead. Nothing of them is imported."""
_OTHERS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (PurePath, "Use os.fspath(...)"),
    ((fractions.Fraction, ipaddress._IPAddressBase), "Use str(...)"),
    ((collections.deque, range), "Use list(...)"),
    ((Generator, Iterator), "Use list(...)"),
    (complex, "Use [z.real, z.imag]"),
    (re.Pattern, "Use its .pattern"),
    (BaseException, "Use str(...)"),
    (Awaitable, "Write `await` before the call that returned it"),
    (type, "Use its name"),
)


def encode(value: Any, *, is_kept: bool = False) -> bytes:
    """`value` as JSON. Pydantic models, dataclasses and msgspec Structs become what their fields are in JSON, and a tuple is
    an array.

    Raises InvalidInput for what JSON cannot hold or would read back as something else, saying where: functions and other
    objects, NaN and infinity, lone surrogates, cycles; sets, bytes, dates, numbers as names. What `is_kept` to be read back
    may have no secrets either, of which only asterisks would be left.
    """
    try:
        encoded = msgspec.json.encode(value, enc_hook=_whole if is_kept else _plain)
    except (UnicodeDecodeError, PydanticSerializationError) as problem:
        raise InvalidInput(_undumped(problem)) from None
    except (TypeError, NotImplementedError, UnicodeEncodeError, RecursionError, ValueError, OverflowError) as problem:
        raise _unstorable(_culprit(value) or str(problem).rstrip(".")) from None
    # msgspec writes more than reads back the same: NaN as null, a set as an array.
    if not _is_plain(value):
        if (where := _culprit(value)) is not None:
            raise _unstorable(where)
        if (named := _with_sealed_names(value)) is not value:
            return msgspec.json.encode(named, enc_hook=_whole if is_kept else _plain)
    return encoded


def unstorable(value: Any) -> str | None:
    """Return why `value` cannot be stored, with the place; None if it can."""
    try:
        encode(value)
    except InvalidInput as problem:
        return problem.message
    return None


def refusal(name: str, problem: str) -> str:
    """Return the message about something that cannot be stored, such as the result of a function, with the problem that
    `encode` or an adapter has found."""
    return f"{name} cannot be stored: {problem.removeprefix(_REFUSED).rstrip('.')}."


_NO_WAY: Final = "Use a dict, a Pydantic model or a dataclass of the data that you need"
_HARMLESS: Final = frozenset({str, int, bool, type(None)})


def _unstorable(place: str) -> InvalidInput:
    return InvalidInput(f"{_REFUSED}{place}.")


def _undumped(problem: Exception) -> str:
    """Return why Pydantic has no JSON of a model."""
    if "utf" in str(problem):
        return f"{_REFUSED}its model stores bytes as text, and these bytes are not UTF-8. {_BYTES_REMEDY}."
    return f"{_REFUSED}{problem}."


def _whole(value: Any) -> Any:
    if isinstance(value, BaseModel) and (remedy := lost_secret(value)) is not None:
        raise _unstorable(remedy)
    return _plain(value)


def _plain(value: Any) -> Any:
    if type(value) is SensitiveText:
        return sealed(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"the type {type(value).__name__} does not exist in JSON")


def _with_sealed_names(value: Any) -> Any:
    """Return what can be kept with the names sealed that are sensitive texts; the value itself where none is."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return value if (named := _with_sealed_names(fields)) is fields else named
    if isinstance(value, dict):
        inner = {name: _with_sealed_names(each) for name, each in value.items()}
        if any(type(name) is SensitiveText for name in inner):
            return {sealed(name) if type(name) is SensitiveText else name: each for name, each in inner.items()}
        return value if all(inner[name] is each for name, each in value.items()) else inner
    if isinstance(value, list | tuple):
        items = [_with_sealed_names(each) for each in value]
        return value if all(one is each for one, each in zip(items, value, strict=True)) else items
    return value


def _is_plain(value: Any) -> bool:
    """Return True if `value` is made of nothing but plain JSON types, without NaN or infinity, and is not too deep: the quick
    answer for nearly all."""
    level = [value]
    for _ in range(_MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                for name in item:
                    if type(name) is not str:
                        return False
                below += item.values()
            elif kind is list or kind is tuple:
                below += item
            elif kind is float:
                if not math.isfinite(item):
                    return False
            elif kind not in _HARMLESS:
                return False
        if not below:
            return True
        level = below
    return False


def _culprit(value: Any, place: str = "the value", depth: int = 0) -> str | None:
    """Name what JSON cannot hold in `value`, and where it is."""
    if (remedy := _of_library(value)) is not None:
        return _of_type(place, value, remedy)
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{place} is {value}, which does not exist in JSON. Use None"
    if isinstance(value, str):
        return f"{place} contains half of a surrogate pair, which is not a character" if not _utf8(value) else None
    if depth == _MAX_DEPTH and _holds_itself(value):
        return f"{place[:30]}… contains itself. Remove the reference from the inner value to the outer one"
    if depth > _MAX_DEPTH or (depth == _MAX_DEPTH and isinstance(value, dict | list | tuple | set | frozenset)):
        return f"{place[:80]}… is nested more than {_MAX_DEPTH} levels deep, or contains itself"
    if isinstance(value, dict):
        return next((found for found in _culprits_of_object(value, place, depth) if found is not None), None)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{place} has the type {type(value).__name__}, whose field names JSON would lose. Use ._asdict(), {_FIELD}"
    if isinstance(value, list | tuple):
        found_in = (_culprit(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(value))
        return next((found for found in found_in if found is not None), None)
    if isinstance(value, BaseModel):
        return _culprit(value.model_dump(mode="json"), place, depth + 1)
    for kinds, way_out in _WAYS_OUT:
        if isinstance(value, kinds) and not isinstance(value, int):  # an IntEnum is a number
            return _of_type(place, value, f"{way_out}, {_FIELD}")
    return _culprit_of_other(value, place, depth)


def render_value(value: Any) -> str:
    """Return a value as text for a person, also where it cannot be kept: as JSON, without what its model leaves out, and else
    its class. Raises nothing of the value's own code."""
    try:
        return to_json(value, bytes_mode="base64", inf_nan_mode="strings", serialize_unknown=True).decode()
    except BaseException as problem:
        if is_ours(problem):
            raise
        return f"a value of the type {name_of(type(value))}"


def _culprits_of_object(value: dict[Any, Any], place: str, depth: int) -> Iterator[str | None]:
    for name in value:
        if not isinstance(name, str):
            yield (
                f"{place} has the key {name!r:.80} of the type {type(name).__name__}, but keys are text in JSON. Use str(...)"
            )
        yield _culprit(name, f"the key {name!r} in {place}", depth + 1)
    for name, item in value.items():
        yield _culprit(item, f"{place}[{name!r}]", depth + 1)


def _culprit_of_other(value: Any, place: str, depth: int) -> str | None:
    """The same for what is none of JSON's own kinds: a dataclass has fields, most are nothing."""
    try:
        plain = msgspec.to_builtins(value, enc_hook=_plain, str_keys=True)
        msgspec.json.encode(plain)
    except (TypeError, NotImplementedError):
        remedy = next((remedy for kinds, remedy in _OTHERS if isinstance(value, kinds)), _NO_WAY)
        if remedy == _NO_WAY and (inspect.isroutine(value) or isinstance(value, functools.partial)):
            remedy = "Use its name"
        return _of_type(place, value, remedy)
    except (ValueError, OverflowError, RecursionError) as problem:
        return f"{place}: {problem}" if not isinstance(value, int) else f"{place} is a number with too many digits"
    return _culprit(plain, place, depth) if isinstance(plain, dict | list) else None


def _of_type(place: str, value: Any, remedy: str) -> str:
    return f"{place} has the type {type(value).__name__}, which does not exist in JSON. {remedy}"


def _of_library(value: Any) -> str | None:
    """Return the remedy for a value of numpy, pandas, SQLAlchemy or polars; None for all others."""
    for kind in type(value).__mro__:
        package = kind.__module__.partition(".")[0]
        if package == "builtins" or (remedy := _OF_LIBRARIES.get((package, kind.__name__))) is None:
            continue
        return remedy
    if hasattr(type(value), "__mapper__") and hasattr(type(value), "__table__"):
        return _OF_LIBRARIES["sqlalchemy", "DeclarativeBase"]
    return None


def _holds_itself(value: Any) -> bool:
    """Return True if a list or an object contains itself."""
    seen, left = {id(value)}, [*_inside(value)]
    while left:
        item = left.pop()
        if item is value:
            return True
        if isinstance(item, list | tuple | dict) and id(item) not in seen:
            seen.add(id(item))
            left += _inside(item)
    return False


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()


def _utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
