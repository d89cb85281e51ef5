"""kill -9 of who fires schedules, at points at which something lasts: each time has one run, and none is forgotten."""

from __future__ import annotations

import os
import time
from itertools import takewhile
from pathlib import Path

import apsw

from holdfast.core.schedules import nominal_times, stamp
from holdfast.stores.row import decode_schedule
from tests.crash import nightly
from tests.crash.boundary import read_trace
from tests.forks import Fork

EVERYTHING = os.environ.get("HOLDFAST_CRASH") == "all"
SHARES = 1 if EVERYTHING else 7
"""Of the points one in so many, but for `make crash`."""


def live(directory: Path, number: int, at: int | None = None) -> bool:
    """A life of it; whether it came to its end."""
    words = (directory, number) if at is None else (directory, number, at)
    process = Fork("tests.crash.nightly", *words)
    _, said = process.communicate(timeout=90)
    assert process.returncode in (0, -9), said
    return process.returncode == 0


def judge(directory: Path) -> None:
    db = apsw.Connection(str(directory / nightly.STORE), flags=apsw.SQLITE_OPEN_READONLY)
    runs = sorted(db.execute("select start_key, status from runs"))
    schedules = [decode_schedule(body) for (body,) in db.execute("select body from schedules")]
    db.close()
    expected: list[str] = []
    for schedule in schedules:
        now_ms = time.time_ns() // 1_000_000
        times = [*takewhile(now_ms.__gt__, nominal_times(schedule, now_ms - nightly.AWAY_S * 1000))]
        assert len(times) >= 6
        fired = times if schedule.overlap == "allow" else times[-1:]
        assert (schedule.pending, schedule.problem, schedule.fired) == ((), None, len(fired))
        expected += [f"schedule/{schedule.name}/{stamp(at_ms)}" for at_ms in fired]
    assert runs == [(key, "completed") for key in sorted(expected)], "each time has one run"


def test_who_fires_and_is_killed_at_any_point_starts_each_time_once(tmp_path: Path) -> None:
    unbroken = tmp_path / "unbroken"
    unbroken.mkdir()
    assert live(unbroken, 1)
    judge(unbroken)
    trace = [line for line in read_trace(unbroken / "1.trace") if "n" in line]
    first = next(line["n"] for line in trace if "before commit of schedules" in line["kinds"])
    killed = 0
    points = range(first, len(trace) + 1, SHARES)
    for at in points:
        directory = tmp_path / f"killed-{at}"
        directory.mkdir()
        number = 1
        if not live(directory, number, at):
            killed += 1
            number += 1
            assert live(directory, number)
        judge(directory)
    assert killed > len(points) / 2, "most of them died where they were meant to"
    print(f"{killed} of {len(trace)} points")
