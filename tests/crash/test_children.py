"""kill -9 of a tree of runs at points at which something lasts: between a request and a start, an end and its telling."""

from __future__ import annotations

import json
import os
from pathlib import Path

import apsw
import pytest

from tests.crash import family
from tests.crash.boundary import read_trace
from tests.forks import Fork

EVERYTHING = os.environ.get("HOLDFAST_CRASH") == "all"
SHARES = 1 if EVERYTHING else 9
"""Of the points one in so many, but for `make crash`."""


def live(directory: Path, flow: str, number: int, at: int | None = None) -> bool:
    """A life of the tree; whether it came to its end."""
    words = (directory, flow, number) if at is None else (directory, flow, number, at)
    process = Fork("tests.crash.family", *words)
    _, said = process.communicate(timeout=90)
    assert process.returncode in (0, -9), said
    return process.returncode == 0


def judge(directory: Path, flow: str) -> None:
    done = family.DONE[flow]
    result = json.loads((directory / family.RESULT).read_text())
    said = [json.loads(line) for line in (directory / family.WORLD).read_text().splitlines()]
    known = list(dict.fromkeys((each["what"], each["key"]) for each in said))
    db = apsw.Connection(str(directory / family.STORE), flags=apsw.SQLITE_OPEN_READONLY)
    statuses = [status for (status,) in db.execute("select status from runs order by run")]
    told = [state for (state,) in db.execute("select state from children")]
    db.close()
    if flow == "root":
        assert result == done
        assert sorted(what for what, _ in known) == sorted(done), "each was done under one key"
        assert statuses == ["completed"] * 5
    else:
        assert "all for nothing" in result
        undone = [f"undo {what}" for what in reversed(done)]
        assert [what for what, _ in known] == done + undone, "each was undone under one key, the latest first"
        assert statuses == ["failed", "cancelled", "cancelled"]
    assert told == ["told"] * (len(statuses) - 1), "each child was started once, and its end was told"


@pytest.mark.parametrize("flow", ["root", "regret"])
def test_a_tree_killed_at_any_point_ends_as_if_nothing_had_been(tmp_path: Path, flow: str) -> None:
    unbroken = tmp_path / "unbroken"
    unbroken.mkdir()
    assert live(unbroken, flow, 1)
    judge(unbroken, flow)
    points = len([line for line in read_trace(unbroken / "1.trace") if "n" in line])
    assert points > 40
    killed = 0
    for at in range(2, points + 1, SHARES):
        directory = tmp_path / f"killed-{at}"
        directory.mkdir()
        number = 1
        if not live(directory, flow, number, at):
            killed += 1
            number += 1
            assert live(directory, flow, number)
        judge(directory, flow)
    assert killed > points / SHARES / 2, "most of them died where they were meant to"
    print(f"{killed} of {points} points")
