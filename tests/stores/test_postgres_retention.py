"""Months that go: what is archived is read as before, what may still be needed stays, and a crash anywhere loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from holdfast import Engine
from holdfast.blobs.folder import Folder
from holdfast.core import commands as cmd
from holdfast.core.events import OutcomeOrphaned
from holdfast.core.ids import RunId
from holdfast.core.payload import Payload, inline
from holdfast.core.state import FOLD_VERSION, evolve
from holdfast.errors import Conflict, CorruptHistory, CursorLost, MonthHeld, NotFound, StoreBusy, UsageError
from holdfast.ports import Append, Store
from holdfast.stores.archive import EventLine, pack, unpack
from holdfast.stores.postgres import PostgresAdministration, PostgresStore, retention
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.upkeep import forget_told
from holdfast.testing.postgres_server import PostgresServer
from tests.conftest import say
from tests.stores.story import BORN_MS, Story, fold, put

MONTH, NEXT = "2023-11", "2023-12"  # that of BORN_MS, and the one after it
NEXT_MS = BORN_MS + 20 * 24 * 3600 * 1000


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
        return bool(
            await self.ask(f"select to_regclass('{self.schema}.events_{month.replace('-', '_')}') is not null")
        )  # fmt: skip


@pytest.fixture
async def place(database: str) -> AsyncIterator[Place]:
    store = await PostgresStore.connect(database)
    administration = await PostgresAdministration.connect(database)
    yield Place(database, store, administration)
    await administration.aclose()
    await store.aclose()


async def ended(store: Store, count: int = 3, at_ms: int = BORN_MS) -> list[Story]:
    """Runs that have ended, with effects and gates."""
    stories = [Story(at_ms=at_ms, tenant=f"tenant {n}") for n in range(count)]
    for story in stories:
        await put(store, *story.whole())
        assert story.state.ended
    return stories


async def ended_together(store: Store, count: int) -> list[Story]:
    """The same, in few commits."""
    stories = [Story() for _ in range(count)]
    for appends in zip(*(list(story.whole()) for story in stories), strict=True):
        assert set(await store.append(appends)) == {None}
    return stories


async def test_an_archived_month_is_read_as_before(place: Place) -> None:
    stories = await ended(place.store)
    rows, effects = await place.store.runs(), [await place.store.effects(run=story.run) for story in stories]
    gates = await place.store.gates(open_only=False)
    freed = await place.administration.archive(MONTH)
    assert (freed.runs, freed.events) == (3, sum(len(story.history) for story in stories))
    assert not await place.has_partition()
    for story, before in zip(stories, effects, strict=True):
        assert await place.store.events(story.run) == tuple(story.history)
        assert await place.store.events(story.run, 3, 2) == tuple(story.history[3:5])
        assert await place.store.events(story.run, len(story.history)) == ()
        assert fold(await place.store.load(story.run, FOLD_VERSION)) == story.state
        assert await place.store.effects(run=story.run) == before != []
        assert await place.store.effects(run=story.run, state="failed") == []
    assert await place.store.runs() == rows
    assert await place.store.gates(open_only=False) == gates
    told, _ = await place.store.tail(None, 1000)
    assert [each.recorded for each in told if each.run == stories[0].run] == stories[0].history


async def test_an_archive_is_the_events_byte_for_byte(place: Place) -> None:
    (story,) = await ended(place.store, 1)
    payloads = await place.ask(
        f"select array_agg(encode(payload, 'escape') order by seq) from {place.schema}.events where run = '{story.run}'"
    )
    await place.administration.archive(MONTH)
    sha256 = await place.ask(f"select sha256 from {place.schema}.archives")
    lines = gzip.decompress(await place.store.get(story.tenant, MONTH, sha256)).decode().splitlines()
    assert json.loads(lines[0])["run"] == story.run
    for payload, line in zip(payloads, lines[1:], strict=False):
        assert line.endswith(f'"event":{payload}}}')


async def test_a_month_is_held_back_by_name_of_the_runs_that_may_still_go_on(place: Place) -> None:
    await ended(place.store)
    waiting, other = Story(), Story(at_ms=NEXT_MS)
    await put(place.store, waiting.start(), waiting.draft(), waiting.ask())
    await put(place.store, *other.whole())
    with pytest.raises(MonthHeld, match=waiting.run) as held:
        await place.administration.archive(MONTH)
    assert [(each.run, each.why) for each in held.value.runs] == [(waiting.run, "unended")]
    assert await place.has_partition()
    assert await place.ask(f"select count(*) from {place.schema}.archives") == 0
    await place.administration.archive(NEXT)  # no month waits for another
    assert not await place.has_partition(NEXT)
    await put(place.store, waiting.answer("reject"))
    assert waiting.state.ended
    assert (await place.administration.archive(MONTH)).runs == 4


async def test_an_ended_run_with_money_in_doubt_holds_its_month_back(place: Place) -> None:
    (story,) = await ended(place.store, 1)
    for column, value, why in (
        ("in_doubt_nanousd", "5", "money"), ("held_nanousd", "5", "money"), ("sessions", "'{a}'", "call"),
    ):  # fmt: skip
        before = await place.ask(f"select {column} from {place.schema}.runs")
        await place.ask(f"update {place.schema}.runs set {column} = {value}")
        with pytest.raises(MonthHeld) as held:
            await place.administration.archive(MONTH)
        assert [(each.run, each.why) for each in held.value.runs] == [(story.run, why)]
        await place.ask(f"update {place.schema}.runs set {column} = {'0' if before == 0 else chr(39) + '{}' + chr(39)}")
    await place.ask(f"update {place.schema}.effects set state = 'in_doubt'")
    with pytest.raises(MonthHeld) as held:
        await place.administration.archive(MONTH)
    assert [each.why for each in held.value.runs] == ["effect"]


async def test_a_month_that_is_not_over_is_not_archived(place: Place) -> None:
    now = time.strftime("%Y-%m", time.gmtime())
    for month in (now, "2999-01"):
        with pytest.raises(UsageError, match="not over"):
            await place.administration.archive(month)
    for month in ("", "2023", "2023-13", "23-1", "2023-1", "November"):
        with pytest.raises(UsageError, match="no month"):
            await place.administration.archive(month)
    with pytest.raises(UsageError, match="future"):
        await place.administration.prune("2999-01")


def late(story: Story) -> Append:
    """What may still be said of a run that has ended and waits for nothing."""
    before = story.state.seq
    event = OutcomeOrphaned(story.call, inline("late"), None)
    story.at_ms += 1
    evolve(story.state, event, story.at_ms)
    return story.happens(before, [event])


async def test_what_is_said_of_a_run_after_it_was_archived_is_kept(place: Place) -> None:
    first, second = await ended(place.store, 2)
    await place.administration.archive(MONTH)
    await put(place.store, late(first))
    assert await place.store.events(first.run) == tuple(first.history)
    assert await place.store.events(first.run, len(first.history) - 1) == tuple(first.history[-1:])
    assert fold(await place.store.load(first.run, FOLD_VERSION)) == first.state
    (month,) = (await place.administration.standing()).months
    assert month.state == "partly archived"
    with pytest.raises(MonthHeld, match="store archive"):
        await place.administration.prune(NEXT)
    await place.administration.archive(MONTH)
    assert not await place.has_partition()
    assert await place.store.events(first.run) == tuple(first.history)
    assert await place.store.events(second.run) == tuple(second.history)
    assert await place.store.effects(run=first.run) != []


async def test_an_archived_run_is_final_even_if_it_failed(place: Place) -> None:
    (story,) = await ended(place.store, 1)
    assert not await place.store.is_archived(story.run)
    await place.administration.archive(MONTH)
    assert await place.store.is_archived(story.run)
    async with Engine.open(place.database, execute=False) as engine:
        with pytest.raises(Conflict, match="is archived with its month, and final"):
            await engine.retry(story.run)
    assert (await place.store.seqs([story.run]))[story.run] == len(story.history)


async def test_an_append_between_archive_and_farewell_is_not_lost(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (story,) = await ended(place.store, 1)
    let_go = retention.Retention._let_go
    said: list[Append] = []

    async def meanwhile(self: retention.Retention, month: Any) -> bool:
        if not said:
            said.append(late(story))
            await put(place.store, *said)
        return await let_go(self, month)

    monkeypatch.setattr(retention.Retention, "_let_go", meanwhile)
    assert (await place.administration.archive(MONTH)).events == len(story.history)
    assert not await place.has_partition()
    assert await place.store.events(story.run) == tuple(story.history)


async def test_who_reads_and_writes_while_a_month_goes_notices_nothing(place: Place) -> None:
    stories = await ended(place.store, 20)
    living = Story(at_ms=NEXT_MS)
    await put(place.store, living.start())
    over = asyncio.Event()

    async def reads() -> int:
        count = 0
        while not over.is_set():
            story = stories[count % len(stories)]
            assert await place.store.events(story.run) == tuple(story.history)
            assert await place.store.effects(run=story.run) != []
            count += 1
        return count

    async def writes() -> int:
        count = 0
        while not over.is_set():
            await put(place.store, living.does(cmd.SendSignal("more")))
            count += 1
        return count

    working = [asyncio.create_task(each) for each in (reads(), reads(), writes())]
    await asyncio.sleep(0.2)
    await place.administration.archive(MONTH)
    await asyncio.sleep(0.2)
    over.set()
    assert min(await asyncio.gather(*working)) > 20
    assert not await place.has_partition()


async def test_a_month_that_somebody_reads_for_long_is_let_go_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (story,) = await ended(place.store, 1)
    monkeypatch.setattr(retention, "_MOST_TRIES", 2)
    reader = await asyncpg.connect(place.database.partition("?")[0])
    async with reader.transaction():
        await reader.fetch(f"select * from {place.schema}.events")
        with pytest.raises(StoreBusy, match="later"):
            await place.administration.archive(MONTH)
        assert await place.has_partition()
    await place.administration.archive(MONTH)
    assert not await place.has_partition()
    assert await place.store.events(story.run) == tuple(story.history)
    await reader.close()


async def test_an_archiving_that_is_killed_anywhere_loses_nothing_and_is_done_again(place: Place) -> None:
    stories = await ended_together(place.store, 200)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    kills = 0
    for delay_s in (0.0, 0.02, 0.04, 0.08, 0.12, 0.2, 0.3, 0.5):
        archiver = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.stores.archiver", place.database, MONTH, stdout=PIPE, env=environment
        )
        assert archiver.stdout is not None
        assert await asyncio.wait_for(archiver.stdout.readline(), 30) == b"ready\n"
        await asyncio.sleep(delay_s)
        if archiver.returncode is None:
            archiver.kill()
        kills += await archiver.wait() == -signal.SIGKILL
        for story in stories[::7]:
            assert await place.store.events(story.run) == tuple(story.history)
    assert kills >= 3
    await place.administration.archive(MONTH)
    assert not await place.has_partition()
    for story in stories:
        assert await place.store.events(story.run) == tuple(story.history)


class Forgetful:
    """A place for blobs that acknowledges what it does not keep."""

    async def put(self, tenant: str, month: str, content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    async def get(self, tenant: str, month: str, sha256: str) -> bytes:
        raise NotFound


async def test_no_month_goes_whose_archives_do_not_come_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (story,) = await ended(place.store, 1)
    keeping = retention.Retention.__init__

    def elsewhere(self: retention.Retention, ground: Any) -> None:
        keeping(self, ground)
        self._places = (Forgetful(),)

    monkeypatch.setattr(retention.Retention, "__init__", elsewhere)
    with pytest.raises(CorruptHistory, match=story.run):
        await place.administration.archive(MONTH)
    assert await place.has_partition()
    assert await place.store.events(story.run) == tuple(story.history)


async def test_archives_go_where_large_payloads_go_and_are_found_there(place: Place, tmp_path: Path) -> None:
    """And those that were written before that was set are still found in the table."""
    (first,) = await ended(place.store, 1)
    (second,) = await ended(place.store, 1, NEXT_MS)
    await place.administration.archive(MONTH)
    folder = Folder.open(tmp_path)
    administration = await PostgresAdministration.connect(place.database, folder)
    await administration.archive(NEXT)
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert file.parent.name == NEXT
    assert json.loads(gzip.decompress(file.read_bytes()).partition(b"\n")[0])["run"] == second.run
    store = await PostgresStore.connect(place.database, elsewhere=folder)
    for story in (first, second):
        assert await store.events(story.run) == tuple(story.history)
    with pytest.raises(CorruptHistory, match="missing"):
        await place.store.events(second.run)
    for opened in (administration, store):
        await opened.aclose()


async def test_an_archive_that_is_damaged_is_told_and_hurts_no_other(place: Place) -> None:
    first, second = await ended(place.store, 2)
    await place.administration.archive(MONTH)
    await place.ask(
        f"update {place.schema}.blobs set content = '\\x00' where sha256 ="
        f" (select sha256 from {place.schema}.archives where run = '{first.run}')"
    )
    with pytest.raises(CorruptHistory, match=first.run):
        await place.store.events(first.run)
    assert await place.store.events(second.run) == tuple(second.history)


def test_an_archive_with_anything_wrong_is_refused() -> None:
    run = RunId("018bcfe5-6800-7000-8000-000000000001")
    lines = [EventLine(n, n, "a", "T", msgspec.Raw(b'{"x":%d}' % n)) for n in (1, 2)]
    packed = pack(run, "acme", lines, [])
    assert unpack(run, packed).rows(0, 9) == [(1, 1, b'{"x":1}'), (2, 2, b'{"x":2}')]
    assert pack(run, "acme", lines, []) == packed
    whole = gzip.decompress(packed)
    wrong = [
        packed[:-5], b"", b"text", gzip.compress(b""), gzip.compress(whole[:-2]), gzip.compress(whole.replace(b'"x":2', b'"x":3')),
        pack(RunId("another"), "acme", lines, []), pack(run, "acme", lines[1:], []),
    ]  # fmt: skip
    for each in wrong:
        with pytest.raises(CorruptHistory, match="archive of run"):
            unpack(run, each)


async def test_a_history_that_was_pruned_says_so_and_everything_else_stays(place: Place) -> None:
    (old,) = await ended(place.store, 1)
    (young,) = await ended(place.store, 1, NEXT_MS)
    blob = await place.store.put("tenant 0", MONTH, b"large" * 20_000)
    await place.store.put_graph("hash", b"a graph")
    await place.administration.archive(MONTH)
    await place.administration.archive(NEXT)
    freed = await place.administration.prune(NEXT)
    assert (freed.runs, freed.events) == (1, len(old.history))
    assert freed.stored_bytes > 100_000
    with pytest.raises(NotFound, match="removed for good"):
        await place.store.events(old.run)
    with pytest.raises(NotFound, match="removed for good"):
        await place.store.load(old.run, FOLD_VERSION)
    with pytest.raises(NotFound):
        await place.store.get("tenant 0", MONTH, blob)
    assert await place.store.graph("hash") == b"a graph"
    assert await place.store.run(old.run) is not None
    assert await place.store.events(young.run) == tuple(young.history)
    assert (await place.administration.prune(NEXT)).runs == 0
    told, _ = await place.store.tail(None, 1000)
    assert [each.recorded for each in told] == young.history
    assert [month.state for month in (await place.administration.standing()).months] == ["pruned", "archived"]


async def test_months_are_removed_where_large_payloads_are_but_for_what_is_still_meant(
    place: Place, tmp_path: Path
) -> None:
    (story,) = await ended(place.store, 1)
    folder = Folder.open(tmp_path)
    large = await folder.put("acme", MONTH, b"outcome")
    await folder.put("acme", MONTH, b"other")
    response = msgspec.json.encode(Payload(blob=large, size_bytes=7, month=MONTH)).decode()
    await place.ask(
        f"insert into {place.schema}.effect_keys values ('k', 'acme', '{story.run}', '{story.call}', 'h', '{response}')"
    )
    administration = await PostgresAdministration.connect(place.database, folder)
    await administration.archive(MONTH)
    archives = [path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()]
    freed = await administration.prune(NEXT)
    assert freed.stored_bytes == sum(archives) - len(b"outcome")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [large]
    await administration.aclose()


async def test_the_outcome_of_a_tenant_wide_effect_outlives_the_month_in_which_it_was_stored(place: Place) -> None:
    (story,) = await ended(place.store, 1)
    large, other = [await place.store.put("acme", MONTH, content) for content in (b"outcome", b"other")]
    response = msgspec.json.encode(Payload(blob=large, size_bytes=7, month=MONTH)).decode()
    await place.ask(
        f"insert into {place.schema}.effect_keys values ('k', 'acme', '{story.run}', '{story.call}', 'h', '{response}')"
    )
    await place.administration.archive(MONTH)
    await place.administration.prune(NEXT)
    assert await place.store.get("acme", MONTH, large) == b"outcome"
    with pytest.raises(NotFound):
        await place.store.get("acme", MONTH, other)
    assert await place.store.uncounted(BORN_MS * 2, None, 10) == []  # nobody can count what is gone


async def test_months_are_made_ahead_and_the_order_of_commits_is_forgotten_in_time(place: Place) -> None:
    async with Engine.open(place.database):
        count = f"select count(*) from pg_inherits where inhparent = '{place.schema}.events'::regclass"
        while await place.ask(count) != 3:  # the sweep's first turn
            await asyncio.sleep(0.02)
    story, later = Story(), Story()
    begin = await place.store.tail_end()
    await put(place.store, story.start())
    _, cursor = await place.store.tail(begin, 1)
    await place.ask(f"update {place.schema}.moments set at_ms = 0")
    await forget_told(place.store._db)  # up to the oldest moment that is known: which was before the cursor
    assert len((await place.store.tail(cursor, 100))[0]) == len(story.history) - 1
    end = await place.store.tail_end()
    await place.ask(f"update {place.schema}.moments set at_ms = 0")
    await put(place.store, later.start())
    await forget_told(place.store._db)
    assert await place.ask(f"select count(*) from {place.schema}.commits") == 1
    with pytest.raises(CursorLost, match="Begin anew"):
        await place.store.tail(cursor, 100)
    for since in (None, end):
        assert [each.run for each in (await place.store.tail(since, 100))[0]] == [later.run] * len(later.history)


async def test_a_database_out_of_another_server_s_dump_tells_what_comes_from_here_on(place: Place) -> None:
    story = Story()
    await put(place.store, story.start())
    await place.ask(f"update {place.schema}.commits set xid = '4000000000000'")
    await place.ask(f"insert into {place.schema}.moments values ('4000000000000', 9)")
    await place.store.tend()
    seen = len(story.history)
    await put(place.store, story.draft())
    assert [each.recorded for each in (await place.store.tail(None, 100))[0]] == story.history[seen:]
    assert await place.ask(f"select count(*) from {place.schema}.commits") == 1


async def test_after_a_failover_a_tail_says_that_it_cannot_know() -> None:
    story = Story()
    with PostgresServer() as primary, contextlib.closing(PostgresServer()) as standby:
        store = await PostgresStore.connect(primary.url)
        standby.follow(primary, name="standby")
        await put(store, story.start())
        told, cursor = await store.tail(None, 1)
        where = say(primary, "select pg_current_wal_lsn()")
        while say(standby, f"select pg_last_wal_replay_lsn() >= '{where.strip()}'").strip() != "t":
            await asyncio.sleep(0.05)
        primary.stop(signal.SIGQUIT)
        standby.promote()
        after = await PostgresStore.connect(standby.url)
        with pytest.raises(CursorLost, match="failover"):
            await after.tail(cursor, 10)
        assert [each.recorded for each in (await after.tail(None, 100))[0]] == story.history
        assert told[0].recorded == story.history[0]
        for opened in (store, after):
            await opened.aclose()
