"""What is true of the SQLite store in particular: its file, the processes around it, and what they do to each other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import apsw
import msgspec
import pytest

from holdfast.core.capacity.lending import Visit, Visitor
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import FOLD_VERSION
from holdfast.core.values.audit import Entry
from holdfast.core.values.ids import RunId, SessionId
from holdfast.core.values.payload import inline
from holdfast.errors import (
    CorruptHistory,
    NotAStore,
    StoreBusy,
    StoreError,
    StoreGone,
    StoreTooNew,
    StoreUnreadable,
    TooMuch,
    UnknownCommit,
    Unstorable,
    UsageError,
)
from holdfast.stores.nouns.tables import Steps, do
from holdfast.stores.sqlite import SqliteStore, thread
from holdfast.stores.sqlite.context import StoreClock
from holdfast.stores.sqlite.database import APPLICATION_ID, LATEST, MIGRATIONS, accept, locks_of, log_of
from holdfast.stores.sqlite.lock import is_free
from holdfast.stores.sqlite.write_lock import WriteLock
from tests.forks import AsyncFork
from tests.stores.conformance import SLOTS, holder, visits
from tests.stores.rollback import ROLLED_BACK, rolled_back
from tests.stores.story import ASKS, TINY, Story, fold

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60
THEIRS = SessionId("theirs")

Start = Callable[..., Awaitable[AsyncFork]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts other processes, and ends them with the test."""
    started: list[AsyncFork] = []

    async def another(what: str, path: Path, *rest: object) -> AsyncFork:
        started.append(await AsyncFork.start("tests.stores.process", what, path, *rest))
        return started[-1]

    yield another
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(process.communicate(), PATIENCE_S)  # to the end, or its pipes outlive the loop


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., Awaitable[SqliteStore]]]:
    stores: list[SqliteStore] = []

    async def connect(path: Path, **options: float) -> SqliteStore:
        stores.append(await SqliteStore.connect(path, **options))  # type: ignore[arg-type]
        return stores[-1]

    yield connect
    for store in stores:
        await store.aclose()


Opened = Callable[..., Awaitable[SqliteStore]]


async def line(process: AsyncFork) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)).decode().strip()


def tell(process: AsyncFork, text: str = "go on") -> None:
    assert process.stdin is not None
    process.stdin.write(f"{text}\n".encode())


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.005)


def sql(path: Path, statement: str) -> object:
    """Meddle with the file, as no program should."""
    with contextlib.closing(apsw.Connection(str(path))) as db:
        return db.execute(statement).get


# --- Crashes ----------------------------------------------------------------------------------------------------------


async def test_whatever_was_acknowledged_survives_kill_9(path: Path, start: Start, opened: Opened) -> None:
    acknowledged: dict[RunId, int] = {}
    for many in (1, 30, 100):
        process = await start("append", path)
        run = RunId((await line(process)).removeprefix("run "))
        for _ in range(many):
            acknowledged[run] = int(await line(process))
        process.kill()
        await process.wait()
        assert process.stdout is not None
        for rest in (await process.stdout.read()).split():  # said before it died
            acknowledged[run] = int(rest)
    store = await opened(path)
    for run, seq in acknowledged.items():
        events = await store.log.events(run)
        assert [recorded.seq for recorded in events] == list(range(1, len(events) + 1))
        assert len(events) >= seq
        row = await store.views.run(run)
        assert row is not None
        assert row.seq == len(events) == fold(await store.log.load(run, FOLD_VERSION)).seq
    assert sql(path, "pragma integrity_check") == "ok"


@pytest.mark.parametrize("left", ["", "begin; create table t (a)", "pragma journal_mode = wal"])
async def test_a_process_that_died_while_making_the_file_left_one_that_opens(path: Path, left: str, opened: Opened) -> None:
    path.touch()
    if left:
        sql(path, left)
        locks_of(path).mkdir()
        (locks_of(path) / "turning").touch()
    store, story = await opened(path), Story()
    assert list(await store.log.append([story.start()])) == [None]


async def test_a_store_whose_log_is_missing_says_so_and_goes_on_on_request(path: Path, opened: Opened) -> None:
    """The live file copied alone is from the past, and of a store that is new it is empty."""
    store, story, late = await opened(path), Story(), Story()
    await store.log.append([story.start()])
    copy = path.with_name("copy.db")
    for moment in ("new", "later"):
        if moment == "later":
            sql(path, "pragma wal_checkpoint")
            await store.log.append([late.start()])
        copy.write_bytes(path.read_bytes())
        before = copy.read_bytes()
        with pytest.raises(StoreUnreadable, match=r"copy\.db-wal is not beside it.*store accept"):
            await SqliteStore.connect(copy)
        assert copy.read_bytes() == before
    with pytest.raises(StoreBusy, match="in use"):
        accept(path, 1.0)
    accept(copy, 1.0)
    again = await opened(copy)
    assert [row.run for row in await again.views.runs()] == [story.run]
    assert [row.run for row in await store.views.runs()] == [late.run, story.run], "the store itself is as it was"


async def test_a_store_is_whole_without_a_log_when_its_last_process_has_closed_it(
    path: Path, start: Start, opened: Opened
) -> None:
    """One that closes leaves no log; one that is killed leaves it."""
    first, second = await SqliteStore.connect(path), await SqliteStore.connect(path)
    story = Story()
    await first.log.append([story.start()])
    await first.aclose()
    assert log_of(path).exists()
    await second.aclose()
    assert not log_of(path).exists()
    process = await start("append", path)
    await line(process)
    await line(process)
    process.kill()
    await process.wait()
    assert log_of(path).exists()
    third = await opened(path)
    assert len(await third.views.runs()) == 2


async def test_processes_that_open_a_new_store_at_the_same_instant_all_succeed(
    path: Path, start: Start, opened: Opened
) -> None:
    processes = await asyncio.gather(*(start("first", path) for _ in range(4)))
    for process in processes:
        assert await line(process) == "ready"
    for process in processes:
        tell(process)
    started = [(await line(process)).split() for process in processes]
    assert [fate for _, fate in started] == ["None"] * 4
    store = await opened(path)
    assert {row.run for row in await store.views.runs()} == {run for run, _ in started}


async def test_concurrent_opens_and_closes_of_a_store_never_report_a_lost_log(path: Path) -> None:
    async def come_and_go() -> None:
        for _ in range(40):
            store = await SqliteStore.connect(path)
            await store.aclose()

    await asyncio.gather(*(come_and_go() for _ in range(3)))


async def test_a_disk_that_is_full_loses_nothing_and_work_goes_on_when_there_is_room(
    path: Path, start: Start, opened: Opened
) -> None:
    process = await start("full", path)
    word, taken, said = (await line(process)).split(maxsplit=2)
    assert (word, said) == ("full", f"There is no room left for {path}")
    assert 5 < int(taken) < 30
    assert await line(process) == str(2 + int(taken))
    fate, seq = (await line(process)).split()
    assert fate == "None"
    assert await process.wait() == 0
    store = await opened(path)
    ((row),) = await store.views.runs()
    assert row.seq == len(await store.log.events(row.run)) == int(seq) == 3 + int(taken)


class FailingDisk(apsw.VFS):
    """A disk that loses its word when it is told to keep something: the sync after a commit fails, once."""

    def __init__(self) -> None:
        self.fails = False
        super().__init__("failing", base="unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return FailingFile(self, name, flags)


class FailingFile(apsw.VFSFile):
    def __init__(self, disk: FailingDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self.disk = disk
        super().__init__("unix", name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self.disk.fails:
            self.disk.fails = False
            problem = apsw.IOError("the disk lost its word")
            problem.extendedresult = apsw.SQLITE_IOERR_FSYNC  # type: ignore[attr-defined]
            raise problem
        super().xSync(flags)


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    disk = FailingDisk()
    yield disk
    disk.unregister()


async def test_a_commit_that_the_disk_did_not_confirm_is_unknown_and_appended_again(path: Path, disk: FailingDisk) -> None:
    store, story = await SqliteStore.connect(path), Story()
    await store.log.append([story.start()])
    again = story.draft()
    disk.fails = True
    with pytest.raises(UnknownCommit):
        await store.log.append([again])
    assert list(await store.log.append([again])) == [None]
    assert list(await store.log.append([again])) == [None]
    assert await store.log.events(story.run) == tuple(story.history)
    await store.aclose()


# --- Files that are no store, or no store of ours ---------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a note", "not a database at all\n" * 1000])
async def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(NotAStore, match="not even a SQLite database"):
        await SqliteStore.connect(path)
    assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


async def test_a_store_that_another_process_is_making_is_waited_for(path: Path) -> None:
    """What stands in the file until then may be half of it, and no database."""
    async with contextlib.aclosing(await SqliteStore.connect(path)):
        pass
    whole = path.read_bytes()
    path.unlink()
    (locks_of(path) / "made").unlink()
    with contextlib.closing(WriteLock(locks_of(path), PATIENCE_S)) as turnstile:
        with turnstile:
            path.write_bytes(whole[: len(whole) // 8])
            opening = asyncio.create_task(SqliteStore.connect(path))
            assert not (await asyncio.wait([opening], timeout=0.2))[0]
            path.write_bytes(whole)
        await (await opening).aclose()


async def test_the_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    sql(path, "create table theirs (a); insert into theirs values (1)")
    before = path.read_bytes()
    with pytest.raises(NotAStore, match="another program"):
        await SqliteStore.connect(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


async def test_a_store_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    await (await SqliteStore.connect(path)).aclose()
    sql(path, "pragma user_version = 99")
    with pytest.raises(StoreTooNew, match="version 99") as refusal:
        await SqliteStore.connect(path)
    assert (refusal.value.found, refusal.value.known) == (99, LATEST)  # type: ignore[attr-defined]
    assert sql(path, "pragma user_version") == 99


def take_back(path: Path, version: int) -> None:
    """Undo what the migrations after that version did."""
    for later in [migration for migration in reversed(MIGRATIONS) if migration.version > version]:
        for trigger in re.findall(r"^create trigger (\w+)", later.sql, re.MULTILINE):
            sql(path, f"drop trigger {trigger}")
        for index in re.findall(r"^create index (\w+)", later.sql, re.MULTILINE):
            sql(path, f"drop index if exists {index}")
        renamed = re.findall(r"^alter table (\w+) rename to", later.sql, re.MULTILINE)
        for table in {*re.findall(r"^create (?:virtual )?table (\w+)", later.sql, re.MULTILINE)} - {*renamed}:
            sql(path, f"drop table {table}")
        for table, column in re.findall(r"^alter table (\w+) add column (\w+)", later.sql, re.MULTILINE):
            sql(path, f"alter table {table} drop column {column}")
    sql(path, f"pragma user_version = {version}")


async def test_a_store_of_an_earlier_version_is_brought_up_to_date_with_what_is_in_it(path: Path, opened: Opened) -> None:
    """Every earlier version: the tables of today less those that came after it."""
    for version in [migration.version for migration in MIGRATIONS[:-1]]:
        old = path.with_name(f"{version}.db")
        store, story = await SqliteStore.connect(old), Story()
        await store.log.append([story.start(by="shop"), Story().start()])
        await store.log.append([story.draft()])
        await store.aclose()
        take_back(old, version)
        again = await opened(old)
        assert sql(old, "pragma user_version") == LATEST
        kept = [msgspec.structs.replace(each, trace_id=None) for each in story.history]  # nobody kept traces then
        assert await again.log.events(story.run) == tuple(kept)
        await again.log.append([story.ask()])
        row = await again.views.run(story.run)
        assert row is not None
        assert row.started_by == "shop", "its next event tells, whatever its row did not know"
        other = Story()
        assert list(await again.log.append([other.start(), Story().start()])) == [None, None]
        assert list(await again.log.append([other.hold(60)])) == [None]
        assert (await again.scopes.balances(["tenant/acme/day/2023-11-14"]))[0].held == 60


async def test_a_run_that_stood_in_line_before_lines_had_their_workflows_is_found(path: Path, opened: Opened) -> None:
    store, story = await SqliteStore.connect(path), Story(graph=ASKS)
    await store.log.append([story.start()])
    await store.aclose()
    take_back(path, 8)
    again = await opened(path)
    assert [each.run for each in await again.views.stranded(2**62, 10)] == [story.run]


async def test_an_empty_file_becomes_a_store(path: Path, opened: Opened) -> None:
    path.touch()
    await opened(path)
    assert sql(path, "pragma application_id") == APPLICATION_ID
    assert sql(path, "pragma journal_mode") == "wal"


async def test_a_copy_made_by_sqlite_is_a_store(path: Path, opened: Opened) -> None:
    store, story = await opened(path), Story()
    await store.log.append([story.start()])
    copy = path.with_name("copy.db")
    sql(path, f"vacuum into '{copy}'")
    restored = await opened(copy)
    assert sql(copy, "pragma journal_mode") == "wal"
    assert fold(await restored.log.load(story.run, FOLD_VERSION)) == story.state


@pytest.mark.parametrize("where", ["", ":memory:"])
async def test_a_store_must_be_a_file(where: str) -> None:
    with pytest.raises(UsageError):
        await SqliteStore.connect(where)


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreadable, match=r"There is no directory .*missing"):
        await SqliteStore.connect(tmp_path / "missing" / "holdfast.db")
    with pytest.raises(StoreUnreadable, match="is a directory"):
        await SqliteStore.connect(tmp_path)


@contextlib.contextmanager
def nobody_in_particular() -> Iterator[None]:
    """As a user to whom the rights of files apply."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("closed", ["file", "directory", "both", "new file"])
async def test_what_may_not_be_written_is_named(closed: str) -> None:
    with nobody_in_particular(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "holdfast.db"
        if closed != "new file":
            await (await SqliteStore.connect(path)).aclose()
            path.chmod(0o644 if closed == "directory" else 0o444)
        if closed != "file":
            path.parent.chmod(0o555)
        with pytest.raises(StoreUnreadable) as refusal:
            await SqliteStore.connect(path)
        assert str(path) in str(refusal.value)
        path.parent.chmod(0o755)


async def test_a_file_that_was_deleted_takes_no_more_appends(path: Path, opened: Opened) -> None:
    store, story = await opened(path), Story()
    await store.log.append([story.start()])
    path.unlink()
    with pytest.raises(StoreUnreadable, match="deleted or replaced"):
        await store.log.append([story.draft()])
    with pytest.raises(StoreUnreadable, match="deleted or replaced"):
        await store.log.load(story.run, FOLD_VERSION)
    # Somebody else would begin a new one there, and throw the log away.
    with pytest.raises(StoreUnreadable, match=r"is missing, but its log holdfast\.db-wal is still there"):
        await opened(path)
    for rest in ("-wal", "-shm"):
        path.with_name(path.name + rest).unlink()
    await opened(path)
    with pytest.raises(StoreGone, match="deleted or replaced"):
        await store.log.append([story.ask()])


@pytest.mark.parametrize("killed", [False, True])
async def test_a_store_that_was_emptied_is_not_taken_for_a_new_one(path: Path, start: Start, killed: bool) -> None:
    process = await start("append", path, *([] if killed else ["3"]))
    for _ in range(3):
        await line(process)
    if killed:
        process.kill()
    await process.wait()
    path.write_bytes(b"")
    log = path.with_name("holdfast.db-wal")
    before = log.read_bytes() if killed else None
    with pytest.raises(StoreUnreadable, match="is empty, but its log" if killed else "it was a store: something has emptied"):
        await SqliteStore.connect(path)
    assert path.read_bytes() == b""
    assert not killed or log.read_bytes() == before
    for file in path.parent.glob("holdfast.db*"):
        if file.is_file():
            file.unlink()
    await (await SqliteStore.connect(path)).aclose()  # to begin anew is done on purpose


async def read_everything(path: Path, stories: Sequence[Story]) -> None:
    store = await SqliteStore.connect(path)
    try:
        for story in stories:
            await store.log.load(story.run, FOLD_VERSION)
    finally:
        await store.aclose()


async def test_a_damaged_file_is_refused_with_the_way_to_save_its_contents(path: Path) -> None:
    store, stories = await SqliteStore.connect(path), [Story() for _ in range(50)]
    await store.log.append([story.start(text="x" * 3000) for story in stories])
    await store.aclose()
    whole = path.read_bytes()
    cut = [whole[:size] for size in (50, 100, 4096, len(whole) // 2)]
    for broken in (*cut, whole[:8192] + b"\xa5" * 40_960 + whole[8192 + 40_960 :]):
        path.write_bytes(broken)
        with pytest.raises(StoreUnreadable, match=r"is damaged .* Nothing was done\. .* restore it from a backup; .*recover"):
            await read_everything(path, stories)
        assert path.read_bytes()[100:] == broken[100:], "but for the header, which says whether there is a log"
    path.write_bytes(b"\xa5" * 100 + whole[100:])
    with pytest.raises(NotAStore, match="its beginning has been overwritten: restore it from a backup"):
        await SqliteStore.connect(path)
    path.write_bytes(whole)
    await read_everything(path, stories)


async def test_a_damaged_history_is_reported_and_hurts_no_other(path: Path, opened: Opened) -> None:
    store = await opened(path)
    newer, gap, sound = Story(), Story(), Story()
    await store.log.append([story.start() for story in (newer, gap, sound)])
    await store.log.append([story.draft() for story in (newer, gap, sound)])
    sql(
        path,
        f"""update events set payload = cast('{{"type":"FromTheFuture"}}' as blob) where run = '{newer.run}' and seq = 3""",
    )
    sql(path, f"delete from events where run = '{gap.run}' and seq = 2")
    for story in (newer, gap):
        with pytest.raises(CorruptHistory):
            await store.log.load(story.run, FOLD_VERSION)
    assert fold(await store.log.load(sound.run, FOLD_VERSION)) == sound.state


async def test_an_event_that_is_nested_too_deep_to_be_read_is_reported_and_hurts_no_other(path: Path, opened: Opened) -> None:
    store = await opened(path)
    deep, sound = Story(), Story()
    await store.log.append([story.start() for story in (deep, sound)])
    await store.log.append([story.does(cmd.SendSignal("more", inline("mark"))) for story in (deep, sound)])
    brackets = "[" * 1_000_000 + "]" * 1_000_000
    sql(
        path,
        f"""update events set payload = cast(replace(cast(payload as text), '"mark"', '{brackets}') as blob)
            where run = '{deep.run}'""",
    )
    with pytest.raises(CorruptHistory, match="event 3 is not one that this version of Holdfast knows"):
        await store.log.load(deep.run, FOLD_VERSION)
    assert fold(await store.log.load(sound.run, FOLD_VERSION)) == sound.state


# --- Several processes ------------------------------------------------------------------------------------------------


async def test_beside_a_busy_writer_all_get_through_and_nothing_is_lost(path: Path, start: Start, opened: Opened) -> None:
    store, story = await opened(path), Story()
    await store.log.append([story.start()])
    busy = await asyncio.gather(*(start("append", path, 300) for _ in range(2)))
    runs = [RunId((await line(process)).removeprefix("run ")) for process in busy]
    for _ in range(40):
        assert list(await store.log.append([story.does(cmd.SendSignal("more"))])) == [None]
    for process in busy:
        assert (await process.communicate())[0].split()[-1] == b"302"
    assert await store.log.seqs([story.run, *runs]) == {story.run: 42, runs[0]: 302, runs[1]: 302}
    assert sql(path, "pragma integrity_check") == "ok"


def test_leaving_the_room_queues_behind_those_who_wait(tmp_path: Path) -> None:
    order = []
    mine, theirs = WriteLock(tmp_path, PATIENCE_S), WriteLock(tmp_path, PATIENCE_S)

    def enter() -> None:
        with theirs:
            order.append("theirs")

    for _ in range(20):
        order.clear()
        other = threading.Thread(target=enter)
        with mine:
            other.start()
            while is_free(tmp_path / "turnstile"):
                time.sleep(0.001)
        with mine:
            order.append("mine")
        other.join()
        assert order == ["theirs", "mine"]
    mine.close()
    theirs.close()


async def test_a_commit_of_another_process_is_heard_of_within_a_second(path: Path, start: Start, opened: Opened) -> None:
    store = await opened(path)
    process = await start("first", path)
    await line(process)
    assert not await store.watch.changed(0)
    tell(process)
    assert await store.watch.changed(PATIENCE_S)


async def test_who_holds_the_write_lock_for_too_long_is_named(path: Path, start: Start, opened: Opened) -> None:
    store, story = await opened(path, wait_s=0.2), Story()
    await store.log.append([story.start()])
    holder = await start("hold", path)
    assert await line(holder) == "holding"
    holder.send_signal(signal.SIGSTOP)
    append = story.draft()
    with pytest.raises(StoreBusy, match=f"Process {holder.pid} ") as busy:
        await store.log.append([append])
    assert busy.value.pid == holder.pid  # type: ignore[attr-defined]
    assert fold(await store.log.load(story.run, FOLD_VERSION)).seq == 2, "reading goes on"
    assert not await store.watch.changed(0.01)
    await opened(path)  # and so does opening
    holder.send_signal(signal.SIGCONT)
    tell(holder)
    assert await holder.wait() == 0
    assert list(await store.log.append([append])) == [None]


async def test_a_foreign_program_that_keeps_a_transaction_open_is_reported(path: Path, opened: Opened) -> None:
    store, story = await opened(path, wait_s=0.1), Story()
    with contextlib.closing(apsw.Connection(str(path))) as browser:
        browser.execute("begin immediate")
        with pytest.raises(StoreBusy, match="A program other than Holdfast"):
            await store.log.append([story.start()])


async def test_a_link_to_a_store_is_the_same_store(path: Path, opened: Opened) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    mine, theirs, story = await opened(path), await opened(link), Story()
    async with mine.log.exclusive(RunId("any")):
        waiting = asyncio.create_task(theirs.log.append([story.start()]))
        assert not (await asyncio.wait({waiting}, timeout=0.05))[0]
    assert list(await waiting) == [None]
    assert (await mine.log.seqs([story.run])) == {story.run: 2}


async def test_deleted_lock_files_cost_nothing_but_the_order(path: Path, opened: Opened) -> None:
    mine, story = await opened(path), Story()
    await mine.log.append([story.start()])
    for file in path.with_name("holdfast.db-locks").iterdir():
        file.unlink()
    theirs = await opened(path)
    for store in (mine, theirs, mine):
        assert list(await store.log.append([story.does(cmd.SendSignal("more"))])) == [None]


# --- Sessions ---------------------------------------------------------------------------------------------------------


async def test_the_session_of_a_killed_process_is_known_to_be_dead_at_once(path: Path, start: Start, opened: Opened) -> None:
    store = await opened(path)
    process = await start("session", path, "theirs", 60)
    run = RunId(await line(process))
    assert await store.sessions.expire() == frozenset()
    process.kill()
    await process.wait()
    assert await store.sessions.expire() == {THEIRS}, "the first who asks knows"
    (due,) = await store.views.due(0, [TINY.hash], 10)
    assert (due.run, due.dead) == (run, frozenset({THEIRS}))
    assert not list(path.with_name("holdfast.db-locks").glob("session-*")), "its lock file goes with it"
    ((described, at_ms),) = await store.sessions.lost(0, 10)
    assert (described, await store.sessions.lost(at_ms + 1, 10)) == (THEIRS.encode(), []), "it is listed for a while"


async def test_a_child_that_a_dead_process_forked_does_not_keep_its_session_alive(
    path: Path, start: Start, opened: Opened
) -> None:
    store = await opened(path)
    process = await start("forks", path, "theirs", 60)
    child = int(await line(process))
    try:
        assert await store.sessions.expire() == frozenset()
        process.kill()
        await process.wait()
        assert await store.sessions.expire() == {THEIRS}
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(("ahead_s", "outlives_s", "granted"), [(86_400, 0, 8), (86_400, 60, 8), (30, 60, 0)])
async def test_a_share_of_the_dead_is_held_no_longer_for_a_clock_that_was_ahead(
    path: Path, opened: Callable[..., Awaitable[SqliteStore]], ahead_s: int, outlives_s: int, granted: int
) -> None:
    """A process believes the machine's clock as it was when it started; since then that may have been set back."""
    ahead = await opened(path, machine_ms=lambda: 10**9 + 1000 * ahead_s)
    now = await opened(path, machine_ms=lambda: 10**9)
    await ahead.lending.set_pool(SLOTS)
    gone, other = await holder(ahead, "gone"), await holder(now, "other")
    await visits(ahead, gone, 1, Visit("BROWSERS", 0, 8, 0), outlives_ms=1000 * outlives_s)
    await ahead.sessions.close(gone)
    visitor = Visitor("another lane", other, 1)
    (grant,) = await now.lending.lend(visitor, [Visit("BROWSERS", 0, 8, 0)])
    assert grant.granted == granted


async def test_a_frozen_process_dies_with_its_lease_and_does_not_come_back(path: Path, start: Start, opened: Opened) -> None:
    store = await opened(path, wait_s=0.5)
    process = await start("session", path, "theirs", 1)
    await line(process)
    renewed = "select renewed_boot_ms from sessions"
    for _ in range(2):
        before = sql(path, renewed)
        await until(lambda before=before: sql(path, renewed) != before)  # type: ignore[misc]
    tell(process, "alive?")
    assert await line(process) == "True"
    await freeze(process, store)
    async with asyncio.timeout(PATIENCE_S):
        while await store.sessions.expire() != {THEIRS}:
            await asyncio.sleep(0.01)
    tell(process, "alive?")
    process.send_signal(signal.SIGCONT)
    assert await line(process) == "False"
    await asyncio.sleep(0.3)  # a renewal later
    tell(process, "alive?")
    assert await line(process) == "False"
    assert await store.sessions.expire() == {THEIRS}


async def freeze(process: AsyncFork, store: SqliteStore) -> None:
    """Stop `process` outside of a commit: inside of one it would keep all others from writing."""
    while True:
        process.send_signal(signal.SIGSTOP)
        try:
            async with store.log.exclusive(RunId("any")):
                return
        except StoreBusy:
            process.send_signal(signal.SIGCONT)


async def test_a_lease_that_was_over_unseen_is_renewed(path: Path, opened: Opened) -> None:
    """A laptop that slept: nobody has found its only process dead, so it goes on when it wakes."""
    store, session = await opened(path, lease_s=0.3), SessionId("mine")
    await store.sessions.open(session, "a process", [])
    release = threading.Event()
    asleep = asyncio.create_task(store.context.writer.ask(lambda db: release.wait(PATIENCE_S)))
    await until(lambda: not store.sessions.alive(session))
    assert await store.sessions.expire() == frozenset(), "no process expires its own session"
    release.set()
    await asleep
    await until(lambda: store.sessions.alive(session))


async def test_the_machine_s_clock_is_believed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = StoreClock(newest_ms=0)
    before = clock.now_ms()
    month_ns = 30 * 24 * 3600 * 10**9
    real_ns = time.time_ns()
    for jump in (month_ns, -month_ns):
        monkeypatch.setattr(time, "time_ns", lambda jump=jump: real_ns + jump)
        assert before <= clock.now_ms() < before + 60_000
    after = StoreClock(newest_ms=before + 1000)  # restarted, with the clock set back
    first = after.now_ms()
    assert first >= before + 1000
    await asyncio.sleep(0.005)
    assert after.now_ms() > first, "it stands still for nobody"


# --- Threads and queues -----------------------------------------------------------------------------------------------


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("holdfast-sqlite")}


async def test_a_closed_store_leaves_no_thread_and_no_log(path: Path) -> None:
    before = threads()
    store, story = await SqliteStore.connect(path), Story(session="mine")
    await store.sessions.open(story.session, "a process", [])
    await store.log.append([story.start()])
    assert len(threads() - before) == 3
    await store.aclose()
    assert threads() == before
    assert {file.name for file in path.parent.iterdir()} == {"holdfast.db", "holdfast.db-locks"}
    path.write_text("no store any more, but long enough to be taken for a page of one" * 10)
    with pytest.raises(NotAStore):
        await SqliteStore.connect(path)
    assert threads() == before


async def test_reading_does_not_wait_behind_writing(path: Path, opened: Opened) -> None:
    store, story = await opened(path), Story()
    await store.log.append([story.start()])
    release = threading.Event()
    writing = asyncio.create_task(store.context.writer.write(lambda db: release.wait(PATIENCE_S)))
    assert fold(await store.log.load(story.run, FOLD_VERSION)).seq == 2
    assert not writing.done()
    release.set()
    assert await writing


async def test_a_job_that_cannot_be_stored_spoils_no_other_of_its_commit(path: Path, opened: Opened) -> None:
    store, story = await opened(path), Story()
    release = threading.Event()
    blocked = asyncio.create_task(store.context.writer.ask(lambda db: release.wait(PATIENCE_S)))
    await asyncio.sleep(0)
    jobs = [
        asyncio.create_task(store.blobs.put("acme", "2026-01", b"one")),
        asyncio.create_task(store.blobs.put("half of a pair: \ud800", "2026-01", b"two")),
        asyncio.create_task(store.log.append([story.start()])),
    ]
    await asyncio.sleep(0)
    release.set()
    await blocked
    one, two, appended = await asyncio.gather(*jobs, return_exceptions=True)
    assert await store.blobs.get("acme", "2026-01", str(one)) == b"one"
    assert isinstance(two, StoreError)
    assert appended == [None]


async def test_a_request_for_too_much_waits(path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.stores.sqlite.thread.MAX_QUEUED", 3)
    store = await opened(path)
    release = threading.Event()
    blocked = asyncio.create_task(store.context.writer.ask(lambda db: release.wait(PATIENCE_S)))
    jobs = [asyncio.create_task(store.blobs.put("acme", "2026-01", b"%d" % n)) for n in range(20)]
    await asyncio.sleep(0.05)
    assert store.context.writer._queue.qsize() <= 3
    release.set()
    await blocked
    assert len(set(await asyncio.gather(*jobs))) == 20


async def test_a_thread_ends_in_order_though_no_caller_waits_for_it_any_more(
    path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[object] = []
    monkeypatch.setattr(threading, "excepthook", said.append)
    store = await opened(path)
    reader, release = store.context.reader, threading.Event()
    blocked = asyncio.create_task(reader.ask(lambda db: release.wait(PATIENCE_S)))
    closing = asyncio.create_task(reader.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    release.set()
    assert await blocked
    await reader.close()
    assert said == []


@pytest.mark.parametrize(
    "deed",
    [
        "update audit set entry = 'x'",
        "delete from audit",
        "replace into audit (number, tenant, hash, entry, signature) select number, tenant, hash, entry, signature from audit",
        "delete from audit_head",
        "update audit_head set number = 0",
        "replace into audit_head select true, 0, '', ''",
    ],
)
async def test_nothing_of_the_audit_log_is_changed_or_taken_out(path: Path, deed: str) -> None:
    store = await SqliteStore.connect(path)
    await store.audit.append(Entry(1, "Pause", "run", "done", "ann", False))
    await store.aclose()
    db = apsw.Connection(str(path))
    with pytest.raises(apsw.ConstraintError, match="insert-only"):
        db.execute(deed)
    db.close()


@pytest.mark.parametrize("deed", ROLLED_BACK)
async def test_a_process_notices_that_the_log_was_put_back_as_it_stood(path: Path, deed: str) -> None:
    store = await SqliteStore.connect(path)

    async def by_hand(statements: str) -> None:
        db = apsw.Connection(str(path))
        for (trigger,) in db.execute("select name from sqlite_schema where type = 'trigger' and name like 'audit%'").fetchall():
            db.execute(f"drop trigger {trigger}")
        db.execute(statements)
        db.close()

    await rolled_back(store, by_hand, deed)
    await store.aclose()


LONG = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 20000000) select count(*) from n"


READ: list[object] = []


def long(db: apsw.Connection) -> object:
    READ.extend(db.execute(LONG).fetchall())
    return READ


async def test_a_long_read_of_a_tenant_ends_and_blocks_neither_others_nor_the_engine(
    path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, story = await opened(path), Story()
    await store.log.append([story.start()])
    of = {name: store.of_tenant(name).context.reader for name in ("acme", "globex", None)}  # type: ignore[attr-defined]
    monkeypatch.setattr(thread, "READ_S", 60.0)
    READ.clear()
    slow = [asyncio.ensure_future(of["acme"].ask(long)) for _ in range(8)]
    shares = store.context.asked.shares
    async with asyncio.timeout(PATIENCE_S):
        while shares.held_by(("acme",)) < 2:
            await asyncio.sleep(0.005)
        assert await store.log.events(story.run), "the engine's own reads have a thread of their own"
        waiting = asyncio.ensure_future(of["globex"].ask(lambda db: db.execute("select 1").fetchall()))
        while not shares.held_by(("globex",)):
            await asyncio.sleep(0.005)
        slow[0].cancel()  # its caller leaves: it ends, and the next but one is another tenant's
        slow[1].cancel()
        assert await waiting == [(1,)]
        assert READ == []
        for each in slow:
            each.cancel()
        await asyncio.wait(slow)
        monkeypatch.setattr(thread, "READ_S", 0.2)
        with pytest.raises(TooMuch, match=r"took longer than 0\.2 s"):
            await of[None].ask(long)
        assert list(await store.of_tenant("acme").log.events(story.run)) == list(story.history)
    assert shares.held_by(()) == 0
    await store.aclose()
    with pytest.raises(StoreError, match="closed"):
        await of["acme"].ask(long)


async def test_steps_that_are_committed_beside_what_cannot_be_stored_are_taken_again(path: Path, opened: Opened) -> None:
    """Both were to be committed together; each is then done alone, from its beginning."""
    context = (await opened(path)).context
    tables = context.ground.tables
    taken: list[str] = []

    def steps() -> Steps[str]:
        taken.append("first")
        yield do("set_limit", "tenant/a/spend", 1)
        found = yield do("limits", "tenant/")
        return str([tuple(row) for row in found])

    def poison() -> Steps[None]:
        yield do("set_limit", "tenant/b/spend", 2**70)

    async with context.writer.exclusive():
        held = asyncio.gather(tables.transact(steps), tables.transact(poison), return_exceptions=True)
        await asyncio.sleep(0)
    found, refused = await held
    assert (found, type(refused)) == ("[('tenant/a/spend', 1)]", Unstorable)
    assert len(await tables.ask("limits", "tenant/")) == 1


async def test_steps_committed_beside_what_cannot_be_stored_are_taken_again(path: Path, opened: Opened) -> None:
    """The two were to be committed together; each is then done alone, from its beginning."""
    context = (await opened(path)).context
    tables, is_free_to_go, taken = context.ground.tables, threading.Event(), []

    def steps() -> Steps[int]:
        taken.append("first")
        yield do("set_limit", "tenant/a", 1)
        return len((yield do("agents", "tenant/a")))

    def poison() -> Steps[None]:
        yield do("set_limit", "tenant/b", 2**70)

    busy = asyncio.create_task(context.writer.ask(lambda _: is_free_to_go.wait(PATIENCE_S)))
    both = [asyncio.create_task(tables.transact(each)) for each in (steps, poison)]
    await asyncio.sleep(0)
    is_free_to_go.set()
    with pytest.raises(Unstorable):
        await both[1]
    assert (await both[0], taken, await busy) == (1, ["first", "first"], True)
