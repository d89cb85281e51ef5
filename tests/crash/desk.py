"""A program that gives a supervisor tasks and does them, and dies at one of the points at which something lasts.

usage: python -m tests.crash.desk DIRECTORY LIFE [AT]

It submits the same in each life, each task under its id. One of them fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from holdfast import Accepted, Context, Engine, WorkerAgent, flow, tool
from holdfast.settings import Settings
from tests.crash.killing import dies_at

STORE, WORLD, NAME = "desk.db", "world.jsonl", "desk"
TASKS = {f"t{number}": "read" if number % 2 else "write" for number in range(6)}
FAILS = "t3"


@tool(effect="idempotent")
def do(what: str, key: str) -> str:
    with Path(sys.argv[1], WORLD).open("a") as world:
        world.write(json.dumps({"what": what, "key": key}) + "\n")
        world.flush()
        os.fsync(world.fileno())
    return what


@flow
async def worker(ctx: Context, task: str) -> str:
    await ctx.tool(do, what=task)
    if task == FAILS:
        raise ValueError("this one fails")
    return task


async def main(directory: Path) -> None:
    known = Settings(lease_s=1)  # nobody waits for long for what a killed process had
    async with asyncio.timeout(60), Engine.open(directory / STORE, workflows=[worker], settings=known) as engine:
        workers = [WorkerAgent(name, worker, types, 1) for name, types in (("ann", ["read"]), ("bob", ["read", "write"]))]
        desk = await engine.set_supervisor(NAME, workers, threshold=None)
        for task, task_type in TASKS.items():
            answer = await desk.submit(task_type, task, task_id=task)
            assert isinstance(answer, Accepted)
        await asyncio.gather(*map(desk.wait, TASKS))


if __name__ == "__main__":
    where = Path(sys.argv[1])
    dies_at(where, *sys.argv[2:])
    asyncio.run(main(where))
