"""A primary that is lost, and the standby that takes its place: what was acknowledged is there, what was not is said so.

The standby is reached through a proxy: what it has not been given when the primary dies is lost, as with a machine.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from holdfast.errors import StoreError, StoreUnreadable, UnknownCommit
from holdfast.ports import Append
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.postgres_server import FAST, PostgresServer, installed
from holdfast.testing.tcp_proxy import TcpProxy
from tests.conftest import EVERYWHERE, say
from tests.engine.kit import bounded
from tests.stores.story import Story

WAITING = "select coalesce(min(pid), 0) from pg_stat_activity where wait_event = 'SyncRep'"


class Pair(NamedTuple):
    """A primary that acknowledges nothing before its standby has it, and the wire between them."""

    primary: PostgresServer
    wire: TcpProxy
    standby: PostgresServer

    @property
    def url(self) -> str:
        """Both servers; whoever takes writes is meant."""
        return f"postgresql://postgres@127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}/postgres"

    async def waits(self) -> int:
        """The backend that waits for the standby."""
        while not (pid := int(say(self.primary, WAITING))):
            await asyncio.sleep(0.01)
        return pid

    async def end_wait(self, how: str) -> None:
        """Terminate or cancel what waits for the standby, and see that it has gone on."""
        pid = await self.waits()
        say(self.primary, f"select pg_{how}_backend({pid})")
        while int(say(self.primary, WAITING)) == pid:
            await asyncio.sleep(0.01)

    def fail_over(self) -> None:
        self.primary.stop(signal.SIGQUIT)
        self.wire.cut()
        self.wire.silent = False
        self.standby.promote()


@pytest.fixture(scope="module", params=sorted({min(installed()) if EVERYWHERE else max(installed()), max(installed())}))
def version(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def pair(version: int) -> Iterator[Pair]:
    settings = [*FAST, "wal_sender_timeout=0"]
    primary, standby = (PostgresServer(version=version, settings=settings), PostgresServer(version=version, settings=FAST))
    with primary, TcpProxy(primary.port) as wire:
        try:
            standby.follow(primary, name="standby", port=wire.port)
            say(primary, "alter system set synchronous_standby_names = 'standby'")
            say(primary, "select pg_reload_conf()")
            yield Pair(primary, wire, standby)
        finally:
            standby.close()


async def put(store: PostgresStore, append: Append) -> None:
    assert list(await store.log.append([append])) == [None]


async def put_at_last(store: PostgresStore, append: Append) -> None:
    """As the engine does: again under the same id, for as long as nobody knows."""
    while True:
        try:
            return await put(store, append)
        except StoreError:
            await asyncio.sleep(0.05)


@bounded
@pytest.mark.parametrize("ledger", [False, pytest.param(True, marks=pytest.mark.long)], ids=["one statement", "a transaction"])
async def test_a_commit_is_unknown_whose_wait_for_the_standby_was_ended(pair: Pair, ledger: bool) -> None:
    """The database shows it, and says `done` to whoever was cancelled; a failover erases it all the same."""
    store, story = await PostgresStore.connect(pair.url), Story()
    await put(store, story.start())
    if ledger:
        await put(store, story.draft())
    before, append = len(story.history), (story.ask if ledger else story.draft)()
    pair.wire.silent = True
    for how in ("terminate", "cancel", "terminate", "cancel"):
        writing = asyncio.create_task(store.log.append([append]))
        await pair.end_wait(how)
        with pytest.raises(UnknownCommit):
            await writing
        assert len(await store.log.events(story.run)) == len(story.history), "a look shows what may still be undone"
    await asyncio.to_thread(pair.fail_over)
    while True:
        try:
            there = await store.log.events(story.run)
            break
        except StoreError:
            await asyncio.sleep(0.05)
    assert there == tuple(story.history[:before])
    await put_at_last(store, append)
    assert await store.log.events(story.run) == tuple(story.history)
    await store.aclose()


@bounded
async def test_a_refusal_because_of_what_the_standby_lacks_is_not_reported_either(pair: Pair) -> None:
    """A key, a conflict: both would name a run, or an event, that a failover erases."""
    store, theirs = await PostgresStore.connect(pair.url), await PostgresStore.connect(pair.url)
    story, other = Story(), Story()
    await put(store, Story().start())  # the month's partitions are there
    first = story.start(key="a key")
    pair.wire.silent = True
    writing = asyncio.create_task(store.log.append([first]))
    await pair.end_wait("terminate")
    with pytest.raises(UnknownCommit):
        await writing
    asking = asyncio.create_task(theirs.log.run_of_key(story.tenant, "a key"))
    refused = asyncio.create_task(theirs.log.append([other.start(key="a key")]))
    again = asyncio.create_task(store.log.append([first]))
    done, _ = await asyncio.wait({asking, refused, again}, timeout=0.5)
    assert done == set()
    pair.wire.silent = False
    found = await asking
    assert found is not None
    assert found[0] == story.run
    assert await again == [None]
    (fate,) = await refused
    assert type(fate).__name__ == "KeyReused"
    await store.aclose()
    await theirs.aclose()


@bounded
async def test_the_new_primary_is_found_though_the_old_one_is_there_and_silent(pair: Pair) -> None:
    """A machine that answers nothing is tried for its share of the time only."""
    with TcpProxy(pair.primary.port) as silent:
        url = pair.url.replace(f":{pair.primary.port}", f":{silent.port}")
        store, story = await PostgresStore.connect(url), Story()
        await put(store, story.start())
        silent.silent = True
        silent.cut()
        await asyncio.to_thread(pair.fail_over)
        await put_at_last(store, story.draft())
        assert await store.log.events(story.run) == tuple(story.history)
        await store.aclose()


@bounded
async def test_a_standby_alone_is_no_store(pair: Pair) -> None:
    with pytest.raises(StoreUnreadable, match="is a standby, which takes no writes"):
        await PostgresStore.connect(pair.standby.url)
    only = f"postgresql://postgres@127.0.0.1:1,127.0.0.1:{pair.standby.port}/postgres"
    with pytest.raises(StoreUnreadable):
        await PostgresStore.connect(only)
