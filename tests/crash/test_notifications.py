"""kill -9 of who notifies, at points at which something lasts: between the commit of an event, its message, the claim, the request
and what came of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from holdfast.core.views.notifications import Delivery
from holdfast.storage import open_store
from holdfast.testing.postgres_server import PostgresServer
from tests.crash import notifier
from tests.crash.killing import Lent, Words, killed_everywhere
from tests.schemas import Schemas
from tests.tools.server import Server

_SERVERS: dict[str, Server] = {}


def lending(request: pytest.FixtureRequest, kind: str) -> Lent:
    """Give each case a receiver and a store of a kind."""

    @contextmanager
    def lent(directory: Path) -> Iterator[Words]:
        with Server() as server, _store(directory) as store:
            _SERVERS[server.url] = server
            yield directory, server.url, store

    def _store(directory: Path) -> AbstractContextManager[str]:
        if kind == "sqlite":
            return nullcontext(f"sqlite:///{directory / 'holdfast.db'}")
        return _schema(request.getfixturevalue("postgres"), request.getfixturevalue("schemas"))

    return lent


@contextmanager
def _schema(postgres: PostgresServer, schemas: Schemas) -> Iterator[str]:
    with schemas.lent() as schema:
        yield f"{postgres.url}?schema={schema}"


async def kept(store: str) -> Sequence[Delivery]:
    opened = await open_store(store)
    try:
        return await opened.outbox.listed()
    finally:
        await opened.aclose()


def judge(directory: Path, url: str, store: str) -> None:
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
    rows = asyncio.run(kept(store))
    assert {each.id for each in rows} == bodies.keys()
    assert {each.state for each in rows} == {"sent"}


SHARES = {"sqlite": 29, "postgres": 61}


@pytest.mark.parametrize("kind", SHARES)
def test_who_notifies_and_is_killed_at_any_point_loses_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    lent = lending(request, kind)
    killed_everywhere("notifier", tmp_path, judge, shares=SHARES[kind], since="before commit of StepFailed", lent=lent)


@pytest.mark.long
def test_who_notifies_on_postgresql_is_killed_at_many_more_points(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    lent = lending(request, "postgres")
    killed_everywhere("notifier", tmp_path, judge, shares=3, since="before commit of StepFailed", lent=lent)
