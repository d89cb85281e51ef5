"""Kills a program at one point after another at which something lasts, lets it live again, and has each end judged.

A program is called with the words of its case, the number of its life, and the point at which it is to die
(`python -m tests.crash.PROGRAM …`); what it crosses it writes down (boundary). Never here: what an end must be like.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import apsw

from tests.crash.boundary import Boundaries, CountedConnection, count_commits_of_postgres, read_trace
from tests.forks import Fork

EVERYTHING: Final = os.environ.get("HOLDFAST_CRASH") == "all"
_PATIENCE_S: Final = 90

Words = Sequence[object]
Lent = Callable[[Path], AbstractContextManager[Words]]
"""The words with which the program of a case is called, which has a directory of its own, for as long as they hold."""


def its_directory(directory: Path) -> AbstractContextManager[Words]:
    return nullcontext((directory,))


def killed_everywhere(
    program: str,
    tmp_path: Path,
    judge: Callable[..., None],
    *,
    shares: int,
    since: str | None = None,
    lent: Lent = its_directory,
) -> None:
    """Have `judge` look at each end, with the words of its case. Of the points one in `shares` is tried, but for `make crash`, and
    none before the first of the kind `since`."""

    def lived(words: Words, number: int, *at: int) -> bool:
        """A life of the program; whether it came to its end."""
        process = Fork(f"tests.crash.{program}", *words, number, *at)
        _, said = process.communicate(timeout=_PATIENCE_S)
        assert process.returncode in (0, -9), said
        return process.returncode == 0

    unbroken = tmp_path / "unbroken"
    unbroken.mkdir()
    with lent(unbroken) as words:
        assert lived(words, 1)
        judge(*words)
    trace = [line for line in read_trace(unbroken / "1.trace") if "n" in line]
    first = 2 if since is None else next(line["n"] for line in trace if since in line["kinds"])
    tried = range(2, len(trace) + 1) if EVERYTHING else range(first, len(trace) + 1, shares)
    killed = 0
    for at in tried:
        directory = tmp_path / f"killed-{at}"
        directory.mkdir()
        with lent(directory) as words:
            if not lived(words, 1, at):
                killed += 1
                assert lived(words, 2)
            judge(*words)
    assert killed > len(tried) / 2, "most of them died where they were meant to"
    print(f"{killed} of {len(trace)} points")


def dies_at(directory: Path, life: str, *at: str) -> None:
    """Called by a program when it begins: what it crosses is written down, and at the point `at` it kills itself."""
    counted: Any = CountedConnection
    counted.boundaries = Boundaries(directory / f"{life}.trace", at=int(*at) if at else None)
    apsw.Connection = counted
    count_commits_of_postgres(counted.boundaries)
