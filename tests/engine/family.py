"""A program that runs a tree of runs which all ask a model at the same time, for tests that kill it anywhere.

usage: python -m tests.engine.family STORE ROOT

A root has twenty children, each of which asks once by itself and once through a child of its own. `root` has a limit on money,
`frugal` one on tokens. It says `done` when the root has ended.
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
HOLD_TOKENS = 200
"""More than a call of these workflows is held for."""
LIMIT_TOKENS = 8 * HOLD_TOKENS


@flow
async def leaf(ctx: Context, n: dict[str, int]) -> str:
    return await ctx.model(HAIKU, f"leaf {n['n']:02}", max_tokens=100)


@flow
async def branch(ctx: Context, n: dict[str, int]) -> Any:
    return [await ctx.model(HAIKU, f"branch {n['n']:02}", max_tokens=100), await ctx.child(leaf, n)]


@flow(cost_limit_usd=LIMIT_NANOUSD / 1_000_000_000)
async def root(ctx: Context) -> int:
    return len(await ctx.gather(*(ctx.child(branch, {"n": n}) for n in range(CHILDREN))))


@flow(max_tokens=LIMIT_TOKENS)
async def frugal(ctx: Context) -> int:
    return len(await ctx.gather(*(ctx.child(branch, {"n": n}) for n in range(CHILDREN))))


ROOTS = {"root": root, "frugal": frugal}


async def main(store: str, name: str) -> None:
    async with Engine.open(store, workflows=[ROOTS[name]]) as engine:
        run = await engine.start(ROOTS[name], key="the-tree")
        await run.result()
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
