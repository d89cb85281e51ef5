"""JSON Schemas that others have written, and what others give to be held against them: checked within bounds.

A schema may take for ever: a pattern that backtracks, references that branch into one another, a list whose items are each
compared with all others. So patterns are matched in linear time, by an engine without look-around and references back; what
is compared and what is looked at is counted. A reference to somewhere else is never fetched. Never here: what it is for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, Final
from urllib.parse import urljoin

import jsonschema
import msgspec
import referencing.exceptions
import referencing.jsonschema
from jsonschema.validators import extend
from jsonschema_specifications import REGISTRY as SPECIFICATIONS
from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema, to_jsonable_python

from holdfast.core.values.payload import SEALED, SENSITIVE, is_sensitive
from holdfast.errors import Misfit

MAX_LOOKS: Final = 3_000
"""Of keywords at values, for one value: less than a tenth of a second at the worst."""
_MAX_LOOKS_AT_SCHEMA: Final = 200_000
"""The same of a schema that is looked at as a value of its own: some hundreds of fields. It is looked at once."""
MAX_MATCHED: Final = 4_096
"""Characters of a text that is held against a pattern."""
MAX_TOLD: Final = 10
"""Problems of one value."""
_MAX_WORDS: Final = 300
_MAX_STEPS: Final = 100
"""From a part of a schema to what it refers to."""

_looks: ContextVar[list[int]] = ContextVar("holdfast_schema_looks")


class TooMuch(Exception):
    """More than is looked at, or a schema that refers to what is not in it; in words."""


def flaw(schema: Any) -> str | None:
    """Why nothing can be held against `schema`; None if it can."""
    try:
        return _flaw(msgspec.json.encode(schema))
    except RecursionError:
        return "it is nested too deep"


@lru_cache(maxsize=256)
def _flaw(encoded: bytes) -> str | None:
    schema = msgspec.json.decode(encoded)
    try:
        found = _problems(_meta_schema(), schema, 1, _MAX_LOOKS_AT_SCHEMA, "schema")
        return found[0] if found else next(_bad_patterns(schema), None)
    except TooMuch as problem:
        return str(problem)


@lru_cache(maxsize=1)
def _meta_schema() -> dict[str, Any]:
    """Return the schema of schemas in one piece. JSON Schema 2020-12 has it in eight, and holds each part of a schema against
    all of them: that takes six times as long."""
    whole = jsonschema.Draft202012Validator.META_SCHEMA
    parts = [whole, *(SPECIFICATIONS.contents(urljoin(whole["$id"], part["$ref"])) for part in whole["allOf"])]
    merged = {
        "type": whole["type"],
        "properties": {name: asked for part in parts for name, asked in part.get("properties", {}).items()},
        "$defs": {name: asked for part in parts for name, asked in part.get("$defs", {}).items()},
    }
    here = re.sub(r'"\$dynamicRef":"#meta"', '"$ref":"#"', msgspec.json.encode(merged).decode())
    return dict(msgspec.json.decode(re.sub(r'"meta/[a-z-]+#', '"#', here)))


def problems(
    schema: Mapping[str, Any], value: Any, whole: str = "value", *, looks: int = MAX_LOOKS, formats: bool = False
) -> list[Misfit]:
    """Return the first ten parts of `value` that do not fit, each with its place, `whole` for all of it. With `formats`, times
    and ids are checked too. Raises TooMuch."""
    known = {"format_checker": _FORMATS} if formats else {}
    return _problems(schema, value, MAX_TOLD, looks, whole, registry=referencing.jsonschema.EMPTY_REGISTRY, **known)


class UnknownField(Misfit):
    """A field that a form does not have; `known` are the names of those that it has there."""

    __slots__ = ("known",)
    known: str


def unknown_fields(schema: Mapping[str, Any], value: Any, root: Any) -> list[UnknownField]:
    """Return the first ten fields of `value`, at each level, that no shape of a closed form has there, and that `root` does
    not have either. A misspelt field would leave another one as it was, as if nothing had been changed. Raises TooMuch."""
    parts = {f"#/$defs/{name}": part for name, part in schema.get("$defs", {}).items()} | {"#": schema}
    found: list[UnknownField] = []
    left: list[tuple[list[Any], Any, Any, tuple[str | int, ...]]] = [([schema], value, root, ())]
    looks = 0
    while left and len(found) < MAX_TOLD:
        if (looks := looks + 1) > MAX_LOOKS:
            raise TooMuch("it has too many parts")
        shapes, value, root, path = left.pop()
        shapes = _alternatives(shapes, parts)
        if isinstance(value, list):
            items = [each["items"] for each in shapes if isinstance(each.get("items"), dict)]
            seen = root if isinstance(root, list) and len(root) == len(value) else [None] * len(value)
            places = [place for place, item in enumerate(value) if isinstance(item, dict | list)] if items else []
            left += [(items, value[place], seen[place], (*path, place)) for place in reversed(places[:MAX_LOOKS])]
            continue
        shapes = [each for each in shapes if each.get("type", "object") == "object"]
        if not isinstance(value, dict) or not shapes or any(_is_open(each) for each in shapes):
            continue
        for name, inner in value.items():
            shown = root if isinstance(root, dict) else {}
            within = [each["properties"][name] for each in shapes if name in each["properties"]]
            if within:
                left.append((within, inner, shown.get(name), (*path, name)))
            elif name not in shown:
                found.append(UnknownField(f"{'.'.join(map(str, (*path, name)))}: the form has no such field", (*path, name)))
                found[-1].known = ", ".join(dict.fromkeys(name for each in shapes for name in each["properties"])) or "none"
    return found[:MAX_TOLD]


def _alternatives(shapes: Sequence[Any], parts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the shapes that a value may have, with references followed; one that cannot be followed takes anything."""
    found: list[Mapping[str, Any]] = []
    left = list(shapes)
    for _ in range(_MAX_STEPS):
        if not left:
            return found
        shape = left.pop(0)
        if not isinstance(shape, dict) or ("properties" in shape and not shape.keys().isdisjoint(("$ref", "anyOf", "oneOf"))):
            return [{}]
        if "$ref" in shape:
            left.append(parts.get(shape["$ref"], {}))
        elif several := shape.get("anyOf", shape.get("oneOf")):
            left += several
        else:
            found.append(shape)
    return [{}]


def _is_open(shape: Mapping[str, Any]) -> bool:
    """True if a shape of an object may take other fields than it names, or says itself that it takes none."""
    return "properties" not in shape or not shape.keys().isdisjoint(_OPENING)


_OPENING: Final = ("additionalProperties", "patternProperties", "allOf", "if", "dependentSchemas", "unevaluatedProperties")
"""Keywords that say more about which fields a shape takes."""


def filled(schema: Mapping[str, Any], value: Any, kept_as: str, *, looks: int = MAX_LOOKS) -> Any:
    """`value`, which fits `schema` with its formats, as the Pydantic model keeps it that the schema was made of: with defaults
    for what was not given, without what no field takes, in the order of the fields. A property that says `kept_as` is kept
    under that name. Where several shapes fit, the one is meant that names most of what is given. Raises TooMuch."""
    with _bounded(looks):
        return _Filling(schema, kept_as).of(schema, value)


def _problems(schema: Any, value: Any, most: int, looks: int, whole: str, **root: Any) -> list[Misfit]:
    with _bounded(looks):
        errors = islice(_Bounded(schema, **root).iter_errors(value), most)
        if is_sensitive(schema):
            return [_misfit(each, _named_place(each), whole, _words_of_schema(each)) for each in errors]
        return [_misfit(each, [*islice(each.absolute_path, 20)], whole, each.message[:_MAX_WORDS]) for each in errors]


def _misfit(problem: Any, path: Sequence[str | int], whole: str, words: str) -> Misfit:
    """Return a problem with its place; of a property that is missing, the place where it would be."""
    required = problem.validator_value if problem.validator == "required" else ()
    missing = [name for name in required if problem.message.startswith(repr(name))]
    return Misfit(f"{'.'.join(map(str, path)) or whole}: {words}", (*path, *missing[:1]))


@contextmanager
def _bounded(looks: int) -> Iterator[None]:
    token = _looks.set([looks])
    try:
        yield
    except referencing.exceptions.Unresolvable as problem:
        raise TooMuch(f"the schema refers to {problem.ref!r}, which is not in it") from None
    except RecursionError:
        raise TooMuch("it is nested too deep") from None
    finally:
        _looks.reset(token)


def _words_of_schema(problem: Any) -> str:
    """Return what a schema asks for, without a word of what was given."""
    if problem.validator == "required":
        return str(problem.message[:_MAX_WORDS])
    asked = msgspec.json.encode({problem.validator: problem.validator_value}).decode()
    return f"it does not fit {asked[:_MAX_WORDS]}"


def _named_place(problem: Any) -> list[str | int]:
    """Return the place of a problem as the schema names it: other names are data."""
    path = [*problem.absolute_schema_path]
    named = {name for word, name in pairwise(path) if word == "properties"}
    return [part if isinstance(part, int) or part in named else "*" for part in islice(problem.absolute_path, 20)]


# --- Keywords ---------------------------------------------------------------------------------------------------------

Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


def _counted(keyword: Keyword, looks: int) -> Keyword:
    def counted(validator: Any, data: Any, value: Any, schema: Any) -> Iterator[Any]:
        left = _looks.get()
        left[0] -= looks
        if left[0] < 0:
            raise TooMuch("it is too large: too many values would have to be looked at")
        yield from keyword(validator, data, value, schema) or ()

    return counted


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[Any]:
    if isinstance(value, str) and not matches(pattern, value):
        yield jsonschema.ValidationError(f"{value[:100]!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], value: Any, schema: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for pattern, inner in patterns.items():
            for name, each in value.items():
                if matches(pattern, name):
                    yield from validator.descend(each, inner, path=name, schema_path=pattern)


def _additional_properties(validator: Any, inner: Any, value: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(value, dict):
        return
    patterns = schema.get("patternProperties", {})
    named = schema.get("properties", {})
    more = (name for name in value if name not in named and not any(matches(each, name) for each in patterns))
    if isinstance(inner, dict):
        for name in more:
            yield from validator.descend(value[name], inner, path=name)
    elif not inner and (first := [*islice(more, MAX_TOLD)]):
        these = ", ".join(repr(name[:100]) for name in first)
        verb = "was" if len(first) == 1 else "were"
        yield jsonschema.ValidationError(f"Additional properties are not allowed ({these} {verb} unexpected)")


def _unless_sealed(keyword: Keyword) -> Keyword:
    """Return a keyword's check of a text, for a sensitive one only before it is sealed."""

    def held(validator: Any, data: Any, value: Any, schema: Any) -> Iterator[Any] | None:
        is_sealed = isinstance(value, str) and value.startswith(SEALED) and schema.get(SENSITIVE) is True
        return None if is_sealed else keyword(validator, data, value, schema)

    return held


def _unique(validator: Any, is_asked: bool, value: Any, schema: Any) -> Iterator[Any]:
    items = value if is_asked and isinstance(value, list) else []
    if len({msgspec.json.encode(each, order="sorted") for each in items}) < len(items):
        yield jsonschema.ValidationError("it has an item twice")


_KEYWORDS: Final = jsonschema.Draft202012Validator.VALIDATORS | {
    "pattern": _unless_sealed(_pattern),
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique,
    **{name: _unless_sealed(jsonschema.Draft202012Validator.VALIDATORS[name]) for name in ("minLength", "maxLength")},
}
_DEAR: Final = {"$ref": 20, "$dynamicRef": 20}
"""Of looks: to find out what is referred to takes as long as so many others."""
_Bounded: Final[Any] = extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, {name: _counted(keyword, _DEAR.get(name, 1)) for name, keyword in _KEYWORDS.items()}
)


def _evolved(validator: Any, **changes: Any) -> Any:
    """The validator for another part. The library's own would take the one that a part's `$schema` names, without bounds."""
    known = {alias: getattr(validator, name) for alias, name in _FIELDS}
    return _Bounded(**known | changes)


_FIELDS: Final = [(field.alias, field.name) for field in _Bounded.__attrs_attrs__ if field.init]
_Bounded.evolve = _evolved


# --- Formats ----------------------------------------------------------------------------------------------------------

_OF_FORMATS: Final = {
    "date-time": SchemaValidator(core_schema.datetime_schema()),
    "date": SchemaValidator(core_schema.date_schema()),
    "time": SchemaValidator(core_schema.time_schema()),
    "duration": SchemaValidator(core_schema.timedelta_schema()),
    "uuid": SchemaValidator(core_schema.uuid_schema()),
}
_FORMATS: Final = jsonschema.FormatChecker(())


def _checker(reader: SchemaValidator) -> Callable[[object], bool]:
    def is_one(value: object) -> bool:
        return not isinstance(value, str) or reader.isinstance_python(value)

    return is_one


for _format, _reader in _OF_FORMATS.items():
    _FORMATS.checks(_format)(_checker(_reader))


def _normal(shape: Mapping[str, Any], value: Any) -> Any:
    """A text or a number as Pydantic writes it again."""
    asked = shape.get("type")
    if isinstance(value, str) and (reader := _OF_FORMATS.get(shape.get("format", ""))) is not None:
        return to_jsonable_python(reader.validate_python(value))
    if type(value) is int and asked == "number":
        return float(value)
    return int(value) if type(value) is float and asked == "integer" else value


# --- Filling in -------------------------------------------------------------------------------------------------------


class _Filling:
    """The filling of one value. References are those that Pydantic writes, to definitions of the schema itself."""

    def __init__(self, schema: Mapping[str, Any], kept_as: str) -> None:
        self._parts = {f"#/$defs/{name}": part for name, part in schema.get("$defs", {}).items()} | {"#": schema}
        self._kept_as = kept_as

    def of(self, schema: Mapping[str, Any] | bool, value: Any) -> Any:
        shape = {} if isinstance(schema, bool) else self._shape(schema, value)
        if isinstance(value, dict):
            return self._object(shape, value)
        if isinstance(value, list):
            first, rest = shape.get("prefixItems", ()), shape.get("items", {})
            return [self.of(first[i] if i < len(first) else rest, each) for i, each in enumerate(value)]
        return _normal(shape, value)

    def _object(self, shape: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
        named = shape.get("properties", {})
        found = {}
        for name, inner in named.items():
            if name in value or "default" in inner:
                found[inner.get(self._kept_as, name)] = self.of(inner, value.get(name, inner.get("default")))
        more = shape.get("additionalProperties", "properties" not in shape or "patternProperties" in shape)
        if more is not False:
            found |= {name: self.of(more, each) for name, each in value.items() if name not in named}
        return found

    def _shape(self, schema: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
        """The part that says what `value` is: references followed, and of several shapes the one that is meant."""
        for _ in range(_MAX_STEPS):
            if "$ref" in schema:
                schema = self._parts.get(schema["$ref"], {})
            elif shapes := schema.get("anyOf", schema.get("oneOf")):
                schema = self._choose_shape(shapes, value)
            else:
                return schema
        raise RecursionError

    def _choose_shape(self, shapes: list[Any], value: Any) -> Any:
        left = [each for each in shapes if each != {"type": "null"}]
        if value is not None and len(left) > 1:
            known = {"$defs": self._parts["#"].get("$defs", {})}
            left = [each for each in left if _Bounded(known | each, format_checker=_FORMATS).is_valid(value)]
        return max(left, key=lambda each: self._count_fields(each, value), default={})

    def _count_fields(self, schema: Mapping[str, Any], value: Any) -> int:
        """Return how many of the given fields a shape names."""
        names = self._parts.get(schema.get("$ref", ""), schema).get("properties", {})
        return sum(name in names for name in value) if isinstance(value, dict) else 0


# --- Patterns ---------------------------------------------------------------------------------------------------------


def matches(pattern: str, text: str) -> bool:
    """True if `pattern` is found in `text`, in time that grows with both. Raises TooMuch."""
    if len(text) > MAX_MATCHED:
        raise TooMuch(f"a text of {len(text):,} characters is too long for a pattern; {MAX_MATCHED:,} are possible")
    try:
        _matcher(pattern).validate_python(text)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> SchemaValidator:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        raise TooMuch(
            f"the pattern {pattern[:100]!r} cannot be matched in bounded time: look-around, references back and large"
            " repetitions are not possible"
        ) from None


def _bad_patterns(schema: Any) -> Iterator[str]:
    """Raises TooMuch for the first that cannot be used."""
    if isinstance(schema, list):
        for each in schema:
            yield from _bad_patterns(each)
    elif isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            _matcher(schema["pattern"])
        within = schema.get("patternProperties")
        for pattern in within if isinstance(within, dict) else ():
            _matcher(pattern)
        if within and "unevaluatedProperties" in schema:
            yield "patternProperties and unevaluatedProperties do not go together here"
        for each in schema.values():
            yield from _bad_patterns(each)
