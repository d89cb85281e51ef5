"""The character NUL in what a caller says: no store keeps it in a name, and none is asked about one that has it.

Never here: data of any shape, which payloads encode; how long a name may be (control.naming).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidInput
from holdfast.service.declarations.command import Say
from holdfast.service.declarations.declaration import Command, Query
from holdfast.service.principal import Principal


def expect_storable(asked: Command | Query, who: Principal) -> None:
    """Raises InvalidInput for a text with the character NUL, in a field of `asked` or in what the caller says of themselves."""
    said = [(name, getattr(asked, name)) for name in _checked(type(asked))]
    for name, value in [*said, ("by", who.name), ("roles", who.roles)]:
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
"""What somebody says to an agent is data."""
