"""A flow with several tasks is taken up where it failed: what came of the failure is in nobody's way, and nothing is paid twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Context, RetryPolicy, RunFailed, flow, step
from tests.engine.kit import opened


class World:
    """What fails until it is mended, and what was done."""

    def __init__(self) -> None:
        self.fails = 1
        self.done: list[str] = []
        self.has_failed = asyncio.Event()


@pytest.fixture
def world() -> World:
    return World()


def steps_of(world: World) -> Any:
    @step
    async def look() -> str:
        world.done.append("look")
        if world.fails:
            world.fails -= 1
            world.has_failed.set()
            raise ValueError("not there yet")
        return "seen"

    @step(effect="once")
    async def pay(what: str) -> str:
        """Pay. It is sent before the other fails, and its outcome comes after that."""
        await world.has_failed.wait()
        await asyncio.sleep(0.05)
        world.done.append(f"pay {what}")
        return what

    @step
    async def note(what: str) -> str:
        world.done.append(f"note {what}")
        return what

    return look, pay, note


@pytest.mark.parametrize("by_itself", [True, False], ids=["by_itself", "by_a_person"])
async def test_a_task_group_that_failed_is_taken_up_where_it_failed(store: str, world: World, by_itself: bool) -> None:
    look, pay, _ = steps_of(world)

    async def both(ctx: Context) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in (pay("a"), look(), ctx.wait_signal("go"), ctx.sleep(0.1))]
        return [each.result() for each in tasks]

    buy = flow(retry=RetryPolicy(max_attempts=2, initial_s=0.01))(both) if by_itself else flow(both)
    async with opened(store, workflows=[buy]) as engine:
        run = await engine.start(buy)
        if not by_itself:
            with pytest.raises(RunFailed, match="not there yet"):
                await run.result()
            await engine.retry(run.id)
        await run.until(lambda state: len([each for each in world.done if each == "look"]) == 2)
        await engine.signal(run.id, "go", 1)
        assert await run.result() == ["a", "seen", 1, None]
    assert sorted(world.done) == ["look", "look", "pay a"]


async def test_what_a_failure_led_to_is_not_in_the_way_of_another_try(store: str, world: World) -> None:
    look, _, note = steps_of(world)

    @flow
    async def buy(ctx: Context) -> list[str]:
        other = asyncio.create_task(note("beside"))
        try:
            seen = await look()
        except Exception:
            await note("it failed")
            raise
        return [seen, await note("it is there"), await other]

    async with opened(store, workflows=[buy]) as engine:
        run = await engine.start(buy)
        with pytest.raises(RunFailed, match="not there yet"):
            await run.result()
        await engine.retry(run.id)
        assert await run.result() == ["seen", "it is there", "beside"]
    assert world.done.count("note beside") == 1


@pytest.mark.parametrize("by_itself", [True, False], ids=["by_itself", "by_a_person"])
async def test_a_sleep_that_was_over_is_not_slept_again_and_a_time_limit_begins_again(
    store: str, world: World, by_itself: bool
) -> None:
    look, _, _ = steps_of(world)
    passes: list[float] = []
    may_end = asyncio.Event()

    @step
    async def work() -> str:
        await may_end.wait()
        return "worked"

    async def slept(long_s: float) -> str:
        await asyncio.sleep(long_s)
        return "slept"

    async def limited(long_s: float) -> str:
        try:
            async with asyncio.timeout(long_s):
                return await work()
        except TimeoutError:
            return "late"

    async def both(ctx: Context) -> list[Any]:
        passes.append(3600.0 if passes else 0.01)  # on the second pass both would last for an hour
        if len(passes) > 1:
            may_end.set()
        found = await asyncio.gather(look(), slept(passes[-1]), limited(passes[-1]), return_exceptions=True)
        if isinstance(found[0], Exception):
            raise found[0]
        return found

    buy = flow(retry=RetryPolicy(max_attempts=2, initial_s=0.01))(both) if by_itself else flow(both)
    async with opened(store, workflows=[buy]) as engine:
        run = await engine.start(buy)
        if not by_itself:
            with pytest.raises(RunFailed, match="not there yet"):
                await run.result()
            await engine.retry(run.id)
        assert await run.result() == ["seen", "slept", "worked"]
    assert len(passes) == 2
