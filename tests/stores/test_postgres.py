"""What is PostgreSQL's alone: lost replies, silent networks, locks, servers that are away, full, strange or misconfigured.

Connections are broken by a proxy, rows are held by a connection of the test's own; nothing is pretended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import asyncpg
import msgspec
import pytest

from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import FOLD_VERSION
from holdfast.core.values import audit
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import AppendId
from holdfast.core.values.payload import inline
from holdfast.core.values.scopes import ScopeRow
from holdfast.core.views.sealing import PLAIN
from holdfast.errors import (
    HoldfastError,
    KeyReused,
    SeqConflict,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreTooNew,
    StoreUnreadable,
    UnknownCommit,
    Unstorable,
    UsageError,
)
from holdfast.ports import Append
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres import connection as connection_room
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.append import Entry, entry
from holdfast.testing.postgres_server import FAST, PostgresServer
from holdfast.testing.server_process import free_port
from holdfast.testing.tcp_proxy import TcpProxy
from tests.conftest import new_schema, say
from tests.engine.kit import bounded
from tests.stores.rollback import ROLLED_BACK, rolled_back
from tests.stores.story import ASKS, Story

COMMIT = b"Q\x00\x00\x00\x0bcommit\x00"
"""The message that ends a transaction, as it goes over the wire."""

Connect = Callable[..., Awaitable[PostgresStore]]


@pytest.fixture
def database(new_database: str) -> str:
    """A store that nobody has made yet: who comes first makes it, and its months."""
    return new_database


@pytest.fixture
async def connect(database: str) -> AsyncIterator[Connect]:
    """Opens the store, through a proxy where one is given, as a process of its own would."""
    opened: list[PostgresStore] = []

    async def another(proxy: TcpProxy | None = None, **options: int) -> PostgresStore:
        url = database if proxy is None else database.replace(f":{proxy.server_port}/", f":{proxy.port}/")
        opened.append(await PostgresStore.connect(url, **options))
        return opened[-1]

    yield another
    for store in opened:
        await store.aclose()


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[TcpProxy]:
    with TcpProxy(postgres.port) as running:
        yield running


@pytest.fixture
async def holder(postgres: PostgresServer) -> AsyncIterator[asyncpg.Connection]:
    """A connection that nobody but the test knows of."""
    connection = await asyncpg.connect(postgres.url)
    yield connection
    await connection.close()


def schema_of(database: str) -> str:
    return database.partition("schema=")[2]


async def put(store: PostgresStore, *appends: Append) -> None:
    for append in appends:
        assert list(await store.log.append([append])) == [None]


def another_id(append: Append) -> Append:
    """The same events, brought by somebody else."""
    return msgspec.structs.replace(append, append_id=AppendId(f"{random.getrandbits(128):032x}"))


# --- Lost replies -----------------------------------------------------------------------------------------------------


@bounded
@pytest.mark.parametrize("what", ["start with a key", "continuation", "ledger", "held"])
async def test_an_append_whose_reply_was_lost_is_unknown_and_is_written_once(
    connect: Connect, proxy: TcpProxy, what: str
) -> None:
    store, witness, story = await connect(proxy), await connect(), Story()
    await put(witness, Story().start())  # the month's partitions are there
    if what != "start with a key":
        await put(witness, story.start())
    if what == "ledger":
        await put(witness, story.draft())
    append = {"start with a key": lambda: story.start(key="k"), "ledger": story.ask}.get(what, story.draft)()
    rows = entry(append, PLAIN)
    proxy.lose_reply_to(append.append_id if rows.is_plain and what != "held" else COMMIT)
    if what == "held":
        async with store.log.exclusive(story.run):
            with pytest.raises(UnknownCommit):
                await store.log.append([append])
    else:
        with pytest.raises(UnknownCommit):
            await store.log.append([append])
    assert proxy.lost == 1
    assert await witness.log.events(story.run) == tuple(story.history), "the database has it"
    await put(store, append, append)
    assert await witness.log.events(story.run) == tuple(story.history)
    assert len(await witness.views.gates(run=story.run)) == (what == "ledger")
    if what == "start with a key":
        (fate,) = await store.log.append([Story().start(key="k")])
        assert isinstance(fate, KeyReused)


@bounded
@pytest.mark.parametrize("limit", [None, 100])
async def test_a_flush_under_no_limit_is_one_statement(connect: Connect, proxy: TcpProxy, limit: int | None) -> None:
    """Its reply is that of its commit: when it is lost, all is there, the books too. Under a limit nothing is yet."""
    store, witness, story = await connect(proxy), await connect(), Story()
    await put(witness, story.start())
    await witness.scopes.set_limit("tenant/acme/day", limit)
    before = tuple(story.history)
    hold = story.hold(60)
    proxy.lose_reply_to(hold.append_id)
    with pytest.raises(UnknownCommit):
        await store.log.append([hold])
    day = "tenant/acme/day/2023-11-14"
    if limit is None:
        assert await witness.log.events(story.run) == tuple(story.history)
        assert await witness.scopes.balances([day]) == [ScopeRow(day, None, 0, 60)]
    else:
        assert await witness.log.events(story.run) == before
    await put(store, hold, hold)
    assert await witness.scopes.balances([day]) == [ScopeRow(day, limit, 0, 60)]


@bounded
async def test_flushes_that_charge_the_same_scopes_never_wait_for_each_other_in_a_circle(connect: Connect) -> None:
    """Some under a limit and some not, in every order, starts and ledgers among them."""
    stores = [await connect() for _ in range(4)]
    await stores[0].scopes.set_limit("tenant/acme/month", 10**12)
    deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"

    async def works(store: PostgresStore, turn: int) -> None:
        for number in range(20):
            tenants = ("acme", "umbrella") if (turn + number) % 2 else ("umbrella", "acme")
            stories = [Story(tenant=tenant) for tenant in tenants]
            await put(store, *(story.start() for story in stories))
            await put(store, *(story.hold(1) for story in stories))
            await put(store, stories[0].settle(1), stories[number % 2].draft(), stories[1].settle(1))

    before = await stores[0].context.connections.fetch(deadlocks)
    await asyncio.gather(*(works(store, turn) for turn, store in enumerate(stores)))
    assert await stores[0].context.connections.fetch(deadlocks) == before
    books = {
        row.scope: row.settled
        for row in await stores[0].scopes.balances([f"tenant/{each}/day/2023-11-14" for each in ("acme", "umbrella")])
    }
    assert set(books.values()) == {80}


@bounded
async def test_an_append_that_is_cut_off_inside_its_transaction_is_sent_again(connect: Connect, proxy: TcpProxy) -> None:
    store, story = await connect(proxy), Story()
    await put(store, story.start(), story.draft())
    append = story.ask()
    proxy.lose_reply_to(append.append_id)
    with pytest.raises(UnknownCommit):
        await store.log.append([append])
    assert len(await store.log.events(story.run)) < len(story.history), "the server undid what was never committed"
    await put(store, append)
    assert await store.log.events(story.run) == tuple(story.history)


@bounded
async def test_a_backend_that_is_terminated_while_it_waits_leaves_its_append_unknown(
    connect: Connect, holder: asyncpg.Connection, database: str
) -> None:
    store, story = await connect(), Story()
    await put(store, story.start())
    append = story.draft()
    async with holder.transaction():
        await holder.execute(f"select * from {schema_of(database)}.runs for update")
        writing = asyncio.create_task(store.log.append([append]))
        waits = "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"
        while not await holder.fetchval(waits):
            await asyncio.sleep(0.01)
        with pytest.raises(UnknownCommit):
            await writing
    await put(store, append)
    assert await store.log.events(story.run) == tuple(story.history)


@bounded
async def test_a_silent_network_is_noticed_in_time_and_nothing_hangs(
    connect: Connect, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cable is pulled: asking the server to stop what it does would wait for an answer that never comes."""
    monkeypatch.setattr(connection_room, "ANSWER_S", 0.5)
    store, story = await connect(proxy), Story()
    await put(store, story.start())
    append = story.draft()
    proxy.silent = True
    begun_s = time.monotonic()
    with pytest.raises(UnknownCommit):
        await store.log.append([append])
    with pytest.raises(StoreError):
        async with store.log.exclusive(story.run):
            raise AssertionError("there is no way to it")
    assert time.monotonic() - begun_s < 0.5 + 10 + 5  # an answer, a connection, and a slow machine
    proxy.silent = False
    await put(store, append)
    assert await store.log.events(story.run) == tuple(story.history)


@bounded
async def test_a_slow_network_changes_nothing_but_time(connect: Connect, proxy: TcpProxy) -> None:
    proxy.delay_s = 0.05
    store, story = await connect(proxy), Story()
    await put(store, *story.whole())
    assert await store.log.events(story.run) == tuple(story.history)


@bounded
async def test_a_process_that_was_cut_off_does_not_hold_its_run_for_long(
    connect: Connect, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps silent inside its transaction, and so does the network: the database must end it by itself."""
    monkeypatch.setattr(connection_room, "BEGIN", connection_room.BEGIN.replace("15000", "300"))
    frozen, others, story = await connect(proxy), await connect(), Story()
    await put(others, story.start())
    append = story.draft()
    async with frozen.log.exclusive(story.run):
        proxy.silent = True
        begun_s = time.monotonic()
        await put(others, append)
        assert time.monotonic() - begun_s < connection_room.LOCK_S
        proxy.silent = False
        with pytest.raises(UnknownCommit):
            await frozen.log.append([another_id(append)])
    (fate,) = await frozen.log.append([another_id(append)])
    assert isinstance(fate, SeqConflict)


@bounded
async def test_what_was_written_before_a_flush_broke_is_not_called_unwritten(
    connect: Connect, holder: asyncpg.Connection, database: str
) -> None:
    """One append spoils the flush, so each goes alone; then the disk is full. The first of them is on it already."""
    store = await connect()
    first, poison, last = Story(), Story(), Story()
    await put(store, Story().start())
    schema = schema_of(database)
    await holder.execute(
        f"""create function {schema}.no_room() returns trigger language plpgsql as $$
            begin raise exception 'no space left on device' using errcode = 'disk_full'; end $$;
        create trigger no_room before insert on {schema}.runs for each row when (new.run = '{last.run}')
            execute function {schema}.no_room()"""
    )
    bad = poison.start(text="x")
    bad = msgspec.structs.replace(
        bad, changes=msgspec.structs.replace(bad.changes, run=msgspec.structs.replace(bad.changes.run, limit_nanousd=2**70))
    )
    flush = [first.start(), bad, last.start()]
    with pytest.raises(UnknownCommit, match="Some of these appends were written"):
        await store.log.append(flush)
    await holder.execute(f"drop trigger no_room on {schema}.runs")
    fates = await store.log.append(flush)
    assert [type(fate) for fate in fates] == [type(None), Unstorable, type(None)]
    assert await store.log.events(first.run) == tuple(first.history)


# --- Locks ------------------------------------------------------------------------------------------------------------


@bounded
async def test_a_run_that_is_held_for_long_keeps_only_itself_waiting(
    connect: Connect, holder: asyncpg.Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection_room._WAITS, "lock_timeout", 300)
    store, stories = await connect(), [Story() for _ in range(3)]
    assert set(await store.log.append([story.start() for story in stories])) == {None}
    appends = [story.draft() for story in stories]
    async with holder.transaction():
        await holder.execute(f"select * from {schema_of(database)}.runs where run = '{stories[1].run}' for update")
        fates = await store.log.append(appends)
        assert [type(fate) for fate in fates] == [type(None), StoreBusy, type(None)]
    await put(store, appends[1])


@bounded
async def test_two_flushes_of_the_same_runs_in_opposite_order_do_not_lock_each_other_out(
    connect: Connect, holder: asyncpg.Connection, database: str
) -> None:
    """The first is stopped in the middle by a row that somebody holds, and has some of the rows by then."""
    mine, theirs = await connect(), await connect()
    stories = sorted((Story() for _ in range(9)), key=lambda story: story.run)
    assert set(await mine.log.append([story.start() for story in stories])) == {None}
    for ledger in (False, True):
        appends = [(story.ask if ledger else story.draft)() for story in stories]
        async with holder.transaction():
            await holder.execute(f"select * from {schema_of(database)}.runs where run = '{stories[4].run}' for update")
            one = asyncio.create_task(mine.log.append(appends))
            two = asyncio.create_task(theirs.log.append([another_id(append) for append in reversed(appends)]))
            assert not (await asyncio.wait({one, two}, timeout=0.3))[0]
        there, back = await one, list(reversed(await two))
        for fates in zip(there, back, strict=True):
            assert {type(fate) for fate in fates} == {type(None), SeqConflict}
    for story in stories:
        assert await mine.log.events(story.run) == tuple(story.history)


@bounded
async def test_start_keys_in_opposite_order_belong_to_one_run_each(connect: Connect) -> None:
    mine, theirs = await connect(), await connect()
    await put(mine, Story().start())
    for round_ in range(10):
        keys = [f"{round_} {n}" for n in range(20)]
        ours, others = [Story() for _ in keys], [Story() for _ in keys]
        one = [story.start(key=key) for story, key in zip(ours, keys, strict=True)]
        two = [story.start(key=key) for story, key in zip(others, keys, strict=True)]
        fates, back = await asyncio.gather(mine.log.append(one), theirs.log.append(two[::-1]))
        for key, story, other, here, there in zip(keys, ours, others, fates, reversed(back), strict=True):
            owner = await mine.log.run_of_key(story.tenant, key)
            assert owner is not None
            assert {type(here), type(there)} == {type(None), KeyReused}
            assert owner[0] == (story.run if here is None else other.run)


@bounded
async def test_random_flushes_of_three_processes_lose_nothing_and_tell_the_truth(connect: Connect, proxy: TcpProxy) -> None:
    """200 flushes over 30 runs, some of their replies lost on the way. Each place in a history is won by exactly one."""
    chance = random.Random(30)
    stores = [await connect(), await connect(), await connect(proxy)]
    stories = [Story() for _ in range(30)]
    assert set(await stores[0].log.append([story.start() for story in stories])) == {None}
    for _ in range(67):
        appends = {story.run: story.does(cmd.SendSignal("ping")) for story in stories}
        flushes = []
        for _ in stores:
            runs = chance.sample(sorted(appends), chance.randint(10, 30))
            flushes.append([another_id(appends[run]) for run in runs])
        nobodys = set(appends) - {append.run for flush in flushes for append in flush}
        flushes[0] += [appends[run] for run in nobodys]
        if chance.random() < 0.3:
            proxy.lose_reply_to(flushes[2][0].append_id)
        fates = await asyncio.gather(*(until_known(store, flush) for store, flush in zip(stores, flushes, strict=True)))
        won = [
            append.run
            for flush, told in zip(flushes, fates, strict=True)
            for append, fate in zip(flush, told, strict=True)
            if fate is None
        ]
        assert sorted(won) == sorted(appends)
        assert {type(fate) for told in fates for fate in told} <= {type(None), SeqConflict}
    assert proxy.lost > 5
    for story in stories:
        assert await stores[1].log.events(story.run) == tuple(story.history)
        row = await stores[1].views.run(story.run)
        assert row is not None
        assert row.seq == len(story.history)


async def until_known(store: PostgresStore, flush: list[Append]) -> list[HoldfastError | None]:
    while True:
        try:
            return list(await store.log.append(flush))
        except UnknownCommit:
            continue


@bounded
async def test_many_who_hold_a_run_each_do_not_take_all_connections(connect: Connect) -> None:
    """Whoever holds a run reads it through another connection."""
    store, stories = await connect(connections=2), [Story() for _ in range(6)]
    assert set(await store.log.append([story.start() for story in stories])) == {None}

    async def alone(story: Story) -> None:
        async with store.log.exclusive(story.run):
            await store.log.load(story.run, FOLD_VERSION)
            await put(store, story.draft())

    async with asyncio.timeout(10):
        await asyncio.gather(*(alone(story) for story in stories))


@bounded
async def test_two_of_one_process_may_hold_the_same_run_one_after_the_other(connect: Connect) -> None:
    store, story = await connect(), Story()
    await put(store, story.start())

    async def alone() -> None:
        async with store.log.exclusive(story.run):
            await asyncio.sleep(0.02)
            await put(store, story.does(cmd.SendSignal("ping")))
            await asyncio.sleep(0.02)  # the row is free by now, and the other has it

    async with asyncio.timeout(10):
        await asyncio.gather(*(alone() for _ in range(4)))
    assert await store.log.events(story.run) == tuple(story.history)


# --- Servers that are away, full, strange -----------------------------------------------------------------------------


async def test_a_server_that_is_not_there_is_a_clear_error() -> None:
    with pytest.raises(StoreUnreadable, match=r"cannot be reached.*Is the server running"):
        await PostgresStore.connect(f"postgresql://me@127.0.0.1:{free_port()}/postgres")


async def test_a_database_that_is_not_there_is_a_clear_error(postgres: PostgresServer) -> None:
    with pytest.raises(StoreUnreadable, match="createdb"):
        await PostgresStore.connect(postgres.url_of("nowhere"))


async def test_a_user_without_rights_learns_which(postgres: PostgresServer, database: str) -> None:
    say(postgres, "set client_min_messages = error; drop role if exists bob; create role bob login")
    as_bob = database.replace("postgres@", "bob@")
    with pytest.raises(StoreUnreadable, match=r"permission denied.*needs rights on the schema"):
        await PostgresStore.connect(as_bob)
    await (await PostgresStore.connect(database)).aclose()
    with pytest.raises(StoreUnreadable, match=r"permission denied.*needs rights on the schema"):
        await PostgresStore.connect(as_bob)


async def test_a_store_that_has_gone_beyond_this_version_is_left_alone(postgres: PostgresServer, database: str) -> None:
    await (await PostgresStore.connect(database)).aclose()
    say(postgres, f"insert into {schema_of(database)}.migrations values (999, 'after')")
    with pytest.raises(StoreTooNew, match="upgrade Holdfast"):
        await PostgresStore.connect(database)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("synchronous_commit=off", "would acknowledge what a crash can lose"),
        ("default_transaction_isolation=serializable", "transaction_isolation"),
        ("default_transaction_read_only=on", "takes no writes"),
    ],
)
async def test_a_setting_that_breaks_a_promise_is_refused(
    postgres: PostgresServer, database: str, setting: str, says: str
) -> None:
    name, value = setting.split("=")
    say(
        postgres,
        f"set client_min_messages = error; drop role if exists odd; create role odd login superuser; alter role odd set {name} = '{value}'",
    )
    with pytest.raises(StoreUnreadable, match=says):
        await PostgresStore.connect(database.replace("postgres@", "odd@"))


async def test_a_server_that_does_not_sync_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with PostgresServer(settings=FAST) as careless:
        await (await PostgresStore.connect(careless.url)).aclose()
    assert "fsync=off" in caplog.text


@bounded
async def test_a_server_without_a_free_connection_says_so_and_is_of_use_afterwards() -> None:
    with PostgresServer(
        settings=[*FAST, "max_connections=5", "superuser_reserved_connections=0", "max_wal_senders=0"]
    ) as small:
        store, story = await PostgresStore.connect(small.url), Story()
        await put(store, story.start())
        others = await every_connection(small)
        with pytest.raises(StoreBusy, match=r"takes no more connections.*max_connections"):
            await PostgresStore.connect(small.url)
        await put(store, story.draft())
        answers = await asyncio.gather(*(store.log.events(story.run) for _ in range(8)), return_exceptions=True)
        assert {type(answer) for answer in answers} <= {tuple, StoreBusy}
        for other in others:
            await other.close()
        await put(store, story.ask())
        await store.aclose()


@bounded
async def test_a_full_disk_is_reported_and_what_was_taken_is_there() -> None:
    disk = Path(tempfile.mkdtemp(prefix="holdfast-disk-"))
    mounted = await asyncio.create_subprocess_exec("mount", "-t", "tmpfs", "-o", "size=8m,mode=777", "tmpfs", str(disk))
    if await mounted.wait():
        disk.rmdir()
        pytest.skip("a small file system cannot be mounted here")
    try:
        with PostgresServer(settings=FAST) as server:
            owner = server.data.stat()
            os.chown(disk, owner.st_uid, owner.st_gid)
            say(server, f"create tablespace small location '{disk}'")
            store = await PostgresStore.connect(f"{server.url}?default_tablespace=small")
            story = Story()
            append, taken, problem = story.start(), 0, None
            while problem is None:
                try:
                    await put(store, append)
                    taken = len(story.history)
                    append = story.does(cmd.SendSignal("more", inline(random.randbytes(20_000).hex())))
                except StoreError as full:
                    problem = full
            assert isinstance(problem, StoreFull)
            assert "no room left" in str(problem)
            assert await store.log.events(story.run) == tuple(story.history[:taken])
            grown = await asyncio.create_subprocess_exec("mount", "-o", "remount,size=64m", str(disk))
            assert not await grown.wait()
            await put(store, append)
            assert await store.log.events(story.run) == tuple(story.history)
            await store.aclose()
    finally:
        gone = await asyncio.create_subprocess_exec("umount", str(disk))
        assert not await gone.wait()
        disk.rmdir()


async def every_connection(server: PostgresServer) -> list[asyncpg.Connection]:
    """As many as it gives."""
    taken: list[asyncpg.Connection] = []
    with contextlib.suppress(asyncpg.TooManyConnectionsError):
        while True:
            taken.append(await asyncpg.connect(server.url))
    return taken


# --- Addresses --------------------------------------------------------------------------------------------------------


def test_an_address_may_name_several_servers_and_shows_no_password() -> None:
    address = Address.of("postgresql://ann:s3cret@one:5433,two,[::1]:5434/db?schema=mine&sslmode=require")
    assert address.shown == "one:5433,two,::1:5434/db"
    assert address.schema == "mine"
    assert address.dsns == tuple(
        f"postgresql://ann:s3cret@{server}/db?sslmode=require&target_session_attrs=read-write"
        for server in ("one:5433", "two", "[::1]:5434")
    )
    assert Address.of("postgresql://one,two/db?target_session_attrs=any").dsns[1].endswith("/db?target_session_attrs=any")


@pytest.mark.parametrize("url", ["postgresql://h:port/db", "postgresql://h/db?schema=A-B", "postgresql://h/db?pooler=x"])
async def test_an_address_that_means_nothing_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        await PostgresStore.connect(url)
    with pytest.raises(UsageError, match="at least 2"):
        await PostgresStore.connect("postgresql://h/db", connections=1)


# --- A flush of one ---------------------------------------------------------------------------------------------------


@bounded
async def test_a_flush_of_one_run_leaves_what_a_flush_of_many_leaves(
    database: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that begin, go on, leave a line, and end."""
    other = f"{new_schema()}"
    stores = [await connect(), await PostgresStore.connect(database.replace(schema_of(database), other))]
    story, placed = Story(), Story(graph=ASKS)
    appends = [
        story.start(),
        story.does(cmd.SendSignal("ping")),
        story.hold(5),
        story.settle(3),
        story.does(cmd.CancelRun("no more", Actor("ann"))),
        placed.start(),
        placed.does(cmd.Tick(), placed=["a#1"]),
    ]
    assert [entry(append, PLAIN).is_simple for append in appends] == [True, True, True, True, True, False, True]
    try:
        await put(stores[0], *appends)
        monkeypatch.setattr(Entry, "is_simple", False)
        await put(stores[1], *appends)
        for table, columns in {
            "runs": "*",
            "events": "*",
            "flights": "*",
            "waiters": "*",
            "commits": "runs, firsts, seqs",
            "scopes": "*",
        }.items():
            rows = [
                sorted(map(repr, await store.context.connections.fetch(f"select {columns} from {schema}.{table}")))
                for store, schema in zip(stores, (schema_of(database), other), strict=True)
            ]
            assert rows[0] == rows[1], table
            assert rows[0] or table == "waiters", table
    finally:
        await stores[1].aclose()


@bounded
async def test_a_flush_of_one_that_comes_too_late_writes_nothing(connect: Connect) -> None:
    store, story = await connect(), Story()
    await put(store, story.start())
    late = story.does(cmd.SendSignal("late"))
    story.forget(late)
    await put(store, story.does(cmd.SendSignal("first")))
    (fate,) = await store.log.append([late])
    assert isinstance(fate, SeqConflict)
    assert [each.seq for each in await store.log.events(story.run)] == [1, 2, 3]


@bounded
async def test_a_connection_is_kept_for_who_comes_next_and_given_back_after_a_while(
    connect: Connect, holder: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_room, "_KEPT_S", 0.05)
    store, story = await connect(), Story()
    connections = store.context.connections
    await put(store, story.start())
    ((kept, _),) = connections._kept
    await put(store, story.does(cmd.SendSignal("more")))
    await store.log.events(story.run)
    assert [db for db, _ in connections._kept] == [kept]
    while connections._kept:
        await asyncio.sleep(0.01)
    await put(store, story.does(cmd.SendSignal("more")))
    ((kept, _),) = connections._kept
    await holder.execute("select pg_terminate_backend($1)", kept.get_server_pid())
    await until_known(store, [story.does(cmd.SendSignal("after"))])
    assert len(await store.log.events(story.run)) == story.state.seq


@bounded
async def test_no_connection_is_kept_from_those_who_wait_for_one(connect: Connect) -> None:
    store = await connect(connections=3)
    connections = store.context.connections
    lent = [await connections._take() for _ in range(3)]
    waiting = asyncio.create_task(store.log.seqs([Story().run]))
    while not connections._waiting:
        await asyncio.sleep(0)
    assert not connections._keep(lent[0])
    await connections._give_back(lent[0])
    assert await waiting == {}
    for db in lent[1:]:
        await connections._give_back(db)


@pytest.mark.parametrize(
    "deed",
    [
        "update audit set entry = 'x'",
        "delete from audit",
        "truncate audit",
        "delete from audit_head",
        "truncate audit_head",
        "update audit_head set number = 0",
    ],
)
async def test_nothing_of_the_audit_log_is_changed_or_taken_out(connect: Connect, database: str, deed: str) -> None:
    store = await connect()
    await store.audit.append(audit.Entry(1, "Pause", "run", "done", "ann", False))
    db = await asyncpg.connect(database.partition("?")[0])
    await db.execute(f"set search_path = {schema_of(database)}")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="insert-only"):
        await db.execute(deed)
    await db.close()


@pytest.mark.parametrize("deed", ROLLED_BACK)
async def test_a_process_notices_that_the_log_was_put_back_as_it_stood(connect: Connect, database: str, deed: str) -> None:
    store = await connect()
    db = await asyncpg.connect(database.partition("?")[0])
    await db.execute(f"set search_path = {schema_of(database)}")

    async def by_hand(statements: str) -> None:
        await db.execute(f"alter table audit disable trigger user; alter table audit_head disable trigger user; {statements}")

    await rolled_back(store, by_hand, deed)
    await db.close()
