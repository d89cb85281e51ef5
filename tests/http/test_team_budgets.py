"""What agents may spend together, what supervisors have to do, and the count of what was spent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import WorkerAgent
from holdfast.core.values.access import Access
from holdfast.service.access.identity import Holder
from tests.http import flows
from tests.http.kit import Port, known, served

IDENTITY = known(
    admin=Holder("clients.admin", tenant="acme"),
    everybody=Holder("clients.everybody"),
    globex=Holder("clients.globex", tenant="globex"),
    runs=Holder("clients.runs", access=Access(("operator",))),
    looks=Holder("clients.looks", tenant="acme", access=Access(("viewer",))),
    quick=Holder("clients.quick", tenant="acme", access=Access(("viewer",), workflows=("quick",))),
)


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[Port]:
    async with served(tmp_path, IDENTITY) as open_:
        yield open_


async def test_agents_are_given_a_budget_together_by_who_answers_for_money(port: Port) -> None:
    given: dict[str, Any] = {
        "name": "papers",
        "agents": {"writer": 1.5, "critic": {"initial_allocation": 0.25}},
        "total_usd": "0.02",
    }
    async with port.asked("admin" * 4) as admin, port.asked("looks" * 4) as looks, port.asked("globex" * 4) as globex:
        assert await looks.refused("POST", "/team-budgets", given) == (403, "not_permitted")
        for wrong in (
            {"agents": {}},
            {"agents": {"writer": {"initial_alocation": 0.5}}},
            {"total_usd": None},
            {"total_usd": "much"},
            {"agents": {"writer": -1}},
            {"tenant": "globex"},
            {"name": ""},
        ):
            assert (await admin.refused("POST", "/team-budgets", {**given, **wrong}))[0] in (403, 422), wrong
        await admin.post("/team-budgets", given)
        assert await looks.rows("/team-budgets") == [{"name": "papers", "tenant": "acme"}]
        seen = await looks.http.get("/team-budgets/papers")
        assert seen.json()["money"]["agents"]["critic"] == {
            "allocated_usd": "0.005",
            "used_usd": "0.00",
            "held_usd": "0.00",
            "in_doubt_usd": "0.00",
            "remaining_usd": "0.005",
            "utilization": 0.0,
            "priority": 1.0,
            "idle_since": None,
        }
        assert seen.json()["tokens"] is None
        assert await globex.refused("GET", "/team-budgets/papers") == (404, "not_found")
        tag = {"if_match": seen.headers["etag"]}
        assert (await admin.said("POST", "/team-budgets", {**given, "total_tokens": 900}, **tag)).status_code == 204
        assert (await admin.refused("POST", "/team-budgets", given, **tag)) == (412, "changed")
        assert (await looks.get("/team-budgets/papers"))["tokens"]["total_tokens"] == 900
        for number in range(3):
            await admin.post("/team-budgets", {**given, "name": f"other/{number}"})
        assert [row["name"] for row in await looks.rows("/team-budgets", limit=1)] == [
            "other/0",
            "other/1",
            "other/2",
            "papers",
        ]
        assert await looks.refused("DELETE", "/team-budgets/papers") == (403, "not_permitted")
        assert (await admin.said("DELETE", "/team-budgets/other%2F1")).status_code == 204
        assert await admin.refused("DELETE", "/team-budgets/other%2F1") == (404, "not_found")
        assert len(await admin.rows("/team-budgets")) == 3


async def test_a_supervisor_is_there_for_who_reaches_the_workflows_of_its_workers(port: Port) -> None:
    for name, workers in (
        ("desk", [WorkerAgent("ann", flows.quick, ["do"], max_concurrent=2)]),
        ("both", [WorkerAgent("ann", flows.quick, ["do"]), WorkerAgent("bob", flows.order, ["buy"])]),
    ):
        await port.engine.set_supervisor(name, workers, tenant="acme")
    async with port.asked("looks" * 4) as looks, port.asked("quick" * 4) as quick, port.asked("globex" * 4) as globex:
        rows = await looks.rows("/supervisors", limit=1)
        assert [(row["name"], row["workers"], row["workflows"], row["system_load"]) for row in rows] == [
            ("both", ["ann", "bob"], ["order", "quick"], 0.0),
            ("desk", ["ann"], ["quick"], 0.0),
        ]
        assert [row["name"] for row in await quick.rows("/supervisors")] == ["desk"]
        shown = await quick.get("/supervisors/desk")
        assert (shown["queue_size"], shown["workers"]["ann"]["state"], shown["workers"]["ann"]["max_concurrent"]) == (
            0,
            "idle",
            2,
        )
        assert await quick.refused("GET", "/supervisors/both") == (404, "not_found")
        assert await globex.refused("GET", "/supervisors/desk") == (404, "not_found")
        assert await globex.rows("/supervisors") == []


async def test_the_count_of_costs_is_shared(port: Port) -> None:
    async with port.asked("runs" * 4) as runs, port.asked("admin" * 4) as admin, port.asked("looks" * 4) as looks:
        assert await runs.post("/costs/rollup") == {"up_to_date": True}
        for api in (admin, looks):
            assert await api.refused("POST", "/costs/rollup") == (403, "not_permitted")
