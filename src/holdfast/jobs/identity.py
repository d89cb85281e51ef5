"""What of a document makes two workflows the same: everything that it says, and not where in the file it says it.

Never here: a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.authoring.yaml.expressions import Condition, Expression, Template

_NOT_SAID: Final = ("at", "combinations")
"""Where it stands; and what follows from something else that is said."""

ENTRIES: Final = "entries"
"""Of a mapping in a matrix: their order is that of its combinations, and JSON objects have none."""


def plain(part: Any) -> Any:
    """A part of a document as JSON data. What is not said is left out, so that a key which a later version adds makes no
    other workflow of a file without it."""
    match part:
        case msgspec.Struct():
            found = {name: plain(getattr(part, name)) for name in part.__struct_fields__ if name not in _NOT_SAID}
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
