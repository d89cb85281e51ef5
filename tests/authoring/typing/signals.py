"""What a type checker says of signals: at the sender and at the run that waits."""

from __future__ import annotations

from typing import Any, assert_type

from pydantic import BaseModel

from holdfast import Context, Engine, Signal, flow


class Payment(BaseModel):
    amount: int


paid = Signal("paid", Payment)
rated = Signal("rated", list[int])


@flow
async def wait(ctx: Context) -> Payment:
    assert_type(await ctx.wait_signal(rated, timeout_s=60), list[int])
    assert_type(await ctx.wait_signal("other", type=Payment), Payment)
    assert_type(await ctx.wait_signal("any"), Any)
    return await ctx.wait_signal(paid)


@flow
async def send(ctx: Context, to: str) -> None:
    await ctx.signal(to, paid, Payment(amount=3))
    await ctx.signal(to, "any")
    await ctx.signal(to, paid, 3)  # type: ignore[misc]


async def outside(engine: Engine) -> None:
    run = await engine.start(wait)
    await engine.signal(run.id, paid, Payment(amount=3), key="a")
    await engine.signal(run.id, rated, [1, 2])
    await engine.signal(run.id, "any", {"a": 1}, key="b")
    await engine.signal(run.id, "any")
    await engine.signal(run.id, paid, 3)  # type: ignore[misc]
    await engine.signal(run.id, paid)  # type: ignore[call-overload]
    await engine.signal(run.id, rated, ["a"])  # type: ignore[misc]
