"""What is SQLite's own about months that go: the order of commits gets gaps, and a history leaves piece by piece. (What is
every store's: test_retention.)"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.evolve import evolve
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.events import OutcomeOrphaned
from holdfast.core.facts.state import FOLD_VERSION
from holdfast.core.values.payload import inline
from holdfast.errors import CursorLost, MonthHeld, StoreFull, UsageError
from holdfast.stores.sqlite import SqliteStore, retention
from holdfast.stores.sqlite.administration import SqliteAdministration
from holdfast.stores.sqlite.context import SqliteTables
from tests.stores.story import MONTH, NEXT, NEXT_MS, Story, ended, fold, put

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.connect(tmp_path / "runs.db")
    yield opened
    await opened.aclose()


@pytest.fixture
async def administration(tmp_path: Path, store: SqliteStore) -> AsyncIterator[SqliteAdministration]:
    opened = await SqliteAdministration.connect(tmp_path / "runs.db")
    yield opened
    await opened.aclose()


async def told(store: SqliteStore, cursor: str | None) -> list[Any]:
    """What a tail tells from there on, two events at a time."""
    found: list[Any] = []
    while True:
        more, cursor = await store.tail.after(cursor, 2)
        if not more:
            return [each.recorded for each in found]
        found += more


async def test_a_tail_that_may_have_missed_what_has_left_gets_an_error_and_others_go_on(
    store: SqliteStore, administration: SqliteAdministration
) -> None:
    young = Story(at_ms=NEXT_MS)
    await put(store, young.start())
    await ended(store, 1)
    await put(store, young.does(cmd.SendSignal("more")))
    _, early = await store.tail.after(None, 2)
    up_to_date = await store.tail.end()
    await administration.archive(MONTH)
    assert await store.tail.after(up_to_date, 9) == ([], up_to_date)
    with pytest.raises(CursorLost, match="left with their month"):
        await store.tail.after(early, 9)
    assert await told(store, None) == young.history, "from the start: all that is in the tables"
    _, begun_anew = await store.tail.after(None, 1)
    assert (await store.tail.after(begun_anew, 1))[0][0].recorded == young.history[1]
    await ended(store, 1)
    await administration.archive(MONTH)
    with pytest.raises(CursorLost):
        await store.tail.after(begun_anew, 9)
    for wrong in ("", "1-", "-1", "1-2-3", "١", "next"):
        with pytest.raises(UsageError, match="no cursor"):
            await store.tail.after(wrong, 9)


async def test_the_place_of_the_last_event_is_not_given_again_when_it_has_left(
    store: SqliteStore, administration: SqliteAdministration, tmp_path: Path
) -> None:
    (old,) = await ended(store, 1)
    end = await store.tail.end()
    await administration.archive(MONTH)
    await administration.prune(NEXT)
    assert await store.tail.end() == end
    assert (await told(store, None), await told(store, end)) == ([], [])
    young = Story(at_ms=NEXT_MS)
    await put(store, young.start())
    assert await told(store, end) == await told(store, None) == young.history
    assert await store.log.events(young.run) == tuple(young.history)
    again = await SqliteStore.connect(tmp_path / "runs.db", machine_ms=lambda: 0)
    assert again.clock.now_ms() >= young.history[-1].at_ms > old.history[0].at_ms, "time does not go back"
    await again.aclose()


async def test_a_run_that_ended_lately_holds_its_month_back_until_every_tail_has_sent_it(
    store: SqliteStore, administration: SqliteAdministration
) -> None:
    (long,) = await ended(store, 1)
    now_ms = int(time.time() * 1000)
    for ended_ms, held in ((now_ms - 2 * DAY_MS, True), (now_ms - 4 * DAY_MS, False)):
        await store.context.writer.write(lambda db, at_ms=ended_ms: db.execute("update runs set updated_at_ms = ?", (at_ms,)))
        if held:
            with pytest.raises(MonthHeld, match="ended less than three days ago") as found:
                await administration.archive(MONTH)
            assert [(each.run, each.why) for each in found.value.runs] == [(long.run, "told")]
    assert (await administration.archive(MONTH)).runs == 1


async def test_a_long_history_is_archived_in_pieces_and_is_whole_after_any_interruption(
    store: SqliteStore, administration: SqliteAdministration, monkeypatch: pytest.MonkeyPatch
) -> None:
    (story,) = await ended(store, 1)
    before, events = story.state.seq, [OutcomeOrphaned(story.call, inline("late"), None) for _ in range(2300)]
    for event in events:
        evolve(story.state, event, story.at_ms)
    await put(store, story.happens(before, list(events)))
    let_some_go, pieces = retention._let_some_go, 0

    def cut_short(runs: list[str], db: Any) -> int:
        nonlocal pieces
        if pieces % 2:
            pieces += 1
            raise StoreFull("no room")
        pieces += 1
        return let_some_go(runs, db)

    monkeypatch.setattr(retention, "_let_some_go", cut_short)
    while True:
        try:
            freed = await administration.archive(MONTH)
        except StoreFull:
            for after in (0, 499, 500, 999, 1000, 1001, 2000, len(story.history)):
                assert await store.log.events(story.run, after) == tuple(story.history[after:])
                assert await store.log.events(story.run, after, 1000) == tuple(story.history[after : after + 1000])
            assert fold(await store.log.load(story.run, FOLD_VERSION)) == story.state
            assert len(await store.views.effects(run=story.run)) == 1
        else:
            break
    assert (freed.events, pieces >= 5) == (len(story.history), True)
    assert await store.log.events(story.run) == tuple(story.history)
    (month,) = (await administration.standing()).months
    assert (month.state, month.stored_bytes) == ("archived", freed.stored_bytes)


async def test_an_append_between_the_look_and_the_farewell_is_not_lost(
    store: SqliteStore, administration: SqliteAdministration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look is not in the transaction that deletes."""
    (story,) = await ended(store, 1)
    before = len(story.history)
    look = SqliteTables.ask

    async def late(self: SqliteTables, statement: str, *bound: Any) -> Any:
        found = await look(self, statement, *bound)
        if statement == "archived_in_tables" and len(story.history) == before:
            event = OutcomeOrphaned(story.call, inline("late"), None)
            evolve(story.state, event, story.at_ms)
            await put(store, story.happens(before, [event]))
        return found

    monkeypatch.setattr(SqliteTables, "ask", late)
    freed = await administration.archive(MONTH)
    assert (freed.events, len(story.history)) == (before + 1, before + 1)
    assert await store.log.events(story.run) == tuple(story.history)
