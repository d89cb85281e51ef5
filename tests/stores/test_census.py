"""The counts of a store's rows are those of its runs, on every kind of database."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.values.ids import SessionId
from holdfast.ports import GateCount, Store
from holdfast.stores.nouns import census
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from tests.stores.story import ASKS, TINY, Story, put


async def opened(kind: str, folder: Path, request: pytest.FixtureRequest) -> Store:
    if kind == "sqlite":
        return await SqliteStore.connect(folder / "holdfast.db")
    return await PostgresStore.connect(request.getfixturevalue("database"))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_counts_are_those_of_the_runs(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(kind, tmp_path, request)
    empty = await store.census.counts()
    assert (sum(empty.runs.values()), empty.waits, empty.gates, empty.queue) == (0, {}, [], {"slot": 0})
    now_ms = store.clock.now_ms()
    await store.sessions.open(SessionId("a session"), "one", [])
    asking = [Story(at_ms=now_ms - age_ms) for age_ms in (1_000, 2_000, 5 * 24 * 3600 * 1000)]
    for story in asking:
        await put(store, story.start(), story.draft(), story.ask())
    held, doubted, ended, placed = (Story(at_ms=now_ms, graph=each) for each in (TINY, TINY, TINY, ASKS))
    await put(store, held.start(), held.hold(100))
    await put(store, doubted.start(), doubted.hold(70), doubted.doubt())
    await put(store, *ended.whole())
    await put(store, placed.start())
    found = await store.census.counts()
    assert {status: number for status, number in found.runs.items() if number} == {"waiting": 4, "running": 2}
    assert found.waits == {"gate": 3, "worker": 1}
    assert found.queue == {"worker": 1, "slot": 0}
    assert found.gates == [
        GateCount("approval", "over_4d", 1, asking[2].at_ms),
        GateCount("approval", "under_1h", 2, asking[1].at_ms),
    ]
    assert (found.held_nanousd, found.in_doubt_nanousd, found.doubts) == (100, 70, {"model": 1, "effect": 0})
    assert found.dead_letters == 0
    monkeypatch.setattr(census, "MAX_COUNTED", 2)
    monkeypatch.setattr(census, "MAX_READ", 1)
    bounded = await store.census.counts()
    assert bounded.runs["waiting"] == 2, "a count stops there"
    assert sum(bounded.waits.values()) == 2, "estimated from one run of two"
    await store.aclose()
