"""Idioms of asyncio in flows: what comes of each, straight through and from every prefix of its history."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Engine, Run, RunFailed
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import State
from holdfast.core.views.status import status
from holdfast.engine.flow import flowing
from holdfast.errors import StaleAttempt
from holdfast.ports import Append
from tests.engine.idioms import flows
from tests.engine.idioms.table import CANCEL, IDIOMS, SIGNAL, TIME, Act, Asked, Cancelled, Failed, Idiom, Returned
from tests.engine.idioms.world import World, new_world
from tests.engine.kit import Time, bounded, carry_by, engine_at, lose_lease, opened

SHORT_S = 0.2
"""A time that passes, where the store's time is nobody's to move."""
IN_SQLITE = "sqlite"
ENDS = ("completed", "failed", "cancelled")


each_idiom = pytest.mark.parametrize("idiom", IDIOMS, ids=[f"{number}-{each.name}" for number, each in enumerate(IDIOMS, 1)])


class LeapingTime(Time):
    """The machine's time, and ahead of it by as much as it was moved."""

    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.ms


class Place:
    """A store, and its time if that is the test's."""

    def __init__(self, store: str, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._time = LeapingTime() if store.startswith(IN_SQLITE) else None

    @asynccontextmanager
    async def engine(self, **options: Any) -> AsyncIterator[Engine]:
        if self._time is None:
            async with opened(self._store, **options) as engine:
                yield engine
        else:
            async with engine_at(self._folder, self._time, **options) as engine:
                yield engine

    def let_time_pass(self) -> None:
        if self._time is not None:
            self._time.forward(flows.DAY_S + 1)


@pytest.fixture
def place(request: pytest.FixtureRequest, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(flowing, "OUTSIDE_S", SHORT_S)
    acts = request.node.callspec.params["idiom"].acts
    if not store.startswith(IN_SQLITE) and TIME in acts:
        if acts[0] is not TIME:
            pytest.skip("what is to happen before a time has passed needs a store whose time is the test's")
        monkeypatch.setattr(flows, "DAY_S", SHORT_S)
        monkeypatch.setattr(flowing, "NEAR_S", 0.0)
    return Place(store, tmp_path)


@pytest.fixture
def world() -> World:
    return new_world()


async def end_of(engine: Engine, place: Place, run: Run, acts: Sequence[Act]) -> Any:
    """What a run came to, of which this happens one after the other, each time it waits."""
    for number, act in enumerate(acts):
        await run.until(lambda state: status(state) in ("waiting", *ENDS))
        if act is SIGNAL:
            await engine.signal(run.id, "ok", "ok")
        elif act is CANCEL:
            await engine.cancel(run.id)
        else:
            place.let_time_pass()
            await fired(run, 1 + acts[:number].count(TIME))
    state = await run.until(lambda state: status(state) in (*ENDS, "requires_attention"))
    if status(state) == "requires_attention":
        return Asked(None)
    try:
        return Returned(await run.result())
    except RunFailed as failed:
        return Cancelled() if failed.status == "cancelled" else Failed(failed.error.message)


async def fired(run: Run, count: int) -> None:
    """Wait until so many timers of the run have fired."""
    seen = 0

    def has_news(state: State) -> bool:
        return state.seq > seen

    while True:
        state = await run.until(has_news)
        seen = state.seq
        events = [recorded.event for recorded in await run.events()]
        if sum(isinstance(each, ev.TimerFired) or is_timer(each) for each in events) >= count or status(state) in ENDS:
            return


def is_timer(event: ev.Event) -> bool:
    """True if a process's own clock fired a timer."""
    return isinstance(event, ev.ValueRecorded) and event.kind == "sleep"


def assert_as_promised(idiom: Idiom, came_to: Any, *, killed: bool) -> None:
    match idiom.comes_to:
        case Failed(words):
            assert isinstance(came_to, Failed), came_to
            assert words in came_to.words
        case Asked(value):
            assert came_to == (Asked(None) if killed else Returned(value))
        case expected:
            assert came_to == expected


async def assert_recorded_once(idiom: Idiom, world: World, run: Run) -> None:
    """Each outcome is recorded once, at the place that is promised, and no function was called after that."""
    events = [recorded.event for recorded in await run.events()]
    done = [each.path for each in events if isinstance(each, ev.ValueRecorded | ev.FunctionFailed | ev.TimerFired)]
    assert len(done) == len(set(done)), done
    assert world.again == []
    assert {name: world.paths.get(name) for name in idiom.paths} == idiom.paths
    if idiom.timers is not None:
        assert {*world.timers} <= {*idiom.timers}


@each_idiom
@bounded
async def test_an_idiom_comes_to_what_its_page_says(idiom: Idiom, place: Place, world: World) -> None:
    async with place.engine(workflows=[idiom.flow]) as engine:
        watch(engine, world)
        run = await engine.start(idiom.flow)
        came_to = await end_of(engine, place, run, idiom.acts)
        assert_as_promised(idiom, came_to, killed=False)
        await assert_recorded_once(idiom, world, run)
    if idiom.calls or isinstance(idiom.comes_to, Returned):
        assert dict(world.calls) == idiom.calls or isinstance(idiom.comes_to, Asked)
    if idiom.timers is not None:
        assert tuple(world.timers) == idiom.timers


def watch(engine: Engine, world: World, dies: asyncio.Event | None = None) -> None:
    """Tell the world of each commit. With `dies` the process is dead after the first that leads the step on: it hears of no
    commit any more, not even of that one."""
    carried = engine.runtime.runs.flush.append

    async def append(one: Append, *, patient: bool) -> None:
        if dies is not None and dies.is_set():
            raise StaleAttempt("This process is dead.")
        await carried(one, patient=patient)
        world.committed(one)
        if dies is not None and any(not isinstance(each.event, _NO_PROGRESS) for each in one.events):
            dies.set()
            raise StaleAttempt("This process is dead.")

    carry_by(engine, append)


_NO_PROGRESS = (ev.RunStarted, ev.StepReady, ev.StepStarted, ev.AttemptLost)
"""A process that died after one of these would keep its run from going anywhere."""


@each_idiom
@bounded
async def test_an_idiom_comes_to_the_same_from_every_prefix_of_its_history(idiom: Idiom, place: Place, world: World) -> None:
    """Each process dies with the first outcome that it has recorded, and the next replays what stands there."""
    lives = 0
    async with place.engine(workflows=[idiom.flow], execute=False) as desk:
        watch(desk, world)
        run = await desk.start(idiom.flow)
        end = asyncio.ensure_future(end_of(desk, place, run, idiom.acts))
        while not end.done():
            async with place.engine(workflows=[idiom.flow], grace_s=0) as process:
                dies = asyncio.Event()
                watch(process, world, dies)
                dead = asyncio.ensure_future(dies.wait())
                await asyncio.wait({end, dead}, return_when=asyncio.FIRST_COMPLETED)
                dead.cancel()
                if dies.is_set():
                    lives += 1
                    await lose_lease(process)
        assert_as_promised(idiom, end.result(), killed=True)
        await assert_recorded_once(idiom, world, run)
    assert {*world.calls} >= {*idiom.calls}
    assert all(count <= lives + 1 for count in world.calls.values())
