"""Typed input, read: JSON, and the actor.

Never here: whether it fits (the engine checks that).
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.cli import variable
from holdfast.core.values.trace import trace_context_of
from holdfast.errors import UsageError
from holdfast.service.principal import Principal

_PLACEHOLDER: Final = re.compile(r'"\.{3,}"')
"""A text of dots alone, as examples of data have it."""


def json_value(text: str, option: str) -> Any:
    """Return the value of `option`: JSON, `@FILE` of it, or `@-` for stdin. Raises UsageError, also for the placeholder of an
    example."""
    source = option
    if text.startswith("@"):
        source = {"@-": "stdin", "@": "'@', which names no file,"}.get(text, text[1:])
        text = _content(source, text[1:])
    elif (placeholder := _PLACEHOLDER.search(text)) is not None:
        raise UsageError(
            f"{option} has the placeholder {placeholder[0]}: write your own text in its place. If you mean these dots, pass"
            " @FILE. Nothing was done."
        )
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as problem:
        hint = " A text needs its quotes: '\"text\"'." if text[:1].isalpha() else ""
        raise UsageError(f"{source} is not JSON: {problem}.{hint} Nothing was done.") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def _content(source: str, place: str) -> str:
    try:
        return _stdin() if place == "-" else Path(place).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else f"it is not UTF-8 text ({problem})"
        raise UsageError(f"{source} cannot be read: {why}. Nothing was done.") from None


def _stdin() -> str:
    """Raises OSError, and UnicodeDecodeError whatever the locale would make of it."""
    if sys.stdin is None:
        raise OSError(errno.EBADF, "it is closed")
    raw = getattr(sys.stdin, "buffer", None)
    return sys.stdin.read() if raw is None else str(raw.read().decode("utf-8-sig"))


def resolve_actor(named: str | None, roles: Sequence[str] | None = None) -> Principal:
    """Return the actor: as named, else HOLDFAST_USER, else the system's user, who is recorded besides; in the trace that
    TRACEPARENT names, as CI systems set it."""
    user = _system_user()
    name, trace = named or os.environ.get(variable.USER) or user, trace_context_of(os.environ.get(variable.TRACE))
    acting = Principal(name, roles=tuple(roles or ()), os_user=user)
    return acting if trace is None else acting._replace(trace_id=trace.trace_id, traceparent=trace.traceparent)


def _system_user() -> str:
    """Return the system's user by the process's own uid: LOGNAME and USER can be set to anything."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except (KeyError, OSError):  # a container whose user has no name
        return f"uid-{os.getuid()}"
