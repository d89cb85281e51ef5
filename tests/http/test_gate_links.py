"""Links of gates: one who has no token decides one question, once, and nobody decides with one what they may not decide."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Context, Engine, Workflow, flow, human_gate, tool
from holdfast.compose.api import HttpPort, answering
from holdfast.core.values.access import Access, Grant
from holdfast.http import api, idempotency
from holdfast.ports import ToDecide
from holdfast.service.access.identity import Holder
from holdfast.service.access.key import ApiKeys
from holdfast.service.service import Service
from tests.engine.kit import Time, engine_at
from tests.http import flows
from tests.http.kit import Asked, Port, known


def client(name: str, *may: Grant, **more: Any) -> Holder:
    return Holder(f"clients.{name}", **{"tenant": "acme", "access": Access(may), **more})


def person(name: str, *roles: str, may: tuple[Grant, ...] = ("operator", "reviewer")) -> Holder:
    """As a signed token makes one."""
    access = Access(may)
    return Holder(name, tenant="acme", roles=roles, access=access, is_person=True)


IDENTITY = known(
    mails=client("mails", "reviewer", "operator"),
    legal=client("legal", "reviewer", roles=("legal",)),
    tools=client("tools", "reviewer", access=Access(("reviewer",), tools=("mail_*",))),
    globex=client("globex", "admin", tenant="globex"),
    looks=client("looks", "viewer"),
    works=client("works", "operator"),
    admin=client("admin", "admin", tenant=None),
    ida=person("ida", "legal"),
    eve=person("eve", "sales"),
    flo=person("flo", "legal"),
    boss=person("boss", may=("admin",)),
    dora=person("dora", may=("operator",)),
)

priced = Workflow("priced")


@priced.node("agree")
@human_gate(four_eyes=True, expires_after_s=3600)
async def agree(state: Any) -> Any:
    return {"price": 7}


@tool(effect="once", approval=True)
def pay(amount: int) -> str:
    """Send money."""
    return f"paid {amount}"


@flow(tools=[pay])
async def paying(ctx: Context, amount: int) -> str:
    return str(await ctx.tool(pay, amount=amount))


WORKFLOWS = (flows.order, flows.counting, priced, paying)


@asynccontextmanager
async def served(engine: Engine) -> AsyncIterator[Port]:
    where = HttpPort("127.0.0.1:0", IDENTITY)
    async with answering(Service(engine, WORKFLOWS), where, lambda _: None) as address:
        yield Port(address, engine)


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[Port]:
    async with Engine.open(tmp_path / "runs.db", workflows=WORKFLOWS) as engine, served(engine) as port:
        yield port


@asynccontextmanager
async def asking(port: Port, *names: str) -> AsyncIterator[Sequence[Asked]]:
    """Those of these names; "" is a stranger, without a token."""
    async with AsyncExitStack() as opened:
        yield [await opened.enter_async_context(port.asked(name * 4)) for name in names]


async def waiting(api: Asked, workflow: str = "order", given: Any = None, **headers: str) -> tuple[str, str]:
    """A run at its gate, and the path of that gate."""
    body = {"workflow": workflow, "input": {"item": "tea"} if workflow == "order" else given}
    run = (await api.post("/runs", body, wait_s=10, **headers))["run_id"]
    return str(run), f"/gates/{await api.gate(run)}"


async def decided(api: Asked, run: str) -> list[tuple[Any, ...]]:
    events = await api.rows(f"/runs/{run}/events")
    return [
        (each["decision"], each["by"], each["client"], each["roles"], each["verified"])
        for each in events
        if each["type"] == "GateDecided"
    ]


# --- What a link does -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_link_decides_its_gate_once_and_the_same_again_is_answered_alike(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = str(tmp_path / "runs.db") if kind == "sqlite" else request.getfixturevalue("database")
    caplog.set_level(logging.DEBUG)
    async with (
        Engine.open(store, workflows=WORKFLOWS) as engine,
        served(engine) as port,
        asking(port, "mails", "admin", "") as (mails, admin, stranger),
    ):
        run, gate = await waiting(mails)
        said = await mails.said("POST", f"{gate}/link", {"reviewer": "ida", "life_s": 3600})
        made, shown = said.json(), await mails.get(gate)
        link = f"/links/{made['link']}"
        assert (said.status_code, made["made_by"], made["may"]) == (201, "clients.mails", ["reviewer"])
        about = {"run_id": run, "gate_id": shown["gate_id"], "shown_hash": shown["shown_hash"], "reviewer": "ida"}
        assert made["opens"] == about
        for method in ("GET", "HEAD", "PUT", "DELETE"):
            assert (await stranger.said(method, link)).status_code == 405
        for wrong in ({}, {"data": 1}, {"decision": "approve", "gate": "other"}, {"decision": 1}, {"decision": "buy"}):
            assert (await stranger.refused("POST", link, wrong))[0] == 422, wrong
        assert await decided(admin, run) == []
        approval = {"decision": "approve", "reason": "fine"}
        many = await asyncio.gather(*(stranger.said("POST", link, approval) for _ in range(8)))
        assert {each.status_code for each in many} <= {200, 409}
        again = await stranger.said("POST", link, approval)
        assert (again.status_code, again.json()) == (200, next(each.json() for each in many if each.status_code == 200))
        assert again.json()["run_id"] == run
        assert (await stranger.refused("POST", link, {"decision": "reject"}))[0] == 422
        assert await decided(admin, run) == [("approve", "ida", f"keys.{made['name']}", [], False)]
        assert (await mails.get(gate))["decision_reason"] == "fine"
        monkeypatch.setattr(idempotency, "KEPT_MS", -1)
        assert await stranger.refused("POST", link, approval) == (410, "used")
        rows = [*await admin.rows("/keys"), *await admin.rows("/audit"), *await admin.rows(f"/runs/{run}/events")]
        assert next(each for each in rows if each.get("name") == made["name"])["opens"] == about
        ours = [each.getMessage() for each in caplog.records if not each.name.startswith("http")]  # not the asking client
        assert made["link"] not in str([*rows, *ours])
        deeds = [
            (each["action"], each["about"], each["name"], each["verified"], each["outcome"])
            for each in rows
            if "action" in each
        ]
        assert ("Decide", shown["gate_id"], "ida", False, "done") in deeds
        assert ("MakeGateLink", shown["gate_id"], "clients.mails", True, "done") in deeds


async def test_a_revoked_or_expired_link_of_a_gate_opens_nothing_and_fits_one_purpose(port: Port) -> None:
    async with asking(port, "mails", "admin", "") as (mails, admin, stranger):
        run, gate = await waiting(mails)
        made = await mails.post(f"{gate}/link", {"reviewer": "ida"})
        await admin.post(f"/keys/{made['name']}/revoke")
        assert await stranger.refused("POST", f"/links/{made['link']}", {"decision": "approve"}) == (410, "used")
        brief = await mails.post(f"{gate}/link", {"reviewer": "ida", "life_s": 1})
        async with asyncio.timeout(10):
            while (await stranger.refused("POST", f"/links/{brief['link']}", {}))[0] != 404:
                await asyncio.sleep(0.05)
        link = (await mails.post(f"{gate}/link", {"reviewer": "ida"}))["link"]
        async with port.asked(link) as as_a_token:
            assert await as_a_token.refused("POST", f"{gate}/decision", {}) == (401, "unauthorized")
        counting = (await mails.post("/runs", {"workflow": "counting", "input": 1}, wait_s=10))["run_id"]
        signal = (await mails.post(f"/runs/{counting}/signals/enough/link"))["link"]
        assert await stranger.refused("POST", f"/links/{link}", {"data": 7}) == (422, "invalid_input")
        assert await stranger.refused("POST", f"/links/{signal}", {"decision": "approve"}) == (422, "invalid_input")
        assert await decided(admin, run) == []
        assert "SignalReceived" not in str(await admin.rows(f"/runs/{counting}/events"))


async def test_a_link_is_about_what_its_gate_showed_when_it_was_made(port: Port) -> None:
    async with asking(port, "mails", "") as (mails, stranger):
        run, gate = await waiting(mails)
        made = await mails.post(f"{gate}/link", {"reviewer": "ida"})
        keys = port.engine.store.keys
        (key,) = await keys.named(made["name"], None, 9)
        assert key is not None
        assert isinstance(key.opens, ToDecide)
        other = msgspec.structs.replace(key.opens, shown_hash="of something else")
        assert await keys.put(msgspec.structs.replace(key, opens=other), key.hash)
        said = await stranger.said("POST", f"/links/{made['link']}", {"decision": "approve"})
        assert (said.status_code, said.json()["code"]) == (409, "conflict")
        assert "shows something else" in said.json()["detail"]
        assert await decided(mails, run) == []


async def test_a_link_dies_with_its_question_and_answers_no_later_one(tmp_path: Path) -> None:
    """The question expires, and is asked anew: that is another, for which another link is made."""
    now = Time()
    async with (
        engine_at(tmp_path, now, workflows=WORKFLOWS) as engine,
        served(engine) as port,
        asking(port, "mails", "") as (mails, stranger),
    ):
        run, gate = await waiting(mails, "priced", holdfast_as="ann")
        link = f"/links/{(await mails.post(f'{gate}/link', {'reviewer': 'ida'}))['link']}"
        now.forward(3600)
        body = {"decision": "approve"}
        assert await stranger.refused("POST", link, body) == (409, "already_decided")
        assert (await mails.said("GET", f"/runs/{run}", prefer="wait=20")).json()["status"] == "failed"
        await mails.post(f"/runs/{run}/retry", wait_s=10, holdfast_as="ann")
        assert await stranger.refused("POST", link, body) == (409, "already_decided")
        assert await decided(mails, run) == []
        again = await mails.post(f"/gates/{await mails.gate(run)}/link", {"reviewer": "ida"})
        assert (await stranger.said("POST", f"/links/{again['link']}", body)).status_code == 200


async def test_what_became_of_its_gate_meanwhile_is_shown_by_a_link_as_by_a_decision(port: Port) -> None:
    async with asking(port, "mails", "") as (mails, stranger):
        body = {"decision": "approve"}
        for way, headers, refusal in (
            ("decision", {"holdfast_as": "ida"}, (409, "already_decided")),
            ("reassign", {}, (409, "decision_refused")),
            ("cancel", {}, (409, "run_ended")),
        ):
            run, gate = await waiting(mails)
            link = (await mails.post(f"{gate}/link", {"reviewer": "ida"}))["link"]
            path = f"/runs/{run}/cancel" if way == "cancel" else f"{gate}/{way}"
            told = {"reassign": {"to": ["flo"]}, "decision": await mails.seen(gate)}.get(way, {})
            await mails.post(path, told, wait_s=10, **headers)
            assert await stranger.refused("POST", f"/links/{link}", body) == refusal, way
            assert len(await decided(mails, run)) == (way == "decision")
        # Refused it is not used up: given back, the question is theirs again.
        run, gate = await waiting(mails)
        link = (await mails.post(f"{gate}/link", {"reviewer": "ida"}))["link"]
        for to, status in (("flo", 409), ("ida", 200)):
            await mails.post(f"{gate}/reassign", {"to": [to]})
            assert (await stranger.said("POST", f"/links/{link}", body)).status_code == status


async def test_a_link_whose_answer_broke_off_reports_what_happened_and_decides_once(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the process dies right before the decision, right after it, or right before the answer."""

    def dies(*_: object) -> None:
        raise RuntimeError("the process dies here")

    body = {"decision": "approve"}
    async with asking(port, "mails", "") as (mails, stranger):
        for where, what, told in (
            (Service, "stands", None),
            (ApiKeys, "used", (409, "already_decided")),
            (api, "_json", (410, "used")),
        ):
            run, gate = await waiting(mails)
            link = f"/links/{(await mails.post(f'{gate}/link', {'reviewer': 'ida'}))['link']}"
            with monkeypatch.context() as broken:
                broken.setattr(where, what, dies)
                assert await stranger.refused("POST", link, body) == (500, "internal")
            if told is not None:
                assert await stranger.refused("POST", link, body) == (409, "in_flight")
            with monkeypatch.context() as later:
                later.setattr(idempotency, "_LOST_MS", 0)
                assert (await stranger.refused("POST", link, {"decision": "reject"}))[0] == 422
                said = await stranger.said("POST", link, body)
                if told is None:
                    assert said.status_code == 200
                    assert (await stranger.said("POST", link, body)).json() == said.json()
                else:
                    assert (said.status_code, said.json()["code"]) == told
            assert [each[:2] for each in await decided(mails, run)] == [("approve", "ida")]


# --- Who makes one, for whom ------------------------------------------------------------------------------------------


async def test_who_may_not_decide_makes_no_link_that_does(port: Port) -> None:
    names = ("mails", "looks", "works", "globex", "tools")
    async with asking(port, *names) as (mails, looks, works, globex, tools):
        run, gate = await waiting(mails)
        body = {"reviewer": "ida"}
        for api, refusal in ((looks, (403, "not_permitted")), (works, (403, "not_permitted")), (globex, (404, "not_found"))):
            assert await api.refused("POST", f"{gate}/link", body) == refusal
        _, of_pay = await waiting(mails, "paying", 7)
        assert await tools.refused("POST", f"{of_pay}/link", body) == (403, "not_permitted")
        for wrong, refusal in (
            ({}, (422, "invalid_input")),
            ({"reviewer": " "}, (422, "invalid_input")),
            ({"reviewer": "a\nb"}, (422, "invalid_input")),
            ({"reviewer": "x" * 5_000}, (422, "invalid_input")),
            ({**body, "life_s": 0}, (422, "invalid_input")),
            ({"reviewer": "eve"}, (409, "decision_refused")),
            ({**body, "roles": ["legal"]}, (403, "not_permitted")),
        ):
            assert await mails.refused("POST", f"{gate}/link", wrong) == refusal, wrong
        assert await mails.refused("POST", f"/gates/{run}:none%231/link", body) == (404, "not_found")
        assert await mails.refused("POST", f"{gate}/link", body, if_match='"other"') == (412, "changed")
        await mails.post(f"{gate}/decision", await mails.seen(gate), wait_s=10, holdfast_as="ida")
        assert await mails.refused("POST", f"{gate}/link", body) == (409, "already_decided")


async def test_a_link_is_for_those_its_maker_could_speak_for_and_for_no_others(port: Port) -> None:
    """Who makes a link has it in hand. A person, and a program that acts for one, makes it for that person only; with no role
    that its maker has not."""
    refused = (403, "not_permitted")
    names = ("mails", "ida", "eve", "flo", "legal", "")
    async with asking(port, *names) as (mails, ida, eve, flo, legal, stranger):
        run, gate = await waiting(mails)
        path = f"{gate}/link"
        for api in (eve, flo):
            assert await api.refused("POST", path, {"reviewer": "ida"}) == refused
        assert await mails.refused("POST", path, {"reviewer": "ida"}, holdfast_as="eve") == refused
        assert await eve.refused("POST", path, {"reviewer": "eve"}) == (409, "decision_refused")
        assert await eve.refused("POST", path, {"reviewer": "eve", "roles": ["legal"]}) == refused
        assert await flo.refused("POST", path, {"reviewer": "flo"}) == (409, "decision_refused"), "in no role unless said"
        await flo.post(path, {"reviewer": "flo", "roles": ["legal"]})
        await ida.post(path, {"reviewer": "Ida"})
        await mails.post(path, {"reviewer": "ida"}, holdfast_as="ida")
        await mails.post(path, {"reviewer": "flo", "roles": ["legal"]}, holdfast_roles="legal")
        made = await legal.post(path, {"reviewer": "gus", "roles": ["legal"]})
        assert (await stranger.said("POST", f"/links/{made['link']}", {"decision": "approve"})).status_code == 200
        assert await decided(mails, run) == [("approve", "gus", f"keys.{made['name']}", ["legal"], False)]


async def test_a_person_who_is_an_admin_makes_a_link_for_whom_the_gate_asks(port: Port) -> None:
    """As they could with a key of their making; four eyes hold for them too, and who made it is written down."""
    async with asking(port, "boss", "dora", "mails", "admin", "") as (boss, dora, mails, admin, stranger):
        run, gate = await waiting(mails)
        assert await boss.refused("POST", f"{gate}/link", {"reviewer": "eve"}) == (409, "decision_refused")
        assert await dora.refused("POST", f"{gate}/link", {"reviewer": "ida"}) == (403, "not_permitted"), (
            "an operator decides nothing"
        )
        in_legal = {"reviewer": "gus", "roles": ["legal"]}
        assert await boss.refused("POST", f"{gate}/link", in_legal) == (403, "not_permitted"), "boss is not in legal"
        made = await boss.post(f"{gate}/link", {"reviewer": "ida"})
        assert (await stranger.said("POST", f"/links/{made['link']}", {"decision": "approve"})).status_code == 200
        assert await decided(mails, run) == [("approve", "ida", f"keys.{made['name']}", [], False)]
        assert made["made_by"] == "boss"
        deeds = [(each["action"], each["name"], each["outcome"]) for each in await admin.rows("/audit")]
        assert ("MakeGateLink", "boss", "done") in deeds
        _, own = await waiting(boss, "priced")
        assert await boss.refused("POST", f"{own}/link", {"reviewer": "bob"}) == (409, "decision_refused")
        _, ours = await waiting(mails, "priced", holdfast_as="ann")
        assert await boss.refused("POST", f"{ours}/link", {"reviewer": "ann"}) == (409, "decision_refused")
        await boss.post(f"{ours}/link", {"reviewer": "bob"})
        _, far = await waiting(admin, "order")
        assert await boss.refused("POST", f"{far}/link", {"reviewer": "ida"}) == (404, "not_found")


async def test_who_has_made_a_key_contributed_to_what_was_done_with_it(port: Port) -> None:
    """With a key of their making a person could start in one name and approve in another."""
    refused = (409, "decision_refused")
    async with asking(port, "boss", "mails") as (boss, mails):
        key = (await boss.post("/keys", {"name": "robot", "may": ["operator", "reviewer"]}))["key"]
        async with port.asked(key) as robot:
            run, gate = await waiting(robot, "priced", holdfast_as="ann")
            approval = await boss.seen(gate)
            assert await boss.refused("POST", f"{gate}/decision", approval) == refused
            _, own = await waiting(boss, "priced")
            assert await robot.refused("POST", f"{own}/decision", await boss.seen(own), holdfast_as="bob") == refused
            assert await robot.refused("POST", f"{own}/link", {"reviewer": "bob"}) == refused
        await mails.post(f"{gate}/decision", approval, holdfast_as="bob")
        assert [each[:2] for each in await decided(mails, run)] == [("approve", "bob")]
        shown = await mails.get(f"/gates/{gate.removeprefix('/gates/')}")
        assert (shown["requester"], shown["contributors"]) == ("ann", ["boss"])


async def test_who_asked_for_a_run_approves_it_with_no_link(port: Port) -> None:
    """Four eyes: not with one in their own name, however it is spelt, nor with one that they make for others."""
    refused = (409, "decision_refused")
    async with asking(port, "mails", "legal", "ida", "") as (mails, legal, ida, stranger):
        run, gate = await waiting(mails, "priced", holdfast_as="ann")
        for name in ("ann", "ANN ", "ann\u200b"):
            assert await legal.refused("POST", f"{gate}/link", {"reviewer": name}) == refused, name
        link = (await legal.post(f"{gate}/link", {"reviewer": "bob"}))["link"]
        assert (await stranger.said("POST", f"/links/{link}", {"decision": "approve"})).status_code == 200
        assert [each[:2] for each in await decided(mails, run)] == [("approve", "bob")]
        for api, for_bob in ((mails, refused), (ida, (403, "not_permitted"))):
            _, own = await waiting(api, "priced")
            assert await api.refused("POST", f"{own}/link", {"reviewer": "bob"}) == for_bob
            assert await api.refused("POST", f"{own}/link", {"reviewer": "ida"}) == refused
            await legal.post(f"{own}/link", {"reviewer": "bob"})
