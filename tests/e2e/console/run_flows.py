"""Workflows for the pages of runs: very many events, a large payload, money in each state, and texts that mean harm."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from holdfast import Context, flow, step

HARM = "<img src=x onerror=alert(1)> \u202egnp.exe\u200b"


@step(effect="idempotent")
async def tick(number: int) -> int:
    return number


@flow
async def many(ctx: Context, count: int) -> int:
    """Have two events for each of so many calls, a hundred at a time."""
    for first in range(0, count, 100):
        await ctx.gather(*(tick(number) for number in range(first, min(count, first + 100))))
    return count


@step
async def rows(count: int) -> dict[str, Any]:
    return {"rows": [{"id": number, "name": f"row {number}", "text": "lorem ipsum " * 10} for number in range(count)]}


@flow
async def large(ctx: Context, count: int) -> int:
    """Keep a payload of about 150 bytes for each row."""
    found = await rows(count)
    return len(found["rows"])


@step(effect="read", price_usd="0.000272501")
async def look_up(number: int) -> int:
    return number


@step(effect="once", price_usd="0.01")
async def pay(until: str) -> str:
    """Take as long as a file of this name is missing."""
    while not Path(until).exists():
        await asyncio.sleep(0.05)
    return "paid"


@flow(cost_limit_usd="1.00")
async def spends(ctx: Context, until: str) -> str:
    """Spend exact amounts, then hold some."""
    await look_up(1)
    await look_up(2)
    return await pay(until)


@flow
async def slow(ctx: Context, count: int) -> int:
    """Have a few events now and then."""
    for number in range(count):
        await tick(number)
        await ctx.sleep(seconds=0.1)
    return count


@step
async def patient(until: str) -> None:
    """Take as long as a file of this name is missing."""
    while not Path(until).exists():
        await asyncio.sleep(0.05)


@flow
async def lost(ctx: Context, until: str) -> str:
    """Be at work when the process is killed."""
    await patient(until)
    return "done"


@step(retry=3)
async def flaky(path: str) -> str:
    """Fail the first time."""
    mark = Path(path)
    if not mark.exists():
        mark.write_text("failed once")
        raise ConnectionError(HARM)
    return HARM


@step
async def measured(item: int) -> int:
    return item


@flow
async def part(ctx: Context, number: int) -> int:
    return number


@flow
async def shapes(ctx: Context, path: str) -> str:
    """Do one of everything that a timeline draws: a retry, a map, children, a timer, a question."""
    await flaky(path)
    await ctx.map(measured, list(range(12)), max_parallel=4)
    await ctx.gather(*(ctx.child(part, number) for number in range(6)))
    await ctx.sleep(seconds=0.2)
    answer = await ctx.ask({"text": HARM}, decisions=["approve"])
    return answer.decision
