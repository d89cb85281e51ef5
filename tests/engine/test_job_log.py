"""What jobs print, on its way into a real store: how much of it is kept, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.values.ids import RunId
from holdfast.engine.runs.job_log import HEAD_BYTES, TAIL_BYTES, JobLogWriter
from holdfast.errors import StoreGone
from holdfast.platform.machine import MachineClock
from holdfast.stores.nouns.beside_runs import JobLogs
from holdfast.stores.sqlite.store import SqliteStore

RUN = RunId("019aa8b2-6f41-7c3a-8000-000000000001")


async def kept(store: SqliteStore) -> list[tuple[int, bytes]]:
    return [(place.first, await store.job_logs.read(place)) for place, *_ in await store.job_logs.pieces(RUN)]


async def test_of_a_job_that_prints_without_end_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    store = await SqliteStore.connect(tmp_path / "store.db")
    writer = JobLogWriter(store.job_logs, MachineClock())
    log = writer.begin(RUN, "job", 1)
    line = "x" * 99
    for number in range(150_000):
        log.add(f"{number:06}{line}"[:99])
        if number % 10_000 == 0:
            await writer._write()  # what a second would do
    log.add("y" * 200_000)
    await writer.aclose()
    pieces = await kept(store)
    total = sum(len(content) for _, content in pieces)
    assert HEAD_BYTES + TAIL_BYTES - 128 * 1024 <= total <= HEAD_BYTES + TAIL_BYTES + 128 * 1024
    assert (pieces[0][1][:7], pieces[-1][1][-4:]) == (b"000000x", b"yyy\n")
    holes = [second - first - len(content) for (first, content), (second, _) in zip(pieces, pieces[1:], strict=False)]
    assert [hole for hole in holes if hole] == [150_000 * 100 + 200_001 - total]
    await store.aclose()


async def test_a_character_of_a_long_line_stays_in_one_piece(tmp_path: Path) -> None:
    store = await SqliteStore.connect(tmp_path / "store.db")
    writer = JobLogWriter(store.job_logs, MachineClock())
    line = "x" + "é🙂" * 40_000
    writer.begin(RUN, "job", 1).add(line)
    await writer.aclose()
    assert "".join([content.decode() for _, content in await kept(store)]) == f"{line}\n"
    await store.aclose()


async def test_what_was_printed_while_the_store_was_away_is_written_when_it_is_back(tmp_path: Path) -> None:
    class Away(JobLogs):
        is_away = True

        async def keep(self, pieces, cut) -> None:  # type: ignore[no-untyped-def]
            if self.is_away:
                raise StoreGone("It is away.")
            await super().keep(pieces, cut)

    store = await SqliteStore.connect(tmp_path / "store.db")
    away = Away(store.context.ground)
    writer = JobLogWriter(away, MachineClock())
    log = writer.begin(RUN, "job", 1)
    log.add("one")
    with pytest.raises(StoreGone):
        await writer._write()
    away.is_away = False
    log.add("two")
    await writer.aclose()
    assert await kept(store) == [(0, b"one\ntwo\n")]
    await store.aclose()
