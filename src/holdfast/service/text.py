"""The texts of callers, checked: names without the character NUL, which no store keeps; JSON as data, up to a bound, for
two bytes of text may be an object in memory. To count takes no longer than to decode what may come in: it goes on in the event
loop, where a caller's share of the time is kept.

Never here: what the data is for, how long a name may be (control.naming).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidInput
from holdfast.service.declarations.command import Say
from holdfast.service.declarations.declaration import Command, Query
from holdfast.service.principal import Principal


def expect_storable(message: Command | Query, principal: Principal) -> None:
    """Raises InvalidInput for a text with the character NUL, in a field of `message` or in what the caller says of
    themselves."""
    said = [(name, getattr(message, name)) for name in _checked(type(message))]
    for name, value in [*said, ("by", principal.name), ("roles", principal.roles)]:
        if _has_nul(value):
            problem = InvalidInput(
                f"The field {name!r} holds the character NUL, which no store keeps in a name. Nothing was done."
            )
            problem.field = name
            raise problem


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, msgspec.Struct):
        return any(_has_nul(getattr(value, name)) for name in _checked(type(value)))
    if isinstance(value, Mapping):
        return any(map(_has_nul, value)) or any(map(_has_nul, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_nul, value))


@cache
def _checked(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields that hold no data of any shape."""
    fields = (each.name for each in msgspec.structs.fields(kind) if "typing.Any" not in str(each.type))
    return tuple(name for name in fields if (kind, name) != _MESSAGE)


_MESSAGE: Final = (Say, "text")
"""The message to an agent is data."""


MAX_ITEMS: Final = 200_000
"""Maximum number of lists, objects and items: with so many in memory no other caller waits for a tenth of a second."""
_MAX_QUOTES: Final = 4 * MAX_ITEMS + 2
"""No text with more has few enough values: an object has two strings for each."""


def decoded(text: str, name: str) -> Any:
    """The value; None of an empty text. Raises InvalidInput, in which `name` names the text."""
    if not text:
        return None
    # As many as there can be; where that is too many, some may stand in strings.
    if _separators(text) > MAX_ITEMS and _has_too_many(text):
        raise InvalidInput(
            f"The {name} has more than {MAX_ITEMS:,} values. Nothing was done: hand over where the data is instead."
        )
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as problem:
        if half := _HALF.search(_WHOLE.sub("", text)):
            raise InvalidInput(f"The {name} is not Unicode text: {half[0]} is half of a character. Nothing was done.") from None
        raise InvalidInput(f"The {name} is no JSON: {problem}. Nothing was done.") from None


_WHOLE: Final = re.compile(r"\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}", re.IGNORECASE)
_HALF: Final = re.compile(r"\\ud[89a-f][0-9a-f]{2}", re.IGNORECASE)
"""Escapes in JSON: of a backslash or of both halves of a character (a surrogate pair); of one half."""


def _separators(text: str) -> int:
    return sum(map(text.count, "[{,"))


def _has_too_many(text: str) -> bool:
    if "\\" in text:  # a quote behind an odd number of them ends no string
        text = text.replace("\\\\", "").replace('\\"', "")
    if text.count('"') > _MAX_QUOTES:
        return True
    return _separators("".join(text.split('"')[::2])) > MAX_ITEMS
