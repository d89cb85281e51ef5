"""JSON as the functions toJSON and fromJSON write and read it.

Never here: JSON of Holdfast itself; that is the codec of the core.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from holdfast.actions.expressions.meter import Meter, Refusal
from holdfast.actions.expressions.value import Value, fold, to_text, whole

NESTING_LIMIT = 100
"""How deep arrays and objects may stand in one another, read or written."""

# A quote that is not closed is one string up to the end: sought in vain, its end would be sought again from each quote in it.
_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_ESCAPED = re.compile("[\x85\u2028\u2029\ud800-\udfff]")


def dump(value: Value, meter: Meter) -> str:
    """In two-space steps, empty collections as `[]` and `{}`. Raises Refusal."""
    pieces: list[str] = []
    for piece in _pieces(value, meter, 0):
        meter.charge_text(piece)
        pieces.append(piece)
    return "".join(pieces)


def load(text: str, meter: Meter) -> Value:
    """Of keys that differ in case only the first counts, of equal ones the last. Raises Refusal."""
    if not text.strip():
        raise Refusal("fromJSON was given an empty text, which is no JSON. Is what it reads set, and did its job run?")
    meter.charge_text(text)
    _check_nesting(text)
    meter.looked_at(items=sum(map(text.count, "[{,")))
    try:
        value: Value = json.loads(
            text, object_pairs_hook=_object, parse_float=_number, parse_int=_number, parse_constant=_no_constant
        )
    except json.JSONDecodeError as problem:
        raise Refusal(
            f"fromJSON was given text that is no JSON: {problem.msg} (line {problem.lineno}, column {problem.colno})."
        ) from None
    return value


def _pieces(value: Value, meter: Meter, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield _string(value)
        return
    if not isinstance(value, list | dict):
        yield "null" if value is None else to_text(value)
        return
    if depth == NESTING_LIMIT:
        raise Refusal(f"toJSON writes values nested {NESTING_LIMIT} deep at most; this one is deeper.")
    opening, closing = "[]" if isinstance(value, list) else "{}"
    separator = opening
    for item in value:
        yield f"{separator}\n{'  ' * (depth + 1)}"
        separator = ","
        if isinstance(value, dict):
            yield f"{_string(item)}: "
            yield from _pieces(value[item], meter, depth + 1)
        else:
            yield from _pieces(item, meter, depth + 1)
    yield f"\n{'  ' * depth}{closing}" if value else opening + closing


def _string(text: str) -> str:
    """Non-ASCII as it is, but for three line ends, as Newtonsoft has it, and halves of surrogate pairs."""
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def _check_nesting(text: str) -> None:
    """Before the reader recurses into it."""
    depth = 0
    for found in _BRACKET.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth > NESTING_LIMIT:
                raise Refusal(f"fromJSON reads values nested {NESTING_LIMIT} deep at most; this text is deeper.")
        elif found[0] in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    names: dict[str, str] = {}
    for key in plain:
        names.setdefault(fold(key), key)
    return {key: plain[key] for key in names.values()}


def _number(digits: str) -> int | float:
    number = float(digits)
    return number if math.isinf(number) else whole(number)


def _no_constant(name: str) -> NoReturn:
    raise Refusal(f"fromJSON was given text that is no JSON: {name} is no value of JSON.")
