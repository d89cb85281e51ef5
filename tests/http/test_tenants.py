"""Two tenants on one port: a crawler with the token of one walks every route, and finds nothing of the other's."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast import Engine, WorkerAgent
from holdfast.core.capacity.estimates import Use
from holdfast.core.nouns.evaluations import ScenarioResult
from holdfast.core.values.access import Access
from holdfast.core.views.notifications import Happening, Rule, delivery_of
from holdfast.http.route import ROUTES, Route
from holdfast.service.access.identity import Holder
from holdfast.settings import Settings
from tests.http import flows
from tests.http.kit import Asked, Port, known, served

ACME, GLOBEX, OPS = "acme", "globex", "opsops"
IDENTITY = known(
    acme=Holder("clients.acme", tenant=ACME),
    globex=Holder("clients.globex", tenant=GLOBEX),
    opsops=Holder("clients.ops"),
    works=Holder("workers.all", asks=False),
    partly=Holder("clients.partly", tenant=GLOBEX, access=Access(workflows=("rated",))),
)
SECRET = "only-of-globex"
LABELS = {"secret": SECRET, "customer": "acme"}
FLEET = ("/queue", "/workflows", "/pools", "/admission")
"""What is everybody's: its rows are refused, or say nothing of a tenant."""


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[Port]:
    async with served(tmp_path, IDENTITY) as open_:
        yield open_


async def filled(api: Asked, engine: Engine) -> dict[str, str]:
    """Something of everything that a tenant can have; each id by the name that paths have for it."""
    run = (
        await api.post("/runs", {"workflow": "order", "input": {"item": SECRET}, "key": SECRET, "labels": LABELS}, wait_s=10)
    )["run_id"]
    broken = (await api.post("/runs", {"workflow": "broken", "input": SECRET}, wait_s=10))["run_id"]
    await api.post("/runs", {"workflow": "quick", "input": SECRET}, wait_s=10)
    gate = await api.gate(run)
    await api.post(f"/runs/{run}/scores", {"name": SECRET, "value": 1}, holdfast_as="ann")
    await api.post("/conversations", {"name": SECRET, "workflow": "answering"})
    await api.post(f"/conversations/{SECRET}/messages", {"text": SECRET})
    await api.post("/schedules", {"name": SECRET, "workflow": "quick", "cron": "0 9 * * *"})
    await api.post("/state", {"space": SECRET, "key": SECRET, "value": SECRET})
    await api.post("/team-budgets", {"name": SECRET, "agents": {SECRET: 1}, "total_usd": "7"})
    granted = await api.post("/approvals", {"tool": SECRET, "for_s": 3600}, holdfast_as="ann")
    await engine.set_supervisor(SECRET, [WorkerAgent(SECRET, flows.quick, [SECRET])], tenant=GLOBEX)
    letter = (await api.rows("/dead-letters"))[0]["letter"]
    judged = [ScenarioResult(SECRET, run, (SECRET,))]
    kept = await engine.keep_evaluation(SECRET, flows.quick, judged, min_passed=1, by=SECRET, tenant=GLOBEX)
    rule = Rule(tenant=GLOBEX, name=SECRET, occasions=("run_failed",), channel="ops")
    delivery = delivery_of(rule, Happening("run_failed", SECRET, GLOBEX, 1, {}, SECRET, run=run), 1, None, ())
    await engine.store.notification_rules.put(rule)
    await engine.store.outbox.add([delivery])
    return {
        "run": run,
        "parent": run,
        "gate": gate,
        "letter": quote(letter, safe=""),
        "call": f"{run}%2Fcall",
        "name": SECRET,
        "conversation": SECRET,
        "space": SECRET,
        "key": SECRET,
        "broken": broken,
        "seq": "1",
        "approval": granted["approval"],
        "evaluation": kept.id,
        "session": "9f2c51d07ab3e418",
        "delivery": delivery.id,
        "channel": "ops",
    }


def path_of(route: Route, ids: dict[str, str]) -> str:
    return route.path.format(**ids)


NEEDED: dict[str, Any] = {
    "action": "cancel",
    "labels": {"a": "b"},
    "limit_usd": "5",
    "step": "price#1",
    "text": "hi",
    "value": 1,
    "name": "x",
    "workflow": "quick",
    "decision": "reject",
    "cost_usd": "1",
    "tenant": ACME,
    "period": "day",
    "cron": "0 9 * * *",
    "space": "x",
    "key": "x",
    "since_ms": 0,
    "until_ms": 1,
    "map": "x",
    "agent": "planner",
    "reviewer": "ida",
    "agents": {"planner": 1},
    "total_usd": "1",
    "tool": "x",
    "for_s": 60,
    "decisions": {"no-such-thing": "reject"},
    "occasions": ["run_failed"],
    "channel": "ops",
}


NEEDED_TO_ASK = {"/runs/{run}/items": {"map": "x"}, "/memory": {"agent": "x"}}
"""Of what is asked without a body."""


def said_of(route: Route) -> dict[str, Any]:
    """What it takes for the request to be understood."""
    values = {**NEEDED, "limit": "steps"} if "extend" in route.path else NEEDED
    needed = {each: values[each] for each in route.elsewhere if each in values}
    if route.path.startswith("/dead-letters/bulk"):
        needed["action"] = "retry"
    if route.path.endswith("/quote") or route.what.__name__ in ("Bulk", "BulkDeadLetters"):
        needed.pop("key", None)
    return {**needed, "dry_run": True} if "dry_run" in route.elsewhere else needed


async def asked(api: Asked, route: Route, ids: dict[str, str]) -> tuple[int, str]:
    """Ask in whichever way the route is asked; the status and all that is told."""
    said = said_of(route)
    if route.method == "GET":
        needed = {name: value for name, value in said.items() if name in ("tenant", "map", "agent")}
        answer = await api.http.request("GET", path_of(route, ids), params=needed)
    else:
        answer = await api.http.request(route.method, path_of(route, ids), json=said if route.method == "POST" else None)
    return answer.status_code, answer.text


async def test_a_crawler_of_one_tenant_finds_nothing_of_another_s(port: Port) -> None:
    async with port.asked(GLOBEX * 4) as globex, port.asked(ACME * 4) as acme:
        theirs = await filled(globex, port.engine)
        before = await everything(globex)
        nobodys = dict.fromkeys(theirs, "no-such-thing") | {"seq": "1"}
        hidden = [theirs["run"], theirs["broken"], theirs["evaluation"], theirs["approval"], SECRET, GLOBEX]
        for route in ROUTES:
            status, told = await asked(acme, route, theirs)
            if route.path == "/audit":
                assert {row["tenant"] for row in json.loads(told)["rows"]} == {ACME}
                continue  # it says what the crawler has looked for itself
            for each in hidden:
                echoed = told.count(each) if each in path_of(route, theirs) and status >= 400 else 0
                assert told.count(each) <= echoed, (route.method, route.path, told)
            if route.in_path and not route.path.startswith(("/pools", "/workflows", "/state", "/conversations", "/schedules")):
                assert status == (await asked(acme, route, nobodys))[0], (route.path, status, told)
        assert await everything(globex) == before, "nothing that was tried has changed anything"


async def test_a_crawler_of_one_workflow_finds_nothing_of_the_others(port: Port) -> None:
    """Not in a list, a count, a page after a cursor, a stream or a record, and of what there is it is told what is told of
    what there is not."""
    async with port.asked(GLOBEX * 4) as globex, port.asked("partly" * 4) as partly:
        theirs = await filled(globex, port.engine)
        await globex.post("/keys", {"name": SECRET})
        before = await everything(globex)
        nobodys = dict.fromkeys(theirs, "no-such-thing") | {"seq": "1"}
        hidden = [theirs["run"], theirs["broken"], theirs["evaluation"], theirs["approval"], SECRET]
        for route in ROUTES:
            status, told = await asked(partly, route, theirs)
            for each in hidden:
                echoed = told.count(each) if each in path_of(route, theirs) and status >= 400 else 0
                assert told.count(each) <= echoed, (route.method, route.path, told)
            if route.in_path:
                assert status == (await asked(partly, route, nobodys))[0], (route.path, status, told)
        for path in (
            *("/runs", "/gates", "/dead-letters", "/dead-letters/summary", "/scores", "/evals", "/evals/versions"),
            *("/effects", "/keys"),
            *("/runs/labels", "/runs?label=customer%3Dacme", "/runs?text=acme"),
        ):
            assert await partly.rows(path, **({} if path.endswith("summary") else {"limit": 1})) == [], path
        assert [each async for each in partly.events("/events?ends=true")] == []
        for part in ("events", "stream"):
            refused = await partly.refused("GET", f"/runs/{theirs['run']}/{part}", accept="text/event-stream")
            assert refused == (404, "not_found")
        agui = {
            "threadId": SECRET,
            "runId": "r",
            "messages": [{"id": "m", "role": "user", "content": "hi"}],
            "tools": [],
            "context": [],
        }
        assert await partly.refused("POST", "/agui/answering", {**agui, "state": {}, "forwardedProps": {}}) == (
            404,
            "not_found",
        )
        assert await everything(globex) == before, "nothing that was tried has changed anything"


async def everything(api: Asked) -> list[Any]:
    """All that a tenant has, but for what time changes by itself."""
    paths = (
        "/runs",
        "/gates",
        "/dead-letters",
        "/schedules",
        "/state",
        "/conversations",
        "/effects",
        "/evals",
        "/team-budgets",
        "/approvals",
        "/supervisors",
        "/notifications/rules",
        "/notifications/deliveries",
    )
    rows = [row for path in paths for row in await api.rows(path)]
    return [{name: value for name, value in row.items() if name not in ("next_times", "updated_at")} for row in rows]


async def test_a_rule_of_the_settings_is_its_tenant_s_and_the_operators(tmp_path: Path) -> None:
    reach = {"kind": "webhook", "url": "https://hooks.example/in", "hosts": ["hooks.example"], "secrets": ["OPS_SECRET"]}
    rules: Any = {"of-all": {"tenant": "*"}, "own": {"tenant": ACME}}
    said = {name: {"occasions": ["run_failed"], "channel": "ops", **each} for name, each in rules.items()}
    settings = Settings(channels={"ops": reach}, notifications=said)  # type: ignore[arg-type]
    async with (
        served(tmp_path, IDENTITY, settings=settings, execute=False) as port,
        port.asked(ACME * 4) as acme,
        port.asked(GLOBEX * 4) as globex,
        port.asked(OPS * 4) as ops,
    ):
        for api, seen in ((acme, ["own"]), (globex, []), (ops, ["of-all", "own"])):
            assert [row["name"] for row in await api.rows("/notifications/rules")] == seen
            for name in rules:
                answer = await api.http.get(f"/notifications/rules/{name}")
                assert (answer.status_code, name) == (200 if name in seen else 404, name)
                answer = await api.http.post(f"/notifications/rules/{name}/test", json={})
                assert (answer.status_code, name) == (201 if name in seen else 404, name), answer.text
        assert await acme.refused("DELETE", "/notifications/rules/own") == (422, "invalid_input")
        tested = [(row["tenant"], row["rule"]) for row in await ops.rows("/notifications/deliveries", limit=1)]
        assert sorted(tested) == [("*", "of-all"), ("acme", "own"), ("acme", "own")]


async def test_an_evaluation_is_its_tenant_s(port: Port) -> None:
    async with port.asked(GLOBEX * 4) as globex, port.asked(ACME * 4) as acme, port.asked(OPS * 4) as ops:
        kept = sorted(
            [
                (
                    await port.engine.keep_evaluation(
                        "cases.yaml",
                        flows.quick,
                        [
                            ScenarioResult("good", "r1", cost_nanousd=5_000_000),
                            ScenarioResult("bad", "r2", ("It failed.",)),
                            ScenarioResult("old", "r3", (), 9, True),
                        ],
                        min_passed=0.5,
                        by="ann",
                        tenant=GLOBEX,
                    )
                ).id
                for _ in range(3)
            ],
            reverse=True,
        )
        rows = await globex.rows("/evals")
        assert [row["evaluation_id"] for row in rows] == kept
        assert {
            name: rows[0][name] for name in ("suite", "workflow", "scenarios", "passed", "failed", "met", "replayed", "by")
        } == {
            "suite": "cases.yaml",
            "workflow": "quick",
            "scenarios": 3,
            "passed": 2,
            "failed": 1,
            "met": True,
            "replayed": 1,
            "by": "ann",
        }
        assert (rows[0]["cost_usd"], rows[0]["min_passed"]) == ("0.005", 0.5)
        page = await globex.get("/evals", limit=2)
        rest = await globex.rows("/evals", cursor=page["cursor"])
        assert [row["evaluation_id"] for row in (*page["rows"], *rest)] == kept
        one = await globex.get(f"/evals/{kept[0]}")
        assert [(each["scenario"], each["passed"], each["misses"]) for each in one["results"]] == [
            ("good", True, []),
            ("bad", False, ["It failed."]),
            ("old", True, []),
        ]
        (version,) = await globex.rows("/evals/versions", workflow="quick")
        assert (version["evaluation_id"], version["evaluations"], version["change"]) == (kept[0], 3, None)
        assert await acme.rows("/evals/versions") == await globex.rows("/evals/versions", suite="other.yaml") == []
        assert await acme.rows("/evals") == await globex.rows("/evals", workflow="order") == []
        assert await acme.refused("GET", f"/evals/{kept[0]}") == await acme.refused("GET", "/evals/none") == (404, "not_found")
        assert (await acme.http.get("/evals", params={"tenant": GLOBEX})).status_code == 403
        assert len(await ops.rows("/evals", tenant=GLOBEX)) == 3


async def test_what_an_agent_remembers_is_its_tenant_s(port: Port) -> None:
    async with port.asked(GLOBEX * 4) as globex, port.asked(ACME * 4) as acme, port.asked(OPS * 4) as ops:
        told = "The flat has two rooms"
        ended = await globex.post("/runs", {"workflow": "learning", "input": told}, wait_s=10)
        rows = await globex.rows("/memory", agent="planner", user="ann")
        assert [(row["kind"], row["text"], row["uses"]) for row in rows] == [
            ("instruction", "Answer in metric units", 0),
            ("fact", told, 0),
        ]
        assert (rows[0]["key"], rows[0]["relevance"] > rows[1]["relevance"]) == (ended["output"], True)
        for asked_, found in (
            ({"words": "rooms"}, [told]),
            ({"words": "elephants"}, []),
            ({"kind": "fact"}, [told]),
            ({"kind": "search"}, None),
            ({"limit": 1}, ["Answer in metric units"]),
        ):
            said = await globex.http.get("/memory", params={"agent": "planner", "user": "ann", **asked_})
            assert said.status_code == (422 if found is None else 200), said.text
            assert found is None or [row["text"] for row in said.json()["rows"]] == found
        assert await globex.rows("/memory", agent="planner") == []
        assert await acme.rows("/memory", agent="planner", user="ann") == []
        assert (await acme.http.get("/memory", params={"agent": "planner", "tenant": GLOBEX})).status_code == 403
        assert len(await ops.rows("/memory", agent="planner", user="ann", tenant=GLOBEX)) == 2
        assert (await ops.http.get("/memory")).status_code == (await ops.http.get("/memory?agent=")).status_code == 422


async def test_of_what_is_the_fleet_s_others_are_counts(port: Port) -> None:
    """Its own steps in line, and how many are ahead; how many processes there are; a pool, and nobody's names."""
    async with port.asked(GLOBEX * 4) as globex, port.asked(ACME * 4) as acme, port.asked(OPS * 4) as ops:
        theirs, mine = [(await api.post("/runs", {"workflow": "rendering"}))["run_id"] for api in (globex, acme)]
        async with asyncio.timeout(20):
            while len(await ops.rows("/queue")) < 2:
                await asyncio.sleep(0.02)
        assert [(row["run"], row["ahead"]) for row in await ops.rows("/queue")] == [(theirs, 0), (mine, 1)]
        assert [(row["run"], row["tenant"], row["ahead"]) for row in await acme.rows("/queue")] == [(mine, ACME, 1)]
        assert [row["run"] for row in await globex.rows("/queue")] == [theirs]
        everywhere, here = await ops.rows("/workers"), await acme.rows("/workers")
        assert here == [{"workers": len(everywhere), "slots": 100, "free": sum(each["free"] for each in everywhere)}]
        assert "workflows" in everywhere[0]
        await ops.post("/pools", {"name": "gpu", "slots": 2})
        await port.engine.store.lending.learn([Use(name, "draw", "gpu", 1) for name in ("only-theirs", "quick")])
        assert [each["workflow"] for each in (await ops.get("/pools/gpu"))["estimates"]] == ["only-theirs", "quick"]
        seen = await acme.get("/pools/gpu")
        assert ([each["workflow"] for each in seen["estimates"]], seen["shares"]) == (["quick"], [])


async def test_a_listener_of_one_tenant_hears_nothing_of_another_s(port: Port) -> None:
    async with port.asked(GLOBEX * 4) as globex, port.asked(ACME * 4) as acme:
        run = (await globex.post("/runs", {"workflow": "order", "input": {"item": "x"}}, wait_s=10))["run_id"]
        for part in ("events", "stream"):
            headers = {"accept": "text/event-stream", "last_event_id": "1"}
            assert await acme.refused("GET", f"/runs/{run}/{part}", **headers) == (404, "not_found")


PLACE = re.compile(r"\w\.py:\d")


async def test_a_tenant_does_not_see_where_the_server_keeps_its_code(port: Port) -> None:
    async with port.asked(GLOBEX * 4) as globex, port.asked(OPS * 4) as ops:
        run = (await globex.post("/runs", {"workflow": "broken"}, wait_s=10))["run_id"]
        kept = Path(flows.__file__).relative_to(Path(flows.__file__).parents[2]).as_posix()
        whole = (await ops.http.get(f"/runs/{run}")).text
        worker = (await ops.rows(f"/runs/{run}/steps"))[0]["worker"]
        assert (kept in whole, PLACE.search(whole) is not None, worker in whole) == (True, True, True)
        for route in ROUTES:
            if route.method == "GET" and set(route.in_path) <= {"run"}:
                params = NEEDED_TO_ASK.get(route.path, {})
                told = (await globex.http.get(route.path.format(run=run), params=params)).text
                assert kept not in told, (route.path, told)
                assert PLACE.search(told) is None, (route.path, told)
                assert worker not in told, (route.path, told)
        letter = (await globex.rows("/dead-letters", run=run))[0]
        assert letter["message"] == "ValueError: it fell"
        assert (await globex.get(f"/dead-letters/{quote(letter['letter'], safe='')}"))["error"]["message"] == letter["message"]
        assert PLACE.search(str(await globex.rows("/gates", run=run))) is None


async def test_who_acts_for_one_tenant_says_so_of_no_other(port: Port) -> None:
    async with port.asked(ACME * 4) as acme, port.asked(OPS * 4) as ops:
        assert (await acme.get("/me"))["tenant"] == ACME
        for path in (
            "/runs",
            "/gates",
            "/effects",
            "/schedules",
            "/conversations",
            "/state",
            "/budgets",
            "/costs",
            "/costs/runs",
            "/costs/labels",
            "/costs/extra",
            "/costs/forecast",
            "/team-budgets",
            "/approvals",
            "/supervisors",
        ):
            assert (await acme.http.get(path, params={"tenant": GLOBEX})).status_code == 403, path
        assert await acme.refused("POST", "/runs", {"workflow": "quick", "tenant": GLOBEX}) == (403, "not_permitted")
        assert await acme.refused("POST", "/pools", {"name": "p", "slots": 1}) == (403, "not_permitted")
        run = (await ops.post("/runs", {"workflow": "quick", "tenant": ACME}, wait_s=10))["run_id"]
        assert (await acme.get(f"/runs/{run}"))["started_by_client"] == "clients.ops"


async def test_a_token_that_is_unknown_or_a_worker_s_asks_nothing(port: Port) -> None:
    async with port.asked("nobodys-token-at-all") as nobody, port.asked("works" * 4) as worker, port.asked() as without:
        for route in ROUTES:
            path = path_of(
                route,
                dict.fromkeys(
                    (
                        "run",
                        "seq",
                        "parent",
                        "gate",
                        "letter",
                        "call",
                        "name",
                        "conversation",
                        "space",
                        "key",
                        "evaluation",
                        "approval",
                        "session",
                        "delivery",
                        "channel",
                    ),
                    "x",
                ),
            )
            assert await nobody.refused(route.method, path) == (401, "unauthorized"), path
            assert await without.refused(route.method, path) == (401, "unauthorized"), path
            assert await worker.refused(route.method, path) == (403, "not_permitted"), path
