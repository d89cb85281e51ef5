"""The functions that an expression may call: GitHub's eight, and the names of the four that tell how things went.

Arguments come in as callables, because GitHub's runner works out only those that it needs.

Never here: what a job's or step's status is; who evaluates a condition brings that along.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from holdfast.actions.expressions import json_text
from holdfast.actions.expressions.lexer import quote_excerpt
from holdfast.actions.expressions.meter import Meter, Refusal
from holdfast.actions.expressions.value import Kind, Value, are_equal, fold, kind_of, to_text

ARGUMENTS_LIMIT = 255
"""Of the functions that take any number of them, as GitHub has it."""

Argument: TypeAlias = Callable[[], Value]


@dataclass(frozen=True, slots=True)
class Function:
    """A function's name and the number of arguments it takes."""

    name: str
    fewest: int
    most: int

    def __str__(self) -> str:
        return f"{self.name}()"

    def refuses(self, count: int) -> str | None:
        """Return the error message for a wrong number of arguments, or None."""
        if self.fewest <= count <= self.most:
            # Pairs of condition and value, and what holds otherwise.
            odd = self.name != "case" or count % 2
            return None if odd else "case() takes pairs of condition and value and a last value: an odd number."
        if self.fewest == self.most:
            allowed = f"{self.most or 'no'} argument{'' if self.most == 1 else 's'}"
        else:
            allowed = f"{self.fewest} to {self.most} arguments"
        return f"{self} takes {allowed}, not {count}."


BUILT_IN = (
    Function("case", 3, ARGUMENTS_LIMIT),
    Function("contains", 2, 2),
    Function("endsWith", 2, 2),
    Function("format", 1, ARGUMENTS_LIMIT),
    Function("fromJSON", 1, 1),
    Function("join", 1, 2),
    Function("startsWith", 2, 2),
    Function("toJSON", 1, 1),
)
STATUS = tuple(Function(name, 0, 0) for name in ("success", "failure", "cancelled", "always"))
"""Their values come from outside. One of them in an `if` takes the place of the implicit success()."""

_KNOWN = {function.name.lower(): function for function in (*BUILT_IN, *STATUS)}

_HASH_FILES = (
    "hashFiles() is not available: it reads the files of a checked-out repository, which a job here does not have. "
    "Compute the hash in a step, write it to $GITHUB_OUTPUT and use the step's output."
)


def find_function(name: str) -> Function | str:
    """The function of that name in any case, or why there is none."""
    function = _KNOWN.get(name.lower())
    if function is not None:
        return function
    if name.lower() == "hashfiles":
        return _HASH_FILES
    return f"There is no function {quote_excerpt(name)}. {nearest(name, [each.name for each in _KNOWN.values()])}"


def nearest(name: str, names: Iterable[str]) -> str:
    """A sentence that names what may have been meant, and all there is."""
    there = {fold(each): each for each in names}
    close = difflib.get_close_matches(fold(name), there, n=1)
    hint = f"Did you mean {there[close[0]]}? " if close else ""
    return f"{hint}There is: {', '.join(sorted(there.values(), key=fold))}." if there else "There is none."


def call(name: str, arguments: Sequence[Argument], meter: Meter) -> Value:
    """The value of a built-in function. Raises Refusal."""
    return _BODIES[name](arguments, meter)


def is_built_in(name: str) -> bool:
    return name in _BODIES


def _case(arguments: Sequence[Argument], meter: Meter) -> Value:
    for condition, value in zip(arguments[:-1:2], arguments[1::2], strict=True):
        found = condition()
        if not isinstance(found, bool):
            raise Refusal(
                f"A condition of case() is true or false; this one is {_described(found)}. "
                "Compare it with something, or write !!value for whether it is set."
            )
        if found:
            return value()
    return arguments[-1]()


def _contains(arguments: Sequence[Argument], meter: Meter) -> Value:
    where = arguments[0]()
    if isinstance(where, list):
        # As in the runner, what is sought in an empty array is not even worked out.
        return bool(where) and _is_in(arguments[1](), where, meter)
    return _texts_are(lambda text, part: part in text, where, arguments[1], meter)


def _is_in(item: Value, items: list[Value], meter: Meter) -> bool:
    for each in items:
        meter.looked_at(_length(each) + _length(item), items=1)
        if are_equal(item, each):
            return True
    return False


def _starts_with(arguments: Sequence[Argument], meter: Meter) -> Value:
    return _texts_are(str.startswith, arguments[0](), arguments[1], meter)


def _ends_with(arguments: Sequence[Argument], meter: Meter) -> Value:
    return _texts_are(str.endswith, arguments[0](), arguments[1], meter)


def _texts_are(relation: Callable[[str, str], bool], first: Value, right: Argument, meter: Meter) -> bool:
    """Return True if the relation holds between two primitives as texts, whatever their case. For a collection it never
    holds."""
    if not kind_of(first).is_primitive:
        return False
    other = right()
    if not kind_of(other).is_primitive:
        return False
    meter.looked_at(_length(first) + _length(other))
    return relation(fold(to_text(first)), fold(to_text(other)))


def _length(value: Value) -> int:
    return len(value) if isinstance(value, str) else 0


_FORMAT_PIECE = re.compile(r"(?P<text>[^{}]+)|(?P<brace>\{\{|\}\})|\{(?P<number>[0-9]+)\}")


def _format(arguments: Sequence[Argument], meter: Meter) -> Value:
    values = arguments[1:]
    pieces = list(_pieces(to_text(arguments[0]()), len(values), meter))
    # Each value is worked out once, and only if it has a place.
    texts = {number: to_text(values[number]()) for number in dict.fromkeys(each for each in pieces if type(each) is int)}
    return _concatenate((texts[each] if isinstance(each, int) else each for each in pieces), meter)


def _pieces(form: str, values: int, meter: Meter) -> Iterator[str | int]:
    """Plain texts, and the numbers of the values that come between them."""
    at = 0
    while at < len(form):
        meter.looked_at(items=1)
        piece = _FORMAT_PIECE.match(form, at)
        if piece is None:
            raise Refusal(_unformed(form, at))
        at = piece.end()
        if not piece["number"]:
            yield piece["text"] or piece["brace"][0]
            continue
        # More than three digits are too many for any list of arguments.
        number = int(piece["number"].lstrip("0")[:4] or "0")
        if number >= values:
            raise Refusal(
                f"The form of format() asks for {quote_excerpt(piece[0])}, but {values} values follow it; the first is {{0}}."
            )
        yield number


def _unformed(form: str, offset: int) -> str:
    excerpt = form[offset : offset + 20]
    return (
        f"The form of format() is wrong at its character {offset + 1}, `{excerpt}`: a place is a number in braces, as in "
        "{0}; a brace that is to stay is written twice, {{ or }}."
    )


def _join(arguments: Sequence[Argument], meter: Meter) -> Value:
    items = arguments[0]()
    if not isinstance(items, list):
        return to_text(items) if kind_of(items).is_primitive else ""
    separator: Value = ","
    if len(items) > 1 and len(arguments) > 1:
        given = arguments[1]()
        separator = given if kind_of(given).is_primitive else ","
    between = to_text(separator)
    return _concatenate((f"{between if number else ''}{to_text(item)}" for number, item in enumerate(items)), meter)


def _concatenate(pieces: Iterable[str], meter: Meter) -> str:
    """One after the other, each counted before the next is made."""
    made: list[str] = []
    for piece in pieces:
        meter.looked_at(items=1)
        meter.charge_text(piece)
        made.append(piece)
    return "".join(made)


def _to_json(arguments: Sequence[Argument], meter: Meter) -> Value:
    return json_text.dump(arguments[0](), meter)


def _from_json(arguments: Sequence[Argument], meter: Meter) -> Value:
    return json_text.load(to_text(arguments[0]()), meter)


def _described(value: Value) -> str:
    kind = kind_of(value)
    return "null" if kind is Kind.NULL else f"{'an' if kind in (Kind.ARRAY, Kind.OBJECT) else 'a'} {kind}"


_BODIES: Mapping[str, Callable[[Sequence[Argument], Meter], Value]] = {
    "case": _case,
    "contains": _contains,
    "endsWith": _ends_with,
    "format": _format,
    "fromJSON": _from_json,
    "join": _join,
    "startsWith": _starts_with,
    "toJSON": _to_json,
}
