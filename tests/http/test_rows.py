"""Every row is what its type says: each key has its place there, and a schema of it can be written down.

The rows of all other tests here are held against their types too (kit).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints, is_typeddict
from urllib.parse import quote

import msgspec
import pytest

from holdfast import Context, Engine, Workflow, flow, llm_node, step, task, tool
from holdfast.compose.api import HttpPort, answering
from holdfast.core.capacity.estimates import Use
from holdfast.core.facts.extra_costs import ExtraCost, RunCosts
from holdfast.core.values.ids import RunId
from holdfast.http.openapi import document
from holdfast.http.route import ROUTES
from holdfast.models.providers import Providers
from holdfast.ports import LogPlace
from holdfast.service import view
from holdfast.service.access.identity import Holder
from holdfast.service.declarations.declaration import Answer
from holdfast.service.service import Service
from holdfast.service.view.plain import Dollars, Time
from holdfast.testing.model_server import Fault, ModelServer, Rule
from tests import media
from tests.http import flows, rows
from tests.http.kit import WORKFLOWS, Asked, Port, known
from tests.http.test_tenants import GLOBEX, filled

IDENTITY: Final = known(ops=Holder("clients.ops"), globex=Holder("clients.globex", tenant=GLOBEX))
NOT_HERE: Final = {
    "StallRow",
    "SummaryRow",
    "RecordRow",
    "KeptToolRow",
    "PoolShareRow",
    "PoolStepRow",
    "PoolWaiterRow",
    "SignInErrorRow",
    "ComparedDecisionRow",
    "SessionRow",
    "SessionsEndedRow",
}
"""Rows that need more than one process, a model that sums up, an identity provider, a browser, or what makes records."""


@tool(effect="idempotent")
def give_back(what: str) -> None:
    """Undo it."""


@tool(effect="idempotent", compensation=give_back)
def take(what: str) -> str:
    """Do what can be undone."""
    return what


@tool(effect="once", approval=True)
def pay(to: str) -> str:
    """Send money."""
    return f"paid {to}"


@tool(effect="once")
def vanish(what: str) -> str:
    """Have an outcome that nothing tells."""
    raise ConnectionError(what)


@flow(tools=[take, give_back, pay])
async def payday(ctx: Context, names: list[str]) -> list[str]:
    await ctx.tool(take, what="the keys")
    return await ctx.gather(*(ctx.tool(pay, to=name) for name in names))


@flow(tools=[vanish])
async def vanishing(ctx: Context) -> str:
    return await ctx.tool(vanish, what="the reply")


@flow
async def checked(ctx: Context) -> Any:
    return (await ctx.ask({"amount": 5}, quorum=2, reviewers=["ida", "ann", "bob"])).decision


@flow
async def tree(ctx: Context) -> None:
    await ctx.child(flows.rated)


@step
def halve(number: int) -> float:
    return 1 / number


@step(retry=1)
def drop() -> None:
    raise ConnectionError


@flow
async def dropping(ctx: Context) -> None:
    await drop()


@flow
async def halving(ctx: Context) -> list[float]:
    return await ctx.map(halve, [1, 0, 2])


lettered = Workflow("lettered", on_exhausted="dead_letter")


@lettered.node("write")
@task
async def write(state: Any, ctx: Context) -> None:
    await ctx.step(halve, 0)


asking = Workflow("asking")


@asking.node("answer")
@llm_node(model="claude-haiku-4-5", max_tokens=100)
async def answer(state: Any) -> str:
    return "How much?"


MORE: Final = (*WORKFLOWS, payday, vanishing, checked, tree, halving, dropping, lettered, asking)


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[Port]:
    with ModelServer(journal=tmp_path / "model-calls.jsonl") as server:
        server.script.add(Rule(times=1, fault=Fault("missing_usage")))
        model = Providers(environment=server.environment)
        async with (
            Engine.open(str(tmp_path / "runs.db"), workflows=MORE, model=model) as engine,
            answering(Service(engine, MORE), HttpPort("127.0.0.1:0", IDENTITY), lambda _: None) as address,
        ):
            yield Port(address, engine)


MAX_CHARACTERS: Final = 200
OF_EVERY_VALUE: Final = {msgspec.json.schema(each)["description"] for each in (Time, Dollars)}
"""What says of a field only that it is a time, or an amount."""


def test_each_key_of_each_row_has_a_short_description_of_its_own() -> None:
    kinds = [*rows.row_types()]
    _, schemas = msgspec.json.schema_components(kinds)
    assert schemas.keys() == {kind.__name__ for kind in kinds}, "each row within a row is exported too"
    for kind in kinds:
        schema = schemas[kind.__name__]
        assert schema["description"].endswith("."), kind
        for name, each in schema["properties"].items():
            text = each.get("description", "")
            assert text.endswith("."), f"{kind.__name__}.{name}: {text!r}"
            assert len(text) <= MAX_CHARACTERS, f"{kind.__name__}.{name}: {len(text)}"
            assert text not in OF_EVERY_VALUE, f"{kind.__name__}.{name}: tell what it is the time, or the amount, of"


BESIDE: Final = {"GET /me", "POST /links/{token}", "POST /session", "DELETE /session", "GET /sign-in"}
"""Routes that are none of a command or query."""


def test_every_route_that_answers_with_rows_says_with_which() -> None:
    silent = {f"{each.method} {each.path}" for each in ROUTES if each.takes.answers is Answer.NOTHING}
    assert {*rows.ROWS} == {f"{each.method} {each.path}" for each in ROUTES} - silent | BESIDE
    assert {kind for kinds in rows.ROWS.values() for kind in kinds} <= {*rows.row_types()}


def test_the_description_names_the_rows_of_each_answer() -> None:
    told = document()
    schemas = told["components"]["schemas"]

    def has_fields(shape: dict[str, Any]) -> bool:
        if "anyOf" in shape:
            return all(map(has_fields, shape["anyOf"]))
        found = schemas[shape["$ref"].rpartition("/")[2]]
        fields = found["properties"]
        return bool(fields) and ("cursor" not in fields or "rows" not in fields or has_fields(fields["rows"]["items"]))

    for path, operations in told["paths"].items():
        for each in operations.values():
            assert len(each["tags"]) == 1, path
            for content in next(iter(each["responses"].values())).get("content", {}).values():
                shape = content["schema"]
                assert has_fields(shape.get("contentSchema", shape)) if "agui" not in path else shape, path


def test_a_row_with_a_key_too_many_or_too_few_is_not_of_its_type() -> None:
    row = {"day": "2026-11-21", "tenant": "acme", "workflow": "w", "node": "n", "model": "m", "cost_usd": "0.50"}
    row |= {"calls": 1, "input_tokens": 2, "output_tokens": 3}
    assert rows.problem_of(row, view.CostRow) == ""
    assert "no more than" in rows.problem_of({**row, "more": 1}, view.CostRow)
    assert "$.cost_usd" in rows.problem_of({**row, "cost_usd": 0.5}, view.CostRow)
    del row["calls"]
    assert "calls" in rows.problem_of(row, view.CostRow)


async def test_every_row_of_a_busy_store_is_what_its_route_says(port: Port) -> None:
    found: set[str] = set()
    async with port.asked("ops" * 4) as ops, port.asked(GLOBEX * 4) as globex:
        for method, path, told in [each async for each in everything(port, ops, globex)]:
            for kind in rows.kinds_of(method, path):
                for row in told["rows"] if told.keys() == {"rows", "cursor"} else [told]:
                    found |= {each.__name__ for each in occurring(row, kind)}
        for run in await globex.rows("/runs"):
            way = view.of_trajectory(await port.engine.trajectory(run["run_id"]))
            row = msgspec.json.decode(msgspec.json.encode(way))
            assert rows.problem_of(row, view.TrajectoryRow) == ""
            found |= {each.__name__ for each in occurring(row, view.TrajectoryRow)}
    missing = {kind.__name__ for kind in rows.row_types()} - found
    assert not missing ^ NOT_HERE, missing ^ NOT_HERE


def occurring(row: Any, kind: Any) -> Iterator[Any]:
    """Yield the types of a row and of all rows within it."""
    if is_typeddict(kind):
        if isinstance(row, dict) and rows.problem_of(row, kind) == "":
            yield kind
            for name, each in get_type_hints(kind).items():
                yield from occurring(row[name], each) if name in row else ()
    elif get_origin(kind) is list:
        yield from (found for each in row or () for found in occurring(each, get_args(kind)[0]))
    elif get_origin(kind) is dict:
        yield from (found for each in (row or {}).values() for found in occurring(each, get_args(kind)[1]))
    else:
        yield from (found for each in get_args(kind) for found in occurring(row, each))


async def everything(port: Port, ops: Asked, globex: Asked) -> AsyncIterator[tuple[str, str, Any]]:
    """Do something of everything that there is, and ask for all of it; each answer with its method and path."""
    yield "GET", "/me", await ops.get("/me")
    yield "GET", "/sign-in", await ops.get("/sign-in")
    yield "DELETE", "/session", (await ops.said("DELETE", "/session", origin=port.address)).json()
    ids = await filled(globex, port.engine)

    async def post(path: str, body: Any, wait_s: int = 0, by: str = "", api: Asked = globex) -> tuple[str, str, Any]:
        return "POST", path, await api.post(path, body, wait_s, **({"holdfast_as": by} if by else {}))

    async def start(workflow: str, given: Any = None, **more: Any) -> str:
        return str((await globex.post("/runs", {"workflow": workflow, "input": given, **more}, 10))["run_id"])

    paid, tripled = await start("payday", ["ada", "bob"]), await start("checked")
    vanished = await start("vanishing")
    rated, costs = await start("rated"), [await start("asking", cost_limit_usd="1") for _ in range(2)]
    await start("tree")
    await start("halving")
    await start("dropping")
    await start("lettered")
    await start("learning", "The flat has two rooms")
    await start("counting", 2)
    drawing = (await globex.post("/runs", {"workflow": "rendering"}))["run_id"]
    await ops.post("/budgets", {"tenant": GLOBEX, "period": "day", "limit_usd": "0.000001"})
    await globex.post("/runs", {"workflow": "asking"}, wait_s=1)
    await ops.post("/pools", {"name": "gpu", "slots": 2})
    await start("rated", tags=["trial"])
    (uncounted,) = await port.engine.store.costs.uncounted([RunId(paid)])
    in_vain = ExtraCost("2026-11-21", GLOBEX, "", "quick", "do", "m", "retry", 1, 5, 7)
    await port.engine.store.costs.count([RunCosts(uncounted, [], [in_vain])])
    await port.engine.store.lending.learn([Use("quick", "do", "gpu", 1)])
    await port.engine.store.job_logs.keep([(LogPlace(RunId(paid), "job", 1, 0), b"line", GLOBEX)], ())
    await globex.post("/team-budgets", {"name": "both", "agents": {"ann": 1}, "total_usd": "7", "total_tokens": 70})
    picture = {"type": "image", "data": media.base64.b64encode(media.png()).decode()}
    message = {"text": "See:", "parts": [picture]}
    yield await post(f"/conversations/{ids['conversation']}/messages", message)
    yield await post("/keys", {"name": "robot"})
    yield await post("/keys/robot/rotate", {})
    link = await post(f"/runs/{rated}/signals/rating/link", {"life_s": 60})
    yield link
    yield await post(f"/links/{link[2]['link']}", {"data": 3})
    gate = await globex.gate(tripled)
    yield await post(f"/gates/{gate}/link", {"reviewer": "ida", "life_s": 60})
    yield await post(f"/gates/{gate}/decision", await globex.seen(gate, decision="approve"), by="ida")
    yield await post(f"/gates/{gate}/reassign", {"to": ["ida", "cid", "bob"]}, api=ops)
    yield await post(
        "/approvals", {"tool": "mail_*", "for_s": 60, "when": [{"argument": "to", "operator": "==", "value": 1}]}, by="ann"
    )
    yield await post(f"/runs/{costs[0]}/fork", {"step": "answer#1"})
    yield await post(f"/runs/{costs[0]}/quote", {"action": "fork", "fields": {"step": "answer#1"}})
    for run in (paid, vanished):
        yield await post(f"/runs/{run}/quote", {"action": "cancel"})
    yield await post("/runs/bulk", {"action": "fork", "step": "do#1", "status": ["completed"], "dry_run": True})
    yield await post("/costs/rollup", {}, api=ops)
    name = ids["name"]
    yield await post(f"/schedules/{name}/backfill", {"since_ms": 0, "until_ms": 86_400_000})
    async with asyncio.timeout(20):
        while not await ops.rows("/queue"):
            await asyncio.sleep(0.02)
    gates = [f"/gates/{quote(each['gate_id'], safe='')}" for each in await globex.rows("/gates")]
    letters = [f"/dead-letters/{quote(each['letter'], safe='')}" for each in await globex.rows("/dead-letters")]
    for path in (f"/queue?run={drawing}", "/workers", "/pools/gpu", "/workflows/quick", "/team-budgets/both", *gates, *letters):
        yield "GET", path.partition("?")[0], await globex.get(path)
    tenant = {"tenant": GLOBEX}
    for route in ROUTES:
        if route.method != "GET":
            continue
        needed = {
            "/runs/{run}/items": {"map": "flow/0"},
            "/search": {"q": "quick"},
            "/runs/{run}/comparison": {"other": paid},
            "/memory": {"agent": "planner", "user": "ann"},
        }.get(route.path, {})
        params = needed | (tenant if "tenant" in route.elsewhere else {})
        everyone = [ids] if "run" not in route.in_path else [{"run": each["run_id"]} for each in await globex.rows("/runs")]
        for each in everyone:
            path = route.path.format(**{**ids, "seq": 1, **each})
            said = await ops.http.get(path, params=params)
            if said.status_code == 200:
                yield "GET", path, said.json()
