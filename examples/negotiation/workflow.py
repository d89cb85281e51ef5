"""A negotiation as a graph of seven nodes: from minutes to weeks, and nothing runs while suppliers and people think.

    1 ingest → 2 classify → 3 route → 4 spot | leverage | bottleneck | strategic → 5 evaluate → 6 approval → 7 award

After "Pause for four days, resume in five seconds". Each node says in its docstring which entities it comes to, and by which
key it is not done twice. Never here: what a status is called outside (status).
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

import wordllama
from pydantic import BaseModel, Field

from examples.negotiation import business_days, market
from examples.negotiation.post import send
from holdfast import (
    Context,
    Engine,
    LocalEmbedder,
    NodeResult,
    Run,
    SemanticCache,
    StateView,
    Workflow,
    human_gate,
    llm_node,
    task,
    tool,
)

DAY_S = float(os.environ.get("NEGOTIATION_DAY_S", "86400"))
"""How long a day takes: a store whose time cannot leap gets shorter ones."""
APPROVAL_ABOVE_USD = 10_000
APPROVER, COMPLIANCE = "approver", "compliance-reviewer"
Quadrant = Literal["ROUTINE", "LEVERAGE", "BOTTLENECK", "STRATEGIC"]


def days(number: float) -> float:
    return number * DAY_S


def hours(number: float) -> float:
    return days(number / 24)


APPROVAL_S, STALE_S, CEILING_S = hours(96), days(7), hours(168)


class Strategy(NamedTuple):
    """How one of the four negotiates: in so many rounds, each of business days or of plain time."""

    rounds: int
    business_days: int = 0
    round_s: float = 0
    always_approved: bool = False


STRATEGIES = {
    "spot": Strategy(rounds=1, round_s=hours(0.05)),
    "leverage": Strategy(rounds=5, business_days=1),
    "bottleneck": Strategy(rounds=2, round_s=days(7), always_approved=True),
    "strategic": Strategy(rounds=4, round_s=days(7), always_approved=True),
}
"""A spot buy takes 3 of its 5 minutes; an auction 5 business days; the others 14 and 28 days."""
_OF_QUADRANT: dict[Quadrant, str] = {
    "ROUTINE": "spot",
    "LEVERAGE": "leverage",
    "BOTTLENECK": "bottleneck",
    "STRATEGIC": "strategic",
}


class Item(BaseModel):
    sku: str
    pieces: int = Field(gt=0)


class Purchase(BaseModel):
    """What is to be bought. The deadline is that of the delivery."""

    category: str
    items: list[Item] = Field(min_length=1)
    deadline: datetime.date


class Classification(BaseModel):
    quadrant: Quadrant


class Decision(BaseModel):
    """What an approver may say besides yes."""

    alternative_bid_id: str | None = None


# --- Tools ------------------------------------------------------------------------------------------------------------


@tool(effect="idempotent")
def collect_bids(negotiation: str, round_number: int, invited: list[str], pieces: int) -> list[dict[str, Any]]:
    return market.bids_of(negotiation, round_number, invited, pieces)


@tool(effect="idempotent")
def supersede_bids(negotiation: str, up_to_round: int) -> int:
    return market.supersede(negotiation, up_to_round)


@tool(effect="read")
def standing_bids(negotiation: str) -> list[dict[str, Any]]:
    return market.standing(negotiation)


@tool(effect="idempotent")
def order_goods(negotiation: str, bid: str, key: str) -> dict[str, Any]:
    return market.order(negotiation, bid, key)


# --- The workflow -----------------------------------------------------------------------------------------------------

_words = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
CACHE = SemanticCache(LocalEmbedder("wordllama", _words.embed, dimension=256), threshold=0.95, version="1")

wf = Workflow("negotiation", version=1, input=Purchase, cost_limit_usd=1, max_lifespan_s=CEILING_S)


def negotiation_id(tenant: str, purchase: Purchase) -> str:
    """Node 1's key: (tenant_id, category_id, hash(items), deadline)."""
    items = sorted((item.sku, item.pieces) for item in purchase.items)
    asked = json.dumps([tenant, purchase.category, items, purchase.deadline.isoformat()])
    return hashlib.sha256(asked.encode()).hexdigest()[:16]


def purchase_of(state: StateView) -> Purchase:
    return Purchase.model_validate(state.input)


async def begin(engine: Engine, tenant: str, purchase: Purchase, by: str = "buyer") -> Run:
    """Start the negotiation of a purchase, or find the one that there is."""
    key = negotiation_id(tenant, purchase)
    return await engine.start(wf, purchase.model_dump(mode="json"), tenant=tenant, key=key, by=by, queue=True)


@wf.node("ingest")
@task
def ingest(state: StateView, ctx: Context) -> dict[str, Any]:
    """Negotiation, Items and CandidateSuppliers. Its key is that of the run."""
    purchase = purchase_of(state)
    return {
        "negotiation": negotiation_id(ctx.tenant, purchase),
        "pieces": sum(item.pieces for item in purchase.items),
        "candidates": [{"supplier": each.id, "lead_days": each.lead_days} for each in market.SUPPLIERS],
    }


@wf.node("classify")
@llm_node(model="claude-haiku-4-5", max_tokens=100, output=Classification, cache=CACHE)
def classify(state: StateView) -> dict[str, str]:
    """The Kraljic quadrant. Its key is the semantic cache's: another case of the same category asks no model."""
    return {
        "system": "Name the Kraljic quadrant of the category that is to be bought.",
        "user": f"Category: {purchase_of(state).category}",
    }


@wf.node("route")
@task
def route(state: StateView, ctx: Context) -> NodeResult:
    """Strategy, governance and discarded suppliers: the delivery gate lets through who can deliver in time."""
    begun = state.events["ingest"].output
    strategy = _OF_QUADRANT[state.events["classify"].output.quadrant]
    days_left = (purchase_of(state).deadline - ctx.now().date()).days
    in_time = [each["supplier"] for each in begun["candidates"] if each["lead_days"] <= days_left]
    if not in_time:
        return NodeResult(status="fatal_error", error=f"No supplier delivers within {days_left} days.")
    discarded = [each["supplier"] for each in begun["candidates"] if each["supplier"] not in in_time]
    governed = {"approval_above_usd": APPROVAL_ABOVE_USD, "always_approved": STRATEGIES[strategy].always_approved}
    found = {"strategy": strategy, "governance": governed, "invited": in_time, "discarded": discarded}
    return NodeResult(state_patch=found, next_node=strategy)


async def negotiate(state: StateView, ctx: Context) -> dict[str, Any]:
    """All Bids and CommunicationLogs of a strategy. Keys: (negotiation_id, supplier_id, action, round_number), so that whoever
    goes on with a round sends nothing again. Rounds of a cycle-back go on counting, and its first act is to supersede."""
    begun, routed = state.events["ingest"].output, state.events["route"].output
    name, plan = routed["strategy"], STRATEGIES[routed["strategy"]]
    negotiation, before = begun["negotiation"], plan.rounds * (state.visits(name) - 1)
    if before:
        await ctx.tool(supersede_bids, negotiation=negotiation, up_to_round=before)
    bids: list[dict[str, Any]] = []
    for number in range(before + 1, before + plan.rounds + 1):
        await write_to(ctx, negotiation, routed["invited"], "AUCTION_INVITATION", number)
        await ctx.sleep(round_s(plan, ctx.now()))
        asked = {"invited": routed["invited"], "pieces": begun["pieces"]}
        bids = await ctx.tool(collect_bids, negotiation=negotiation, round_number=number, **asked)
        await write_to(ctx, negotiation, routed["invited"], "AUCTION_ROUND_FEEDBACK", number)
    return {"rounds": [before + 1, before + plan.rounds], "bids": [bid["bid"] for bid in bids]}


def round_s(plan: Strategy, now: datetime.datetime) -> float:
    """How long a round takes that begins now."""
    if not plan.business_days:
        return plan.round_s
    took = business_days.after(now, plan.business_days) - now
    return days(took / datetime.timedelta(days=1))


async def write_to(ctx: Context, negotiation: str, suppliers: list[str], action: str, number: int) -> None:
    for supplier in (each for each in market.SUPPLIERS if each.id in suppliers):
        subject = f"{action} {negotiation} round {number}"
        key = f"{negotiation}/{supplier.id}/{action}/{number}"
        await ctx.tool(send, to=supplier.email, subject=subject, body=f"{subject}. Please answer in the portal.", key=key)


for each in STRATEGIES:
    wf.node(each)(task(negotiate, tools=[send, collect_bids, supersede_bids]))


@wf.node("evaluate")
@task(join="any", tools=[standing_bids])
async def evaluate(state: StateView, ctx: Context) -> NodeResult:
    """Evaluation scores and the recommended Award. Superseded bids are not looked at."""
    routed = state.events["route"].output
    bids = await ctx.tool(standing_bids, negotiation=state.events["ingest"].output["negotiation"])
    last = max(bid["round"] for bid in bids)
    scores = {bid["bid"]: round(bid["price_usd"] + 20 * bid["lead_days"], 2) for bid in bids if bid["round"] == last}
    best = min(scores, key=lambda bid: (scores[bid], bid))
    price_usd = next(bid["price_usd"] for bid in bids if bid["bid"] == best)
    award = {"recommended": best, "price_usd": price_usd, "scores": scores, "bids": bids}
    asks = routed["governance"]["always_approved"] or price_usd > routed["governance"]["approval_above_usd"]
    return NodeResult(state_patch=award, next_node="approval" if asks else "award")


@wf.node("approval")
@human_gate(form=Decision, reviewers=[APPROVER, COMPLIANCE], timeout_s=APPROVAL_S, cancel_after_s=STALE_S)
def approval(state: StateView) -> dict[str, Any]:
    """The human decision. After 96 hours without one the compliance reviewer is summoned; 7 days later it is cancelled. Nobody
    decides by waiting."""
    award, routed = state.events["evaluate"].output, state.events["route"].output
    return {
        "strategy": routed["strategy"],
        "award": award["recommended"],
        "price_usd": award["price_usd"],
        "alternatives": [bid for bid in award["scores"] if bid != award["recommended"]],
        "discarded": routed["discarded"],
        "may_go_back": state.visits(routed["strategy"]) == 1,
    }


@wf.node("award")
@task(join="any", tools=[send, order_goods])
async def award(state: StateView, ctx: Context) -> dict[str, Any]:
    """The purchase order, and the final CommunicationLogs. Keys: the negotiation, and (negotiation_id, supplier_id, action)."""
    negotiation, found = state.events["ingest"].output["negotiation"], state.events["evaluate"].output
    decided = state.events["approval"].payload  # none, where nobody was asked
    bid = (decided.alternative_bid_id if decided is not None else None) or found["recommended"]
    while bid not in found["scores"]:
        answer = await ctx.ask({"no_such_bid": bid, "bids": found["scores"]}, form=Decision, reviewers=[APPROVER])
        bid = answer.data.alternative_bid_id or found["recommended"]
    winner = next(each["supplier"] for each in found["bids"] if each["bid"] == bid)
    order = await ctx.tool(order_goods, negotiation=negotiation, bid=bid, key=f"{negotiation}/PURCHASE_ORDER")
    others = [each for each in state.events["route"].output["invited"] if each != winner]
    await write_to(ctx, negotiation, [winner], "AWARD", 0)
    await write_to(ctx, negotiation, others, "REGRET", 0)
    return {**order, "supplier": winner}


@wf.node("close")
@task(tools=[send])
async def close(state: StateView, ctx: Context) -> dict[str, Any]:
    """A rejected award: nobody is ordered from, and everybody hears of it."""
    negotiation = state.events["ingest"].output["negotiation"]
    await write_to(ctx, negotiation, state.events["route"].output["invited"], "CANCELLED", 0)
    return {"reason": state.events["approval"].payload["reason"]}


wf.edge("ingest", "classify")
wf.edge("classify", "route")
for each in STRATEGIES:
    wf.edge("route", each)
    wf.edge(each, "evaluate")
wf.edge("evaluate", "approval")
wf.edge("evaluate", "award")
wf.edge("approval", "award")
wf.edge("approval", "close", when="reject")


def goes_back_to(strategy: str) -> Any:
    """The guard of the one way back, which leads to the strategy that was chosen."""

    def chosen(state: StateView) -> bool:
        return bool(state.events["route"].output["strategy"] == strategy)

    chosen.__name__ = f"negotiated_by_{strategy}"
    return chosen


for each in STRATEGIES:
    wf.loop("approval", each, when="retry", guard=goes_back_to(each), max_visits=2)
