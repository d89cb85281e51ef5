"""The ids of runs, gates, calls and dead letters as users give them: texts, never the row or handle that has the id.

Never here: whether such a thing exists.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.values.ids import CallId, GateId, RunId
from holdfast.errors import InvalidInput
from holdfast.ports import Letter

DEFAULT_TENANT: Final = "default"
"""The tenant of what is named without one."""
_FIELDS: Final = {"run": ("id", "run"), "gate": ("gate",), "call": ("call",), "dead letter": ("id", "letter")}
"""The attributes in which rows and handles have the id of their subject."""


def run_named(text: str) -> RunId:
    """Return the id of a run. Raises InvalidInput for what is no text."""
    return RunId(_text("run", text))


def gate_named(text: str) -> GateId:
    """Return the id of a gate. Raises InvalidInput for what is no text."""
    return GateId(_text("gate", text))


def call_named(text: str) -> CallId:
    """Return the id of a call. Raises InvalidInput for what is no text."""
    return CallId(_text("call", text))


def letter_named(letter: str | Letter) -> str:
    """Return the id of a dead letter, or of the run of one. Raises InvalidInput for what is neither a text nor a Letter."""
    return letter.id if isinstance(letter, Letter) else _text("dead letter", letter)


def _text(noun: str, value: object) -> str:
    if isinstance(value, str):
        return value
    row = value[0] if isinstance(value, tuple) and value and not hasattr(value, "_fields") else value
    found = next((name for name in _FIELDS[noun] if isinstance(getattr(row, name, None), str)), None)
    place = "[0]" if row is not value else ""
    instead = f", like {place}.{found} of what was given" if found is not None else ""
    raise InvalidInput(f"Name the {noun} by its id, a text{instead}: {type(row).__name__} is none. Nothing was done.")
