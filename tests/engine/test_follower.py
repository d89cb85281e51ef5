"""What follows the tail gets every event, whichever process feeds it and however often that dies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import pytest

from holdfast import Engine, Workflow, task
from holdfast.core.values.ids import RunId
from holdfast.engine.background import follower as follower_
from holdfast.engine.background.follower import Follower
from holdfast.errors import CursorLost
from holdfast.platform.machine import MachineClock
from holdfast.platform.spare_time import SpareTime
from holdfast.ports import CommittedEvent, FollowerRow, SinkUnavailable, Store
from tests.engine.kit import bounded


def followed() -> Workflow:
    wf = Workflow("followed")

    @wf.node("only")
    @task
    async def only(state: Any) -> dict[str, Any]:
        return {}

    return wf


WORKFLOW = followed()


class Kept:
    """A sink that keeps what it gets, and is away, slow or broken where a test says so."""

    def __init__(self, begins: Literal["now", "oldest"] = "oldest", batch: int = 4) -> None:
        self.name = "kept"
        self.begins = begins
        self.batch = batch
        self.got: list[CommittedEvent] = []
        self.problem: Exception | None = None
        self.poison: str | None = None
        """Kind of the event that it cannot take."""
        self.asked = 0
        self.largest = 0

    async def take(self, events: Sequence[CommittedEvent]) -> int:
        self.asked += 1
        self.largest = max(self.largest, len(events))
        if self.problem is not None:
            raise self.problem
        if any(type(each.recorded.event).__name__ == self.poison for each in events):
            raise ValueError("poison")
        self.got += events
        return 0

    async def aclose(self) -> None: ...

    @property
    def ids(self) -> list[tuple[str, int]]:
        return [(each.run, each.recorded.seq) for each in self.got]


class Quick(MachineClock):
    """Pauses are short: a test waits for what comes after them."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))


def fed(store: Store, sink: Kept, holder: str = "one", spare: SpareTime | None = None) -> Follower:
    follower = Follower(store, Quick(), sink, holder, lambda: True, (spare or SpareTime()).share())
    follower.start()
    return follower


async def until(seen: Any) -> None:
    async with asyncio.timeout(30):
        while not seen():
            await asyncio.sleep(0.01)


async def row_of(store: Store) -> FollowerRow:
    ((row),) = await store.followers.listed()
    return row


async def has_taken(store: Store, count: int) -> FollowerRow:
    """What a sink has is kept as taken a moment later."""
    while True:
        for row in await store.followers.listed():
            if row.taken >= count:
                return row
        await asyncio.sleep(0.01)


async def histories(store: Store, *runs: str) -> list[tuple[str, int]]:
    found = []
    for run in runs:
        found += [(run, each.seq) for each in await store.log.events(RunId(run))]
    return sorted(found)


async def a_run(engine: Engine) -> str:
    handle = await engine.start(WORKFLOW, {}, tenant="acme")
    await handle.result()
    return handle.id


@bounded
async def test_a_sink_gets_every_event_in_order_with_its_owner(store: str) -> None:
    sink = Kept()
    async with Engine.open(store, workflows=[WORKFLOW]) as engine:
        ports = engine.runtime.store
        first = await a_run(engine)
        follower = fed(ports, sink)
        second = await a_run(engine)
        wanted = await histories(ports, first, second)
        await has_taken(ports, len(wanted))
        await follower.aclose()
        assert sorted(sink.ids) == wanted
        for run in (first, second):
            seqs = [seq for of, seq in sink.ids if of == run]
            assert seqs == sorted(seqs)
        assert {(each.tenant, each.workflow, each.version) for each in sink.got} == {("acme", "followed", 1)}
        row = await row_of(ports)
        assert (row.taken, row.dropped, row.problem, row.holder) == (len(wanted), 0, "", "")


@bounded
async def test_a_sink_that_begins_now_gets_what_comes_after_its_first_turn(store: str) -> None:
    sink = Kept("now")
    async with Engine.open(store, workflows=[WORKFLOW]) as engine:
        ports = engine.runtime.store
        await a_run(engine)
        follower = fed(ports, sink)
        while not (rows := await ports.followers.listed()) or rows[0].cursor is None:
            await asyncio.sleep(0.01)
        later = await a_run(engine)
        wanted = await histories(ports, later)
        await has_taken(ports, len(wanted))
        await follower.aclose()
        assert sorted(sink.ids) == wanted
        again = fed(ports, sink, "two")
        last = await a_run(engine)
        wanted = await histories(ports, later, last)
        await until(lambda: len(sink.got) >= len(wanted))
        await again.aclose()
        assert sorted(sink.ids) == wanted, "another process goes on where the first stood"


@bounded
async def test_a_sink_that_is_away_gets_it_all_later_and_its_row_says_why(store: str) -> None:
    sink = Kept()
    sink.problem = SinkUnavailable("the collector answers 503")
    async with Engine.open(store, workflows=[WORKFLOW]) as engine:
        ports = engine.runtime.store
        follower = fed(ports, sink)
        run = await a_run(engine)
        await until(lambda: sink.asked > 3)
        row = await row_of(ports)
        assert (row.problem, row.taken) == ("the collector answers 503", 0)
        assert row.waiting_since_ms is not None
        sink.problem = None
        wanted = await histories(ports, run)
        await has_taken(ports, len(wanted))
        await follower.aclose()
        assert sorted(sink.ids) == wanted
        row = await row_of(ports)
        assert (row.problem, row.waiting_since_ms, row.taken) == ("", None, len(wanted))


@bounded
async def test_one_event_that_a_sink_can_never_take_is_left_out_alone(store: str) -> None:
    sink = Kept(batch=8)
    sink.poison = "StepCompleted"
    async with Engine.open(store, workflows=[WORKFLOW]) as engine:
        ports = engine.runtime.store
        follower = fed(ports, sink)
        run = await a_run(engine)
        all_of_it = await histories(ports, run)
        poisoned = [
            (run, each.seq) for each in await ports.log.events(RunId(run)) if type(each.event).__name__ == "StepCompleted"
        ]
        await has_taken(ports, len(all_of_it))
        await follower.aclose()
        assert sorted([*sink.ids, *poisoned]) == all_of_it
        assert poisoned
        assert (await row_of(ports)).dropped == len(poisoned)


@bounded
async def test_one_process_feeds_a_sink_and_another_takes_over_when_its_turn_is_over(store: str) -> None:
    async with Engine.open(store, workflows=[WORKFLOW]) as engine:
        ports = engine.runtime.store
        followers = ports.followers
        assert await followers.hold("kept", "one", 60_000) is not None
        assert await followers.hold("kept", "two", 60_000) is None
        held = await followers.hold("kept", "one", 0)
        assert held is not None
        assert await followers.hold("kept", "two", 60_000) is not None
        assert not await followers.move(msgspec.structs.replace(held, cursor="1")), "its turn is another's by now"
        await followers.release("kept", "one")
        assert (await row_of(ports)).holder == "two"
        await followers.release("kept", "two")
        sink = Kept()
        follower = fed(ports, sink, "three")
        run = await a_run(engine)
        wanted = await histories(ports, run)
        await until(lambda: len(sink.got) >= len(wanted))
        await follower.aclose()
        assert sorted(sink.ids) == wanted


@bounded
async def test_a_lost_cursor_brings_everything_again_and_leaves_nothing_out(store: str) -> None:
    sink = Kept()
    async with Engine.open(store, workflows=[WORKFLOW]) as engine:
        ports = engine.runtime.store
        follower = fed(ports, sink)
        first = await a_run(engine)
        wanted = await histories(ports, first)
        await has_taken(ports, len(wanted))
        await follower.aclose()
        row = await ports.followers.hold("kept", "x", 0)
        assert row is not None
        assert row.cursor is not None
        beyond = str(int(row.cursor) + 1_000) if row.cursor.isdigit() else re.sub("-[0-9A-F]{8}_", "-00000000_", row.cursor)
        with pytest.raises(CursorLost):
            await ports.tail.after(beyond, 1)
        assert await ports.followers.move(msgspec.structs.replace(row, cursor=beyond))
        again = fed(ports, sink, "y")
        second = await a_run(engine)
        every = await histories(ports, first, second)
        await until(lambda: {*every} <= {*sink.ids[len(wanted) :]})
        await again.aclose()


@bounded
async def test_a_sink_that_never_answers_holds_up_no_run(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_, "_TAKES_S", 0.05)

    class Silent(Kept):
        async def take(self, events: Sequence[CommittedEvent]) -> int:
            self.asked += 1
            await asyncio.Event().wait()
            return 0

    sink = Silent()
    async with Engine.open(store, workflows=[WORKFLOW]) as engine:
        follower = fed(engine.runtime.store, sink)
        await a_run(engine)
        await until(lambda: sink.asked > 1)
        await a_run(engine)
        assert "no answer" in (await row_of(engine.runtime.store)).problem
        await follower.aclose()


@bounded
async def test_a_sink_begins_before_the_first_event_also_where_its_feeder_died_at_once(store: str) -> None:
    sink = Kept("now")
    async with Engine.open(store, workflows=[WORKFLOW]) as engine:
        ports = engine.runtime.store
        await a_run(engine)
        assert await ports.followers.hold("kept", "dead", 3_600_000) is not None
        follower = Follower(ports, Quick(), sink, "one", lambda: True, SpareTime().share())
        await follower.begin()
        later = await a_run(engine)
        await follower.begin()
        await ports.followers.release("kept", "dead")
        follower.start()
        wanted = await histories(ports, later)
        await has_taken(ports, len(wanted))
        await follower.aclose()
        assert sorted(sink.ids) == wanted


@bounded
async def test_a_busy_process_gives_few_events_at_a_time_and_all_of_them_in_the_end(store: str) -> None:
    class Busy(SpareTime):
        is_busy = True  # type: ignore[assignment]

    sink = Kept(batch=1_000)
    async with Engine.open(store, workflows=[WORKFLOW]) as engine:
        ports = engine.runtime.store
        runs = [await a_run(engine) for _ in range(40)]
        wanted = await histories(ports, *runs)
        assert len(wanted) > 2 * follower_._BUSY_BATCH
        follower = fed(ports, sink, spare=Busy())
        await has_taken(ports, len(wanted))
        await follower.aclose()
        assert sorted(sink.ids) == wanted
        assert sink.largest <= follower_._BUSY_BATCH


@bounded
async def test_a_process_that_ends_gives_its_sink_the_end_of_its_runs(store: str) -> None:
    sink = Kept(batch=3)
    async with Engine.open(store, workflows=[WORKFLOW]) as engine:
        ports = engine.runtime.store
        run = await a_run(engine)
        wanted = await histories(ports, run)
        follower = Follower(ports, MachineClock(), sink, "short", lambda: True, SpareTime().share())
        await follower.aclose()
        assert sorted(sink.ids) == wanted
        assert (await row_of(ports)).holder == ""
