"""Scores: what people and code say a run was worth, and which of them count.

Never here: a run's history (a score is no event of it, and may come long after its end), where they are kept (ports.score).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

Source: TypeAlias = Literal["person", "code"]

MAX_OF_A_RUN: Final = 100
"""Scores that a run may be given in all, those counted in whose place others came."""
MAX_COMMENT_BYTES: Final = 4096
MAX_VALUE: Final = 1e15
"""Above and below zero: of any number of such values there is a mean."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)


class Score(NamedTuple):
    """A score of a run: a number up to MAX_VALUE, on a scale that its author chooses."""

    name: str
    """What it is about: `helpful`."""
    value: float
    by: str
    """Who said it: a person, or what a piece of code calls itself. Nothing verifies it."""
    source: Source
    comment: str
    at_ms: int
    os_user: str = ""
    client: str = ""
    """As in core.values.claim."""


class ScoreMean(NamedTuple):
    """The mean score of the runs of a version of a workflow, by the scores of one name that count."""

    workflow: str
    version: int
    name: str
    scores: int
    mean: float
    newest_at_ms: int


def counting(scores: Sequence[Score]) -> list[Score]:
    """Of scores in the order in which they were given, the latest of each name and giver; by name, then by giver."""
    latest = {(each.name, each.by): each for each in scores}
    return [latest[key] for key in sorted(latest)]


def number(value: object) -> float | None:
    """The number that a value is, true being 1 and false 0; None where it is none that can be compared and added up."""
    return float(value) if isinstance(value, int | float) and abs(value) <= MAX_VALUE else None


def problem(name: str, comment: str) -> str | None:
    """Return the problem of a score's name or comment, as the beginning of a sentence; None if there is none."""
    if _NAME.fullmatch(name) is None:
        return (
            f"The name {name!r:.80} is none for a score: it begins with a letter and has up to 64 letters, digits, '_', '.'"
            " and '-'"
        )
    try:
        size = len(comment.encode())
    except UnicodeEncodeError:
        return "The comment is not valid Unicode text"
    if "\0" in comment:
        return "The comment holds the character NUL, which no store keeps in a text"
    if size > MAX_COMMENT_BYTES:
        return f"The comment has {size} bytes; it may have {MAX_COMMENT_BYTES:,}"
    return None
