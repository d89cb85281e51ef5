"""Who made a key acts along with it, over HTTP: no person is their own second pair of eyes, whatever they come with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast import Chat, Context, Engine, ToolRule, Workflow, flow, human_gate, tool, tool_node
from holdfast.compose.api import HttpPort, answering
from holdfast.core.values.access import Access, Grant
from holdfast.service.access.identity import Holder
from holdfast.service.service import Service
from tests.http.kit import Asked, Port, known

REFUSED = (409, "decision_refused")


def person(name: str, *roles: str, may: tuple[Grant, ...] = ("operator", "reviewer")) -> Holder:
    """As a signed token makes one."""
    return Holder(name, tenant="acme", roles=roles, access=Access(may), is_person=True)


IDENTITY = known(
    alice=person("alice", "fin", may=("admin",)),
    bob=person("bob"),
    carol=person("carol", "fin", may=("admin",)),
    ida=person("ida"),
    mails=Holder("clients.mails", tenant="acme", access=Access(("admin",))),
)


@tool(effect="once")
def pay(to: str, amount: int) -> str:
    """Send money."""
    return f"paid {to} {amount}"


paying = Workflow("paying", tools=[pay], tool_rules=[ToolRule("pay", "ask", four_eyes=True)])
paying.node("pay")(tool_node(name=pay)(lambda state: state.input))


@flow
async def told(ctx: Context) -> str:
    """Asks about what it is told."""
    said = await ctx.wait_signal("said")
    answer = await ctx.ask({"pay": said}, decisions=["approve", "reject"], four_eyes=True)
    return f"{answer.decision} {said}"


@flow
async def relay(ctx: Context, to: str) -> None:
    """Tells another run what it is told."""
    await ctx.signal(to, "said", await ctx.wait_signal("said"))


@flow
async def passed_on(ctx: Context) -> str:
    """Asks twice: what to pay, and whether that is right."""
    first = await ctx.ask({"pay": None}, decisions=["approve", "to_legal", "reject"])
    said = first.data or first.reason
    second = await ctx.ask({"pay": said}, decisions=["approve", "to_legal"], four_eyes=True)
    return f"{second.decision} {said}"


@flow
async def clerk(ctx: Context, chat: Chat) -> str:
    """Asks before it pays."""
    if "pay" not in chat.text:
        return "noted"
    answer = await ctx.ask({"pay": [each.text for each in chat.messages]}, decisions=["approve"], four_eyes=True)
    return str(answer.decision)


@flow
async def priced(ctx: Context) -> str:
    answer = await ctx.ask({"pay": 5}, four_eyes=True)
    return f"{answer.decision} {answer.data}"


def gated(name: str, **options: Any) -> Workflow:
    """A run with one gate, which shows to whom something is paid."""
    wf = Workflow(name)
    wf.node("agree")(human_gate(**options)(lambda state: {"to": "carol"}))
    return wf


WORKFLOWS: tuple[Workflow | Any, ...] = (
    paying,
    told,
    relay,
    passed_on,
    clerk,
    priced,
    gated("order", reviewers=["ida"]),
    gated("both", quorum=2),
)
MINE = {"to": "alice", "amount": 1_000_000}


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[Port]:
    async with (
        Engine.open(tmp_path / "runs.db", workflows=WORKFLOWS) as engine,
        answering(Service(engine, WORKFLOWS), HttpPort("127.0.0.1:0", IDENTITY), lambda _: None) as address,
    ):
        yield Port(address, engine)


@asynccontextmanager
async def asking(port: Port, *names: str) -> AsyncIterator[Sequence[Asked]]:
    async with AsyncExitStack() as opened:
        yield [await opened.enter_async_context(port.asked(name * 4)) for name in names]


@asynccontextmanager
async def with_key_of(port: Port, maker: Asked, *may: str) -> AsyncIterator[Asked]:
    """One who comes with a key that `maker` has made."""
    key = (await maker.post("/keys", {"name": "k", "may": list(may)}))["key"]
    async with port.asked(key) as asked:
        yield asked


async def run_of(api: Asked, workflow: str, given: Any = None, **headers: str) -> Any:
    """A run that has ended or asks."""
    return await api.post("/runs", {"workflow": workflow, "input": given}, wait_s=10, **headers)


async def test_a_key_of_one_s_own_approves_nothing_beforehand(port: Port) -> None:
    async with asking(port, "alice", "bob") as (alice, bob), with_key_of(port, alice, "reviewer") as key:
        for headers in ({}, {"holdfast_as": "zed"}):
            await key.post("/approvals", {"tool": "pay", "for_s": 600}, **headers)
            assert (await run_of(alice, "paying", MINE))["status"] == "waiting", headers
        assert (await run_of(bob, "paying", MINE))["output"] == "paid alice 1000000"


async def gate_of(api: Asked, run: str) -> str:
    """The path of the gate at which a run waits, once it does."""
    assert (await api.said("GET", f"/runs/{run}", prefer="wait=10")).json()["status"] == "waiting"
    return f"/gates/{await api.gate(run)}"


async def refused(gate: str, *apis: Asked, **headers: str) -> None:
    """None of these may approve what the gate shows."""
    for api in apis:
        assert await api.refused("POST", f"{gate}/decision", await api.seen(gate), **headers) == REFUSED


async def test_what_a_run_signals_is_of_all_who_have_a_hand_in_it(port: Port) -> None:
    names = ("alice", "bob", "carol")
    async with asking(port, *names) as (alice, bob, carol), with_key_of(port, carol, "operator") as key:
        run = (await run_of(bob, "told"))["run_id"]
        passes_on = (await run_of(key, "relay", run, holdfast_as="dan"))["run_id"]
        await alice.post(f"/runs/{passes_on}/signals/said", {"data": MINE})
        gate = await gate_of(bob, run)
        assert set((await bob.get(gate))["contributors"]) == {"alice", "carol", "dan"}
        await refused(gate, alice, carol)


async def test_who_made_the_key_of_an_edit_is_none_of_two_who_approve_it(port: Port) -> None:
    async with asking(port, "alice", "bob", "carol") as (alice, bob, carol), with_key_of(port, alice, "reviewer") as key:
        gate = await gate_of(bob, (await run_of(bob, "both"))["run_id"])
        edit = await key.seen(gate, decision="edit", data={"edited_body": "to alice"})
        await key.post(f"{gate}/decision", edit)
        await refused(gate, alice, key)
        await carol.post(f"{gate}/decision", await carol.seen(gate))
        await refused(gate, alice)


async def test_a_gate_is_not_given_to_contributors_in_any_key_or_role(port: Port) -> None:
    async with asking(port, "alice", "carol", "ida") as (alice, carol, ida), with_key_of(port, alice, "reviewer") as key:
        gate = await gate_of(alice, (await run_of(alice, "order"))["run_id"])
        assert await ida.refused("POST", f"{gate}/delegate", {"to": ["alice"]}) == REFUSED
        assert await key.refused("POST", f"{gate}/reassign", {"to": ["keys.k"]}) == REFUSED
        await alice.post(f"{gate}/reassign", {"to": ["keys.k"]})
        await refused(gate, key, alice)
        await key.post(f"{gate}/reassign", {"to": ["fin"]})
        await refused(gate, alice)
        await carol.post(f"{gate}/decision", await carol.seen(gate))


async def test_what_is_said_beside_any_word_is_content(port: Port) -> None:
    async with asking(port, "alice", "bob", "carol") as (alice, bob, carol):
        for said in (
            {"decision": "to_legal", "data": MINE},
            {"decision": "reject", "data": MINE},
            {"decision": "reject", "reason": "bob"},
        ):
            run = (await run_of(alice, "passed_on"))["run_id"]
            first = await gate_of(alice, run)
            await bob.post(f"{first}/decision", await bob.seen(first, **said), wait_s=10)
            gate = await gate_of(alice, run)
            assert (await bob.get(gate))["contributors"] == ["bob"]
            await refused(gate, bob, alice)
            with_data = await carol.seen(gate, decision="to_legal", data=MINE)
            assert await carol.refused("POST", f"{gate}/decision", with_data) == (422, "invalid_decision")
            await carol.post(f"{gate}/decision", await carol.seen(gate))


async def asked_in(api: Asked) -> str:
    """The path of the one gate that is open, once it is."""
    async with asyncio.timeout(20):
        while not (found := [each for each in await api.rows("/gates") if each["decision"] is None]):
            await asyncio.sleep(0.01)
    return f"/gates/{quote(found[0]['gate_id'], safe='')}"


async def test_what_is_said_in_a_conversation_is_of_each_speaker_and_who_made_their_keys(port: Port) -> None:
    names = ("alice", "bob", "carol")
    async with asking(port, *names) as (alice, bob, carol), with_key_of(port, alice, "operator") as key:
        await bob.post("/conversations", {"workflow": "clerk", "name": "c"})
        await key.post("/conversations/c/messages", {"text": "use account ALICE"}, wait_s=10, holdfast_as="dan")
        await bob.post("/conversations/c/messages", {"text": "pay 500"})
        gate = await asked_in(bob)
        assert set((await bob.get(gate))["contributors"]) == {"alice", "dan"}
        await refused(gate, alice, bob)
        await carol.post(f"{gate}/decision", await carol.seen(gate), wait_s=10)
        said = {
            "threadId": "t",
            "runId": "r",
            "messages": [{"id": "m", "role": "user", "content": "pay alice"}],
            "tools": [],
            "context": [],
            "state": {},
            "forwardedProps": {},
        }
        assert (await key.said("POST", "/agui/clerk", said)).status_code == 200
        gate = await asked_in(bob)
        await refused(gate, alice)
        await carol.post(f"{gate}/decision", await carol.seen(gate))


async def test_an_answer_is_what_another_person_approves(port: Port) -> None:
    async with asking(port, "alice", "bob", "carol") as (alice, bob, carol):
        run = (await run_of(alice, "priced"))["run_id"]
        gate = await gate_of(alice, run)
        await bob.post(f"{gate}/decision", await bob.seen(gate, decision="answer", data={"pay": 1_000_000}), wait_s=10)
        await refused(gate, bob, alice)
        await carol.post(f"{gate}/decision", await carol.seen(gate), wait_s=10)
        assert (await alice.get(f"/runs/{run}"))["output"] == "approve {'pay': 1000000}"


async def test_two_with_keys_or_links_that_a_program_made_are_two_persons(port: Port) -> None:
    """What a person made counts as that person, and the refusal says what to use."""
    async with AsyncExitStack() as opened:

        async def come_with(maker: Asked, name: str, **headers: str) -> Asked:
            made = await maker.post("/keys", {"name": name, "may": ["operator", "reviewer"]}, **headers)
            return await opened.enter_async_context(port.asked(made["key"]))

        alice, bob, mails, nobody = await opened.enter_async_context(asking(port, "alice", "bob", "mails", ""))
        one, two = await come_with(mails, "one"), await come_with(mails, "two")
        gate = await gate_of(bob, (await run_of(bob, "both"))["run_id"])
        await one.post(f"{gate}/decision", await one.seen(gate), holdfast_as="zed")
        await refused(gate, one)
        await refused(gate, one, holdfast_as="yan")
        await two.post(f"{gate}/decision", await two.seen(gate))
        gate = await gate_of(bob, (await run_of(bob, "both"))["run_id"])
        for name in ("ida", "eve"):
            link = (await mails.post(f"{gate}/link", {"reviewer": name}))["link"]
            assert (await nobody.said("POST", f"/links/{link}", {"decision": "approve"})).status_code == 200
        hers, theirs = await come_with(alice, "hers"), await come_with(alice, "theirs")
        for_bob = await come_with(mails, "for-bob", holdfast_as="bob")
        gate = await gate_of(mails, (await run_of(mails, "both", holdfast_as="ann"))["run_id"])
        await hers.post(f"{gate}/decision", await hers.seen(gate))
        answer = await theirs.said("POST", f"{gate}/decision", await theirs.seen(gate))
        assert (answer.status_code, "The key that is used counts as 'alice'" in answer.json()["detail"]) == (409, True)
        await for_bob.post(f"{gate}/decision", await for_bob.seen(gate))
        own = await gate_of(bob, (await run_of(bob, "priced"))["run_id"])
        answer = await for_bob.said("POST", f"{own}/decision", await for_bob.seen(own))
        assert (answer.status_code, "counts as 'bob'" in answer.json()["detail"]) == (409, True)
