"""kill -9 of who fires schedules, at points at which something lasts: each time has one run, and none is forgotten."""

from __future__ import annotations

import time
from itertools import takewhile
from pathlib import Path

import apsw
import msgspec

from holdfast.core.nouns.schedules import Schedule, nominal_times, stamp
from tests.crash import nightly
from tests.crash.killing import killed_everywhere


def judge(directory: Path) -> None:
    db = apsw.Connection(str(directory / nightly.STORE), flags=apsw.SQLITE_OPEN_READONLY)
    runs = sorted(db.execute("select start_key, status from runs"))
    schedules = [
        msgspec.json.decode(body, type=Schedule) for (body,) in db.execute("select body from records where kind = 'schedule'")
    ]
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
    killed_everywhere("nightly", tmp_path, judge, shares=13, since="before commit of records")
