"""Months that go, from every kind of store: what is archived is read as before, what may still be needed stays, and a crash
anywhere loses nothing."""

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

import apsw
import asyncpg
import msgspec
import pytest

from holdfast import Engine
from holdfast.compose import open_administration, open_store
from holdfast.core.evolve import evolve
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.events import OutcomeOrphaned
from holdfast.core.facts.state import FOLD_VERSION
from holdfast.core.nouns.conversations import Change, Conversation, ConversationTurn
from holdfast.core.nouns.scores import Score
from holdfast.core.values.content import ContentPart
from holdfast.core.values.ids import RunId
from holdfast.core.values.payload import Payload, inline
from holdfast.engine.background import archive_tail
from holdfast.engine.background.archive_tail import ArchiveTail, _Place
from holdfast.errors import Conflict, CorruptHistory, MonthHeld, NotFound, StoreBusy, UsageError
from holdfast.ports import Administration, Append, BlobPlace, LogPlace, Piece, Store, StreamName, WorkflowRecord
from holdfast.stores import retention
from holdfast.stores.archive import EventLine, pack, unpack
from holdfast.stores.blobs.folder import Folder
from holdfast.stores.month import Month
from holdfast.stores.nouns.tables import Tables
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.retention import PostgresRetention
from holdfast.stores.sqlite.retention import SqliteRetention
from tests.stores.story import BORN_MS, MONTH, NEXT, NEXT_MS, Story, ended, fold, put, snapshot_of


class Place:
    """A store, and its administration."""

    store: Store
    administration: Administration

    def __init__(self, kind: str, where: str) -> None:
        self.where = where
        self.retention: Any = SqliteRetention if kind == "sqlite" else PostgresRetention
        self._ask = self._ask_file if kind == "sqlite" else self._ask_database
        self._closing = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Place:
        self.store, self.administration = await self.again()
        return self

    async def again(self, elsewhere: BlobPlace | None = None) -> tuple[Store, Administration]:
        """The same as other processes have it."""
        store, administration = (await open_store(self.where, elsewhere), await open_administration(self.where, elsewhere))
        self._closing.push_async_callback(store.aclose)
        self._closing.push_async_callback(administration.aclose)
        return store, administration

    async def __aexit__(self, *_: object) -> None:
        await self._closing.aclose()

    async def ask(self, statement: str) -> list[Any]:
        """Meddle with the tables, as no program should; the first column of the answer."""
        return [row[0] for row in await self._ask(statement)]

    async def _ask_file(self, statement: str) -> list[Any]:
        with contextlib.closing(apsw.Connection(self.where)) as db:
            return db.execute(statement).fetchall()

    async def _ask_database(self, statement: str) -> list[Any]:
        schema = Address.of(self.where).schema
        db = await asyncpg.connect(self.where.partition("?")[0], server_settings={"search_path": schema})
        try:
            return await db.fetch(statement)
        finally:
            await db.close()

    async def state(self, month: str = MONTH) -> str:
        (state,) = [each.state for each in (await self.administration.standing()).months if each.month == month]
        return state


@pytest.fixture
def database(new_database: str) -> str:
    """A store that no other test has had: here months are made and go."""
    return new_database


@pytest.fixture(params=["sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    where = str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("database")
    async with Place(request.param, where) as opened:
        yield opened


async def test_a_tail_of_archives_has_each_event_of_each_archived_run_from_any_cursor_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    stories = await ended(place.store)
    await place.administration.archive(MONTH)
    assert await ArchiveTail(place.store).after(None, 9) == ([], str(_Place())), "others may be committed before these"
    monkeypatch.setattr(archive_tail, "SETTLED_MS", -1)
    wanted = sorted((story.run, each.seq) for story in stories for each in story.history)
    cursor, found, sizes = None, [], []
    while True:
        told, cursor = await ArchiveTail(place.store).after(cursor, 5)
        found += told
        sizes.append(len(told))
        if len(told) < 5:
            break
    assert sorted((each.run, each.recorded.seq) for each in found) == wanted
    assert all(size == 5 for size in sizes[:-1])
    again, _ = await ArchiveTail(place.store).after(found[6].cursor, 99)
    assert [each.recorded for each in again] == [each.recorded for each in found[7:]], "it goes on in the middle of a run"
    await place.administration.prune(NEXT)
    left, _ = await ArchiveTail(place.store).after(found[6].cursor, 99)
    assert left == [], "what was removed for good is left out"
    with pytest.raises(UsageError, match="no cursor of archives"):
        await ArchiveTail(place.store).after("17", 1)


async def test_an_archived_month_is_read_as_before(place: Place) -> None:
    stories = await ended(place.store)
    await place.store.log.snapshot(stories[1].run, snapshot_of(stories[1].state))
    rows, effects = (await place.store.views.runs(), [await place.store.views.effects(run=story.run) for story in stories])
    gates = await place.store.views.gates(open_only=False)
    assert await place.state() == "open"
    freed = await place.administration.archive(MONTH)
    assert (freed.runs, freed.events) == (3, sum(len(story.history) for story in stories))
    assert await place.state() == "archived"
    for story, before in zip(stories, effects, strict=True):
        assert await place.store.log.events(story.run) == tuple(story.history)
        assert await place.store.log.events(story.run, 3, 2) == tuple(story.history[3:5])
        assert await place.store.log.events(story.run, len(story.history)) == ()
        assert fold(await place.store.log.load(story.run, FOLD_VERSION)) == story.state
        assert await place.store.views.effects(run=story.run) == before != []
        assert await place.store.views.effects(run=story.run, state="failed") == []
        assert await place.store.views.effects(run=story.run, after=before[-1][0].call) == []
        with pytest.raises(NotFound, match="archived meanwhile"):
            await place.store.views.effects(after=before[-1][0].call)
    assert await place.store.views.runs() == rows
    assert await place.store.views.gates(open_only=False) == gates
    for table in ("events", "effects", "snapshots"):
        assert await place.ask(f"select count(*) from {table} where run = '{stories[1].run}'") == [0]


async def test_an_archive_is_the_events_byte_for_byte(place: Place) -> None:
    (story,) = await ended(place.store, 1)
    payloads = await place.ask(f"select payload from events where run = '{story.run}' order by seq")
    await place.administration.archive(MONTH)
    (sha256,) = await place.ask("select sha256 from archives")
    lines = gzip.decompress(await place.store.blobs.get(story.tenant, MONTH, sha256)).splitlines()
    assert json.loads(lines[0])["run"] == story.run
    assert len(payloads) == len(story.history)
    for payload, line in zip(payloads, lines[1:], strict=False):
        assert b'"event":%s' % payload in line


async def test_a_month_is_held_back_by_name_of_the_runs_that_may_still_go_on(place: Place) -> None:
    await ended(place.store)
    waiting, other = Story(), Story(at_ms=NEXT_MS)
    await put(place.store, waiting.start(), waiting.draft(), waiting.ask())
    await put(place.store, *other.whole())
    with pytest.raises(MonthHeld, match=waiting.run) as held:
        await place.administration.archive(MONTH)
    assert [(each.run, each.why) for each in held.value.runs] == [(waiting.run, "unended")]
    assert await place.state() == "open"
    assert await place.ask("select count(*) from archives") == [0]
    await place.administration.archive(NEXT)  # no month waits for another
    assert await place.state(NEXT) == "archived"
    await put(place.store, waiting.answer("reject"))
    assert waiting.state.ended
    assert (await place.administration.archive(MONTH)).runs == 4


async def test_an_ended_run_with_money_in_doubt_holds_its_month_back(place: Place) -> None:
    (story,) = await ended(place.store, 1)
    none, one = ("[]", '["a"]') if place.retention is SqliteRetention else ("{}", "{a}")
    for column, before, value, why in (
        ("in_doubt_nanousd", 0, 5, "money"),
        ("held_nanousd", 0, 5, "money"),
        ("sessions", none, one, "call"),
    ):
        await place.ask(f"update runs set {column} = '{value}'")
        with pytest.raises(MonthHeld) as held:
            await place.administration.archive(MONTH)
        assert [(each.run, each.why) for each in held.value.runs] == [(story.run, why)]
        await place.ask(f"update runs set {column} = '{before}'")
    await place.ask("update effects set state = 'in_doubt'")
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
    assert await place.store.log.events(first.run) == tuple(first.history)
    assert await place.store.log.events(first.run, len(first.history) - 1) == tuple(first.history[-1:])
    assert fold(await place.store.log.load(first.run, FOLD_VERSION)) == first.state
    assert await place.state() == "partly archived"
    with pytest.raises(MonthHeld, match="store archive"):
        await place.administration.prune(NEXT)
    await place.administration.archive(MONTH)
    assert await place.state() == "archived"
    assert await place.store.log.events(first.run) == tuple(first.history)
    assert await place.store.log.events(second.run) == tuple(second.history)
    assert await place.store.views.effects(run=first.run) != []


async def test_an_archived_run_is_final_even_if_it_failed(place: Place) -> None:
    (story,) = await ended(place.store, 1)
    assert not await place.store.log.is_archived(story.run)
    await place.administration.archive(MONTH)
    assert await place.store.log.is_archived(story.run)
    async with Engine.open(place.where, execute=False) as engine:
        with pytest.raises(Conflict, match="is archived with its month, and final"):
            await engine.retry(story.run)
        with pytest.raises(Conflict, match="is archived with its month, and final"):
            await engine.label_run(story.run, {"late": "yes"})
    assert (await place.store.log.seqs([story.run]))[story.run] == len(story.history)


async def test_an_append_between_archive_and_farewell_is_not_lost(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (story,) = await ended(place.store, 1)
    let_go = place.retention._let_go
    monkeypatch.setattr(retention, "_PAUSE_S", 0)
    said: list[Append] = []

    async def meanwhile(self: retention.Retention, month: Any) -> Any:
        if not said:
            said.append(late(story))
            await put(place.store, *said)
        return await let_go(self, month)

    monkeypatch.setattr(place.retention, "_let_go", meanwhile)
    assert (await place.administration.archive(MONTH)).events == len(story.history)
    assert await place.state() == "archived"
    assert await place.store.log.events(story.run) == tuple(story.history)


async def test_an_archiver_that_comes_late_takes_no_newer_archive_s_place(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two archive the same month; one is slow, and meanwhile more is said of a run and archived by the other."""
    (story,) = await ended(place.store, 1)
    remember = place.retention._remember
    slow: list[object] = []

    async def remembered(self: retention.Retention, archives: Any) -> None:
        if not slow:
            slow.append(self)
            await put(place.store, late(story))
            await (await place.again())[1].archive(MONTH)
        await remember(self, archives)

    monkeypatch.setattr(place.retention, "_remember", remembered)
    assert (await place.administration.archive(MONTH)).events == len(story.history)
    assert await place.store.log.events(story.run) == tuple(story.history)


async def test_of_two_who_archive_a_month_at_once_neither_is_in_the_other_s_way(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one has let it go while the other was about to read it."""
    stories = await ended(place.store, 3)
    _, other = await place.again()
    tables = type(place.store.context.ground.tables)
    ask = tables.ask
    overtaken: list[object] = []

    async def asked(self: Tables, statement: str, *bound: Any) -> Any:
        if statement == "events_to_archive" and not overtaken:
            overtaken.append(self)
            await other.archive(MONTH)
        return await ask(self, statement, *bound)

    monkeypatch.setattr(tables, "ask", asked)
    freed = await place.administration.archive(MONTH)
    monkeypatch.undo()
    assert (freed.runs, await place.state()) == (3, "archived")
    again = await ended(place.store, 3, NEXT_MS)
    for each in await asyncio.gather(place.administration.archive(NEXT), other.archive(NEXT)):
        assert each.runs == 3
    for story in stories + again:
        assert await place.store.log.events(story.run) == tuple(story.history)
        assert len(await place.store.views.effects(run=story.run)) == 1


async def test_who_reads_and_writes_while_a_month_goes_notices_nothing(place: Place) -> None:
    stories = await ended(place.store, 20)
    living = Story(at_ms=NEXT_MS)
    await put(place.store, living.start())
    over = asyncio.Event()
    counts = [0, 0, 0]

    async def reads(mine: int) -> None:
        while not over.is_set():
            story = stories[counts[mine] % len(stories)]
            assert await place.store.log.events(story.run) == tuple(story.history)
            assert await place.store.views.effects(run=story.run) != []
            counts[mine] += 1

    async def writes() -> None:
        while not over.is_set():
            await put(place.store, living.does(cmd.SendSignal("more")))
            counts[2] += 1

    async def many() -> None:
        target = min(counts) + 10
        while min(counts) < target:
            await asyncio.sleep(0.002)

    working = [asyncio.create_task(each) for each in (reads(0), reads(1), writes())]
    await many()
    await place.administration.archive(MONTH)
    await many()
    over.set()
    await asyncio.gather(*working)
    assert await place.state() == "archived"


async def test_an_archiving_that_is_killed_anywhere_loses_nothing_and_is_done_again(place: Place) -> None:
    """At each point at which something lasts, in a month of its own."""
    archiver = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.stores.archiver",
        place.where,
        stdin=PIPE,
        stdout=PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert archiver.stdin is not None
    assert archiver.stdout is not None
    assert await asyncio.wait_for(archiver.stdout.readline(), 30) == b"ready\n"
    killed, month = 0, Month.parse(MONTH)
    while True:
        at_ms = BORN_MS + killed * 30 * 24 * 3600 * 1000
        month = Month.at(at_ms)
        stories = await ended(place.store, 2, at_ms)
        await place.store.job_logs.keep([(LogPlace(stories[0].run, "greet", 1, 0), b"hello", "t")], [])
        archiver.stdin.write(f"{month} {killed + 1}\n".encode())
        status = int(await asyncio.wait_for(archiver.stdout.readline(), 30))
        for story in stories:
            assert await place.store.log.events(story.run) == tuple(story.history)
            assert await place.store.log.events(story.run, 5) == tuple(story.history[5:])
            assert len(await place.store.views.effects(run=story.run)) == 1
        if not status:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        killed += 1
        await place.administration.archive(str(month))
        assert await place.state(str(month)) == "archived"
        assert await place.store.job_logs.pieces(stories[0].run) == []
        for story in stories:
            assert await place.store.log.events(story.run) == tuple(story.history)
            assert len(await place.store.views.effects(run=story.run)) == 1
    assert killed >= 10
    archiver.kill()
    await archiver.communicate()


class Forgetful:
    """A place for blobs that acknowledges what it does not keep."""

    async def put(self, tenant: str, month: str, content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    async def get(self, tenant: str, month: str, sha256: str) -> bytes:
        raise NotFound


async def test_no_month_goes_whose_archives_do_not_come_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (story,) = await ended(place.store, 1)
    _, administration = await place.again(Forgetful())  # type: ignore[arg-type]
    with pytest.raises(CorruptHistory, match=story.run):
        await administration.archive(MONTH)
    assert await place.state() == "open"
    assert await place.store.log.events(story.run) == tuple(story.history)


async def test_archives_go_where_large_payloads_go_and_are_found_there(place: Place, tmp_path: Path) -> None:
    """And those that were written before that was set are still found in the table."""
    (first,) = await ended(place.store, 1)
    (second,) = await ended(place.store, 1, NEXT_MS)
    await place.administration.archive(MONTH)
    (tmp_path / "payloads").mkdir()
    folder = Folder.open(tmp_path / "payloads")
    store, administration = await place.again(folder)
    await administration.archive(NEXT)
    (file,) = [path for path in (tmp_path / "payloads").rglob("*") if path.is_file()]
    assert file.parent.name == NEXT
    assert json.loads(gzip.decompress(file.read_bytes()).partition(b"\n")[0])["run"] == second.run
    for story in (first, second):
        assert await store.log.events(story.run) == tuple(story.history)
    with pytest.raises(CorruptHistory, match="missing"):
        await place.store.log.events(second.run)


async def test_a_damaged_archive_is_reported_and_hurts_no_other(place: Place) -> None:
    first, second = await ended(place.store, 2)
    await place.administration.archive(MONTH)
    (sha256,) = await place.ask(f"select sha256 from archives where run = '{first.run}'")
    (empty,) = ["x''"] if place.retention is SqliteRetention else ["''::bytea"]
    await place.ask(f"update blobs set content = {empty} where sha256 = '{sha256}'")
    with pytest.raises(CorruptHistory, match=first.run):
        await place.store.log.events(first.run)
    assert await place.store.log.events(second.run) == tuple(second.history)


def test_an_archive_with_anything_wrong_is_refused() -> None:
    run = RunId("018bcfe5-6800-7000-8000-000000000001")
    lines = [EventLine(n, n, "a", "T", msgspec.Raw(b'{"x":%d}' % n)) for n in (1, 2)]
    packed = pack(run, "acme", lines, [])
    assert unpack(run, packed).rows(0, 9) == [(1, 1, b'{"x":1}', None), (2, 2, b'{"x":2}', None)]
    assert unpack(run, packed).rows(1, None) == [(2, 2, b'{"x":2}', None)]
    assert pack(run, "acme", lines, []) == packed
    whole = gzip.decompress(packed)
    wrong = [
        packed[:-5],
        b"",
        b"text",
        gzip.compress(b""),
        gzip.compress(whole[:-2]),
        gzip.compress(whole.replace(b'"x":2', b'"x":3')),
        pack(RunId("another"), "acme", lines, []),
        pack(run, "acme", lines[1:], []),
    ]
    for each in wrong:
        with pytest.raises(CorruptHistory, match="archive of run"):
            unpack(run, each)


async def test_what_jobs_have_printed_goes_with_their_runs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """And that of others stays. However often it has to be begun anew: nobody comes back to a month that has gone."""
    monkeypatch.setattr(retention, "MAX_RUNS", 2)
    (old,) = await ended(place.store, 1)
    (young,) = await ended(place.store, 1, NEXT_MS)
    pieces = [(LogPlace(story.run, "greet", 1, first), b"hello", "t") for story in (old, young) for first in range(0, 25, 5)]
    await place.store.job_logs.keep(pieces, [])
    said = [Piece(StreamName(story.run, "progress"), str(n), 1, b"1") for story in (old, young) for n in range(5)]
    await place.store.streams.append(said)

    async def not_yet(*_: object) -> bool:
        return False

    with monkeypatch.context() as patched:
        patched.setattr(retention, "_MAX_TRIES", 1)
        patched.setattr(retention, "_PAUSE_S", 0)
        patched.setattr(place.retention, "_let_go", not_yet)
        with pytest.raises(StoreBusy, match="could not be let go"):
            await place.administration.archive(MONTH)
    assert await place.store.job_logs.pieces(old.run) == []
    await place.administration.archive(MONTH)
    assert len(await place.store.job_logs.pieces(young.run)) == 5
    assert await place.store.streams.sizes([old.run, young.run]) == {StreamName(young.run, "progress"): 5}
    assert len(await place.store.streams.chunks([old.run, young.run], {}, 100)) == 5
    await place.store.job_logs.keep(pieces[:5], [])  # by a process that was late
    await place.administration.prune(NEXT)
    assert await place.store.job_logs.pieces(old.run) == []
    assert len(await place.store.job_logs.pieces(young.run)) == 5


async def test_scores_outlive_the_tables_and_go_with_their_runs_for_good(place: Place) -> None:
    (old,), (young,) = await ended(place.store, 1), await ended(place.store, 1, NEXT_MS)
    score = Score("helpful", 0.5, "ann", "person", "", BORN_MS)
    for story in (old, young):
        assert await place.store.scores.add(story.run, score, 9)
    await place.administration.archive(MONTH)
    assert await place.store.scores.add(old.run, score, 9)
    assert list(await place.store.scores.of_run(old.run)) == [score, score]
    await place.administration.prune(NEXT)
    assert list(await place.store.scores.of_run(old.run)) == []
    assert list(await place.store.scores.of_run(young.run)) == [score]


async def test_labels_outlive_the_tables_and_go_with_their_runs_for_good(place: Place) -> None:
    (old,), (young,) = await ended(place.store, 1), await ended(place.store, 1, NEXT_MS)
    await put(place.store, old.label(a="1", b="2"), young.label(a="1"))
    await place.administration.archive(MONTH)
    assert [row.run for row in await place.store.views.runs(labels=[("a", "1")])] == [young.run, old.run]
    await place.administration.prune(NEXT)
    assert await place.store.views.labels([old.run, young.run]) == {young.run: [("a", "1")]}
    assert [each.runs for each in await place.store.views.label_counts()] == [1]


async def test_a_history_that_was_pruned_says_so_and_everything_else_stays(place: Place) -> None:
    (young,) = await ended(place.store, 1, NEXT_MS)
    (old,) = await ended(place.store, 1)
    blob = await place.store.blobs.put("tenant 0", MONTH, b"large" * 20_000)
    await place.store.graphs.put_workflow(WorkflowRecord("flow", 1, "hash"), b"a graph")
    await place.administration.archive(MONTH)
    await place.administration.archive(NEXT)
    freed = await place.administration.prune(NEXT)
    assert (freed.runs, freed.events) == (1, len(old.history))
    assert freed.stored_bytes > 100_000
    for asked in (place.store.log.events(old.run), place.store.log.load(old.run, FOLD_VERSION)):
        with pytest.raises(NotFound, match=r"removed for good .*\(20[2-9]\d-\d\d\)"):
            await asked
    with pytest.raises(NotFound):
        await place.store.blobs.get("tenant 0", MONTH, blob)
    assert await place.store.graphs.graph("hash") == b"a graph"
    assert await place.store.views.run(old.run) is not None
    assert await place.store.log.events(young.run) == tuple(young.history)
    assert (await place.administration.prune(NEXT)).runs == 0
    assert (await place.state(MONTH), await place.state(NEXT)) == ("pruned", "archived")
    found = await place.store.costs.uncounted([old.run, young.run])
    assert [each.run for each in found] == [young.run], "nobody can count what was removed for good"


async def test_nothing_is_removed_for_good_that_is_still_in_the_tables(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an archiving was cut short after the archives were written."""
    (story,) = await ended(place.store, 1)

    async def dies(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(place.retention, "_let_go", dies)
        with pytest.raises(KeyboardInterrupt):
            await place.administration.archive(MONTH)
    assert await place.state() == "partly archived"
    with pytest.raises(MonthHeld, match="still in the tables"):
        await place.administration.prune(NEXT)
    assert await place.store.log.events(story.run) == tuple(story.history)
    await place.administration.archive(MONTH)
    assert (await place.administration.prune(NEXT)).runs == 1


async def kept(place: Place, story: Story, large: str) -> None:
    """A tenant-wide effect whose outcome is a large payload."""
    response = msgspec.json.encode(Payload(blob=large, size_bytes=7, month=MONTH)).decode()
    as_bytes = f"cast('{response}' as blob)" if place.retention is SqliteRetention else f"'{response}'"
    await place.ask(
        f"insert into effect_keys (effect_key, tenant, run, call, args_hash, response)"
        f" values ('k', 'acme', '{story.run}', '{story.call}', 'h', {as_bytes})"
    )


async def test_months_are_removed_where_large_payloads_are_but_for_what_is_still_meant(place: Place, tmp_path: Path) -> None:
    (story,) = await ended(place.store, 1)
    there = tmp_path / "payloads"
    there.mkdir()
    folder = Folder.open(there)
    large = await folder.put("acme", MONTH, b"outcome")
    await folder.put("acme", MONTH, b"other")
    await kept(place, story, large)
    _, administration = await place.again(folder)
    await administration.archive(MONTH)
    archives = [path.stat().st_size for path in there.rglob("*") if path.is_file()]
    freed = await administration.prune(NEXT)
    assert freed.stored_bytes == sum(archives) - len(b"outcome")
    assert [path.name for path in there.rglob("*") if path.is_file()] == [large]


async def test_the_outcome_of_a_tenant_wide_effect_outlives_the_month_of_its_payload(place: Place) -> None:
    (story,) = await ended(place.store, 1)
    large, other = [await place.store.blobs.put("acme", MONTH, content) for content in (b"outcome", b"other")]
    await kept(place, story, large)
    await place.administration.archive(MONTH)
    await place.administration.prune(NEXT)
    assert await place.store.blobs.get("acme", MONTH, large) == b"outcome"
    with pytest.raises(NotFound):
        await place.store.blobs.get("acme", MONTH, other)


async def test_what_is_attached_to_a_message_outlives_the_month_in_which_it_was_said(place: Place) -> None:
    await ended(place.store, 1)
    picture, other = [await place.store.blobs.put("acme", MONTH, content) for content in (b"picture", b"other")]
    talk = Conversation(id="c", tenant="acme", workflow="helper", made_at_ms=BORN_MS, said=2)
    messages = (
        ConversationTurn(number=1, text="See:", at_ms=BORN_MS, parts=(ContentPart("image", "image/png", picture, 7, MONTH),)),
        ConversationTurn(number=2, text='It says "parts":', at_ms=BORN_MS),
    )
    assert await place.store.conversations.put(Change(talk, messages))
    await place.administration.archive(MONTH)
    await place.administration.prune(NEXT)
    assert await place.store.blobs.get("acme", MONTH, picture) == b"picture"
    with pytest.raises(NotFound):
        await place.store.blobs.get("acme", MONTH, other)
