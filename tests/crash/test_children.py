"""kill -9 of a tree of runs at points at which something lasts: between a request and a start, an end and its telling."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import apsw
import pytest

from tests.crash import family
from tests.crash.killing import killed_everywhere


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
    killed_everywhere("family", tmp_path, judge, shares=17, lent=lambda directory: nullcontext((directory, flow)))
