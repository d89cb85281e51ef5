"""The round trip of a value: its schema, or a comparison with what was read, tells whether it comes back as it was.

Never here: reading or writing a value (adapter).
"""

from __future__ import annotations

import dataclasses
import functools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel, Secret, SecretBytes, SecretStr

from holdfast.authoring.values.hint import CONSTANTS
from holdfast.errors import UsageError

_MAX_REMEMBERED: Final = 1024
_SECRETS: Final = (SecretStr, SecretBytes, Secret)
_SECRET_REMEDY: Final = "Pass the name of a secret, and read it with ctx.secret"
_COMPOUND: Final = frozenset(
    {"tuple", "list", "set", "frozenset", "dict", "model", "dataclass", "typed-dict", "arguments", "call", "generator"}
)
"""The schemas of keys that JSON has no text for."""
_REFUSED: Final = {
    "callable": "a function, which is not data. Use its result or its name instead",
    "generator": "a generator, which is not data. Use list(...) instead",
    "is-subclass": "a class, which is not data. Use its name instead",
}
_SCALARS: Final = CONSTANTS | {float}
"""The types of values of an Enum that come back."""
_CUSTOM: Final = frozenset({"function-before", "function-after", "function-wrap", "function-plain", "typed-dict"})
_NO_SCHEMAS: Final = frozenset({"metadata", "config", "serialization", "cls", "ref", "default", "computed_fields", "expected"})
"""The kinds of schema that contain no other."""


_LEAVES: Final = frozenset({str, int, float, bool, type(None), bytes, datetime, date, UUID})


class Findings:
    """The facts of a schema about whether values come back; read once, when an adapter is made."""

    def __init__(self, schema: Any) -> None:
        self.refusal: str | None = None
        """Why no value of it can come back, with the remedy."""
        self.lossy: dict[str, str] = {}
        """The fields that may come back as something else, and their remedies."""
        self.is_proved = False
        """True if only a value can show whether it comes back."""
        self.round_trip = False
        """True if what is computed would not be read."""
        self.classes: set[type[Any]] = set()
        """The models and dataclasses of it: an instance of a class beneath one of these comes back without what it adds."""
        self.has_decimals = False
        """True if it takes Decimals that must be finite."""
        self._look(schema, "", "the value", is_required=True)
        self.is_proved |= any(map(self.is_beneath, self.classes))

    def is_beneath(self, kind: type[Any]) -> bool:
        """True for a class beneath one of the schema's."""
        return any(kind is not each and issubclass(kind, each) for each in self.classes)

    def _look(self, node: Any, owner: str, name: str, *, is_required: bool) -> None:
        if isinstance(node, list | tuple):
            for each in node:
                self._look(each, owner, name, is_required=is_required)
        if not isinstance(node, dict):
            return
        kind = node.get("type")
        self._look_at(kind, node, owner, name, is_required=is_required)
        if kind in ("model", "dataclass"):
            owner = node["cls"].__name__
            self.classes.add(node["cls"])
        self.has_decimals |= kind == "decimal" and not node.get("allow_inf_nan")
        if kind in ("default", "nullable", "union", "tagged-union"):
            is_required = False
        if isinstance(serialization := node.get("serialization"), dict):
            self.is_proved |= serialization.get("type", "").startswith("function")
            if serialization.get("is_field_serializer"):
                return  # it says itself what it writes
        for inner_name, inner in _inner(node):
            self._look(inner, owner, inner_name or name, is_required=is_required)

    def _look_at(self, kind: Any, node: Mapping[str, Any], owner: str, name: str, *, is_required: bool) -> None:
        place = f"the field {name!r} of {owner}" if owner else name
        self.is_proved |= kind in _CUSTOM or kind == "union"
        self.is_proved |= kind == "dict" and node.get("keys_schema", {}).get("type") == "nullable"
        self.is_proved |= kind == "literal" and not all(type(each) in CONSTANTS for each in node["expected"])
        if kind == "function-after" and _is_secret(made := node["function"]["function"]):
            remedy = f"{place} has the type {made.__name__}, whose value is not stored. {_SECRET_REMEDY}"
            self._loses(name, remedy, is_required=is_required)
        elif kind == "is-instance" and _is_secret(node["cls"]):
            self._loses(name, f"{place} is a secret, whose value is not stored. {_SECRET_REMEDY}", is_required=False)
        elif node.get("serialization_exclude"):
            remedy = f"{place} has exclude=True, so it is not stored. Remove exclude=True, or use another model"
            self._loses(name, remedy, is_required=is_required and node["schema"].get("type") != "default")
        elif kind == "computed-field" or (kind in ("model-fields", "dataclass-args") and node.get("computed_fields")):
            self.round_trip |= self._forbids
        elif kind in _REFUSED and not owner:
            self.refusal = self.refusal or f"{place} is {_REFUSED[kind]}"
        elif (
            kind == "enum"
            and "missing" not in node
            and not all(type(each.value) in _SCALARS or isinstance(each, str | int | float) for each in node["members"])
        ):
            self.refusal = self.refusal or (
                f"{place} has the type {node['cls'].__name__}, whose members cannot be read back. Give its members values that"
                " are text or numbers"
            )
        elif kind == "dict" and node.get("keys_schema", {}).get("type") in _COMPOUND:
            self.refusal = self.refusal or (
                f"{place} has keys that JSON cannot store. Use a list of pairs, or keys that are text, numbers or dates"
            )
        if kind in ("model", "dataclass"):
            self._forbids = node.get("config", {}).get("extra_fields_behavior") == "forbid"

    _forbids = False

    def _loses(self, name: str, remedy: str, *, is_required: bool) -> None:
        self.is_proved = True
        self.lossy.setdefault(name, remedy)
        if is_required:
            self.refusal = self.refusal or remedy


def _inner(node: Mapping[str, Any]) -> Iterator[tuple[str | None, Any]]:
    """The schemas inside another, each with the name of the field that it is of."""
    for key, inner in node.items():
        if key == "fields" and isinstance(inner, dict):
            yield from inner.items()
        elif key == "fields":
            yield from ((field["name"], field) for field in inner if isinstance(field, dict))
        elif key not in _NO_SCHEMAS:
            yield None, inner


def _is_secret(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, _SECRETS)


def expect_kept(model: type[BaseModel]) -> None:
    """Raise UsageError, with the remedy, for a model of which no value comes back."""
    refusal = Findings(model.__pydantic_core_schema__).refusal
    if refusal is not None:
        raise UsageError(f"{refusal}.")


def lost_secret(value: BaseModel) -> str | None:
    """Return the remedy where a model has a secret, of which only asterisks would be kept; else None."""
    remedy = _secret_in(type(value))
    return remedy if remedy is not None and _has_secret(value.model_dump()) else None


@functools.lru_cache(_MAX_REMEMBERED)
def _secret_in(model: type[BaseModel]) -> str | None:
    found = Findings(model.__pydantic_core_schema__)
    return next((each for each in (found.refusal, *found.lossy.values()) if each and _SECRET_REMEDY in each), None)


def _has_secret(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_secret, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_has_secret, value))
    return isinstance(value, _SECRETS)


def guessed_bytes(value: Any, example: Any) -> bool:
    """True where text was taken for the base64 of bytes."""
    if isinstance(value, str):
        return isinstance(example, bytes | bytearray)
    if isinstance(value, dict) and isinstance(example, Mapping):
        return any(key in example and guessed_bytes(each, example[key]) for key, each in value.items())
    if isinstance(value, list | tuple) and isinstance(example, list | tuple):
        return any(map(guessed_bytes, value, example))
    return False


def changed(value: Any, findings: Findings) -> str | None:
    """Return the remedy where a value has an instance of a class beneath one that the schema names, or a Decimal that is not
    finite: without a word, Pydantic writes what does not come back."""
    kind = type(value)
    if kind in _LEAVES:
        return None
    if kind is Decimal:
        if findings.has_decimals and not value.is_finite():
            return f"it contains the Decimal {value}, which cannot be read back. Use a finite Decimal or None"
        return None
    inner: Iterable[Any] = ()
    if kind in findings.classes:
        inner = _fields_of(value)
    elif isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list | tuple | set | frozenset | deque):
        inner = value
    elif findings.is_beneath(kind):
        return (
            f"it contains the type {kind.__name__}, but the type hint names a class above it, so its own fields would be lost."
            f" Name {kind.__name__} in the type hint, alone or in a union"
        )
    for each in inner:
        if type(each) not in _LEAVES and (remedy := changed(each, findings)) is not None:
            return remedy
    return None


def _fields_of(value: Any) -> Iterable[Any]:
    held = getattr(value, "__dict__", None)
    return held.values() if held is not None else [getattr(value, each.name, None) for each in dataclasses.fields(value)]


def difference(value: Any, again: Any, place: str = "") -> str | None:
    """Return the place at which `again` is not what `value` is; None where it is the same."""
    if value is again:
        return None
    if isinstance(again, BaseModel):
        if type(value) is not type(again):
            return place
        pairs = [(f".{name}", getattr(value, name, None), getattr(again, name, None)) for name in type(again).model_fields]
        extra = (value.__pydantic_extra__ or {}, again.__pydantic_extra__ or {})
        return _first(place, pairs) or difference(*extra, place)
    if dataclasses.is_dataclass(again) and not isinstance(again, type):
        if type(value) is not type(again):
            return place
        names = [each.name for each in dataclasses.fields(again)]
        return _first(place, [(f".{name}", getattr(value, name, None), getattr(again, name, None)) for name in names])
    if isinstance(again, dict):
        if not isinstance(value, Mapping) or len(value) != len(again) or any(key not in again for key in value):
            return place
        return _first(place, [(f"[{key!r}]", item, again[key]) for key, item in value.items()])
    if isinstance(again, list | tuple):
        if not isinstance(value, list | tuple) or len(value) != len(again):
            return place
        return _first(place, [(f"[{index}]", *pair) for index, pair in enumerate(zip(value, again, strict=True))])
    return None if _is_same(value, again) else place


def _first(path: str, pairs: list[tuple[str, Any, Any]]) -> str | None:
    found = (difference(value, again, f"{path}{place}") for place, value, again in pairs)
    return next((each for each in found if each is not None), None)


def _is_same(value: Any, again: Any) -> bool:
    kind: Any = type(again)
    if kind.__eq__ is object.__eq__:
        return type(value) is type(again)
    if not isinstance(value, type(again)) and not (type(value) is int and type(again) is float):
        return False
    try:
        return bool(value == again)
    except Exception:  # noqa: BLE001 - a user's own comparison
        return False
