"""A program whose run remembers, and which dies at one of the points at which something lasts.

usage: python -m tests.crash.rememberer DIRECTORY LIFE [AT]

It keeps four memories where there is room for three, recalls them twice, and forgets one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from holdfast import Context, Engine, flow
from tests.crash.killing import dies_at

STORE, RESULT = "holdfast.db", "result.json"
DONE = [["a", "c", "d"], ["a", "d"]]


@flow
async def remember(ctx: Context) -> Any:
    memory = ctx.memory("planner", most=3)
    for text, importance in (("a", 0.9), ("b", 0.1), ("c", 0.8), ("d", 0.5)):
        await memory.remember(text, importance=importance)
    found = {each.text: each.key for each in await memory.recall()}
    await ctx.step("think", lambda: None)
    await memory.forget(found["c"])
    return [sorted(found), sorted(each.text for each in await memory.recall())]


async def main(directory: Path) -> None:
    async with asyncio.timeout(60), Engine.open(directory / STORE, workflows=[remember]) as engine:
        run = await engine.start(remember, key="a")
        (directory / RESULT).write_text(json.dumps(await run.result()))


if __name__ == "__main__":
    folder, life, *at = sys.argv[1:]
    dies_at(Path(folder), life, *at)
    asyncio.run(main(Path(folder)))
