"""kill -9 of runs that share values, at points at which something lasts: each write happens once, with the event that says so."""

from __future__ import annotations

import json
import os
from pathlib import Path

import apsw

from tests.crash import sharers
from tests.crash.boundary import read_trace
from tests.forks import Fork

EVERYTHING = os.environ.get("HOLDFAST_CRASH") == "all"
SHARES = 1 if EVERYTHING else 11
"""Of the points one in so many, but for `make crash`."""


def live(directory: Path, number: int, at: int | None = None) -> bool:
    """A life; whether it came to its end."""
    words = (directory, number) if at is None else (directory, number, at)
    process = Fork("tests.crash.sharers", *words)
    _, said = process.communicate(timeout=90)
    assert process.returncode in (0, -9), said
    return process.returncode == 0


def judge(directory: Path) -> None:
    assert json.loads((directory / sharers.RESULT).read_text()) == sharers.DONE
    db = apsw.Connection(str(directory / sharers.STORE), flags=apsw.SQLITE_OPEN_READONLY)
    written = [json.loads(body) for (body,) in db.execute("select body from shared_values order by version")]
    said = db.execute("select count(*) from events where type = 'SharedValueWritten'").get
    waits = db.execute("select count(*) from shared_waits").get
    db.close()
    assert [(each["version"], each["value"]) for each in written] == [(n, n) for n in range(1, 5)]
    assert (said, waits) == (4, 0), "each write stands in a history, and nobody waits any more"


def test_what_runs_share_killed_at_any_point_is_as_if_nothing_had_been(tmp_path: Path) -> None:
    unbroken = tmp_path / "unbroken"
    unbroken.mkdir()
    assert live(unbroken, 1)
    judge(unbroken)
    points = len([line for line in read_trace(unbroken / "1.trace") if "n" in line])
    assert points > 30
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
    assert killed, "some of them died where they were meant to"
    print(f"{killed} of {points} points")
