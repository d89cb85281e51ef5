"""The time of a flow's loop: its code goes on at the time at which it first went on, and a time limit begins then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Run, RunFailed, flow, step
from holdfast.core.values.ids import Path as Place
from holdfast.core.views.status import status
from holdfast.engine.flow.flowing import FlowAttempt
from holdfast.engine.flow.outcomes import FlowOutcomes
from holdfast.settings import Settings
from tests.engine.kit import Time, engine_at, eventually, lose_lease

LIMIT_S = 60
LATE_S = 3600
NONE_KEPT = Settings(resident_flows_mb=0)


async def at_a_wait(run: Run, path: str) -> None:
    await run.until(lambda state: status(state) == "waiting" and any(path in each.journal for each in state.steps.values()))


async def is_written(run: Run, path: str) -> None:
    await run.until(lambda state: any(path in each.journal for each in state.steps.values()))


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
        run_id = (run := await engine.start(buy)).id
        await has_begun.wait()
        await is_written(run, "@0")
        await lose_lease(engine)
    time.forward(LIMIT_S)
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        assert await engine.run(run_id).result() == "late"


async def test_timers_of_a_crashed_attempt_end_in_the_order_of_their_times(tmp_path: Path) -> None:
    """The outer limit is written as the step waits, the inner one while its step is at work."""

    @step
    async def never() -> None:
        await asyncio.Event().wait()

    @flow
    async def nested(ctx: Context) -> list[str]:
        order: list[str] = []
        try:
            async with asyncio.timeout(LATE_S):
                await ctx.wait_signal("go")
                try:
                    async with asyncio.timeout(LIMIT_S):
                        await never()
                except TimeoutError:
                    order.append("inner")
                await ctx.wait_signal("never")
        except TimeoutError:
            order.append("outer")
        return order

    time = Time()
    async with engine_at(tmp_path, time, workflows=[nested], grace_s=0) as engine:
        run_id = (run := await engine.start(nested)).id
        await at_a_wait(run, "@0")
        await engine.signal(run_id, "go")
        await is_written(run, "@1")
        await lose_lease(engine)
    time.forward(2 * LATE_S)
    async with engine_at(tmp_path, time, workflows=[nested]) as engine:
        assert await engine.run(run_id).result() == ["inner", "outer"]


async def test_a_sleep_is_as_long_where_the_process_died_before_the_code_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @flow
    async def buy(ctx: Context) -> str:
        await asyncio.sleep(LIMIT_S)
        return "done"

    async def stands(flowing: FlowAttempt) -> None:
        assert flowing._code is not None
        flowing._code.close()
        has_begun.set()
        await asyncio.Event().wait()

    time, has_begun = Time(), asyncio.Event()
    async with engine_at(tmp_path, time, workflows=[buy], grace_s=0) as engine:
        monkeypatch.setattr(FlowAttempt, "carry", stands)
        run_id = (await engine.start(buy)).id
        await has_begun.wait()
        await lose_lease(engine)
        monkeypatch.undo()
    time.forward(LATE_S)
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        run = engine.run(run_id)
        await at_a_wait(run, "@0")
        assert LIMIT_S - 1 < await left_s(run, time) <= LIMIT_S


async def test_a_sleep_after_an_error_of_the_flow_itself_is_as_long_as_it_says(tmp_path: Path) -> None:
    passes: list[int] = []

    @flow
    async def buy(ctx: Context) -> str:
        await note(1)
        passes.append(1)
        if len(passes) == 1:
            raise ValueError("odd")
        await asyncio.sleep(LIMIT_S)
        return "done"

    time = Time()
    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        run = await engine.start(buy)
        with pytest.raises(RunFailed):
            await run.result()
        time.forward(LATE_S)
        await engine.retry(run.id)
        await at_a_wait(run, "@0")
        assert LIMIT_S - 1 < await left_s(run, time) <= LIMIT_S


KEPT_OR_NOT = pytest.mark.parametrize("settings", [Settings(resident_flows_mb=64), NONE_KEPT], ids=["kept", "replayed"])


@KEPT_OR_NOT
async def test_timers_that_are_due_together_fire_in_the_order_of_their_times(tmp_path: Path, settings: Settings) -> None:
    @flow
    async def race(ctx: Context) -> list[Any]:
        late = [asyncio.create_task(asyncio.sleep(LATE_S - number, number)) for number in range(4)]
        order = [await each for each in asyncio.as_completed(late)]
        inner = await asyncio.wait_for(asyncio.sleep(LIMIT_S, "slept"), LATE_S)
        both = [asyncio.ensure_future(asyncio.sleep(seconds, seconds)) for seconds in (LATE_S, LIMIT_S)]
        [first], _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return [order, inner, first.result()]

    time = Time()
    async with engine_at(tmp_path, time, workflows=[race], settings=settings) as engine:
        run = await engine.start(race)
        for place in ("~0.@0", "@0", "~4.@0"):
            await at_a_wait(run, place)
            time.forward(2 * LATE_S)
        assert await run.result() == [[3, 2, 1, 0], "slept", LIMIT_S]


@pytest.mark.parametrize("seconds", [0.5, LIMIT_S], ids=["near", "far"])
async def test_sleeps_of_one_length_end_in_the_order_in_which_they_began(tmp_path: Path, seconds: float) -> None:
    begun: list[int] = []

    @flow
    async def twelve(ctx: Context) -> list[int]:
        order: list[int] = []

        async def one(number: int) -> None:
            begun.append(number)
            await asyncio.sleep(seconds)
            order.append(number)

        await asyncio.gather(*map(one, range(12)))
        return order

    time = Time()
    async with engine_at(tmp_path, time, workflows=[twelve]) as engine:
        run = await engine.start(twelve)
        if seconds == LIMIT_S:
            await at_a_wait(run, "~11.@0")
        await eventually(lambda: len(begun) == 12)
        time.forward(LIMIT_S)
        assert await run.result() == [*range(12)]


async def test_a_sleep_is_as_long_where_its_code_hears_late_of_what_came_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @flow
    async def buy(ctx: Context) -> str:
        await note(1)
        await asyncio.sleep(LIMIT_S)
        return "done"

    time, finish = Time(), FlowOutcomes._finish

    def late(*given: Any, **named: Any) -> None:
        time.forward(LIMIT_S / 2)  # as where something else holds the event loop
        finish(*given, **named)

    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        monkeypatch.setattr(FlowOutcomes, "_finish", late)
        run = await engine.start(buy)
        await at_a_wait(run, "@0")
        monkeypatch.undo()
        assert LIMIT_S - 1 < await left_s(run, time) <= LIMIT_S


async def test_a_first_sleep_is_as_long_where_its_code_begins_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @flow
    async def buy(ctx: Context) -> str:
        await asyncio.sleep(LIMIT_S)
        return "done"

    time, carry = Time(), FlowAttempt.carry

    async def late(flowing: FlowAttempt) -> Any:
        time.forward(LIMIT_S / 2)
        return await carry(flowing)

    async with engine_at(tmp_path, time, workflows=[buy]) as engine:
        monkeypatch.setattr(FlowAttempt, "carry", late)
        run = await engine.start(buy)
        await at_a_wait(run, "@0")
        monkeypatch.undo()
        assert LIMIT_S - 1 < await left_s(run, time) <= LIMIT_S


async def test_a_timer_begins_when_the_code_begins_it_and_not_when_it_waits(tmp_path: Path) -> None:
    @flow
    async def computes(ctx: Context) -> list[str]:
        order: list[str] = []

        async def rest(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            order.append(name)

        first = asyncio.create_task(rest("first", LIMIT_S))
        await asyncio.sleep(0)
        time.forward(LIMIT_S - 10)  # as where the flow itself computes
        await asyncio.gather(first, rest("second", 20))
        try:
            async with asyncio.timeout(LIMIT_S):
                time.forward(LIMIT_S + 1)
                await asyncio.sleep(LIMIT_S)
        except TimeoutError:
            order.append("late")
        return order

    time = Time()
    async with engine_at(tmp_path, time, workflows=[computes]) as engine:
        run = await engine.start(computes)
        await at_a_wait(run, "~1.@0")
        assert 9 < await left_s(run, time, "~0.@0") <= 10
        assert 19 < await left_s(run, time, "~1.@0") <= 20
        time.forward(20)
        assert await run.result() == ["first", "second", "late"]


async def test_a_flow_may_hear_of_the_errors_of_its_callbacks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    @flow
    async def calls(ctx: Context) -> list[str]:
        loop, heard = asyncio.get_running_loop(), list[str]()

        def fail() -> None:
            raise ValueError("odd")

        loop.call_soon(fail)
        await asyncio.sleep(0)
        loop.set_exception_handler(lambda _, context: heard.append(str(context["exception"])))
        assert loop.get_exception_handler() is not None
        loop.call_soon(fail)
        await asyncio.sleep(0)
        return heard

    async with engine_at(tmp_path, Time(), workflows=[calls]) as engine:
        assert await (await engine.start(calls)).result() == ["odd"]
    assert [each.getMessage() for each in caplog.records] == ["holdfast: a callback of a flow failed: ValueError: odd"]


async def test_who_asks_for_a_time_that_stands_still_is_warned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    @flow
    async def waits(ctx: Context) -> int:
        loop, number = asyncio.get_running_loop(), 0
        end = loop.time() + 10
        while loop.time() < end and number < 3:
            await asyncio.to_thread(time.forward, LIMIT_S)
            number += 1
        return number

    time = Time()
    async with engine_at(tmp_path, time, workflows=[waits]) as engine:
        assert await (await engine.start(waits)).result() == 3
    [warning] = [each.getMessage() for each in caplog.records if "stands still" in each.getMessage()]
    assert "Ask `await ctx.now()`" in warning
    assert "test_flow_time.py:" in warning


@KEPT_OR_NOT
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
