"""The mistakes in a file, in words by which its author can correct it: a person, or a model.

Never here: a rule of the format.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

import msgspec

MAX_MISTAKES: Final = 100
"""More would not be read; those that are left show when these are mended."""

_MAX_SHOWN: Final = 12
"""How many names are listed before a mere count follows."""

_LONGEST_QUOTE: Final = 80


class Position(msgspec.Struct, frozen=True, order=True):
    """A place in a file; both count from 1, as editors do."""

    line: int
    column: int


class Mistake(msgspec.Struct, frozen=True):
    """One thing to mend: where it stands, what was found, what is allowed, and where it is short, how it is right.

    A mistake that is made again and again is one, reported at its first place.
    """

    line: int
    column: int
    path: str
    """Where it stands in the structure: `jobs.build.steps[2].run`; empty for the file itself."""
    message: str
    example: str | None = None
    """The lines as they may be written instead."""
    also: tuple[Position, ...] = ()
    """Other places with the same mistake."""

    def __str__(self) -> str:
        where = f"{self.line}:{self.column}: "
        path = f"{self.path}: " if self.path else ""
        example = "" if self.example is None else f"\n    {self.example.replace(chr(10), chr(10) + '    ')}"
        return f"{where}{path}{self.message}{self._same()}{example}"

    def _same(self) -> str:
        """` The same in lines 158, 175.`"""
        if not self.also:
            return ""
        lines = sorted({each.line for each in self.also} - {self.line})
        if not lines:
            return " The same again in this line."
        return f" The same in line{'s' if len(lines) > 1 else ''} {listed(map(str, lines))}."


class TooManyMistakes(Exception):
    """The maximum number of reported mistakes is reached; looking for more is of no use."""


class Mistakes:
    """Collects what is wrong with one file. What is alike is one mistake, at all its places."""

    def __init__(self) -> None:
        self._found: dict[str, dict[Position, Mistake]] = {}
        self.aliases: dict[str, tuple[str, Position]] = {}
        """By the path at which an alias stands for a value: its name, and its place."""

    def add(self, position: Position, path: str, message: str, example: str | None = None, kind: str = "") -> None:
        """`kind` is the same for mistakes that are alike though their words differ.

        Raises TooManyMistakes behind the hundredth, so that a file of nothing else is not read to its end.
        """
        key = path.rpartition(".")[2].partition("[")[0]
        alike = self._found.setdefault(kind or f"{key}\0{message}\0{example}", {})
        if position not in alike:
            alike[position] = Mistake(position.line, position.column, path, message + self._by_alias(path), example)
        if len(self._found) >= MAX_MISTAKES:
            raise TooManyMistakes

    def _by_alias(self, path: str) -> str:
        """` '*env' in line 12 takes it there.`, if what is wrong stands at its path by an alias."""
        for end in (*(found.start() for found in re.finditer(r"[.\[]", path)), len(path)) if self.aliases else ():
            if (alias := self.aliases.get(path[:end])) is not None:
                return f" It is there by {quoted(f'*{alias[0]}')} in line {alias[1].line}."
        return ""

    def __bool__(self) -> bool:
        return bool(self._found)

    def sorted(self) -> tuple[Mistake, ...]:
        """In the order of the file, each at the first of its places."""
        found = []
        for alike in self._found.values():
            first, *others = sorted(alike)
            found.append(msgspec.structs.replace(alike[first], also=tuple(others)))
        return tuple(sorted(found, key=lambda mistake: (mistake.line, mistake.column)))


def quoted(text: str) -> str:
    """Return the text that was found, in quotes, in one line, cut if it is long."""
    cut = text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
    return repr(cut)


def listed(names: Iterable[str]) -> str:
    """Names in a row, with a count where there are many."""
    known = list(names)
    rest = len(known) - _MAX_SHOWN
    return ", ".join(known[:_MAX_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def suggestion(word: str, candidates: Iterable[str]) -> str:
    """` Did you mean 'steps'?`, or nothing where no known name is near."""
    names = {name.lower(): name for name in candidates}
    # Longer ones are no slip of the finger, and comparing them takes time.
    near = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.6) if len(word) <= _LONGEST_QUOTE else []
    return f" Did you mean {names[near[0]]!r}?" if near else ""
