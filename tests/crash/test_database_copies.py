"""The database as it lies on the disk at each commit, copied, and its log torn where a power cut would tear it.

Whatever stands in the log after the last commit that was acknowledged: the copy opens, and all that was acknowledged is
in it.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from holdfast.core.evolve import evolve
from holdfast.core.facts.state import FOLD_VERSION, State
from holdfast.stores.sqlite import SqliteStore
from tests.crash.case import Case, Nursery
from tests.crash.judge import assert_acknowledged_is_there, assert_rows_equal_fold, read_book
from tests.crash.victim import STORE
from tests.crash.world import World

EVERYTHING = os.environ.get("HOLDFAST_CRASH") == "all"
CUT_EVERY: Final = {"walk": 97, "tour": 997}
"""Bytes from one cut of the log to the next, where all are made; primes, so that no part of a frame is always missed."""
HEADER: Final = 32
FRAME_HEADER: Final = 24
MAX_BYTES: Final = 200_000

WAL, SHM, TURNING = f"{STORE}-wal", f"{STORE}-shm", f"{STORE}-locks/turning"


class Copy(NamedTuple):
    """The database's files at one side of a commit, and what had been acknowledged then."""

    directory: Path
    trace: list[dict[str, Any]]

    def read(self, name: str) -> bytes:
        file = self.directory / name
        return file.read_bytes() if file.exists() else b""

    @property
    def salts(self) -> bytes:
        """New ones with each time that the log begins at its beginning again."""
        return self.read(WAL)[16:24]

    @property
    def end(self) -> int:
        """Where the last commit ends in the log, by the index that SQLite keeps of it in its shared memory."""
        log, index = self.read(WAL), self.read(SHM)
        if len(log) < HEADER or len(index) < 20:
            return 0
        (page_size,) = struct.unpack(">I", log[8:12])
        (frames,) = struct.unpack("=I", index[16:20])
        return HEADER + frames * (FRAME_HEADER + page_size) if frames else 0


class Commit(NamedTuple):
    before: Copy
    after: Copy

    @property
    def restarts(self) -> bool:
        """Whether the log began anew with this commit: everything before it was in the database by then."""
        return bool(self.before.salts) and self.before.salts != self.after.salts

    @property
    def start(self) -> int:
        """The first byte of the log that is this commit's."""
        return 0 if self.restarts else self.before.end


def commits(case: Case, copies: Path) -> Iterator[Commit]:
    trace = case.lives[0].crossed
    before = None
    for directory in sorted(copies.iterdir()):
        number = int(directory.name.partition("-")[0])
        copy = Copy(directory, [line for line in trace if line["n"] <= number])
        if directory.name.endswith("before"):
            before = copy
        else:
            assert before is not None
            yield Commit(before, copy)


async def assert_opens(at: Path, files: dict[str, bytes], trace: list[dict[str, Any]]) -> None:
    """The store opens what is there, reads it, and has everything that `trace` says was acknowledged."""
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir()
    for name, content in files.items():
        if content or name != STORE:  # a log that nothing is in yet is there
            (at / name).parent.mkdir(exist_ok=True)
            (at / name).write_bytes(content)
    store = await SqliteStore.connect(at / STORE)
    try:
        for row in await store.views.runs():
            history = await store.log.load(row.run, FOLD_VERSION)
            events = await store.log.events(row.run)
            assert events[-1].seq == row.seq
            assert history.events == events[len(events) - len(history.events) :]
            state = State()
            for each in events:
                evolve(state, each.event, each.at_ms)
            assert state.seq == row.seq
    finally:
        await store.aclose()
    book = read_book(at / STORE)
    assert_acknowledged_is_there(book, trace)
    assert_rows_equal_fold(book)


def cuts(commit: Commit, flow: str) -> list[int]:
    """Bytes of the log at which this commit may have been torn. At its end it is whole."""
    start, end = commit.start, commit.after.end
    if start == end:
        return []  # it has changed nothing
    if EVERYTHING:
        return sorted({*range(start, end, CUT_EVERY[flow]), start + 1, start + FRAME_HEADER, end - 1})
    edges = {start, start + 1, start + FRAME_HEADER - 1, start + FRAME_HEADER, start + HEADER, end - 1}
    return sorted(each for each in {*edges, random.Random(end).randrange(start, end)} if start <= each < end)


def torn(commit: Commit, at: int) -> dict[str, bytes]:
    """What may stand in the log when the commit got as far as its byte `at`, by what comes after it."""
    new, old = commit.after.read(WAL), commit.before.read(WAL)
    noise = random.Random(at).randbytes(min(len(new) - at, MAX_BYTES))
    return {
        "nothing": new[:at],
        "what was there before": new[:at] + old[at:],
        "noise": new[:at] + noise,
        "zeros": new[:at] + bytes(len(new) - at),
    }


# In the second, SQLite writes its log back after every few pages and begins it anew.
@pytest.mark.parametrize("pages", [pytest.param(None, marks=pytest.mark.long), 4])
@pytest.mark.parametrize("flow", ["walk", pytest.param("tour", marks=pytest.mark.skipif(not EVERYTHING, reason="make crash"))])
async def test_a_copy_of_the_database_at_any_commit_has_all_that_was_acknowledged(
    world: World, victims: Nursery, tmp_path: Path, flow: str, pages: int | None
) -> None:
    case = Case(world, victims, flow)
    case.live(copies=str(tmp_path / "copies"), pages=pages)
    opened: Counter[str] = Counter()
    at = tmp_path / "opened"
    for commit in commits(case, tmp_path / "copies"):
        opened["commits"] += 1
        opened["restarts"] += commit.restarts
        for copy in commit:
            files = {name: copy.read(name) for name in (STORE, WAL, TURNING) if (copy.directory / name).exists()}
            await assert_opens(at, files, copy.trace)
            await assert_opens(at, {**files, **({SHM: shared} if (shared := copy.read(SHM)) else {})}, copy.trace)
            opened["as they were"] += 2
        whole = {STORE: commit.after.read(STORE), WAL: commit.after.read(WAL)}
        end = commit.after.end
        if not end:
            continue  # not in the log: SQLite was just told to have one
        noise = random.Random(end).randbytes(5_000)
        await assert_opens(at, {**whole, WAL: whole[WAL][:end]}, commit.after.trace)
        await assert_opens(at, {**whole, WAL: whole[WAL][:end] + noise}, commit.after.trace)
        await assert_opens(at, {**whole, WAL: whole[WAL][:end] + bytes(5_000)}, commit.after.trace)
        opened["something after the end"] += 3
        for cut in cuts(commit, flow):
            for what, log in torn(commit, cut).items():
                await assert_opens(at, {STORE: commit.before.read(STORE), WAL: log}, commit.before.trace)
                opened[f"torn, then {what}"] += 1
    assert opened["commits"] == sum(
        any(kind.startswith("after commit") for kind in line["kinds"]) for line in case.lives[0].crossed
    )
    assert bool(opened["restarts"]) == (pages is not None)
    print(f"copies of {flow}, {'log as it is' if pages is None else f'written back at {pages} pages'}: {dict(opened)}")
