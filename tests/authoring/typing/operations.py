"""What a type checker says of a flow's operations: side by side, children, items."""

from __future__ import annotations

import asyncio
from typing import Any, assert_type

from holdfast import ChildHandle, ChildOutcome, Context, flow, step, tool


@step
async def price(item: str) -> float:
    return len(item)


@step(retry=3)
def double(number: int, by: int = 2) -> int:
    return number * by


class Desk:
    @step
    async def file(self, number: int, word: str = "") -> str:
        return word

    @step(retry=2)
    def look(self, number: int) -> bool:
        return number > 0


@step(effect="idempotent")
async def charge(amount: float, key: str = "") -> str:
    return key


@tool(effect="read")
def look_up(item: str) -> str:
    return item


@flow
async def count(ctx: Context, number: int) -> int:
    return number


async def review(ctx: Context, item: str) -> bool:
    return bool(item)


@flow
async def right(ctx: Context, items: list[str]) -> None:
    assert_type(await price("lamp"), float)
    assert_type(await ctx.gather(price("lamp"), double(1)), tuple[float, int])
    cost, twice, paid = await ctx.gather(price("lamp"), double(1), charge(2.0))
    assert_type((cost, twice, paid), tuple[float, int, str])
    assert_type(await ctx.gather(*[price(item) for item in items]), list[float])
    assert_type(await ctx.gather(price("a"), ctx.sleep(1), ctx.child(count, 3)), tuple[float, None, int])

    desk = Desk()
    assert_type(await desk.file(1, word="a"), str)
    assert_type(await ctx.gather(desk.file(1), desk.look(2)), tuple[str, bool])
    await desk.file("1")  # type: ignore[arg-type]
    await desk.look("2")  # type: ignore[arg-type]

    assert_type(await ctx.child(count, 3), int)
    assert_type(await ctx.child(count, 3, key="once", on_failure="return"), ChildOutcome[int])
    handle = await ctx.child(count, 3, background=True)
    assert_type(handle, ChildHandle[int])
    assert_type(await handle.result(), int)
    assert_type((await handle.result(on_failure="return")).output, int | None)
    assert_type(await ctx.child("count", 3), Any)

    assert_type(await ctx.map(price, items), list[float])
    assert_type(await ctx.map(double, [1, 2], max_parallel=5), list[int])
    assert_type(await ctx.map(charge, [1.0]), list[str])
    assert_type(await ctx.map(review, items, key=str), list[bool])
    assert_type(await ctx.map(price, items, tolerated_failures=0.5), list[float | None])
    assert_type(await ctx.map(look_up, [{"item": item} for item in items]), list[Any])


@flow
async def concurrent(ctx: Context, items: list[str]) -> None:
    assert_type(await asyncio.create_task(price("lamp")), float)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(charge(2.0))
    assert_type(task.result(), str)
    done, _ = await asyncio.wait([asyncio.create_task(price(item)) for item in items], timeout=3)
    assert_type(done, set[asyncio.Task[float]])
    assert_type(await asyncio.gather(price("lamp"), double(1), ctx.child(count, 3)), tuple[float, int, int])
    assert_type(await asyncio.wait_for(charge(2.0), 3), str)
    assert_type([await each for each in asyncio.as_completed([price("a"), price("b")])], list[float])


@flow
async def wrong(ctx: Context, items: list[str]) -> None:
    await price(3)  # type: ignore[arg-type]
    text: str = (await ctx.gather(price("lamp"), double(1)))[1]  # type: ignore[assignment]
    await ctx.child(count, "three")  # type: ignore[arg-type]
    await ctx.map(double, items)  # type: ignore[arg-type]
    await ctx.map(review, [1, 2])  # type: ignore[arg-type]
    print(text)
