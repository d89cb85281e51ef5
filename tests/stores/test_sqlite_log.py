"""A write-ahead log that lost what was committed: noticed by the first process that opens the store, and left as it is."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast.errors import StoreUnreadable
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.database import accept, locks_of, log_of
from holdfast.stores.sqlite.log_reach import LogReach, Reach
from tests.stores.story import Story
from tests.stores.test_sqlite import Opened, Start, line, opened, path, start

__all__ = ["opened", "path", "start"]

_BEGINNING = 32
_FRAME = 24 + 4096


def reach(path: Path) -> LogReach:
    return LogReach(log_of(path), locks_of(path))


def noted(path: Path) -> Reach:
    found = reach(path).read()
    assert found is not None
    return found


def as_left(path: Path, name: str) -> Path:
    """All files of a store as a process leaves them that is killed now."""
    copy = path.with_name(name)
    shutil.copy(path, copy)
    shutil.copy(log_of(path), log_of(copy))
    shutil.copytree(locks_of(path), locks_of(copy))
    return copy


def flip(file: Path, at: int, count: int = 16) -> None:
    content = bytearray(file.read_bytes())
    for place in range(at, at + count):
        content[place] ^= 0xFF
    file.write_bytes(content)


def cut(file: Path, size: int) -> None:
    os.truncate(file, size)


def contents(path: Path) -> tuple[bytes, bytes]:
    return path.read_bytes(), log_of(path).read_bytes()


HARM: dict[str, tuple[Callable[[Path, Reach], None], str]] = {
    "flipped in the middle": (lambda log, to: flip(log, _BEGINNING + to.frames // 2 * _FRAME + 2000), "cut off or damaged"),
    "flipped at a tenth": (lambda log, to: flip(log, _BEGINNING + to.frames // 10 * _FRAME + 30), "cut off or damaged"),
    "flipped in the last frame": (lambda log, to: flip(log, _BEGINNING + to.frames * _FRAME - 20), "cut off or damaged"),
    "its beginning flipped": (lambda log, to: flip(log, 8), "damaged at its beginning"),
    "its salts flipped": (lambda log, to: flip(log, 16, 8), "damaged at its beginning"),
    "emptied": (lambda log, to: cut(log, 0), "is empty"),
    "cut in its beginning": (lambda log, to: cut(log, 20), "damaged at its beginning"),
    "cut in half": (lambda log, to: cut(log, _BEGINNING + to.frames // 2 * _FRAME), "cut off or damaged"),
    "cut within the last frame": (lambda log, to: cut(log, _BEGINNING + to.frames * _FRAME - 1), "cut off or damaged"),
}


async def filled(path: Path, opened: Opened) -> SqliteStore:
    """A store in use, whose log has been noted after its last commit."""
    store: SqliteStore = await opened(path)
    for _ in range(12):
        await store.log.append([Story().start()])
    await store.context.writer.ask(lambda db: reach(path).note(db, now=True))
    return store


@pytest.mark.parametrize("harm", HARM)
async def test_a_log_that_lost_what_was_noted_is_refused_and_left_as_it_is(path: Path, harm: str, opened: Opened) -> None:
    store = await filled(path, opened)
    copy = as_left(path, "copy.db")
    await store.aclose()
    do, said = HARM[harm]
    do(log_of(copy), noted(copy))
    before = contents(copy)
    for _ in range(2):
        with pytest.raises(StoreUnreadable, match=rf"copy\.db was in use, and its log copy\.db-wal .*{said}.*store accept"):
            await SqliteStore.connect(copy)
        assert contents(copy) == before
    accept(copy, 1.0)
    again = await opened(copy)
    assert len(await again.views.runs()) <= 12
    await again.aclose()


async def test_what_a_killed_process_had_acknowledged_is_there_or_the_store_is_refused(path: Path, start: Start) -> None:
    """Killed at any moment, it leaves a log that opens; cut off, one that does not."""
    for harmed in (False, True):
        process = await start("append", path)
        await line(process)
        before = reach(path).read()
        while (found := reach(path).read()) is None or found == before or found.frames < 8:
            assert await line(process), await process.stderr.read()
        process.kill()
        await process.wait()
        if not harmed:
            store = await SqliteStore.connect(path)
            await store.aclose()
            continue
        cut(log_of(path), _BEGINNING + noted(path).frames // 2 * _FRAME)
        with pytest.raises(StoreUnreadable, match="cut off or damaged"):
            await SqliteStore.connect(path)


async def test_a_log_that_goes_on_after_the_note_is_whole_and_its_torn_end_is_no_loss(path: Path, opened: Opened) -> None:
    store = await filled(path, opened)
    kept = noted(path)
    late = Story()
    await store.log.append([late.start()])
    copy = as_left(path, "copy.db")
    await store.aclose()
    reach_file = locks_of(copy) / "reached"
    assert reach_file.exists()
    with log_of(copy).open("ab") as log:
        log.write(b"half a frame")
    again = await opened(copy)
    assert noted(copy).frames >= kept.frames
    assert late.run in {row.run for row in await again.views.runs()}
    await again.aclose()


async def test_a_log_that_was_restarted_after_the_note_is_believed(path: Path, opened: Opened) -> None:
    """All that was in the noted one is in the file by then."""
    store = await filled(path, opened)
    for times in (1, 2):
        for _ in range(times):
            with contextlib.closing(apsw.Connection(str(path))) as db:
                before = log_of(path).read_bytes()[:_BEGINNING]
                db.execute("select 1 from sqlite_schema limit 1").fetchall()
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
                db.execute("create table if not exists other (a)").fetchall()
                db.execute("insert into other values (1)").fetchall()
            assert log_of(path).read_bytes()[:_BEGINNING] != before
        copy = as_left(path, f"copy{times}.db")
        again = await opened(copy)
        assert len(await again.views.runs()) == 12
        await again.aclose()
    await store.aclose()


async def test_the_log_of_another_store_is_refused(path: Path, opened: Opened) -> None:
    store, other = await filled(path, opened), await filled(path.with_name("other.db"), opened)
    copy = as_left(path, "copy.db")
    shutil.copy(log_of(path.with_name("other.db")), log_of(copy))
    await store.aclose()
    await other.aclose()
    with pytest.raises(StoreUnreadable, match="is another than the one that was written last"):
        await SqliteStore.connect(copy)


@pytest.mark.parametrize("left", ["none", "torn", "another's"])
async def test_without_a_note_that_can_be_read_the_log_is_believed(path: Path, left: str, opened: Opened) -> None:
    store = await filled(path, opened)
    copy = as_left(path, "copy.db")
    await store.aclose()
    note = locks_of(copy) / "reached"
    if left == "none":
        note.unlink()
    else:
        note.write_bytes(note.read_bytes()[:20] if left == "torn" else struct.pack("<3QI", 1, 2, 3, 4))
    again = await opened(copy)
    assert len(await again.views.runs()) == 12
    await again.aclose()


async def test_only_the_first_process_looks_and_a_store_that_was_put_away_has_no_note(path: Path, opened: Opened) -> None:
    first = await filled(path, opened)
    second = await opened(path)
    flip(locks_of(path) / "reached", 0, 4)
    third = await opened(path)
    for store in (first, second, third):
        await store.aclose()
    assert reach(path).read() is None
    assert not log_of(path).exists()
