"""Standing approvals and calls that are asked about together: said beforehand, or decided at once, by who may decide them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast import Context, Engine, flow, tool
from holdfast.compose.api import HttpPort, answering
from holdfast.core.values.access import Access
from holdfast.core.values.payload import digest
from holdfast.service.access.identity import Holder
from holdfast.service.service import Service
from tests.http.kit import Asked, Port, known


def reviewer(name: str, **access: Any) -> Holder:
    return Holder(f"clients.{name}", tenant="acme", access=Access(**{"may": ("reviewer", "operator"), **access}))


IDENTITY = known(
    ida=reviewer("ida"),
    looks=reviewer("looks", may=("viewer",)),
    mail=reviewer("mail", tools=("mail_*",)),
    pays=reviewer("pays", workflows=("payday",)),
    other=reviewer("other", workflows=("other",)),
    admin=Holder("clients.admin"),
    globex=Holder("clients.globex", tenant="globex"),
)


@tool(effect="once", approval=True)
def pay(to: str, amount: int) -> str:
    """Send money."""
    return f"paid {amount} to {to}"


@flow(tools=[pay])
async def payday(ctx: Context, given: dict[str, int]) -> list[str]:
    return await ctx.gather(*(ctx.tool(pay, to=name, amount=amount) for name, amount in given.items()))


@pytest.fixture(params=["sqlite", "postgres"])
async def port(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Port]:
    store = str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("database")
    async with (
        Engine.open(store, workflows=[payday]) as engine,
        answering(Service(engine, [payday]), HttpPort("127.0.0.1:0", IDENTITY), lambda _: None) as address,
    ):
        yield Port(address, engine)


@asynccontextmanager
async def asking(port: Port, *names: str) -> AsyncIterator[Sequence[Asked]]:
    async with AsyncExitStack() as opened:
        yield [await opened.enter_async_context(port.asked(name * 4)) for name in names]


async def paid(api: Asked, **given: int) -> Any:
    """A run of that pay-day, which has ended or asks."""
    return await api.post("/runs", {"workflow": "payday", "input": given}, wait_s=10)


async def test_a_preapproved_call_is_not_asked_about_until_the_approval_is_revoked(port: Port) -> None:
    async with asking(port, "ida", "admin") as (ida, admin):
        when = [{"argument": "amount", "operator": "<=", "value": 100}]
        granted = await ida.post(
            "/approvals", {"tool": "pay", "for_s": 3600, "max_calls": 3, "when": when, "reason": "small"}, holdfast_as="ann"
        )
        assert (await paid(ida, ada=10, al=20))["output"] == ["paid 10 to ada", "paid 20 to al"]
        row = await ida.get(f"/approvals/{granted['approval']}")
        assert row == {**granted, "used": 2}
        assert {name: row[name] for name in ("by", "tool", "state", "max_calls", "when", "reason", "tenant", "revoked_by")} == {
            "by": "ann",
            "tool": "pay",
            "state": "stands",
            "max_calls": 3,
            "when": when,
            "reason": "small",
            "tenant": "acme",
            "revoked_by": None,
        }
        assert await ida.rows("/approvals") == [row]
        assert (await paid(ida, ada=1000))["status"] == "waiting"
        await ida.post(f"/approvals/{granted['approval']}/revoke", holdfast_as="bob")
        revoked = await ida.get(f"/approvals/{granted['approval']}")
        assert (revoked["state"], revoked["revoked_by"]) == ("revoked", "bob")
        assert (await paid(ida, ada=10))["status"] == "waiting"
        deeds = [(row["action"], row["about"], row["name"]) for row in await admin.rows("/audit") if "Appr" in row["action"]]
        assert deeds == [("GrantApproval", "pay", "ann"), ("RevokeApproval", granted["approval"], "bob")]


async def test_no_person_approves_in_advance_what_they_may_not_decide(port: Port) -> None:
    async with asking(port, "ida", "looks", "mail", "pays", "other", "globex") as (ida, looks, mail, pays, other, globex):
        all_of_it = {"tool": "pay", "for_s": 60}
        run = (await paid(ida, ada=1))["run_id"]
        for api, said, code in (
            (looks, {}, 403),
            (mail, {}, 403),
            (mail, {"tool": "*"}, 403),
            (mail, {"tool": "mail_[ab]"}, 403),
            (pays, {}, 403),
            (mail, {"tool": "mail_a*"}, 201),
            (mail, {"tool": "mail_out"}, 201),
            (pays, {"workflow": "payday"}, 201),
            (other, {"workflow": "payday"}, 404),
            (pays, {"run": run}, 201),
            (other, {"run": run}, 404),
            (globex, {"run": run}, 404),
            (ida, {"tenant": "globex"}, 403),
            (ida, {"for_s": 0}, 422),
            (ida, {"max_calls": 0}, 422),
            (ida, {"when": [{"argument": "a"}]}, 422),
            (ida, {"when": [{"argument": "a", "operator": "~", "value": 1}]}, 422),
            (ida, {"reason": "x" * 9_000}, 422),
            (ida, {"workflow": "a\nb"}, 422),
            (ida, {"for_s": 1e300}, 422),
        ):
            answer = await api.said("POST", "/approvals", {**all_of_it, **said})
            assert answer.status_code == code, (said, answer.text)
        assert len(await ida.rows("/approvals", limit=1)) == 4
        assert await globex.rows("/approvals") == []
        seen = {(row["workflow"], row["run_id"] is not None, row["tool"]) for row in await other.rows("/approvals")}
        assert seen == set(), "those for all workflows are not about the one that this token reaches"
        granted = await ida.post("/approvals", all_of_it | {"workflow": "payday"})
        path = f"/approvals/{granted['approval']}"
        for api, code in ((looks, 403), (mail, 403), (other, 404), (globex, 404), (pays, 204)):
            assert (await api.said("POST", f"{path}/revoke")).status_code == code
        assert (await other.said("GET", path)).status_code == (await globex.said("GET", path)).status_code == 404
        assert await ida.refused("POST", "/approvals/none/revoke") == (404, "not_found")


async def test_what_is_asked_together_is_decided_together_or_not_at_all(port: Port) -> None:
    async with asking(port, "ida", "looks", "mail", "globex") as (ida, looks, mail, globex):
        run = (await paid(ida, ada=10, bob=2000, cid=3))["run_id"]
        (first, *_) = await ida.rows("/gates", run=run)
        path = f"/gates/{first['gate_id'].replace('#', '%23').replace('/', '%2F')}"
        together = (await ida.get(path))["asked_together"]
        ada, bob, cid = (call["gate_id"] for call in together["calls"])
        elsewhere = (await ida.rows("/gates", run=(await paid(ida, eve=1))["run_id"]))[0]["gate_id"]
        theirs = (await globex.rows("/gates", run=(await paid(globex, eve=1))["run_id"]))[0]["gate_id"]
        decisions = {ada: "approve", bob: {"decision": "edit", "data": {"amount": 200}, "reason": "too much"}}
        for api, said, refusal in (
            (looks, {}, (403, "not_permitted")),
            (mail, {}, (403, "not_permitted")),
            (globex, {}, (404, "not_found")),
            (ida, {"shown_hash": "0" * 64}, (409, "conflict")),
            (ida, {"decisions": {}}, (422, "invalid_input")),
            (ida, {"decisions": {ada: "approve", elsewhere: "approve"}}, (422, "invalid_input")),
            (ida, {"decisions": {theirs: "approve"}, "shown_hash": None}, (422, "invalid_input")),
            (ida, {"shown_hash": None}, (422, "invalid_decision")),
            (ida, {"decisions": {ada: "approve", bob: "buy"}}, (422, "invalid_decision")),
            (ida, {"decisions": {ada: {"decision": "approve", "why": "typo"}}}, (422, "invalid_input")),
            (ida, {"decisions": {f"{ada}{n}": "approve" for n in range(1001)}}, (422, "invalid_input")),
        ):
            body = {"decisions": decisions, "shown_hash": together["shown_hash"], **said}
            assert await api.refused("POST", f"{path}/together", body) == refusal
        assert len(await ida.rows("/gates", run=run)) == 3
        assert len(await globex.rows("/gates")) == 1
        stale = {"if_match": '"as-it-was"'}
        assert (await ida.refused("POST", f"{path}/together", {"decisions": decisions}, **stale))[0] == 412
        body = {"decisions": decisions, "shown_hash": together["shown_hash"]}
        assert (await ida.post(f"{path}/together", body, 10, holdfast_as="ann"))["status"] == "waiting"
        assert [row["gate_id"] for row in await ida.rows("/gates", run=run)] == [cid]
        decided = [
            (row["gate"], row["decision"], row["by"], row["reason"])
            for row in await ida.rows(f"/runs/{run}/events")
            if row["type"] == "GateDecided"
        ]
        assert decided == [(ada, "approve", "ann", None), (bob, "edit", "ann", "too much")]
        again = {"decisions": {ada: "reject", cid: "approve"}}
        assert await ida.refused("POST", f"{path}/together", again) == (409, "already_decided")
        body = {"decisions": {cid: "approve"}, "shown_hash": digest([(await ida.seen(quote(cid, safe="")))["shown_hash"]])}
        ended = await ida.post(f"{path}/together", body, wait_s=10)
        assert ended["output"] == ["paid 10 to ada", "paid 200 to bob", "paid 3 to cid"]
