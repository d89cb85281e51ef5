"""The title of a gate: the line by which a person recognises it in a list.

It stands beside the gate in the store, so that a list reads no histories. Never here: what a gate shows (service.gate).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from holdfast.core.facts.events import GateOpened
from holdfast.core.facts.state import TOOL_APPROVAL
from holdfast.core.rules.questions import EFFECT_UNKNOWN
from holdfast.core.values.payload import SEALED, Payload

MAX_TITLE: Final = 200
"""Characters of a title: it is a line of a list."""
_MAX_VALUE: Final = 60
"""Characters of an argument in it."""
_NAMES: Final = ("question", "title", "subject", "summary")
"""Fields of what a gate shows that say what it is about, the first of them that has a text."""


def title_of(opened: GateOpened) -> str | None:
    """Return the title of a gate; None if nothing short in it says what it is about."""
    if opened.proposed_action is not None and opened.reason != TOOL_APPROVAL:
        return _line(opened.proposed_action)
    shown = _inline(opened.shown)
    if isinstance(shown, str):
        return _line(shown)
    if not isinstance(shown, Mapping):
        return None
    tool = shown.get("tool")
    if isinstance(tool, str) and opened.reason == TOOL_APPROVAL:
        return _line(f"{tool}({', '.join(_arguments(_inline(opened.filled)))})")
    if isinstance(tool, str) and opened.reason == EFFECT_UNKNOWN:
        return _line(f"Did {tool}({', '.join(_arguments(shown.get('request')))}) take effect?")
    return next((_line(text) for name in _NAMES if isinstance(text := shown.get(name), str) and _is_open(text)), None)


def _arguments(values: Any) -> Iterator[str]:
    """Yield the arguments of a call, each in a few characters."""
    for name, value in values.items() if isinstance(values, Mapping) else ():
        text = "…" if isinstance(value, str) and not _is_open(value) else msgspec.json.encode(value).decode()
        yield f"{name}={_cut(text, _MAX_VALUE)}"


def _is_open(text: str) -> bool:
    """True if a text says something to people, as one that is sealed does not."""
    return bool(text.strip()) and not text.startswith(SEALED)


def _inline(payload: Payload) -> Any:
    return None if payload.blob is not None else payload.value()


def _line(text: str) -> str:
    return _cut(" ".join(text.split()), MAX_TITLE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
