"""Texts that are stored encrypted, whatever else is: fields of Pydantic models that are `Annotated[str, Sensitive]`.

In a step, and wherever an engine takes or gives a value for a tenant, such a field is written to JSON sealed, and read from it
opened. All that lies between has the sealed text: histories, lists, events, exports, prompts that are given the
model, and every screen. Never here: a key, a cipher (core.views.sealing), which other texts are personal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from pydantic_core import core_schema

from holdfast.core.values.payload import SEALED, SENSITIVE, is_sensitive
from holdfast.core.views.sealing import Sealing
from holdfast.errors import CorruptHistory, KeyMissing

_DEEPEST: Final = 50
_MAX_SEEN: Final = 1_000
"""Texts of one context that are known again when an error names them: those of some hundred models."""


class _Sealer(NamedTuple):
    tenant: str
    sealing: Sealing
    writes: bool
    seen: set[str]
    """The texts of sensitive fields that were read here."""


HIDDEN: Final = "[sensitive]"
"""What is shown in the place of a sensitive text."""

_sealer: ContextVar[_Sealer | None] = ContextVar("holdfast_sealer", default=None)


def seal_for(tenant: str, sealing: Sealing) -> None:
    """Have sensitive fields be sealed and opened for a tenant in the rest of this context."""
    _sealer.set(_Sealer(tenant, sealing, writes=True, seen=set()))


@contextmanager
def sealed_for(tenant: str, sealing: Sealing) -> Iterator[None]:
    """The same inside a block."""
    with _as(_Sealer(tenant, sealing, writes=True, seen=set())):
        yield


@contextmanager
def opened() -> Iterator[None]:
    """Have sensitive fields be written as they are inside a block: what goes to a tool that is called."""
    before = _sealer.get()
    with _as(before and before._replace(writes=False)):
        yield


@contextmanager
def _as(sealer: _Sealer | None) -> Iterator[None]:
    token = _sealer.set(sealer)
    try:
        yield
    finally:
        _sealer.reset(token)


class SensitiveText(str):
    """The text of a sensitive field. It is a `str` that does not show itself in a `repr`, and is stored sealed wherever it is
    stored as this."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"'{HIDDEN}'"


class _Hidden:
    """Stands for what is given in the place of a text and is none: an error shows its input."""

    def __repr__(self) -> str:
        return HIDDEN


class Sensitive:
    """A mark for a field of a Pydantic model: `Annotated[str, Sensitive]`. The field is stored and shown encrypted under the
    key of the run's tenant; code that declares it gets the text. It requires a key file (`HOLDFAST_KEY_FILE`)."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        if source is not str:
            raise TypeError("Sensitive is for a text: Annotated[str, Sensitive]")
        schema = core_schema.no_info_after_validator_function(SensitiveText, handler(source))
        write = core_schema.plain_serializer_function_ser_schema(
            sealed, when_used="json", return_schema=core_schema.str_schema()
        )
        return core_schema.no_info_before_validator_function(_open, schema, serialization=write)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """Return what a text has to be before it is sealed: a sealed one fits no pattern and no length, and is not held against
        them (core.values.schema)."""
        return {**handler(schema), SENSITIVE: True}


def sealed(text: str) -> str:
    """Return a sensitive text as it is stored here; outside of a tenant's work as it is. Raises ValueError without a key."""
    sealer = _sealer.get()
    if sealer is None or not sealer.writes or text.startswith(SEALED):
        return str(text)
    try:
        return sealer.sealing.seal_field(sealer.tenant, str(text))
    except KeyMissing as problem:
        raise ValueError(problem.message.removesuffix(".")) from None


def as_kept(text: str) -> str:
    """Return any text as it is stored and shown: a sensitive one sealed."""
    return sealed(text) if type(text) is SensitiveText else text


def _open(value: Any) -> Any:
    if not isinstance(value, str):
        return _Hidden()
    sealer = _sealer.get()
    if sealer is None:
        return SensitiveText(value)
    if value.startswith(SEALED):
        try:
            return SensitiveText(sealer.sealing.open_field(sealer.tenant, value))
        except CorruptHistory as problem:
            raise ValueError(f"it is sealed and cannot be read: {problem.message}") from None
    if len(sealer.seen) < _MAX_SEEN:
        sealer.seen.add(str(value))
    return SensitiveText(value)


def mask_name(name: object) -> str:
    """Return a name as an error may show it: the key of a dict is a sensitive text where its type says so."""
    sealer = _sealer.get()
    return HIDDEN if sealer is not None and name in sealer.seen else str(name)


def sealed_by(schema: Mapping[str, Any], data: Any) -> Any:
    """Return JSON data with the texts sealed that its JSON Schema says are sensitive, and without the fields that it does not
    know: the code reads none of them, and a misspelled one may be sensitive. For a process that has not the code."""
    # Where none is, nothing is looked at: a person or a model may have given a hundred thousand values.
    return _sealed_by(schema, schema, data, 0) if is_sensitive(schema) else data


def _sealed_by(root: Mapping[str, Any], schema: Any, data: Any, depth: int, *, is_part: bool = False) -> Any:
    # What is one part of several schemas drops no field: another of them may know it.
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return data
    if isinstance(data, str):
        data = sealed(data) if schema.get(SENSITIVE) is True else data
    if isinstance(ref := schema.get("$ref"), str) and ref.startswith("#/$defs/"):
        data = _sealed_by(root, root.get("$defs", {}).get(ref.removeprefix("#/$defs/")), data, depth + 1, is_part=is_part)
    parts = _alternatives(schema)
    for each in parts:
        data = _sealed_by(root, each, data, depth + 1, is_part=is_part or len(parts) > 1)
    if isinstance(data, dict) and not is_part and (known := _names(root, schema, depth)) is not None:
        data = {name: each for name, each in data.items() if name in known}
    if isinstance(data, dict):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        names = schema.get("propertyNames")
        return {
            _sealed_by(root, names, name, depth + 1): _sealed_by(
                root, fields.get(name, others), each, depth + 1, is_part=is_part
            )
            for name, each in data.items()
        }
    if isinstance(data, list):
        first = schema.get("prefixItems", ())
        kinds = [*first, *[schema.get("items")] * max(0, len(data) - len(first))]
        return [_sealed_by(root, kind, each, depth + 1, is_part=is_part) for kind, each in zip(kinds, data, strict=False)]
    return data


def _alternatives(schema: Mapping[str, Any]) -> list[Any]:
    """Return the schemas of which one or all count, but for null: an optional model is that model."""
    found = (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ()))
    return [each for each in found if each != {"type": "null"}]


def _names(root: Mapping[str, Any], schema: Any, depth: int) -> Collection[str] | None:
    """Return the fields that an object may have; None where it may have any."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return None
    parts = [*_alternatives(schema)]
    if isinstance(ref := schema.get("$ref"), str) and ref.startswith("#/$defs/"):
        parts.append(root.get("$defs", {}).get(ref.removeprefix("#/$defs/")))
    fields = schema.get("properties")
    if schema.get("additionalProperties") or "patternProperties" in schema:
        return None
    if fields is None and not parts:
        return None if schema.get("type", "object") == "object" else ()
    found = set(fields or ())
    for each in parts:
        names = _names(root, each, depth + 1)
        if names is None:
            return None
        found |= {*names}
    return found
