"""Goes through all that an event holds, for those who keep it with other data in it. Never here: what takes whose place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.values.payload import Payload

Leaf = Callable[[str, Any], Any]
E = TypeVar("E", bound=ev.Event)
_PLAIN: Final = "value"
"""The one field that has data as it is."""


def rewrite(event: E, leaf: Leaf) -> E:
    """The event with whatever `leaf` says in the place of each text, payload and plain data, by the name of its field."""
    changed: E = _inner("", event, leaf)
    return changed


def _inner(name: str, value: Any, leaf: Leaf) -> Any:
    if isinstance(value, Payload | str) or name == _PLAIN:
        return leaf(name, value)
    if isinstance(value, msgspec.Struct):
        fields = {each: getattr(value, each) for each in value.__struct_fields__}
        changed = {each: new for each, old in fields.items() if (new := _inner(each, old, leaf)) is not old}
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, dict):
        return {key: _inner(name, each, leaf) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(_inner(name, each, leaf) for each in value)
    return value
