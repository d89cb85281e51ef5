"""Money over time and summed up: the same to the nano-dollar wherever it is shown."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, flow, tool
from holdfast.core.values.access import Access
from holdfast.errors import InvalidInput, NotPermitted
from holdfast.service.declarations import query
from holdfast.service.declarations.declaration import Query
from holdfast.service.principal import Principal
from holdfast.service.service import Service

IDA = Principal("ida", None, access=Access(("viewer", "admin", "operator")))


@tool(effect="idempotent", price_usd="0.000000007")
def buy(what: str) -> str:
    """Buy."""
    return what


@tool(effect="idempotent", price_usd="0.25")
def order(what: str) -> str:
    """Order."""
    return what


@flow(tools=[buy, order], cost_limit_usd="1.00")
async def shops(ctx: Context, count: int) -> int:
    for number in range(count):
        await ctx.tool(buy, what=str(number))
    await ctx.tool(order, what="all")
    return count


async def rows(engine: Engine, asked: Query[Any], who: Principal = IDA) -> list[dict[str, Any]]:
    return list((await Service(engine, [shops]).query(who, asked)).rows)


async def test_every_view_of_money_has_the_same_sums(tmp_path: Path) -> None:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[shops]) as engine:
        one, two = [await engine.start(shops, count, tenant="acme", team="search") for count in (1, 3)]
        for run in (one, two):
            await run.result()
        whole = Decimal("0.500000028")
        points = await rows(engine, query.Spending(run=two.id))
        assert (points[-1]["settled_usd"], points[-1]["held_usd"], points[-1]["limit_usd"]) == ("0.250000021", "0.00", "1.00")
        assert {each["name"] for each in points} == {None, "buy", "order"}
        first = await Service(engine, [shops]).query(IDA, query.Spending(run=two.id, limit=2))
        after = await Service(engine, [shops]).query(IDA, query.Spending(run=two.id, cursor=first.cursor))
        assert [*first.rows, *after.rows] == points
        (run,) = await rows(engine, query.RunBudget(two.id))
        assert run["settled_usd"] == points[-1]["settled_usd"]
        by_model = await rows(engine, query.CostSummary(by=("model",)))
        assert [(each["model"], each["cost_usd"]) for each in by_model] == [("tool buy", "0.000000028"), ("tool order", "0.50")]
        (by_node,) = await rows(engine, query.CostSummary(by=("month", "tenant", "workflow", "node")))
        assert (by_node["tenant"], by_node["node"], Decimal(by_node["cost_usd"])) == ("acme", "flow", whole)
        assert by_node["day"] is None
        days = await rows(engine, query.BudgetDays(tenant="acme", days=3))
        assert [Decimal(each["settled_usd"]) for each in days] == [0, 0, whole]
        team = await rows(engine, query.BudgetDays(tenant="acme", team="search", days=1))
        assert [Decimal(each["settled_usd"]) for each in team] == [whole]
        assert await rows(engine, query.CostSummary(), IDA._replace(tenant="other")) == []
        with pytest.raises(NotPermitted):
            await rows(engine, query.BudgetDays(tenant="acme"), IDA._replace(tenant="other"))
        with pytest.raises(InvalidInput):
            await rows(engine, query.BudgetDays(tenant="acme", days=0))
