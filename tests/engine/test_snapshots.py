"""A resume costs the same however long the run is: snapshots are taken, used, and worth nothing but speed."""

from __future__ import annotations

import msgspec
import pytest

from holdfast import Engine, Workflow, check, task, tool
from holdfast.core.evolve import evolve
from holdfast.core.facts.events import encode
from holdfast.core.facts.state import FOLD_VERSION, State
from holdfast.core.values.ids import RunId
from holdfast.ports import SnapshotRecord


def long_loop(visits: int) -> Workflow:
    wf = Workflow("long", max_steps=10_000)
    wf.node("work")(task(lambda state: state.visits("work")))
    wf.node("enough")(check(lambda state: state.events["work"].output >= visits))
    wf.node("end")(task(lambda state: state.events["work"].output))
    wf.edge("work", "enough")
    wf.edge("enough", "end")
    wf.loop("enough", "work", max_visits=visits + 1)
    return wf


async def test_the_tail_that_a_resume_folds_does_not_grow_with_the_run(store: str) -> None:
    wf = long_loop(60)
    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        assert await run.result() == 60
        history = await engine.runtime.store.log.load(run.id, FOLD_VERSION)
        events = await run.events()
        assert history.snapshot is not None
        assert len(events) > 240
        assert len(history.events) < 60
        assert len(history.snapshot.state) < 5000  # superseded visits are dropped


async def test_a_run_of_thousands_of_events_is_resumed_from_as_little_as_one_of_a_hundred(store: str) -> None:
    async with Engine.open(store) as engine:
        read = []
        for visits in (25, 480):
            run = await engine.start(long_loop(visits))
            await run.result()
            history = await engine.runtime.store.log.load(run.id, FOLD_VERSION)
            assert history.snapshot is not None
            read.append((len(history.snapshot.state), len(history.events)))
            events = (await run.state()).seq
    (short_bytes, _), (long_bytes, long_tail) = read
    assert events > 2000
    assert long_bytes < short_bytes * 1.1
    assert long_tail < 60


@tool(effect="read")
async def look(number: int) -> str:
    """Find something out."""
    return "x" * 200


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)], indirect=True)
async def test_the_snapshots_of_a_long_step_cost_a_few_times_what_it_did(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not its length times its length; and what a resume reads is a few times what the step needs to go on."""
    count, written = 600, []
    wf = Workflow("long")

    @wf.node("work")
    @task(tools=[look])
    async def work(state, ctx):
        for number in range(count):
            await ctx.tool(look, number=number)
        return await ctx.ask("go on?")

    async with Engine.open(store) as engine:
        snapshot = engine.runtime.store.log.snapshot

        async def counted(run: RunId, record: SnapshotRecord) -> None:
            written.append(len(record.state))
            await snapshot(run, record)

        monkeypatch.setattr(engine.runtime.store.log, "snapshot", counted)
        run = await engine.start(wf)
        state = await run.settled()
        needed = len(msgspec.json.encode(state.steps["work"].journal))
        history = await engine.runtime.store.log.load(run.id, FOLD_VERSION)
        read = len(history.snapshot.state) + sum(len(encode(each.event)) for each in history.events)
    assert sum(written) < 4 * needed
    assert len(written) < 30
    assert read < 4 * needed


@tool(effect="read")
async def weigh(text: str) -> int:
    """Say how long a text is."""
    return len(text)


async def test_what_a_history_holds_and_the_state_does_not_is_not_read_for_ever(store: str) -> None:
    """What a tool was asked is in its event only: a tail of a few such events outweighs a snapshot."""
    wf = Workflow("heavy")
    wf.node("large")(task(lambda state: "x" * 60_000))

    @wf.node("work")
    @task(tools=[weigh])
    async def work(state, ctx):
        for number in range(60):
            await ctx.tool(weigh, text=f"{number:>30000}")
        return await ctx.ask("go on?")

    wf.edge("large", "work")
    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        await run.settled()
        history = await engine.runtime.store.log.load(run.id, FOLD_VERSION)
        whole = sum(len(encode(each.event)) for each in await run.events())
        tail = sum(len(encode(each.event)) for each in history.events)
    assert whole > 1_800_000
    assert tail < 600_000


async def test_a_state_from_a_snapshot_is_the_state_from_all_events(store: str) -> None:
    wf = long_loop(30)
    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        await run.result()
        whole = State()
        for recorded in await run.events():
            evolve(whole, recorded.event, recorded.at_ms)
    async with Engine.open(store, workflows=[wf]) as engine:
        loaded = await engine.run(run.id).state()
    assert msgspec.json.decode(msgspec.json.encode(loaded)) == msgspec.json.decode(msgspec.json.encode(whole))


async def test_a_snapshot_of_another_fold_is_folded_again(store: str) -> None:
    wf = long_loop(30)
    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        await run.result()
        newer = await engine.runtime.store.log.load(run.id, FOLD_VERSION + 1)
        assert newer.snapshot is None
        assert len(newer.events) == len(await run.events())
