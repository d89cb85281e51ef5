"""A resume costs the same however long the run is: snapshots are taken, used, and worth nothing but speed."""

from __future__ import annotations

import msgspec

from holdfast import Engine, Workflow, check, task
from holdfast.core.state import FOLD_VERSION, State, evolve


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
        history = await engine.driver.store.load(run.id, FOLD_VERSION)
        events = await run.events()
        assert history.snapshot is not None
        assert len(events) > 240
        assert len(history.events) < 60
        assert len(history.snapshot.state) < 5000  # superseded visits are dropped


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


async def test_a_snapshot_of_another_fold_is_folded_anew(store: str) -> None:
    wf = long_loop(30)
    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        await run.result()
        newer = await engine.driver.store.load(run.id, FOLD_VERSION + 1)
        assert newer.snapshot is None
        assert len(newer.events) == len(await run.events())
