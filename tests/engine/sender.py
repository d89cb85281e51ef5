"""A program whose flow sends a run two signals, and kills itself with SIGKILL at a named point of the second.

usage: python -m tests.engine.sender STORE RUN [POINT]
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from holdfast import Context, Engine, flow
from holdfast.engine.operations import signalling

point = sys.argv[3] if len(sys.argv) > 3 else ""
deliver = signalling._deliver


async def die_around(*told: Any) -> None:
    """Send, and die at the point if this is the second."""
    is_second = "second" in told
    for here in ("intended", "sent"):
        if is_second and here == point:
            os.kill(os.getpid(), signal.SIGKILL)
        if here == "intended":
            await deliver(*told)


@flow
async def relay(ctx: Context, to: str) -> str:
    await ctx.signal(to, "first", 1)
    await ctx.signal(to, "second", {"n": 2})
    return "told"


async def main(store: str, run: str) -> None:
    signalling._deliver = die_around
    async with Engine.open(store, workflows=[relay]) as engine:
        print(await (await engine.start(relay, run, key="the-relay")).result())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
