"""A program that runs a tree of runs and dies at one of the points at which something lasts.

usage: python -m tests.crash.family DIRECTORY FLOW LIFE [AT]

A `root` has two children at once and one in the background; one of them has a child of its own. `regret` has the latter child
alone, and fails, so that all is undone. Each does one thing to the world, a file in DIRECTORY.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from holdfast import Context, Engine, RunFailed, flow, tool
from holdfast.authoring.flow import Flow
from tests.crash.killing import dies_at

STORE, WORLD, RESULT = "holdfast.db", "world.jsonl", "result.json"
DONE = {"root": ["leaf", "left", "right", "background"], "regret": ["leaf", "left", "right"]}


@tool(effect="idempotent")
def undo(what: str, key: str) -> str:
    return do.function(f"undo {what}", key)


@tool(effect="idempotent", compensation=undo)
def do(what: str, key: str) -> str:
    with Path(sys.argv[1], WORLD).open("a") as world:
        world.write(json.dumps({"what": what, "key": key}) + "\n")
        world.flush()
        os.fsync(world.fileno())
    return what


@flow
async def leaf(ctx: Context, given: dict[str, str]) -> Any:
    return await ctx.tool(do, what=given["what"])


@flow
async def branch(ctx: Context) -> Any:
    return [await ctx.child(leaf, {"what": "leaf"}), await ctx.tool(do, what="left")]


@flow(cost_limit_usd=1)
async def root(ctx: Context) -> Any:
    other = await ctx.child(leaf, {"what": "background"}, background=True)
    found = await ctx.gather(ctx.child(branch), ctx.child(leaf, {"what": "right"}, key="right"))
    return [*found[0], found[1], await other.result()]


@flow(cost_limit_usd=1)
async def regret(ctx: Context) -> Any:
    await ctx.child(branch)
    await ctx.tool(do, what="right")
    raise ValueError("it was all for nothing")


async def main(directory: Path, which: Flow) -> None:
    async with asyncio.timeout(60), Engine.open(directory / STORE, workflows=[which]) as engine:
        run = await engine.start(which, key="the-run")
        try:
            result = await run.result()
        except RunFailed as failed:
            result = failed.message
        (directory / RESULT).write_text(json.dumps(result))


if __name__ == "__main__":
    folder, name, life, *at = sys.argv[1:]
    dies_at(Path(folder), life, *at)
    asyncio.run(main(Path(folder), {"root": root, "regret": regret}[name]))
