"""A process that stands still for longer than its lease, at every kind of place: `python -m tests.faults.stander STORE LEASE_S`

It works alone, so nobody finds its session dead. It stops itself with SIGSTOP, once at each place, and says what its run
came to.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from typing import Any

from holdfast import Context, Engine, flow, step, tool
from holdfast.stores.sqlite import SqliteStore

PLACES = (
    "before a step",
    "before a piece of a stream",
    "before a child",
    "before a step of a child",
    "before a step of an item",
    "before a call in an item",
    "before a step of a branch",
    "before the end",
)
"""Where it stands still, each once."""

left = [*PLACES]
world: Counter[str] = Counter()
"""What its tools have done."""


def stand(place: str) -> None:
    """Stand still here, the first time."""
    if place in left:
        left.remove(place)
        os.kill(os.getpid(), signal.SIGSTOP)


@step
async def price(number: int) -> int:
    return number


@tool(effect="once")
async def post(what: str, key: str) -> str:
    world[what] += 1
    return what


@step
async def note(number: int) -> int:
    return number


@flow
async def smaller(ctx: Context, number: int) -> int:
    stand("before a step of a child")
    return await price(number)


async def one(ctx: Context, number: int) -> int:
    stand("before a call in an item")
    await ctx.tool("post", {"what": f"item {number}"})
    stand("before a step of an item")
    await ctx.stream("items").write(number)
    return number


async def branch(ctx: Context, number: int) -> int:
    if number:
        stand("before a step of a branch")
    return await note(number)


@flow(tools=[post])
async def everything(ctx: Context, count: int) -> list[int]:
    found = [await price(0)]
    stand("before a step")
    found.append(await price(1))
    stand("before a piece of a stream")
    await ctx.stream("progress").write(found)
    stand("before a child")
    found.append(await ctx.child(smaller, 2))
    found += await ctx.map(one, [*range(3, count)], max_parallel=2)
    found += await ctx.gather(branch(ctx, 0), branch(ctx, count))
    stand("before the end")
    return found


def expected(count: int) -> list[int]:
    return [*range(count), 0, count]


async def main(path: str, lease_s: str) -> None:
    store: Any = await SqliteStore.connect(path, lease_s=float(lease_s))
    async with Engine.open(store, workflows=[everything, smaller]) as engine:
        run = await engine.start(everything, 5)
        print("said", await run.result(), flush=True)
    await store.aclose()
    print("world", dict(world), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
