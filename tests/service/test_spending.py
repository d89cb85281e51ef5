"""Money over time and summed up: the same to the nano-dollar wherever it is shown."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, RetryPolicy, RunFailed, flow, tool
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


async def test_costs_are_summed_up_by_hour_and_team_and_the_rest_is_one_row(tmp_path: Path) -> None:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[shops]) as engine:
        for team, count in (("search", 3), (None, 1)):
            await (await engine.start(shops, count, tenant="acme", team=team)).result()
        await engine.set_budget("acme", "day", "2.00", team="search")
        (total,) = await rows(engine, query.CostSummary(by=("total",)))
        assert (total["cost_usd"], total["calls"], total["team"]) == ("0.500000028", 6, None)
        teams = await rows(engine, query.CostSummary(by=("team",)))
        assert [(each["team"], each["cost_usd"]) for each in teams] == [("", "0.250000007"), ("search", "0.250000021")]
        hours = await rows(engine, query.CostSummary(by=("hour", "model"), top=1, tenant="acme"))
        whole = sum(Decimal(each["cost_usd"]) for each in hours)
        assert whole == Decimal("0.500000028")
        assert {(each["model"], each["rest"]) for each in hours} == {("tool order", False), (None, True)}
        largest = query.CostSummary(by=("model",), order="cost", limit=1)
        first = await Service(engine, [shops]).query(IDA, largest)
        (second,) = await rows(engine, query.CostSummary(by=("model",), order="cost", cursor=first.cursor))
        assert [first.rows[0]["model"], second["model"]] == ["tool order", "tool buy"]
        for period in ("day", "month"):
            burnt = await rows(engine, query.BurnDown(tenant="acme", team="search", period=period))
            assert burnt[-1]["total_usd"] == "0.250000021"
            assert sum(Decimal(each["spent_usd"]) for each in burnt) == Decimal("0.250000021")
            limits = ("2.00", "1.749999979") if period == "day" else (None, None)
            assert (burnt[-1]["limit_usd"], burnt[-1]["left_usd"]) == limits
        with pytest.raises(InvalidInput):
            await rows(engine, query.CostSummary(top=0))


@tool(effect="read", price_usd="0.10")
def fetch() -> str:
    """Fetch."""
    raise TimeoutError("it did not come")


@flow(tools=[fetch], cost_limit_usd="1.00", retry=RetryPolicy(max_attempts=3, initial_s=0, jitter=0))
async def fetches(ctx: Context, given: None) -> None:
    await ctx.tool(fetch)


async def test_runs_tags_and_what_was_in_vain_add_up_to_what_the_log_says(tmp_path: Path) -> None:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[shops, fetches]) as engine:
        runs = [await engine.start(shops, count, tenant="acme", tags=tags) for count, tags in ((3, ["a", "b"]), (1, ["a"]))]
        for run in runs:
            await run.result()
        failing = await engine.start(fetches, tenant="acme")
        with pytest.raises(RunFailed):
            await failing.result()
        found = await rows(engine, query.CostliestRuns())
        assert [(each["run_id"], each["cost_usd"]) for each in found] == [
            (failing.id, "0.30"),
            (runs[0].id, "0.250000021"),
            (runs[1].id, "0.250000007"),
        ]
        (total,) = await rows(engine, query.CostSummary(by=("total",)))
        assert sum(Decimal(each["cost_usd"]) for each in found) == Decimal(total["cost_usd"])
        labels = await rows(engine, query.LabelCosts())
        assert [(each["value"], each["runs"], each["cost_usd"]) for each in labels] == [
            ("a", 2, "0.500000028"),
            ("b", 1, "0.250000021"),
        ]
        (extra,) = await rows(engine, query.ExtraCosts(by=("model", "workflow")))
        assert (extra["cause"], extra["model"], extra["workflow"]) == ("retry", "tool fetch", "fetches")
        assert (extra["calls"], extra["cost_usd"]) == (2, "0.20"), "the last of three was not made again"
        of_shops = IDA._replace(access=Access(("viewer",), workflows=("shop*",)))
        assert await rows(engine, query.ExtraCosts(), of_shops) == []
        assert [each["run_id"] for each in await rows(engine, query.CostliestRuns(), of_shops)] == [run.id for run in runs]
        assert await rows(engine, query.LabelCosts(), IDA._replace(tenant="other")) == []
        with pytest.raises(InvalidInput):
            await rows(engine, query.CostliestRuns(first_day="soon"))


async def test_a_caller_of_some_workflows_has_sums_of_these_alone(tmp_path: Path) -> None:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[shops]) as engine:
        await (await engine.start(shops, 1)).result()
        of_others = IDA._replace(access=Access(("viewer",), workflows=("else*",)))
        of_shops = IDA._replace(access=Access(("viewer",), workflows=("shop*",)))
        assert await rows(engine, query.CostSummary(by=("total",)), of_others) == []
        (row,) = await rows(engine, query.CostSummary(by=("total",)), of_shops)
        assert row["cost_usd"] == "0.250000007"
