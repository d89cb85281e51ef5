"""Workflows whose runs are acted on in the console: one with an effect to undo that waits for a signal, one that fails once, and a
graph."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from holdfast import Context, StateView, Workflow, flow, task, tool

REPAIRED = Path(__file__).parent / "repaired"
"""While this file is missing, `breaks` fails."""


@tool(effect="idempotent")
def release(to: str) -> str:
    """Give it back."""
    return f"released {to}"


@tool(effect="once", compensation=release)
def reserve(to: str) -> str:
    """Reserve."""
    return f"reserved {to}"


@flow(tools=[reserve, release], cost_limit_usd="2.00", max_tool_calls=9)
async def awaits(ctx: Context, given: Any) -> Any:
    """Reserves, and waits until it is paid."""
    await ctx.tool(reserve, to="ada")
    return await ctx.wait_signal("paid")


@flow
async def breaks(ctx: Context, given: Any) -> str:
    """Fails until it is repaired."""
    if not REPAIRED.exists():
        raise ValueError("not repaired")
    return "repaired"


@flow
async def long(ctx: Context, steps: int) -> str:
    """Takes so many steps, and waits."""
    for number in range(steps):
        await ctx.step(f"step {number}", asyncio.sleep, 0)
    return str(await ctx.wait_signal("go"))


async def appears(path: str) -> None:
    """Take as long as a file of this name is missing."""
    while not Path(path).exists():
        await asyncio.sleep(0.05)


@flow
async def works(ctx: Context, path: str) -> None:
    """Is at work in a function, then fails by itself."""
    await ctx.step("first", asyncio.sleep, 0)
    await ctx.step("second", appears, path)
    raise ValueError("too late")


class Order(BaseModel):
    """An order to check."""

    customer: str = Field(min_length=2, description="Name of the customer.")
    amount: int = Field(ge=1)
    is_urgent: bool = False


orders = Workflow(name="orders", input=Order)


@orders.node("fetch")
@task
async def fetch(state: StateView, ctx: Context) -> dict[str, Any]:
    return {"amount": state.input.amount}


@orders.node("judge")
@task
async def judge(state: StateView, ctx: Context) -> dict[str, Any]:
    return {"large": state.input.amount > 100}


@orders.node("wait")
@task
async def wait(state: StateView, ctx: Context) -> dict[str, Any]:
    if state.input.is_urgent:
        return {"went": True}
    return {"went": await ctx.wait_signal("go")}


@orders.node("send")
@task
async def send(state: StateView, ctx: Context) -> dict[str, Any]:
    return {"sent": state.input.amount}


orders.edge("fetch", "judge")
orders.edge("judge", "wait")
orders.edge("wait", "send")


wide = Workflow(name="wide")


async def part(state: StateView, ctx: Context) -> dict[str, Any]:
    return {}


wide.node("first")(task(part))
for number in range(400):
    wide.node(f"part{number}")(task(part))
    wide.edge("first", f"part{number}")
