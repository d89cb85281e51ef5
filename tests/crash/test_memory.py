"""kill -9 of a run that remembers, at points at which something lasts: each memory is kept once, and each use counted once."""

from __future__ import annotations

import json
from pathlib import Path

import apsw

from tests.crash import rememberer
from tests.crash.killing import killed_everywhere


def judge(directory: Path) -> None:
    assert json.loads((directory / rememberer.RESULT).read_text()) == rememberer.DONE
    db = apsw.Connection(str(directory / rememberer.STORE), flags=apsw.SQLITE_OPEN_READONLY)
    kept = [json.loads(body)["value"]["text"] for (body,) in db.execute("select body from shared_values")]
    uses = db.execute("select uses from shared_entries").fetchall()
    said = db.execute("select count(*) from events where type = 'SharedValueWritten'").get
    db.close()
    assert (sorted(kept), uses, said) == (["a", "d"], [(2,), (2,)], 5)


def test_what_is_remembered_killed_at_any_point_is_as_if_nothing_had_been(tmp_path: Path) -> None:
    killed_everywhere("rememberer", tmp_path, judge, shares=17)
