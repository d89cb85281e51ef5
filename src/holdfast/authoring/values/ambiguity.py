"""Unions of which one type is kept as data that reads back as another, as `UUID | str`: seen by bringing a sample of each there
and back when the hint is given.

Never here: a type of which no sample is known, such as a model; its values are compared when they come (round_trip).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Annotated, Any, Final, Union, get_args, get_origin
from uuid import UUID

from holdfast.authoring.values.hint import label

_SAMPLES: Final[dict[Any, Any]] = {
    str: "a",
    int: 2,
    float: 2.5,
    bool: True,
    bytes: b"a",
    UUID: UUID(int=1),
    Decimal: Decimal("2.5"),
    Path: Path("a"),
    date: date(2026, 1, 31),
    datetime: datetime(2026, 1, 31, 12, 30),  # noqa: DTZ001
    time: time(12, 30),
    timedelta: timedelta(days=1),
    IPv4Address: IPv4Address("192.0.2.1"),
    IPv6Address: IPv6Address("2001:db8::1"),
}
"""Of each type a value like any other of it: where this one is taken for another type, they all are."""


def ambiguous(hint: Any, adapter: Callable[[Any], Any]) -> str | None:
    """Return why a value of a union in this hint cannot come back, with the remedy; None where that is not certain. `adapter`
    makes the Pydantic adapter of a hint."""
    for union in _unions(hint):
        made = None
        for member in get_args(union):
            for sample in _sample(member):
                made = made or adapter(union)
                again = _there_and_back(made, sample)
                if again is not _FAILED and repr(again) != repr(
                    sample
                ):  # which tells an enum from its value, a set from a list
                    return (
                        f"in {label(union)}, {sample!r:.60} of the type {label(member)} is read back as {again!r:.60}. Name one"
                        " type instead of the union, or give each type a field of its own in a model"
                    )
    return None


_FAILED: Final = object()


def _there_and_back(adapter: Any, sample: Any) -> Any:
    try:
        return adapter.validate_python(adapter.dump_python(sample, mode="json", warnings="error"))
    except Exception:  # noqa: BLE001 - nothing follows from it: a value that comes is looked at itself
        return _FAILED


def _unions(hint: Any) -> Iterator[Any]:
    """The unions in a hint. What is annotated may have rules of its own, and is left out."""
    origin = get_origin(hint)
    if origin is Annotated or origin is None:
        return
    if origin in (Union, types.UnionType):
        yield hint
    for each in get_args(hint):
        yield from _unions(each)


def _sample(hint: Any) -> Iterator[Any]:
    """A value of a type, if one is known."""
    if isinstance(hint, type) and get_origin(hint) is None:
        if issubclass(hint, Enum):
            yield from [*hint.__members__.values()][:1]
        elif hint in _SAMPLES:
            yield _SAMPLES[hint]
        return
    origin, args = get_origin(hint), get_args(hint)
    if origin in (list, set, frozenset) and len(args) == 1:
        yield from (origin([each]) for each in _sample(args[0]))
    elif origin is tuple and len(args) == 2 and args[1] is ...:
        yield from ((each,) for each in _sample(args[0]))
    elif origin is dict:
        yield from ({"a": each} for each in _sample(args[1]) if args[0] is str)
