"""A program whose runs share values, and which dies at one of the points at which something lasts.

usage: python -m tests.crash.sharers DIRECTORY LIFE [AT]

Two runs add to one number under its lock, again where the other had it meanwhile; a third waits until it has been written four times.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from holdfast import Context, Engine, OperationFailed, flow
from tests.crash.killing import dies_at

STORE, RESULT = "holdfast.db", "result.json"
DONE = [{"mine": 2}, {"mine": 2}, {"after": 4, "total": 4}]


@flow
async def add(ctx: Context) -> Any:
    board = ctx.shared("board")
    mine = 0
    while mine < 2:
        async with board.lock("total", lease_s=0.2, wait_s=30):
            seen = await board.read("total")
            await ctx.step("think", lambda: None)
            try:
                await board.write("total", (seen.value if seen is not None else 0) + 1)
                mine += 1
            except OperationFailed as refused:
                if refused.error.error_class != "conflict":
                    raise
    return {"mine": mine}


@flow
async def wait(ctx: Context) -> Any:
    board = ctx.shared("board")
    found = await board.changed("total", after=3)
    return {"after": found.version, "total": found.value}


async def main(directory: Path) -> None:
    async with asyncio.timeout(60), Engine.open(directory / STORE, workflows=[add, wait]) as engine:
        runs = [await engine.start(each, key=key) for each, key in ((add, "a"), (add, "b"), (wait, "c"))]
        (directory / RESULT).write_text(json.dumps([await run.result() for run in runs]))


if __name__ == "__main__":
    folder, life, *at = sys.argv[1:]
    dies_at(Path(folder), life, *at)
    asyncio.run(main(Path(folder)))
