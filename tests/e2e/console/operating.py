"""Workflows that an operator looks after: one that holds a slot, one that nobody can run, letters that fail, and one that costs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from holdfast import Demand, StateView, Workflow, llm_node, task, tool, tool_node

FOLDER = Path(os.environ.get("OPERATING_FOLDER", "."))

browse = Workflow("browse")


@browse.node("crawl", demand=Demand(pools={"BROWSERS": 1}))
@task
async def crawl(state: StateView) -> str:
    """Holds a browser until the test makes the file `go`."""
    while not (FOLDER / "go").exists():
        await asyncio.sleep(0.05)
    return "crawled"


render = Workflow("render")


@render.node("draw", demand=Demand(labels=("gpu",)))
@task
def draw(state: StateView) -> str:
    return "drawn"


sheet = Workflow("sheet")


@sheet.node("press", demand=Demand(labels=("paper",)))
@task
async def press(state: StateView) -> str:
    """Is at work until the test makes the file `ink`."""
    while not (FOLDER / "ink").exists():
        await asyncio.sleep(0.05)
    return "pressed"


class Customer(BaseModel):
    """The person who gets a letter."""

    name: str
    address: str = Field(description="An e-mail address.", min_length=3)
    copies: int = Field(1, ge=1, le=9)


letters = Workflow("letters", input=Customer, on_exhausted="dead_letter")


@tool(effect="once")
def send(address: str, text: str, copies: int = 1) -> str:
    """Send a letter."""
    if "@" not in address:
        raise ValueError(f"{address!r} is no address")
    with (FOLDER / "sent").open("a") as ledger:
        ledger.write(f"{address} {copies}\n")
    return f"sent to {address}"


@letters.node("send")
@tool_node(name="send")
def send_(state: StateView) -> dict[str, Any]:
    return {"address": state.input.address, "text": f"Dear {state.input.name}", "copies": state.input.copies}


ask = Workflow("ask", cost_limit_usd="0.50")


@ask.node("answer")
@llm_node(model="claude-haiku-4-5", max_tokens=200)
def answer(state: StateView) -> str:
    return f"Question: {state.input}"


@ask.node("check")
@llm_node(model="gpt-5-mini", max_tokens=100)
def check(state: StateView) -> str:
    return f"Is this right: {state.events['answer'].output}"


ask.edge("answer", "check")
