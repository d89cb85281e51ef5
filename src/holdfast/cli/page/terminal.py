"""Output: data to stdout, everything else to stderr; colour and motion only at a terminal.

No other module of this room touches a stream (a test checks that). Text of others (models, customers) is shown without what a
terminal obeys or hides, also through a pipe, for the pipe may end at a terminal; and no line of theirs can pass for one of
ours. Never here: the words.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TextIO

from holdfast.cli.page.line_writer import LineWriter

if TYPE_CHECKING:
    from rich.console import Console

_OBEYED: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of writing round
    r"\u2028\u2029"  # further ends of lines
    r"\xad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # what is not seen
    r"\ud800-\udfff]"  # halves of characters
    # What joins and parts letters and emoji is at home between them, and hides in words of Latin letters.
    r"|(?<![\u0300-\U0010ffff])[\u200c\u200d]|[\u200c\u200d](?![\u0300-\U0010ffff])"
)
"""Characters that are shown by their numbers."""

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


def _report(dropped: int) -> str:
    return _shape(f"Lost {dropped} lines of the log: standard error was not read.")


_writer: Final = LineWriter(lambda: sys.stderr, _report)
_LEAVE_S: Final = 2.0


class _Form:
    """The form of messages: a text for people, unless a command sets another."""

    write: Callable[[str, str], str] | None = None


def write_line(line: str) -> None:
    """Write a line of the log. It may come late or be dropped, if its reader is slow; nothing is raised."""
    _writer.write(line, gathers=True)


def write_messages(form: Callable[[str, str], str]) -> None:
    """From now on have messages written as lines of the log in this form, each with its level."""
    _Form.write = staticmethod(form)


def prepare() -> None:
    """Have characters that a stream cannot show replaced, instead of failing in the middle of a sentence."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


_ERRORS: Final = 2


class _Patient(io.FileIO):
    """A stream whose reader may have left: what is not read is no error, and goes nowhere."""

    is_unread = False

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            self.is_unread = True
            return len(data)
        except OSError:
            if self.fileno() == _ERRORS:  # a full disk holds no message, and stops no run
                return len(data)
            raise


def outlive_readers() -> None:
    """Have the process go on, and end as it would, without a reader of its output: a run must not stop in the middle because a
    pager was closed. A stream without a buffer (PYTHONUNBUFFERED) gives out each line at once, as one by lines does."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 - as long as the process
            continue
        stream.flush()
        raw = io.BufferedWriter(_Patient(stream.fileno(), "w", closefd=False))
        by_lines = stream.line_buffering or stream.write_through
        patient = io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=by_lines)
        setattr(sys, name, patient)


def is_unread() -> bool:
    """True if the reader of the data has gone away, and it was the only one."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, _Patient) and raw.is_unread


def plain(text: str) -> str:
    """`text` as it may be shown: what a terminal would obey or hide is written out, and lines stay lines."""
    return text if text.isascii() and text.isprintable() else _OBEYED.sub(_written, text)


def line(text: str) -> str:
    """The same on one line."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def _written(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def set_in(text: str) -> str:
    """`text` shown, each of its lines after the first set in: the author of a part of it has begun no line of ours."""
    above = len(text) - len(text.lstrip("\n"))
    first, *others = plain(text[above:]).split("\n")
    return "\n" * above + "\n".join([first, *(o if not o or o.startswith("  ") else f"  {o}" for o in others)])


def as_json(value: Any, *, indent: int | None = None) -> str:
    """`value` as JSON that reads the same, and that a terminal only shows."""
    said = json.dumps(value, ensure_ascii=False, indent=indent)
    return said if said.isascii() and said.isprintable() else _OBEYED.sub(_numbered, said)


def _numbered(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1] if match[0] != "\x7f" else "\\u007f"


def interactive(stream: TextIO) -> bool:
    return _Form.write is None and stream.isatty() and os.environ.get("TERM") != "dumb"


def is_typed() -> bool:
    """True if the input is typed by a person, who sees the output meanwhile."""
    return sys.stdin is not None and interactive(sys.stdin)


def is_live() -> bool:
    """True if a person sees messages as they arrive."""
    return interactive(sys.stderr)


def messages() -> Console:
    """Rich, for what changes as it is looked at; on stderr."""
    return _console()(file=sys.stderr, **_manner(sys.stderr))


def data() -> Console:
    """Rich, for what has a colour; on stdout."""
    return _console()(file=sys.stdout, **_manner(sys.stdout))


def width() -> int | None:
    """The cells of a line where data go; None where that is no terminal."""
    return data().width if interactive(sys.stdout) else None


def _manner(stream: TextIO) -> dict[str, Any]:
    """Return how Rich writes to a stream that may be a terminal; elsewhere it writes plain text."""
    live = interactive(stream)
    return {"force_terminal": live, "no_color": None if live else True, "highlight": False, "emoji": False}


@cache
def _console() -> type[Console]:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class PlainConsole(Console):
        """Shows every text as `plain` does, whatever laid it out."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=plain(segment.text))

    return PlainConsole


def aside() -> AbstractContextManager[Any]:
    """Inside, what the user's own code prints goes to stderr: stdout is for the command's data."""
    return contextlib.redirect_stdout(sys.stderr)


def keep_stdout() -> Callable[[], AbstractContextManager[Any]]:
    """For what is shown while the user's own code runs: inside of what this makes, stdout is where it is now."""
    return partial(contextlib.redirect_stdout, sys.stdout)


def say(message: str) -> None:
    """A message to the person, beside the data; its further lines are set in."""
    _writer.write(_shape(message))


def say_error(message: str) -> None:
    """The same of an error that ends a command."""
    _writer.write(_shape(message, "error"))


def relay(name: str, line: str) -> None:
    """Print a line of another process of ours, behind its name unless it is one of JSON."""
    if _Form.write is not None and line.startswith("{"):
        _writer.write(line)
    else:
        say(f"[{name}] {line}")


def say_trace(text: str) -> None:
    """Print Python's traceback of an error in user code, as it is."""
    if _Form.write is not None:
        say_error(text)
        return
    sys.stderr.write(plain(text))
    sys.stderr.flush()


def _shape(message: str, level: str = "info") -> str:
    return set_in(message) if _Form.write is None else _Form.write(message, level)


def say_at_once(message: str) -> None:
    """The same in the middle of anything, a signal's handler included: past every buffer, with the cursor shown again."""
    cursor = "\r\x1b[?25h" if sys.stderr is not None and interactive(sys.stderr) else ""
    with contextlib.suppress(OSError):
        os.write(_ERRORS, f"{cursor}{_shape(message)}\n".encode(errors="backslashreplace"))


def is_agreed(question: str) -> bool:
    """Ask a person at the terminal; no, unless he says yes. Raises Abort at Ctrl-C."""
    import typer

    return typer.confirm(plain(question), err=True)


def show(words: str) -> None:
    """A line of data; its further lines are set in."""
    sys.stdout.write(set_in(words) + "\n")


def show_part(words: str) -> None:
    """A part of a line of data, its lines set in where others wrote them."""
    sys.stdout.write(plain(words))


def show_text(text: str) -> None:
    """A text that is all the data there is: its lines begin where they begin."""
    sys.stdout.write(plain(text) + "\n")


def show_styled(parts: Sequence[tuple[str, str]]) -> None:
    """A line of data from texts, each with its style. Rich is loaded for a terminal alone: nowhere else is a colour."""
    if not interactive(sys.stdout):
        show_text("".join(text for text, _ in parts).rstrip())
        return
    from rich.text import Text

    styled = Text.assemble(*parts)
    styled.rstrip()
    data().print(styled, soft_wrap=True)


def emit(value: Any) -> None:
    """Data as JSON: on one line for programs, indented for people."""
    sys.stdout.write(as_json(value, indent=2 if interactive(sys.stdout) else None) + "\n")


def emit_line(value: Any) -> None:
    """One of many, as JSON on a line of its own."""
    sys.stdout.write(as_json(value) + "\n")


def emit_error(value: Any) -> None:
    """The same on stderr."""
    sys.stderr.write(as_json(value, indent=2 if interactive(sys.stderr) else None) + "\n")


def hand_over() -> None:
    """Have what was shown so far leave this process."""
    _writer.flush(_LEAVE_S)
    sys.stdout.flush()


def sheet(pairs: Sequence[tuple[str, str]], indent: str = "") -> None:
    """Names and what stands for each, one a line; a text of several lines stands below its name."""
    named = [(line(name), plain(value)) for name, value in pairs]
    width = max((len(name) for name, _ in named), default=0)
    for name, value in named:
        if "\n" in value:
            show_text("\n".join([f"{indent}{name}", *(f"{indent}  {each}".rstrip() for each in value.split("\n"))]))
        else:
            show_text(f"{indent}{name.ljust(width)}  {value}".rstrip())
