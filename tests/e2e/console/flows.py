"""Workflows whose runs the console shows: one that takes a moment, one that asks a person, one that fails."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from holdfast import Context, StateView, Workflow, flow, human_gate, task


@flow
async def moment(ctx: Context, seconds: float) -> str:
    """Ends after so many seconds."""
    await ctx.step("waits", asyncio.sleep, seconds)
    return f"waited {seconds} s"


@flow
async def many(ctx: Context, steps: int) -> str:
    """Takes so many steps, ten a second at most."""
    for number in range(steps):
        await ctx.step(f"step {number}", asyncio.sleep, 0.1)
    return "done"


@flow
async def broken(ctx: Context, words: str) -> str:
    """Fails with these words."""
    raise ValueError(words)


class Verdict(BaseModel):
    """What a reviewer may change."""

    amount: int
    note: str = ""


class Letter(BaseModel):
    """A letter that is to be answered."""

    text: str


asks = Workflow(name="asks", input=Letter, cost_limit_usd="0.05")


@asks.node("draft")
@task
async def draft(state: StateView, ctx: Context) -> dict[str, str]:
    return {"text": state.input.text}


@asks.node("review")
@human_gate(form=Verdict, timeout_days=3)
def review(state: StateView) -> dict[str, object]:
    return {"amount": 18, "note": "pay\u202e back"}


asks.edge("draft", "review")
