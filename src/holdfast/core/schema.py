"""JSON Schemas that others have written, and what others give to be held against them: checked within bounds.

A schema may take for ever: a pattern that backtracks, references that branch into one another, a list whose items are each
compared with all others. So patterns are matched in linear time, by an engine without look-around and references back; what
is compared and what is looked at is counted. A reference to somewhere else is never fetched. Never here: what it is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import jsonschema
import msgspec
import referencing.exceptions
import referencing.jsonschema
from jsonschema.validators import extend
from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

MOST_LOOKS: Final = 3_000
"""Of keywords at values, for one value: less than a tenth of a second at the worst."""
_MOST_LOOKS_AT_SCHEMA: Final = 200_000
"""The same of a schema that is looked at as a value of its own: some hundreds of fields. It is looked at once."""
MOST_MATCHED: Final = 4_096
"""Characters of a text that is held against a pattern."""
MOST_TOLD: Final = 10
"""Problems of one value."""
_MOST_WORDS: Final = 300

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
        found = _problems(jsonschema.Draft202012Validator.META_SCHEMA, schema, 1, _MOST_LOOKS_AT_SCHEMA, "schema")
        return found[0] if found else next(_bad_patterns(schema), None)
    except TooMuch as problem:
        return str(problem)


def problems(schema: Mapping[str, Any], value: Any, whole: str = "value") -> list[str]:
    """What about `value` does not fit, the first ten; each with its place, `whole` for all of it. Raises TooMuch."""
    return _problems(schema, value, MOST_TOLD, MOST_LOOKS, whole, registry=referencing.jsonschema.EMPTY_REGISTRY)


def _problems(schema: Any, value: Any, most: int, looks: int, whole: str, **known: Any) -> list[str]:
    token = _looks.set([looks])
    try:
        errors = islice(_Bounded(schema, **known).iter_errors(value), most)
        return [f"{_place(each) or whole}: {each.message[:_MOST_WORDS]}" for each in errors]
    except referencing.exceptions.Unresolvable as problem:
        raise TooMuch(f"the schema refers to {problem.ref!r}, which is not in it") from None
    except RecursionError:
        raise TooMuch("it is nested too deep") from None
    finally:
        _looks.reset(token)


def _place(problem: Any) -> str:
    return ".".join(map(str, islice(problem.absolute_path, 20)))


# --- Keywords ---------------------------------------------------------------------------------------------------------

Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


def _counted(keyword: Keyword, looks: int) -> Keyword:
    def counted(validator: Any, asked: Any, value: Any, schema: Any) -> Iterator[Any]:
        left = _looks.get()
        left[0] -= looks
        if left[0] < 0:
            raise TooMuch("it is too large: too many values would have to be looked at")
        yield from keyword(validator, asked, value, schema) or ()

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
    elif not inner and (first := [*islice(more, MOST_TOLD)]):
        these = ", ".join(repr(name[:100]) for name in first)
        verb = "was" if len(first) == 1 else "were"
        yield jsonschema.ValidationError(f"Additional properties are not allowed ({these} {verb} unexpected)")


def _unique(validator: Any, is_asked: bool, value: Any, schema: Any) -> Iterator[Any]:
    items = value if is_asked and isinstance(value, list) else []
    if len({msgspec.json.encode(each, order="sorted") for each in items}) < len(items):
        yield jsonschema.ValidationError("it has an item twice")


_KEYWORDS: Final = jsonschema.Draft202012Validator.VALIDATORS | {
    "pattern": _pattern, "patternProperties": _pattern_properties, "additionalProperties": _additional_properties,
    "uniqueItems": _unique,
}  # fmt: skip
_DEAR: Final = {"$ref": 20, "$dynamicRef": 20}
"""Of looks: to find out what is referred to takes as long as so many others."""
_Bounded: Final[Any] = extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator,
    {name: _counted(keyword, _DEAR.get(name, 1)) for name, keyword in _KEYWORDS.items()},
)


def _evolved(validator: Any, **changes: Any) -> Any:
    """The validator for another part. The library's own would take the one that a part's `$schema` names, without bounds."""
    known = {alias: getattr(validator, name) for alias, name in _FIELDS}
    return _Bounded(**known | changes)


_FIELDS: Final = [(field.alias, field.name) for field in _Bounded.__attrs_attrs__ if field.init]
_Bounded.evolve = _evolved


# --- Patterns ---------------------------------------------------------------------------------------------------------


def matches(pattern: str, text: str) -> bool:
    """Whether `pattern` is found in `text`, in time that grows with both. Raises TooMuch."""
    if len(text) > MOST_MATCHED:
        raise TooMuch(f"a text of {len(text):,} characters is too long for a pattern; {MOST_MATCHED:,} are possible")
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
