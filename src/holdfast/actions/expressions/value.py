"""The values of expressions and what becomes of one where another kind is needed: GitHub's coercions, to the letter.

A value is plain JSON data: None, bool, int or float (both are doubles), str, list, dict. Sources: the abstract equality
of ECMAScript 5.1 §11.9.3, with strings compared as .NET's OrdinalIgnoreCase does and numbers printed as its G15.

Never here: syntax, or a value that is not JSON data.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import Any, TypeAlias

Value: TypeAlias = "bool | int | float | str | list[Any] | dict[str, Any] | None"

WHITESPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""What .NET's Char.IsWhiteSpace says yes to; Python's str.isspace says it of four characters more."""

EXACT_INTEGERS = 2**53
"""Below it a double holds every whole number."""

_AT_ONCE = 64 * 1024
"""Characters that are folded without giving other threads a turn: some milliseconds."""

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BASED = re.compile(r"0(?:x(?P<hexadecimal>[0-9a-fA-F]+)|o(?P<octal>[0-7]+))")
_INFINITIES = {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}


class Kind(StrEnum):
    """The six kinds of values."""

    NULL = "null"
    BOOLEAN = "boolean"
    NUMBER = "number"
    STRING = "string"
    ARRAY = "array"
    OBJECT = "object"

    @property
    def is_primitive(self) -> bool:
        return self not in (Kind.ARRAY, Kind.OBJECT)


def kind_of(value: Value) -> Kind:
    """Raises TypeError for what is no JSON data."""
    if value is None:
        return Kind.NULL
    if isinstance(value, bool):
        return Kind.BOOLEAN
    if isinstance(value, int | float):
        return Kind.NUMBER
    if isinstance(value, str):
        return Kind.STRING
    if isinstance(value, list):
        return Kind.ARRAY
    if isinstance(value, dict):
        return Kind.OBJECT
    raise TypeError(f"an expression reads plain JSON data, not {type(value).__name__}")


def is_true(value: Value) -> bool:
    """Null, false, 0, NaN and the empty string are false; everything else is true, '0' and empty collections too."""
    if isinstance(value, float) and math.isnan(value):
        return False
    return isinstance(value, list | dict) or bool(value)


def to_text(value: Value) -> str:
    """Null is empty, an array `Array`, an object `Object`; a number has at most 15 digits."""
    match kind_of(value):
        case Kind.NULL:
            return ""
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.NUMBER:
            return _number_text(to_number(value))
        case Kind.STRING:
            return str(value)
        case Kind.ARRAY:
            return "Array"
        case Kind.OBJECT:
            return "Object"


def to_number(value: Value) -> float:
    """A collection, and text that is no number, is NaN. A whole number becomes the nearest double."""
    if isinstance(value, str):
        return number_in(value)
    if value is None:
        return 0.0
    if isinstance(value, list | dict):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def number_in(text: str) -> float:
    """The number that a text spells: 0 for an empty one, NaN for anything else than a number."""
    text = text.strip(WHITESPACE)
    if not text:
        return 0.0
    if _DECIMAL.fullmatch(text):
        return float(text)
    if based := _BASED.fullmatch(text):
        digits, base = (based["hexadecimal"], 16) if based["hexadecimal"] else (based["octal"], 8)
        return _int32(int(digits, base))
    return _INFINITIES.get(text, math.nan)


def whole(number: float) -> int | float:
    """A whole number that a double holds exactly as an int, so that it reads 5 and not 5.0 wherever it goes."""
    return int(number) if number.is_integer() and abs(number) < EXACT_INTEGERS else number


def fold(text: str) -> str:
    """Two texts are the same to GitHub exactly if this makes them equal: each character in its simple upper case."""
    if text.isascii():
        return text.upper()
    if len(text) <= _AT_ONCE:
        return text.translate(_UPPER)
    return "".join(text[at : at + _AT_ONCE].translate(_UPPER) for at in range(0, len(text), _AT_ONCE))


def are_equal(first: Value, second: Value) -> bool:
    """`==`: kinds that differ meet as numbers; a collection equals only itself."""
    kinds = kind_of(first), kind_of(second)
    if kinds[0] != kinds[1]:
        return _meet_as_numbers(*kinds) and to_number(first) == to_number(second)
    if not kinds[0].is_primitive:
        return first is second
    if isinstance(first, str) and isinstance(second, str):
        return fold(first) == fold(second)
    return to_number(first) == to_number(second)


def is_less(first: Value, second: Value) -> bool:
    """`<`: strings in the order of their UTF-16 units in upper case, everything else as numbers."""
    kinds = kind_of(first), kind_of(second)
    if kinds[0] != kinds[1]:
        return _meet_as_numbers(*kinds) and to_number(first) < to_number(second)
    if isinstance(first, str) and isinstance(second, str):
        return _units(first) < _units(second)
    return to_number(first) < to_number(second)


def _meet_as_numbers(*kinds: Kind) -> bool:
    return all(kind.is_primitive for kind in kinds)


def _number_text(number: float) -> str:
    """As .NET's G15: `0.1`, `1E+21`, and never `-0`."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return f"{number:.15G}" if number else "0"


def _int32(number: int) -> float:
    """32 bits, the highest of which is the sign: 0xFFFFFFFF is -1. What needs more is no number."""
    if number >= 2**32:
        return math.nan
    return float(number - 2**32 if number >= 2**31 else number)


def _units(text: str) -> bytes:
    return fold(text).encode("utf-16-be", "surrogatepass")


class _SimpleUpperCase(dict[int, str]):
    """Unicode's mapping of one character to one: ß stays ß, and so does ı, as .NET has it."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        # Where upper case takes several characters, title case still tells the single one if there is any.
        one = next((each for each in (char.upper(), char.title()) if len(each) == 1), char)
        self[code] = char if char == "ı" else one
        return self[code]


_UPPER = _SimpleUpperCase()


def is_text(text: str) -> bool:
    """Return True if it consists of characters. Half a surrogate pair, which fromJSON reads, is none and has no bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
