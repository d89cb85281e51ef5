"""Another file of the project of `desk`."""

from __future__ import annotations

from typing import Any

from holdfast import Context, flow
from tests.engine import desk_till

books = desk_till.books


@flow
async def kid_elsewhere(ctx: Context, n: int) -> str:
    return str((await ctx.ask({"n": n}, decisions=["approve"])).by)


@flow
async def upstairs(ctx: Context, n: int) -> str:
    return str((await ctx.ask({"n": n}, decisions=["approve"])).by)


ROOMS = {"upstairs": upstairs}


async def asks_elsewhere(ctx: Context) -> Any:
    return await ctx.child(kid_elsewhere, 1)


class Till:
    async def pay(self, n: int) -> None:
        await desk_till.pay(n)


def breaks() -> None:
    raise ValueError("the till is stuck")
