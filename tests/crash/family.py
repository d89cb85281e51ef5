"""A program that runs a tree of runs and dies at one of the points at which something lasts.

usage: python -m tests.crash.family DIRECTORY LIFE [AT]

A root has two children at once and one in the background; one of them has a child of its own. Each does one thing to the
world, a file in DIRECTORY.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import apsw

from holdfast import Context, Engine, flow, tool
from tests.crash.boundary import Boundaries, CountedConnection

STORE, WORLD, RESULT = "holdfast.db", "world.jsonl", "result.json"
DONE = ["leaf", "left", "right", "background"]


@tool(effect="idempotent")
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


async def main(directory: Path) -> None:
    async with asyncio.timeout(60), Engine.open(directory / STORE, workflows=[root]) as engine:
        run = await engine.start(root, key="the-run")
        (directory / RESULT).write_text(json.dumps(await run.result()))


if __name__ == "__main__":
    folder, life, *rest = sys.argv[1:]
    at = int(rest[0]) if rest else None
    CountedConnection.boundaries = Boundaries(Path(folder, f"{life}.trace"), at=at)
    apsw.Connection = CountedConnection  # type: ignore[misc]
    asyncio.run(main(Path(folder)))
