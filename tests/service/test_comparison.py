"""Two runs beside one another, over the service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, flow, tool
from holdfast.core.values.access import Access
from holdfast.errors import NotFound
from holdfast.service.declarations import query
from holdfast.service.principal import Principal
from holdfast.service.service import Service

IDA = Principal("ida", None, access=Access(("viewer", "admin")))


@tool(effect="idempotent")
def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


@tool(effect="idempotent")
def send(to: str) -> str:
    """Send."""
    return f"sent {to}"


@flow(tools=[look, send])
async def looks(ctx: Context, far: bool) -> str:
    await ctx.tool(look, at="a")
    return str(await ctx.tool(send, to="b")) if far else "near"


async def compared(engine: Engine, first: str, second: str, who: Principal = IDA) -> dict[str, Any]:
    (row,) = (await Service(engine, [looks]).query(who, query.Comparison(first, second))).rows
    return dict(row)


async def test_operations_that_only_one_run_has_stand_alone(tmp_path: Path) -> None:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[looks]) as engine:
        near, far = [await engine.start(looks, each, tenant="acme") for each in (False, True)]
        for run in (near, far):
            await run.result()
        row = await compared(engine, near.id, far.id)
        sides = [[None if side is None else side["name"] for side in pair.values()] for pair in row["operations"]]
        assert sides == [["look", "look"], [None, "send"]]
        assert (row["same_way"], row["statuses"]) == (False, ["completed", "completed"])
        assert {"total": "tool_calls", "first": 1, "second": 2} in row["totals"]
        assert (await compared(engine, far.id, far.id))["same_way"] is True
        for who in (IDA._replace(tenant="other"), IDA._replace(access=Access(("viewer",), ("other",)))):
            with pytest.raises(NotFound):
                await compared(engine, near.id, far.id, who)


async def test_the_graph_of_a_flow_shows_as_far_as_it_ran(tmp_path: Path) -> None:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[looks]) as engine:
        run = await engine.start(looks, True)
        await run.result()
        (row,) = (await Service(engine, [looks]).query(IDA, query.Drawing(run.id))).rows
        look, send = row["operations"]
        assert [(each["name"], each["status"]) for each in (look, send)] == [("look", "completed"), ("send", "completed")]
        assert (look["after"], send["after"], row["left_out"]) == ([], [look["id"]], 0)
