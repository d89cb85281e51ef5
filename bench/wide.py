"""Wide runs: N nodes beside one another between two others, and `ctx.gather` of N operations, in one process on SQLite.

usage: python bench/wide.py [COUNT ...]

What is looked at is growth: twice as many take twice as long. Seconds depend on the machine, so compare within one run.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from holdfast import Engine, Workflow, task, tool

COUNTS = (1_000, 2_000, 5_000, 10_000)


def fan(count: int) -> Workflow:
    """One node, `count` - 2 after it, one that joins them: `count` in all."""
    wf = Workflow(f"fan-{count}", max_steps=count)
    wf.node("first")(task(lambda state: 1))
    for number in range(count - 2):

        @wf.node(f"n{number}")
        @task
        async def one(state: object) -> int:
            return 1

        wf.edge("first", f"n{number}")
        wf.edge(f"n{number}", "last")

    @wf.node("last")
    @task
    async def last(state):
        return len(state.events)

    return wf


def gather(count: int) -> Workflow:
    wf = Workflow(f"gather-{count}")

    @tool(effect="idempotent")
    async def work(number: int) -> int:
        return number

    @wf.node("all")
    @task(tools=[work])
    async def all_(state, ctx):
        return sum(await ctx.gather(*(ctx.tool("work", number=number) for number in range(count))))

    return wf


async def took_s(workflow: Workflow, store: Path) -> float:
    async with Engine.open(store, workflows=[workflow]) as engine:
        began_s = time.perf_counter()
        await (await engine.start(workflow)).result()
        return time.perf_counter() - began_s


def main() -> None:
    counts = [int(each) for each in sys.argv[1:]] or COUNTS
    for what in (fan, gather):
        for count in counts:
            with tempfile.TemporaryDirectory() as folder:
                seconds = asyncio.run(took_s(what(count), Path(folder) / "wide.db"))
            each_us = seconds / count * 1e6
            sys.stdout.write(f"{what.__name__:8}{count:8,}{seconds:9.2f} s{each_us:9.0f} µs each\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
