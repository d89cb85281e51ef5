"""Workflows that are asked about over HTTP."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from holdfast import Workflow, flow, human_gate, task
from holdfast.core.values.demand import Demand


class Order(BaseModel):
    """What is ordered."""

    item: str
    count: int = 1


order = Workflow("order", input=Order, cost_limit_usd="1.00")


@order.node("price")
@task
def price(state: Any) -> dict[str, Any]:
    return {"total": 3 * state.input.count}


@order.node("approve")
@human_gate(reviewers=["ida", "legal"])
async def approve(state: Any) -> Any:
    return {"total": state.events["price"].output["total"]}


@order.node("ship")
@task
def ship(state: Any) -> str:
    return f"shipped {state.input.item}"


order.edge("price", "approve")
order.edge("approve", "ship")

quick = Workflow("quick")


@quick.node("do")
@task
def do(state: Any) -> Any:
    return {"did": state.input}


broken = Workflow("broken", on_exhausted="dead_letter")


@broken.node("fall")
@task
def fall(state: Any) -> None:
    raise ValueError("it fell")


@flow
async def rated(ctx: Any) -> int:
    """Waits for a whole number."""
    return await ctx.wait_signal("rating", type=int)


@flow
async def counting(ctx: Any, upto: int) -> int:
    """Says each number before it counts on; waits for a word after the last."""
    numbers = ctx.stream("numbers")
    for number in range(upto):
        await numbers.write(number)
    await ctx.wait_signal("enough")
    return upto


@flow
async def answering(ctx: Any, said: Any) -> str:
    """An agent of few words."""
    return "yes"


rendering = Workflow("rendering")


@rendering.node("draw", demand=Demand(labels=("gpu",)))
@task
def draw(state: Any) -> None:
    """Nobody has what it asks for, so it waits in line."""


@flow
async def learning(ctx: Any, said: str) -> str:
    memory = ctx.memory("planner", user="ann")
    await memory.remember(said)
    key: str = await memory.remember("Answer in metric units", kind="instruction", importance=0.9)
    return key
