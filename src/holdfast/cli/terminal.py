"""Where words go: data to stdout, everything else to stderr; colour and motion only at a terminal.

Never here: what is said. Whatever others wrote (models, customers) is shown without its control characters: a terminal
obeys them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from rich.console import Console

_KEPT: Final = frozenset("\n\t\u200c\u200d")  # the last two join and part letters and emoji

STYLES: Final = {
    "completed": "green",
    "running": "cyan",
    "waiting": "yellow",
    "requires_attention": "bold magenta",
    "budget_blocked": "bold yellow",
    "paused": "blue",
    "failed": "bold red",
    "cancelled": "dim",
    "open": "yellow",
    "escalated": "bold magenta",
    "in_doubt": "bold magenta",
}
"""How a status is coloured, wherever it is shown."""


def prepare() -> None:
    """Have characters that a stream cannot show replaced, instead of failing in the middle of a sentence."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


class _Patient(io.FileIO):
    """A stream whose reader may have had enough: what nobody reads is no error, and goes nowhere."""

    is_unread = False

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            self.is_unread = True
            return len(data)


def outlive_readers() -> None:
    """Have the process go on, and end as it would, when nobody reads its output any more, or nobody ever did: a run must
    not stop in the middle because a pager was closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 - as long as the process
            continue
        stream.flush()
        raw = io.BufferedWriter(_Patient(stream.fileno(), "w", closefd=False))
        patient = io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=stream.line_buffering)
        setattr(sys, name, patient)


def is_unread() -> bool:
    """Whether whoever read the data has gone away, for what is done for him alone."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, _Patient) and raw.is_unread


def plain(text: str) -> str:
    """`text` with control characters written out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _KEPT else c.encode("unicode_escape").decode() for c in text)


def interactive(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def console(stream: TextIO) -> Console:
    """Rich, for a stream that may be a terminal; what it is told elsewhere comes out as plain text."""
    from rich.console import Console

    live = interactive(stream)
    return Console(file=stream, force_terminal=live, no_color=None if live else True, highlight=False, emoji=False)


def aside() -> AbstractContextManager[Any]:
    """Inside, what the user's own code prints goes to stderr: stdout is for the command's data."""
    return contextlib.redirect_stdout(sys.stderr)


def say(message: str) -> None:
    """A message to the person, beside the data."""
    sys.stderr.write(plain(message) + "\n")
    sys.stderr.flush()


def say_at_once(message: str) -> None:
    """The same in the middle of anything, a signal's handler included: past every buffer, with the cursor shown again."""
    cursor = "\r\x1b[?25h" if sys.stderr is not None and interactive(sys.stderr) else ""
    with contextlib.suppress(OSError):
        os.write(2, f"{cursor}{plain(message)}\n".encode(errors="backslashreplace"))


def show(text: str) -> None:
    """Data as text."""
    sys.stdout.write(plain(text) + "\n")


def emit(value: Any, stream: TextIO | None = None) -> None:
    """Data as JSON: on one line for programs, indented for people."""
    stream = stream if stream is not None else sys.stdout
    stream.write(json.dumps(value, ensure_ascii=False, indent=2 if interactive(stream) else None) + "\n")


def sheet(pairs: Sequence[tuple[str, str]], indent: str = "") -> None:
    """Names and what stands for each, one a line; a text of several lines stands below its name."""
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        if "\n" in value:
            show("\n".join([f"{indent}{name}", *(f"{indent}  {line}".rstrip() for line in value.split("\n"))]))
        else:
            show(f"{indent}{name.ljust(width)}  {value}".rstrip())
