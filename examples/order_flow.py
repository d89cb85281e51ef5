"""An order as a fully typed flow, a workflow in one function.

It looks up the price and the stock, asks a person to approve an expensive order, charges the card once, and sends the parcel
on the next day. This file passes `mypy --strict`.

    holdfast run examples/order_flow.py:order -i '{"customer": "ada", "item": "lamp", "count": 2}'
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from pydantic import BaseModel

from holdfast import Context, OperationFailed, flow, step


class Order(BaseModel):
    """What a customer sends."""

    customer: str
    item: str
    count: int = 1


@dataclass
class Price:
    each_eur: Decimal


class Receipt(BaseModel):
    charge: str
    parcel: str | None = None


@step(retry=5, timeout_s=10)
async def find_price(item: str) -> Price:
    """A bare step: it may run again, so it only looks something up."""
    return Price(Decimal("12.50") * len(item))


@step
def stock(item: str) -> int:
    """A plain function runs in a thread."""
    return 7


@step(effect="idempotent", compensation="give_back")
def charge(customer: str, amount_eur: Decimal, key: str = "") -> str:
    """A step that touches the world; `key` is the same for every try."""
    print(f"{key[:8]}: {amount_eur} EUR of {customer}")
    return key[:8]


@step(effect="idempotent")
def give_back(response: str) -> None:
    print(f"give back {response}")


@step(effect="once")
def send(customer: str, item: str, count: int) -> str:
    print(f"{count} × {item} to {customer}")
    return f"parcel for {customer}"


@flow(cost_limit_usd="0.05")
async def order(ctx: Context, request: Order) -> Receipt | None:
    price, left = await find_price(request.item), await stock(request.item)
    amount_eur = price.each_eur * request.count
    if request.count > left:
        return None
    if amount_eur > 200:
        answer = await ctx.ask({"order": request, "amount_eur": str(amount_eur)}, decisions=["approve", "reject"])
        if answer.decision == "reject":
            return None
    receipt = Receipt(charge=await charge(request.customer, amount_eur))
    await ctx.sleep(seconds=0.1)  # days=1 works the same way
    try:
        receipt.parcel = await send(request.customer, request.item, request.count)
    except OperationFailed:
        await ctx.ask({"no parcel": request, "charged": receipt.charge}, reviewers=["support"])
    return receipt
