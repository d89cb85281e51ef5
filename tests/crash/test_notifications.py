"""kill -9 of who notifies, at points at which something lasts: between the commit of an event, its message, the claim, the request
and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
from standardwebhooks.webhooks import Webhook

from tests.crash import notifier
from tests.crash.killing import Words, killed_everywhere
from tests.tools.server import Server

_SERVERS: dict[str, Server] = {}


@contextmanager
def lent(directory: Path) -> Iterator[Words]:
    with Server() as server:
        _SERVERS[server.url] = server
        yield directory, server.url


def judge(directory: Path, url: str) -> None:
    asked = _SERVERS[url].asked
    bodies = {each.headers["webhook-id"]: each.body for each in asked}
    for each in asked:
        Webhook(notifier.SECRET).verify(each.body, each.headers)
        assert each.body == bodies[each.headers["webhook-id"]], "each try sends the same message"
    told = [json.loads(each.body)["data"] for each in asked]
    runs = sorted({each["run"] for each in told})
    assert len(runs) == len(notifier.RUNS)
    for run in runs:
        own = [each for each in told if each["run"] == run]
        assert [each["seq"] for each in own] == sorted(each["seq"] for each in own), "in the order of the run"
        once = sorted({(each["id"], each["occasion"], each["rule"]) for each in own}, key=lambda each: each[1:])
        wanted = [(occasion, "all") for occasion in notifier.ASKED_OF] + [("run_failed", "on_end")]
        assert [(occasion, rule) for _, occasion, rule in once] == sorted(wanted), "nothing is lost, nothing has two ids"
    db = apsw.Connection(str(directory / notifier.STORE), flags=apsw.SQLITE_OPEN_READONLY)
    rows = list(db.execute("select id, state from deliveries"))
    db.close()
    assert {id_ for id_, _ in rows} == bodies.keys()
    assert {state for _, state in rows} == {"sent"}


def test_who_notifies_and_is_killed_at_any_point_loses_nothing(tmp_path: Path) -> None:
    killed_everywhere("notifier", tmp_path, judge, shares=19, since="before commit of StepFailed", lent=lent)
