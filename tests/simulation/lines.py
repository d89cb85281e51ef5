"""Which lines of the engine ran: a simulation that never goes somewhere proves nothing about it.

Never here: judging; it only counts.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import holdfast.engine

ENGINE: Final = Path(holdfast.engine.__file__ or "").parent


@contextmanager
def watched() -> Iterator[dict[str, set[int]]]:
    """The lines of each module of the engine that run inside, by file. Several times slower than not to look."""
    ran: dict[str, set[int]] = {}

    def enter(frame: types.FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        file = frame.f_code.co_filename
        if not file.startswith(str(ENGINE)):
            return None
        lines = ran.setdefault(Path(file).name, set())

        def line(frame: types.FrameType, event: str, _: Any) -> Any:
            lines.add(frame.f_lineno)
            return line

        return line

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield ran
    finally:
        sys.settrace(before)


def executable() -> dict[str, set[int]]:
    """The lines of each module of the engine that could run in a function."""
    return {file.name: set(_lines(compile(file.read_text(), str(file), "exec"))) for file in sorted(ENGINE.glob("*.py"))}


def _lines(code: types.CodeType) -> Iterator[int]:
    for inner in code.co_consts:
        if not isinstance(inner, types.CodeType):
            continue
        if inner.co_flags & 0x2:  # a function's (CO_NEWLOCALS); what a class or a module says runs at its import
            first = inner.co_firstlineno
            yield from (line for _, _, line in inner.co_lines() if line is not None and line > first)
        yield from _lines(inner)


def told(ran: dict[str, set[int]]) -> Iterator[str]:
    """How much of the engine ran, and which lines did not."""
    every = executable()
    seen = {file: lines & ran.get(file, set()) for file, lines in every.items()}
    total, run = sum(map(len, every.values())), sum(map(len, seen.values()))
    yield f"{run} of {total} lines of the engine ran ({run / total:.0%})"
    for file, lines in every.items():
        missing = sorted(lines - seen[file])
        if missing:
            yield f"  {file}: {len(seen[file])} of {len(lines)}; not {', '.join(map(str, missing))}"
