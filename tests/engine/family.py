"""A program that runs a tree of runs which all ask a model at the same time, for tests that kill it anywhere.

usage: python -m tests.engine.family STORE

A root has twenty children, each of which asks once by itself and once through a child of its own. It says `done` when the
root has ended.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from holdfast import Context, Engine, flow
from tests.engine.spender import HAIKU, HOLD_NANOUSD

CHILDREN = 20
LIMIT_NANOUSD = 8 * HOLD_NANOUSD
"""Room for eight calls at a time, and less the more of them have been paid."""


@flow
async def leaf(ctx: Context, n: dict[str, int]) -> str:
    return await ctx.model(HAIKU, f"leaf {n['n']:02}", max_tokens=100)


@flow
async def branch(ctx: Context, n: dict[str, int]) -> Any:
    return [await ctx.model(HAIKU, f"branch {n['n']:02}", max_tokens=100), await ctx.child(leaf, n)]


@flow(cost_limit_usd=LIMIT_NANOUSD / 1_000_000_000)
async def root(ctx: Context) -> int:
    return len(await ctx.gather(*(ctx.child(branch, {"n": n}) for n in range(CHILDREN))))


async def main(store: str) -> None:
    async with Engine.open(store, workflows=[root]) as engine:
        run = await engine.start(root, key="the-tree")
        await run.result()
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
