"""Places in the user's own code: the line that runs, and the line at which a coroutine waits.

Never here: the places of an exception that was raised (authoring.trace).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from holdfast.authoring import trace

_MAX_NAMED: Final = 3
_WAITS_FOR: Final = ("cr_await", "gi_yieldfrom", "ag_await")
_FRAMES: Final = ("cr_frame", "gi_frame", "ag_frame")


def running(below: CodeType | None = None) -> str | None:
    """Return the user's line that runs, as `buy.py:12 in pay`: the innermost of this thread's, called by `below`."""
    found = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not below:
        found = found or _line(frame)
        frame = frame.f_back
    return found if frame is not None or below is None else None


def first_of(frames: Iterable[FrameType]) -> str | None:
    """Return the first line of the user's own among these frames."""
    return next((line for frame in frames if (line := _line(frame)) is not None), None)


def waiting(coroutines: Iterable[Any]) -> str | None:
    """Return the user's lines at which these coroutines wait, three at most."""
    lines = dict.fromkeys(line for each in coroutines if (line := _waits_at(each)) is not None)
    more = f", and {len(lines) - _MAX_NAMED} more" if len(lines) > _MAX_NAMED else ""
    return ", ".join([*lines][:_MAX_NAMED]) + more if lines else None


def _waits_at(coroutine: Any) -> str | None:
    found = None
    while coroutine is not None:
        for name in _FRAMES:
            if isinstance(frame := getattr(coroutine, name, None), FrameType):
                found = _line(frame) or found
        coroutine = next((inner for name in _WAITS_FOR if (inner := getattr(coroutine, name, None)) is not None), None)
    return found


def _line(frame: FrameType) -> str | None:
    code = frame.f_code
    if not trace.is_theirs(code.co_filename):
        return None
    return f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}"
