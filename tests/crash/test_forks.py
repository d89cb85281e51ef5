"""kill -9 of who forks runs, at points at which something lasts: forked again by the same key it is the same fork, nothing is done
twice, and every gate is asked anew."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import apsw

from holdfast.core.facts import events as ev
from tests.crash import letter
from tests.crash.killing import killed_everywhere

SEVEN = ["did note a letter", "approve", "did post seven"]
EIGHT = ["did note a letter", "approve", "did post eight"]


def judge(directory: Path) -> None:
    # The origin, its fork, and what the bulk made of them, the newest first.
    assert json.loads((directory / letter.RESULT).read_text()) == [SEVEN, EIGHT, EIGHT, SEVEN]
    done = [json.loads(line) for line in (directory / letter.WORLD).read_text().splitlines()]
    keys = {(each["what"], each["key"]) for each in done}
    assert sorted(what for what, _ in keys) == ["note a letter", "post eight", "post seven"], "each under one key"
    times = Counter(each["what"] for each in done)
    assert times["post seven"] == times["post eight"] == 1, "what happens once has happened once"
    db = apsw.Connection(str(directory / letter.STORE), flags=apsw.SQLITE_OPEN_READONLY)
    histories: dict[str, list[Any]] = {}
    for run, payload in db.execute("select run, payload from events order by run, seq"):
        histories.setdefault(run, []).append(ev.decode(payload))
    statuses = [status for (status,) in db.execute("select status from runs")]
    db.close()
    assert statuses == ["completed"] * 4, "each was forked once"
    for history in histories.values():
        _judge_fork(history)


def _judge_fork(history: list[Any]) -> None:
    opened = [event for event in history if isinstance(event, ev.GateOpened)]
    decided = [event for event in history if isinstance(event, ev.GateDecided)]
    assert opened[0].reason == "question", "a person is asked, whatever was decided in the origin"
    assert {event.gate for event in decided} == {event.gate for event in opened}
    posted = [event for event in history if isinstance(event, ev.EffectIntended) and event.tool == "post"]
    if posted and any(isinstance(event, ev.RunForked) for event in history):
        approved = [event.gate for event in opened if event.reason == "tool_approval"]
        assert len(approved) == 1, "what happens once and is new waits for a person's word"
        assert history.index(posted[0]) > next(n for n, e in enumerate(history) if getattr(e, "gate", "") in approved)


def test_who_forks_and_is_killed_at_any_point_forks_once(tmp_path: Path) -> None:
    killed_everywhere("letter", tmp_path, judge, shares=23, since="before commit of RunForked")
