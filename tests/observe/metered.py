"""Workflows for a fleet that is watched: every figure of the dashboard has something to show."""

from __future__ import annotations

import asyncio
from pathlib import Path

from holdfast import Demand, RetryPolicy, Workflow, human_gate, llm_node, task, tool

HAIKU = "claude-haiku-4-5"
bill, fails, slow = Workflow("bill"), Workflow("fails"), Workflow("slow")


@tool(effect="idempotent")
async def pay(amount: int) -> str:
    return f"paid {amount}"


@bill.node("judge")
@llm_node(model=HAIKU, max_tokens=200)
async def judge(state):
    return f"Is it right? {state.input}"


@bill.node("pay")
@task(tools=[pay])
async def settle(state, ctx):
    return await ctx.tool("pay", amount=3)


bill.node("sign")(human_gate()(lambda state: "Is it paid?"))
bill.edge("judge", "pay")
bill.edge("pay", "sign")


@fails.node("breaks")
@task(retry=RetryPolicy(max_attempts=1))
async def breaks(state):
    raise OSError("not today")


@slow.node("waits", demand=Demand(pools={"GPU": 1}))
@task()
async def waits(state):
    """Wait for a file, and leave the process's id beside it."""
    import os

    folder = Path(state.input["folder"])
    (folder / f"began-{os.getpid()}").touch()
    while not (folder / "go").exists():
        await asyncio.sleep(0.05)
