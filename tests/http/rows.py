"""What each route answers with, and how one looks whether it does. Nothing here decides what is right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, get_args, is_typeddict

import msgspec

from holdfast.core.facts.events import AnyEvent
from holdfast.http.route import ROUTES
from holdfast.service import view
from holdfast.service.handler import rows_of

ROWS: Final = {
    **{f"{each.method} {each.path}": kinds for each in ROUTES if (kinds := rows_of(each.what))},
    "GET /me": (view.CallerRow,),
    "POST /session": (view.CallerRow,),
    "GET /sign-in": (view.SignInRow,),
    "DELETE /session": (view.SignedOutRow,),
    "POST /links/{token}": (view.LinkUsedRow,),
}
"""By the method and the path of the route; of a list, what each of its rows is."""

_SHAPES: Final = {each: re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(each))) for each in ROWS}
_OPEN: Final = (view.EventRow, view.TailRow)
"""Rows that have the fields of their events besides their own keys."""
_EVENTS: Final = {kind.__name__: kind for kind in get_args(AnyEvent)}


def row_types() -> Iterator[Any]:
    """Yield each type of a row that the room of views exports."""
    yield from (each for name in view.__all__ if is_typeddict(each := getattr(view, name)))


def kinds_of(method: str, path: str) -> tuple[type, ...]:
    """Return what a route may answer with, by its path as it was sent, without the base; nothing where it answers no row."""
    return next((ROWS[each] for each in ROWS if _SHAPES[each].fullmatch(f"{method} {path}")), ())


def check(method: str, path: str, answer: Any, *, is_end: bool = False) -> None:
    """Check the rows that a route has answered with, or with what its stream ends. Raise AssertionError for one that its type
    does not describe."""
    if kinds := (view.RunStatusRow,) if is_end else kinds_of(method, path):
        for row in answer["rows"] if isinstance(answer, dict) and answer.keys() == {"rows", "cursor"} else [answer]:
            problems = [problem for kind in kinds if (problem := problem_of(row, kind))]
            assert len(problems) < len(kinds), f"{method} {path} answers with {row}: {problems}"


def problem_of(row: Any, kind: Any) -> str:
    """Return why a row is not of a type: a key is missing, is too much, or has a value of another type. Empty if it is."""
    try:
        known = msgspec.convert(row, kind, strict=True)
    except msgspec.ValidationError as problem:
        return f"{kind.__name__}: {problem}"
    if kind in _OPEN:
        row = {name: value for name, value in row.items() if name not in fields_of(row["type"])}
        known = {name: value for name, value in known.items() if name in row}
    return "" if known == row else f"{kind.__name__} has no more than {known}"


def fields_of(event: str) -> set[str]:
    """Return under which names a row of an event shows its fields."""
    fields = _EVENTS[event].__struct_fields__
    return {view.SHOWN_AS.get(event, {}).get(each, each) for each in fields} | {*fields}
