"""Wide runs: N nodes beside one another between two others, `ctx.gather` of N operations, and maps of N items, of a flow and as
a node; in one process on SQLite, a new one each time.

usage: python bench/wide.py [COUNT ...]

What is looked at is growth: twice as many take twice as long. Seconds depend on the machine, so compare within one run.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from holdfast import Context, Engine, Workflow, flow, map_node, step, task, tool

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


@step
async def answer(item: dict[str, Any]) -> str:
    return str(item["text"])[:900]


@flow
async def mapped(ctx: Context, count: int) -> int:
    """Items and results of a thousand characters: more than an event takes."""
    return len(await ctx.map(answer, items(count)))


def items(count: int) -> list[dict[str, Any]]:
    return [{"number": number, "text": f"{number}" + "x" * 980} for number in range(count)]


def map_flow(count: int) -> Workflow:
    return mapped


def nodes(count: int) -> Workflow:
    wf = Workflow(f"nodes-{count}")

    @wf.node("all")
    @map_node(lambda state: items(state.input))
    @task
    async def each(state: Any, item: Any) -> str:
        return str(item.text)[:900]

    return wf


SHAPES = {"steps": fan, "gather": gather, "map": map_flow, "map_node": nodes}


async def took_s(workflow: Workflow, count: int, store: Path) -> float:
    async with Engine.open(store, workflows=[workflow]) as engine:
        began_s = time.perf_counter()
        await (await engine.start(workflow, count)).result()
        return time.perf_counter() - began_s


def measured(what: str, count: int) -> tuple[float, int]:
    """Seconds, and the most memory in MiB that the process had."""
    with tempfile.TemporaryDirectory() as folder:
        seconds = asyncio.run(took_s(SHAPES[what](count), count, Path(folder) / "wide.db"))
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    counts = [int(each) for each in sys.argv[1:]] or COUNTS
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        for what in SHAPES:
            for count in counts:
                seconds, mib = processes.submit(measured, what, count).result()
                each_us = seconds / count * 1e6
                sys.stdout.write(f"{what:9}{count:8,}{seconds:9.2f} s{each_us:9.0f} µs each{mib:6} MiB\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
