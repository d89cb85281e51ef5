"""Events in the real ClickHouse engine: each once, with the sums of the log, whoever is killed in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import Context, flow, tool
from holdfast import Engine as Holdfast
from holdfast.compose import open_administration, open_store
from holdfast.engine.background import archive_tail
from holdfast.engine.background.archive_tail import ArchiveTail
from holdfast.ports import CommittedEvent, SinkUnavailable, Store
from holdfast.settings import ClickHouseRules, Settings
from tests.analytics.engine import MAX_S, Engine, Sums, feed, fill, needs_engine, rolled_up
from tests.forks import Fork
from tests.stores.story import MONTH, ended

pytestmark = [pytest.mark.long, needs_engine, pytest.mark.timeout(MAX_S)]

RAW = "select count() from events"
ONCE = "select count(), sum(cost_nanousd) from events final"
OF_CALLS = "select sum(cost_nanousd) from calls final"
OF_VIEW = "select toInt64(sum(cost_nanousd)) from call_costs"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(str(tmp_path / "runs.db"))
    yield opened
    await opened.aclose()


@pytest.fixture(params=["sqlite", "postgres"])
async def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    where = str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("database")
    opened = await open_store(where)
    yield opened
    await opened.aclose()


async def committed(store: Store) -> list[CommittedEvent]:
    events, _ = await store.tail.after(None, 10_000)
    return [CommittedEvent(each.run, "acme", "tiny", 1, each.recorded) for each in events]


def assert_exact(engine: Engine, wanted: Sums) -> None:
    assert engine.ask(ONCE) == [(wanted.events, wanted.cost_nanousd)]
    assert engine.ask(OF_CALLS) == engine.ask(OF_VIEW) == [(wanted.cost_nanousd,)]


async def test_sums_are_those_of_the_log_and_of_the_roll_up_by_everything(any_store: Store, tmp_path: Path) -> None:
    wanted = await fill(any_store, 60)
    with Engine(tmp_path / "engine") as engine:
        await feed(any_store, engine.sink(batch=50), wanted.events)
        assert_exact(engine, wanted)
        assert engine.ask(RAW) == [(wanted.events,)]
        rows = engine.ask(
            "select formatDateTime(hour, '%Y-%m-%dT%H'), tenant, team, workflow, node, model, calls, input_tokens,"
            " output_tokens, cost_nanousd from call_costs order by 1, 2, 3, 4, 5, 6"
        )
        counted = await rolled_up(any_store)
        assert rows == [(row.hour, row.tenant, row.team, row.workflow, row.node, row.model, *row[-4:]) for row in counted]
        assert sum(row.cost_nanousd for row in counted) == wanted.cost_nanousd
        ((runs, longest),) = engine.ask("select sum(attempts), max(longest_ms) from step_durations where outcome = 'completed'")
        assert (runs, longest > 0) == (60, True)


@pytest.mark.parametrize("mode", ["--slow", "--deaf"])
async def test_a_server_killed_in_an_insert_has_each_event_once(store: Store, tmp_path: Path, mode: str) -> None:
    wanted = await fill(store, 20)
    events = await committed(store)
    with Engine(tmp_path / "engine", mode) as engine:
        taking = asyncio.ensure_future(engine.sink().take(events[:100]))
        await asyncio.to_thread(engine.wait)  # the first insert notes the version of the tables
        engine.go_on()
        await asyncio.to_thread(engine.wait)
        engine.kill()
        with pytest.raises(SinkUnavailable):
            await taking
    with Engine(tmp_path / "engine") as engine:
        sink = engine.sink()
        for batch in (events[:100], events[100:], events[:100], events[50:]):
            assert await sink.take(batch) == 0
        assert_exact(engine, wanted)
        assert engine.ask(RAW) == [(wanted.events + len(events[50:]),)], "a repeated batch is dropped by its token"


async def test_a_process_killed_between_insert_and_cursor_repeats_a_batch_and_no_sum(store: Store, tmp_path: Path) -> None:
    wanted = await fill(store, 20)
    with Engine(tmp_path / "engine", "--deaf") as engine:
        process = Fork("tests.analytics.exporter", tmp_path / "runs.db", engine.url)
        for _ in range(3):  # the first insert notes the version of the tables
            await asyncio.to_thread(engine.wait)
            engine.go_on()
        await asyncio.to_thread(engine.wait)
        process.kill()
        process.wait(30)
        engine.kill()
    rows = await store.followers.listed()
    assert sum(row.taken for row in rows) < wanted.events
    async with asyncio.timeout(MAX_S):
        while (await store.followers.listed())[0].until_ms > store.clock.now_ms():  # the turn of the dead one ends
            await asyncio.sleep(0.05)
    with Engine(tmp_path / "engine") as engine:
        (inserted,) = engine.ask(RAW)[0]
        assert inserted > sum(row.taken for row in rows), "what was inserted is more than the cursor says"
        await feed(store, engine.sink(batch=50), wanted.events)
        assert_exact(engine, wanted)


async def test_what_was_archived_before_comes_from_the_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_tail, "SETTLED_MS", -1)
    where = str(tmp_path / "runs.db")
    store, administration = await open_store(where), await open_administration(where)
    try:
        stories = await ended(store, 5)
        events = sum(len(story.history) for story in stories)
        await administration.archive(MONTH)
        later = await fill(store, 5)
        with Engine(tmp_path / "engine") as engine:
            await feed(store, engine.sink(), later.events)
            await feed(store, engine.sink(batch=7, name="clickhouse-archive"), events, ArchiveTail(store))
            assert engine.ask(ONCE) == [(later.events + events, later.cost_nanousd)]
            assert engine.ask("select uniqExact(run) from events") == [(10,)]
    finally:
        await administration.aclose()
        await store.aclose()


async def test_many_events_add_up_to_the_nano_dollar(store: Store, tmp_path: Path) -> None:
    wanted = await fill(store, 1_000)
    with Engine(tmp_path / "engine") as engine:
        await feed(store, engine.sink(batch=1_000), wanted.events)
        assert_exact(engine, wanted)
        assert sum(row.cost_nanousd for row in await rolled_up(store)) == wanted.cost_nanousd


@tool(effect="idempotent", price_usd="0.25")
def order(what: str) -> str:
    """Order."""
    return what


@flow(tools=[order], cost_limit_usd="9")
async def shops(ctx: Context, count: int) -> str:
    for number in range(count):
        await ctx.tool(order, what=str(number))
    return "ask ann@example.com"


async def test_an_engine_exports_its_runs_where_the_settings_say_so(tmp_path: Path) -> None:
    with Engine(tmp_path / "engine") as engine:
        settings = Settings(clickhouse=ClickHouseRules(url=engine.url, payloads=True))
        async with Holdfast.open(str(tmp_path / "runs.db"), workflows=[shops], settings=settings) as holdfast:
            runs = [await holdfast.start(shops, count, tenant="acme", team="search") for count in (1, 3)]
            for run in runs:
                await run.result()
            store = holdfast.runtime.store
            events = sum([len(await store.log.events(run.id)) for run in runs])
            while sum(row.taken for row in await store.followers.listed()) < events:
                await holdfast.runtime.clock.sleep(0.05)
        assert_exact(engine, Sums(events, 10**9))
        assert engine.ask("select team, model, calls from call_costs") == [("search", "tool order", 4)]
        assert engine.ask("select status, runs from run_durations") == [("completed", 2)]
        ((payload,),) = engine.ask("select any(payload) from events where type = 'RunCompleted'")
        assert ("@redacted.invalid" in payload, "ann@" in payload) == (True, False)
