"""The identity of a document: two workflows are the same if they have the same content. The places of that content in the file
do not matter.

Never here: a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import FieldInfo, fields

from holdfast.actions.expressions import Condition, Expression, Template

_NOT_SAID: Final = ("at", "combinations")
"""Where it stands; and what follows from something else that is said."""

_ALWAYS_SAID: Final = frozenset(
    {"backoff", "cpu_millicores", "delay_s", "fail_fast", "gpus", "max_delay_s", "memory_mb", "times"}
)
"""What 0.1.0 wrote down also where the file says nothing of it. For its runs to keep their workflow that stays so; no name is
ever added here or taken away."""

ENTRIES: Final = "entries"
"""Of a mapping in a matrix: their order is that of its combinations, and JSON objects have none."""


def plain(part: Any) -> Any:
    """A part of a document as JSON data. What is not said is left out, so that a key which a later version adds makes no
    other workflow of a file without it."""
    match part:
        case msgspec.Struct():
            said = {field.name: getattr(part, field.name) for field in fields(part) if _is_said(field, part)}
            found = {name: plain(value) for name, value in said.items()}
            return {name: value for name, value in found.items() if value not in (None, [], {})}
        case Template():
            return "".join(each if isinstance(each, str) else plain(each) for each in part.parts)
        case Expression():
            return f"${{{{ {part.text.strip()} }}}}"
        case Condition():
            return plain(part.asked)
        case Mapping():
            return {ENTRIES: [[name, plain(value)] for name, value in part.items()]}
        case list() | tuple():
            return [plain(value) for value in part]
        case _:
            return part


def _is_said(field: FieldInfo, part: msgspec.Struct) -> bool:
    if field.name in _NOT_SAID:
        return False
    return field.name in _ALWAYS_SAID or getattr(part, field.name) != field.default
