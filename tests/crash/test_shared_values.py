"""kill -9 of runs that share values, at points at which something lasts: each write happens once, with the event that says so."""

from __future__ import annotations

import json
from pathlib import Path

import apsw

from tests.crash import sharers
from tests.crash.killing import killed_everywhere


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
    killed_everywhere("sharers", tmp_path, judge, shares=23)
