"""Workflows that ask a person: about a draft with a form, about tool calls, and an agent one talks to."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from pydantic import BaseModel, Field

from holdfast import Chat, Context, StateView, Workflow, flow, human_gate, task, tool


class Refund(BaseModel):
    """What a reviewer may change."""

    amount: float = Field(gt=0)
    note: str
    priority: Literal["low", "normal", "high"] = "normal"
    days: int = 3


DRAFT = "Hello Dev,\n\nwe have refunded $18.04 today; it arrives within a few working days.\n\nWe are sorry for the trouble."

refunds = Workflow(name="refunds", cost_limit_usd=1)


@refunds.node("review")
@human_gate(form=Refund, timeout_days=3)
def review(state: StateView) -> dict[str, Any]:
    """The deadline is that of the run's input."""
    return {
        "customer": "Dev \u202eevil\u202c <script>alert(1)</script><img src=x onerror=alert(2)>",
        "account": "pay\u200bpal",
        "amount": 18.4,
        "note": DRAFT,
        "charges": [{"id": 5521, "usd": 18.4}, {"id": 5522, "usd": 18.4}],
        "proposed_action": state.input["title"],
        "risk_level": "medium",
    }


@refunds.node("pay")
@task
def pay(state: StateView) -> dict[str, Any]:
    agreed = state.events["review"].payload
    return {"amount": agreed.amount, "note": agreed.note, "days": agreed.days}


refunds.edge("review", "pay")


class Reply(BaseModel):
    """A reply whose note the reviewer writes."""

    amount: float
    note: str = Field(min_length=1)


replies = Workflow(name="replies")


@replies.node("review")
@human_gate(form=Reply)
def review_reply(state: StateView) -> dict[str, Any]:
    """Leaves the note open."""
    return {"amount": 18.4}


@tool(effect="idempotent")
def void_refund(order: str, amount: float) -> str:
    """Take a refund back."""
    return "voided"


@tool(effect="once", approval=True, compensation=void_refund)
def refund(order: str, amount: float) -> str:
    """Pay a customer back."""
    return f"{amount} paid back"


@flow(tools=[refund, void_refund])
async def desk(ctx: Context, orders: list[str]) -> list[str]:
    """Pays back for each order: a person approves each call."""
    return await ctx.gather(*(ctx.tool(refund, order=order, amount=40) for order in orders))


@flow
async def questions(ctx: Context, asked: dict[str, Any]) -> Any:
    """Asks a person in words, for an answer within so many seconds."""
    answer = await ctx.ask(
        {"question": asked["question"]},
        decisions=("answer", "reject"),
        timeout_s=asked["within_s"],
        reviewers=asked["reviewers"],
    )
    return {"answer": answer.data, "reason": answer.reason}


@flow
async def reads(ctx: Context, characters: int) -> str:
    """Shows a person a text of that length."""
    answer = await ctx.ask({"report": "0123456789 <b>" * (characters // 14)}, decisions=("approve", "reject"))
    return answer.decision


@tool(effect="read")
async def look_up(title: str) -> str:
    """Where a book stands. It takes a moment."""
    await asyncio.sleep(2)
    return f"{title}: shelf 12"


@tool(effect="once", approval=True, irreversible=True)
def send_email(to: str, body: str) -> str:
    """Send one e-mail."""
    return "sent"


@flow(tools=[look_up, send_email])
async def librarian(ctx: Context, chat: Chat) -> str:
    """An agent one talks to."""
    return await ctx.agent(
        "claude-haiku-4-5",
        chat,
        tools=[look_up, send_email],
        system="You are a librarian.",
        max_tokens=400,
        max_turns=6,
        stream=True,
    )


@flow(tools=[send_email])
async def mailing(ctx: Context, to: str) -> str:
    """Sends one e-mail, which a person approves."""
    return await ctx.tool(send_email, to=to, body="Shelf 12")


@flow
async def head_librarian(ctx: Context, chat: Chat) -> str:
    """An agent that has another workflow do what needs an approval."""
    return f"It was {await ctx.child(mailing, 'dev@boardlab.example')}."


@tool(effect="once")
def lose(to: str) -> str:
    """Pay, and hear nothing of it."""
    raise TimeoutError


@flow(tools=[lose])
async def loses(ctx: Context, to: str) -> str:
    """Leaves a call of unknown outcome."""
    return await ctx.tool(lose, to=to)
