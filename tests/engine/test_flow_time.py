"""The time of a flow's loop: its code goes on at the time at which it first went on, and a time limit begins then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Run, flow, step
from holdfast.core.ids import Path as Place
from holdfast.core.status import status
from holdfast.settings import Settings
from tests.engine.kit import Time, engine_at, eventually, lose_lease

LIMIT_S = 60
LATE_S = 3600
NONE_KEPT = Settings(resident_flows_mb=0)


async def at_a_wait(run: Run, path: str) -> None:
    await run.until(
        lambda state: status(state) == "waiting" and any(path in each.journal for each in state.steps.values())
    )


async def left_s(run: Run, time: Time, path: str = "@0") -> float:
    """How long it is until the timer at that place fires."""
    [waiting] = (await run.state()).steps.values()
    due_ms = waiting.journal[Place(path)].due_at_ms
    assert due_ms is not None
    return due_ms / 1000 - time.ms / 1000


@step
async def note(what: float) -> float:
    return what


async def by_timeout(wait: Awaitable[Any]) -> Any:
    async with asyncio.timeout(LIMIT_S):
        return await wait


async def by_wait_for(wait: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(wait, LIMIT_S)


async def by_wait(wait: Awaitable[Any]) -> Any:
    [done], _ = await asyncio.wait([asyncio.ensure_future(wait)], timeout=LIMIT_S)
    return done.result()


async def by_sleep(wait: Awaitable[Any]) -> Any:
    await asyncio.sleep(LIMIT_S)
    return await wait


LIMITS = pytest.mark.parametrize("limit", [by_timeout, by_wait_for, by_wait, by_sleep], ids=lambda each: each.__name__)


@LIMITS
async def test_a_limit_begins_when_the_code_goes_on_and_not_when_the_answer_came(
    tmp_path: Path, limit: Callable[[Awaitable[Any]], Awaitable[Any]]
) -> None:
    times: list[float] = []

    @flow
    async def buy(ctx: Context) -> Any:
        await ctx.wait_signal("go")
        times.append(asyncio.get_running_loop().time())
        return await limit(ctx.wait_signal("paid"))

    time = Time()
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        run_id = (run := await engine.start(buy)).id
        await at_a_wait(run, "0")
    async with engine_at(tmp_path, time) as engine:  # it has no code
        await engine.signal(run_id, "go")
        await engine.signal(run_id, "paid", "12")
    time.forward(LATE_S)
    started = time.ms / 1000
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        run = engine.run(run_id)
        if limit is by_sleep:
            await at_a_wait(run, "@0")
            assert LIMIT_S - 1 < await left_s(run, time) <= LIMIT_S
            time.forward(LIMIT_S)
        assert await run.result() == "12"
    assert all(started <= each < started + LIMIT_S for each in times)


async def test_a_limit_begins_when_a_slot_is_free(tmp_path: Path) -> None:
    @flow
    async def buy(ctx: Context) -> Any:
        await ctx.wait_signal("go")
        return await by_timeout(ctx.wait_signal("paid"))

    time = Time()
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        run = await engine.start(buy)
        await at_a_wait(run, "0")
        engine.executor.take_slots(100)  # its own are all taken
        await engine.signal(run.id, "go")
        time.forward(LATE_S)
        engine.executor.take_slots(-100)
        await at_a_wait(run, "1")
        assert LIMIT_S - 1 < await left_s(run, time) <= LIMIT_S
        await engine.signal(run.id, "paid", "12")
        assert await run.result() == "12"


async def test_a_limit_begins_after_what_is_not_recorded(tmp_path: Path) -> None:
    @flow
    async def buy(ctx: Context) -> Any:
        await note(1)
        await asyncio.to_thread(time.forward, LATE_S)
        return await by_timeout(ctx.wait_signal("paid"))

    time = Time()
    async with engine_at(tmp_path, time, workflows=[buy], settings=NONE_KEPT) as engine:
        run = await engine.start(buy)
        await at_a_wait(run, "1")
        assert LIMIT_S - 1 < await left_s(run, time) <= LIMIT_S
        await engine.signal(run.id, "paid", "12")
        assert await run.result() == "12"


async def test_a_replay_has_the_times_of_the_first_pass(tmp_path: Path) -> None:
    times: list[list[float]] = []

    @flow
    async def buy(ctx: Context) -> list[float]:
        loop, seen = asyncio.get_running_loop(), []
        times.append(seen)
        seen.append(loop.time())
        for number in range(3):
            await note(loop.time())
            await ctx.wait_signal("go")
            seen.append(loop.time())
            assert await note(loop.time() + number) == loop.time() + number
        return seen

    time = Time()
    started: list[float] = []
    for _ in range(3):
        started.append(time.ms / 1000)
        async with engine_at(tmp_path, time, workflows=[buy], settings=NONE_KEPT) as engine:
            run_id = (run := await engine.start(buy, key="one")).id
            await run.until(lambda state: status(state) == "waiting")
        async with engine_at(tmp_path, time) as engine:
            await engine.signal(run_id, "go")
        time.forward(LATE_S)
    started.append(time.ms / 1000)
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        result = await engine.run(run_id).result()
    assert result == times[-1]
    assert all(seen == times[-1][: len(seen)] for seen in times)
    assert all(0 <= seen - began < LIMIT_S for seen, began in zip(times[-1], started, strict=True))


async def test_a_replay_has_the_times_of_a_flow_that_was_kept_in_memory(tmp_path: Path) -> None:
    times: list[list[float]] = []

    @flow
    async def buy(ctx: Context) -> list[float]:
        loop, seen = asyncio.get_running_loop(), []
        times.append(seen)
        for _ in range(2):
            await ctx.wait_signal("go")
            seen.append(loop.time())
            await note(loop.time())
        return seen

    time = Time()
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        run_id = (run := await engine.start(buy)).id
        await at_a_wait(run, "0")
        engine.executor.take_slots(100)
        await engine.signal(run_id, "go")
        time.forward(LATE_S)
        went_on = time.ms / 1000
        engine.executor.take_slots(-100)
        await at_a_wait(run, "2")
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        await engine.signal(run_id, "go")
        result = await engine.run(run_id).result()
    assert len(times) == 2
    assert times[0][0] == times[1][0] == result[0]
    assert 0 <= result[0] - went_on < LIMIT_S


async def test_what_code_has_looked_at_moves_no_time(tmp_path: Path) -> None:
    """It is recorded with what comes next, and so at another time than that at which the code had it."""
    times: list[list[float]] = []

    @flow
    async def buy(ctx: Context) -> list[float]:
        loop, seen = asyncio.get_running_loop(), []
        times.append(seen)
        await note(0)
        await ctx.shared("till").read("drawer")
        time.forward(LIMIT_S)
        seen.append(loop.time())
        await note(loop.time())
        await ctx.wait_signal("go")
        return seen

    time = Time()
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        run_id = (run := await engine.start(buy)).id
        await at_a_wait(run, "3")
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        await engine.signal(run_id, "go")
        assert await engine.run(run_id).result() == times[0] == times[1]


async def test_an_outcome_that_led_to_nothing_recorded_is_heard_once(tmp_path: Path) -> None:
    times: list[list[float]] = []

    @flow
    async def buy(ctx: Context) -> list[float]:
        loop, seen = asyncio.get_running_loop(), []
        times.append(seen)

        async def beside() -> None:
            await asyncio.sleep(LIMIT_S)
            seen.append(loop.time())

        task = asyncio.create_task(beside())
        await ctx.wait_signal("go")
        await task
        return seen

    time = Time()
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        run_id = (run := await engine.start(buy)).id
        await at_a_wait(run, "~0.@0")
        time.forward(LIMIT_S)
        await eventually(lambda: times[0])
        await run.until(lambda state: status(state) == "waiting")
        time.forward(LATE_S)
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        await engine.signal(run_id, "go")
        assert await engine.run(run_id).result() == times[0] == times[1]


async def test_a_limit_that_has_begun_goes_on_while_no_process_is_there(tmp_path: Path) -> None:
    has_begun = asyncio.Event()

    @step
    async def never() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    @flow
    async def buy(ctx: Context) -> str:
        await note(1)
        try:
            async with asyncio.timeout(LIMIT_S):
                await never()
        except TimeoutError:
            return "late"
        return "done"

    time = Time()
    async with engine_at(tmp_path, time, workflows=[buy], grace_s=0) as engine:
        run_id = (await engine.start(buy)).id
        await has_begun.wait()
        await lose_lease(engine)
    time.forward(LIMIT_S)
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        assert await engine.run(run_id).result() == "late"


@pytest.mark.parametrize("settings", [Settings(resident_flows_mb=64), NONE_KEPT], ids=["kept", "replayed"])
async def test_each_of_several_sleeps_is_as_long_as_it_says(tmp_path: Path, settings: Settings) -> None:
    @flow
    async def beats(ctx: Context) -> str:
        for _ in range(4):
            await asyncio.sleep(LATE_S)
        return "done"

    time = Time()
    async with engine_at(tmp_path, time, workflows=[beats], settings=settings) as engine:
        run = await engine.start(beats)
        for number in range(4):
            await at_a_wait(run, f"@{number}")
            assert LATE_S - 1 < await left_s(run, time, f"@{number}") <= LATE_S
            time.forward(LATE_S)
        assert await run.result() == "done"
