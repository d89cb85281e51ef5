"""kill -9 of a tree of runs at points at which something lasts: between a request and a start, an end and its telling."""

from __future__ import annotations

import json
import os
from pathlib import Path

import apsw

from tests.crash import family
from tests.crash.boundary import read_trace
from tests.forks import Fork

EVERYTHING = os.environ.get("HOLDFAST_CRASH") == "all"
SHARES = 1 if EVERYTHING else 9
"""Of the points one in so many, but for `make crash`."""


def live(directory: Path, number: int, at: int | None = None) -> bool:
    """A life of the tree; whether it came to its end."""
    words = (directory, number) if at is None else (directory, number, at)
    process = Fork("tests.crash.family", *words)
    _, said = process.communicate(timeout=90)
    assert process.returncode in (0, -9), said
    return process.returncode == 0


def judge(directory: Path) -> None:
    assert json.loads((directory / family.RESULT).read_text()) == family.DONE
    done = {
        (each["what"], each["key"]) for each in map(json.loads, (directory / family.WORLD).read_text().splitlines())
    }
    assert sorted(what for what, _ in done) == sorted(family.DONE), "each was done under one key"
    db = apsw.Connection(str(directory / family.STORE), flags=apsw.SQLITE_OPEN_READONLY)
    statuses = [status for (status,) in db.execute("select status from runs")]
    told = [state for (state,) in db.execute("select state from children")]
    db.close()
    assert (statuses, told) == (["completed"] * 5, ["told"] * 4), "each child was started once, and its end was told"


def test_a_tree_killed_at_any_point_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    unbroken = tmp_path / "unbroken"
    unbroken.mkdir()
    assert live(unbroken, 1)
    judge(unbroken)
    points = len([line for line in read_trace(unbroken / "1.trace") if "n" in line])
    assert points > 40
    killed = 0
    for at in range(2, points + 1, SHARES):
        directory = tmp_path / f"killed-{at}"
        directory.mkdir()
        number = 1
        if not live(directory, number, at):
            killed += 1
            number += 1
            assert live(directory, number)
        judge(directory)
    assert killed > points / SHARES / 2, "most of them died where they were meant to"
    print(f"{killed} of {points} points")
