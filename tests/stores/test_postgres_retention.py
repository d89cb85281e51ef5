"""What is PostgreSQL's own about months that go, and about the order of commits. (What is every store's: test_retention.)"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from holdfast import Engine
from holdfast.errors import CursorLost, StoreBusy
from holdfast.stores import retention
from holdfast.stores.postgres import PostgresAdministration, PostgresStore
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.upkeep import forget_told
from holdfast.testing.postgres_server import PostgresServer
from tests.conftest import say
from tests.stores.story import MONTH, NEXT, NEXT_MS, Story, ended, put


class Place:
    """A store, and its administration."""

    def __init__(self, database: str, store: PostgresStore, administration: PostgresAdministration) -> None:
        self.database = database
        self.store = store
        self.administration = administration
        self.schema = Address.of(database).schema

    async def ask(self, statement: str) -> Any:
        db = await asyncpg.connect(self.database.partition("?")[0])
        try:
            return await db.fetchval(statement)
        finally:
            await db.close()

    async def has_partition(self, month: str = MONTH) -> bool:
        return bool(await self.ask(f"select to_regclass('{self.schema}.events_{month.replace('-', '_')}') is not null"))


@pytest.fixture
def database(new_database: str) -> str:
    """A store that no other test has had: here months are made and go."""
    return new_database


@pytest.fixture
async def place(database: str) -> AsyncIterator[Place]:
    store = await PostgresStore.connect(database)
    administration = await PostgresAdministration.connect(database)
    yield Place(database, store, administration)
    await administration.aclose()
    await store.aclose()


async def test_a_tail_returns_newly_archived_events_but_no_pruned_ones(place: Place) -> None:
    (old,), (young,) = await ended(place.store, 1), await ended(place.store, 1, NEXT_MS)
    for month in (MONTH, NEXT):
        assert await place.has_partition(month)
        await place.administration.archive(month)
        assert not await place.has_partition(month)
    told, _ = await place.store.tail.after(None, 1000)
    assert [each.recorded for each in told] == old.history + young.history
    await place.administration.prune(NEXT)
    told, _ = await place.store.tail.after(None, 1000)
    assert [each.recorded for each in told] == young.history


async def test_a_month_with_a_long_reader_is_released_later(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (story,) = await ended(place.store, 1)
    monkeypatch.setattr(retention, "_MAX_TRIES", 2)
    reader = await asyncpg.connect(place.database.partition("?")[0])
    async with reader.transaction():
        await reader.fetch(f"select * from {place.schema}.events")
        with pytest.raises(StoreBusy, match="later"):
            await place.administration.archive(MONTH)
        assert await place.has_partition()
    await place.administration.archive(MONTH)
    assert not await place.has_partition()
    assert await place.store.log.events(story.run) == tuple(story.history)
    await reader.close()


async def test_months_are_made_ahead_and_the_order_of_commits_is_forgotten_in_time(place: Place) -> None:
    async with Engine.open(place.database):
        count = f"select count(*) from pg_inherits where inhparent = '{place.schema}.events'::regclass"
        while await place.ask(count) != 3:  # the sweep's first turn
            await asyncio.sleep(0.02)
    story, later = Story(), Story()
    begin = await place.store.tail.end()
    await put(place.store, story.start())
    _, cursor = await place.store.tail.after(begin, 1)
    await place.ask(f"update {place.schema}.moments set at_ms = 0")
    await forget_told(place.store.context.connections)  # up to the oldest moment that is known: which was before the cursor
    assert len((await place.store.tail.after(cursor, 100))[0]) == len(story.history) - 1
    end = await place.store.tail.end()
    await place.ask(f"update {place.schema}.moments set at_ms = 0")
    await put(place.store, later.start())
    await forget_told(place.store.context.connections)
    assert await place.ask(f"select count(*) from {place.schema}.commits") == 1
    with pytest.raises(CursorLost, match="Start again from the beginning"):
        await place.store.tail.after(cursor, 100)
    for since in (None, end):
        assert [each.run for each in (await place.store.tail.after(since, 100))[0]] == [later.run] * len(later.history)


async def test_a_database_out_of_another_server_s_dump_tells_what_comes_from_here_on(place: Place) -> None:
    story = Story()
    await put(place.store, story.start())
    await place.ask(f"update {place.schema}.commits set xid = '4000000000000'")
    await place.ask(f"insert into {place.schema}.moments values ('4000000000000', 9)")
    await place.store.upkeep.maintain()
    seen = len(story.history)
    await put(place.store, story.draft())
    assert [each.recorded for each in (await place.store.tail.after(None, 100))[0]] == story.history[seen:]
    assert await place.ask(f"select count(*) from {place.schema}.commits") == 1


async def test_after_a_failover_a_tail_says_that_it_cannot_know() -> None:
    story = Story()
    with PostgresServer() as primary, contextlib.closing(PostgresServer()) as standby:
        store = await PostgresStore.connect(primary.url)
        standby.follow(primary, name="standby")
        await put(store, story.start())
        told, cursor = await store.tail.after(None, 1)
        where = say(primary, "select pg_current_wal_lsn()")
        while say(standby, f"select pg_last_wal_replay_lsn() >= '{where.strip()}'").strip() != "t":
            await asyncio.sleep(0.05)
        primary.stop(signal.SIGQUIT)
        standby.promote()
        after = await PostgresStore.connect(standby.url)
        with pytest.raises(CursorLost, match="failover"):
            await after.tail.after(cursor, 10)
        assert [each.recorded for each in (await after.tail.after(None, 100))[0]] == story.history
        assert told[0].recorded == story.history[0]
        for opened in (store, after):
            await opened.aclose()
