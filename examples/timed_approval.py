"""An approval with a time limit, in plain asyncio: after two days without an answer the request is closed.

The limit is `asyncio.timeout`. It is kept in the store, so no process has to live for two days. When it is over, the question
is withdrawn, a late answer is refused, and the head of the team is notified.

    holdfast run examples/timed_approval.py:approval -i '{"what": "a standing desk", "amount_eur": 640}' --key desk
"""

from __future__ import annotations

import asyncio
from typing import Literal

from pydantic import BaseModel

from holdfast import Context, flow, step

DAY_S = 86_400


class Request(BaseModel):
    """What somebody wants to buy."""

    what: str
    amount_eur: int
    within_s: float = 2 * DAY_S


class Verdict(BaseModel):
    outcome: Literal["approved", "rejected", "nobody answered"]
    by: str | None = None


@step(effect="once")
def notify(whom: str, text: str) -> None:
    """Send a message; here it is printed."""
    print(f"to {whom}: {text}")


@flow
async def approval(ctx: Context, request: Request) -> Verdict:
    question = {"question": f"Buy {request.what} for {request.amount_eur} EUR?"}
    try:
        async with asyncio.timeout(request.within_s):
            answer = await ctx.ask(question, decisions=["approve", "reject"])
    except TimeoutError:
        await notify("the head of the team", f"Nobody answered in time: {request.what}")
        return Verdict(outcome="nobody answered")
    return Verdict(outcome="approved" if answer.decision == "approve" else "rejected", by=answer.by)
