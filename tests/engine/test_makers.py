"""Who made a key acts along with it: what is done with one under a rule of four eyes, its maker has done too."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import (
    Chat,
    Context,
    Run,
    RunFailed,
    Tool,
    ToolRule,
    WorkerAgent,
    Workflow,
    flow,
    human_gate,
    task,
    tool,
    tool_node,
)
from holdfast.core.facts import contribution
from holdfast.core.facts.contribution import contributors
from holdfast.core.values.actor import Actor
from holdfast.errors import AlreadyDecided, Conflict, DecisionRefused, InvalidDecision, InvalidInput
from tests.engine.kit import gate_of, opened

KEY = Actor("keys.k", "", "keys.k", maker="alice")
FOR_ZED = Actor("zed", "", "keys.k", maker="alice")
RULES = [ToolRule("pay", "ask", four_eyes=True)]


@tool(effect="once")
async def pay(to: str, amount: int) -> str:
    """Send money."""
    return f"paid {to} {amount}"


def paying(pay: Tool = pay) -> Workflow:
    wf = Workflow("paying", tools=[pay], tool_rules=RULES)
    wf.node("pay")(tool_node(name=pay)(lambda state: {"to": "alice", "amount": 5}))
    return wf


async def asks(run: Any) -> bool:
    """Return True if a run asks somebody, rather than coming to its end."""
    return bool((await run.settled()).gates)


async def test_what_a_key_approves_beforehand_its_maker_has_approved(store: str) -> None:
    async with opened(store) as engine:
        for by in (KEY, FOR_ZED):
            granted = await engine.grant_approval("pay", for_s=600, by=by)
            for starter in ("alice", KEY, Actor("keys.other", maker="Alice")):
                assert await asks(await engine.start(paying(), by=starter)), (by, starter)
            signalled = await engine.start(paying(), by="bob")
            assert await signalled.result() == "paid alice 5"
            await engine.revoke_approval(granted, by="bob")
        await engine.grant_approval("pay", for_s=600, by=Actor("keys.k", maker="eve"))
        assert await (await engine.start(paying(), by="alice")).result() == "paid alice 5"


async def test_what_is_approved_beforehand_is_not_done_where_contributors_are_unknown(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contribution, "MAX_CONTRIBUTORS", 0)
    async with opened(store) as engine:
        await engine.grant_approval("pay", for_s=600, by="bob")
        assert await (await engine.start(paying(), by="alice")).result() == "paid alice 5"
        with pytest.raises(RunFailed, match="not all who contributed to the run are known"):
            await (await engine.start(paying(), by=KEY)).result()


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
async def sender(ctx: Context, to: str) -> None:
    await ctx.signal(to, "said", "to alice")


@flow
async def checked(ctx: Context) -> str:
    """Returns who has decided."""
    return (await ctx.ask({"check": 1}, decisions=["approve"])).by or ""


@flow
async def checked_below(ctx: Context) -> str:
    """Asks another person than the one whom a child asked."""
    first = await ctx.child(checked)
    return (await ctx.ask({"pay": 5}, decisions=["approve"], not_by=[first])).by or ""


@flow
async def checked_elsewhere(ctx: Context) -> str:
    first = await ctx.wait_signal("by")
    return (await ctx.ask({"pay": 5}, decisions=["approve"], not_by=[first])).by or ""


@flow
async def tells_who(ctx: Context, to: str) -> None:
    await ctx.signal(to, "by", (await ctx.ask({"check": 1}, decisions=["approve"])).by)


@flow
async def asks_above(ctx: Context) -> str:
    """Has a child ask another person than it has asked itself."""
    return str(await ctx.child(asked_below, (await ctx.ask({"check": 1}, decisions=["approve"])).by))


@flow
async def asked_below(ctx: Context, first: str) -> str:
    return (await ctx.ask({"pay": 5}, decisions=["approve"], not_by=[first])).by or ""


@flow
async def desk(ctx: Context, chat: Chat) -> str:
    """Asks another person than for the message before."""
    before = [each.text for each in chat.messages if each.role == "assistant"]
    return (await ctx.ask({"pay": 5}, decisions=["approve"], not_by=before)).by or ""


@flow
async def passed_on(ctx: Context) -> str:
    """Asks twice: what to pay, and whether that is right."""
    first = await ctx.ask({"pay": None}, decisions=["approve", "to_legal", "reject"])
    said = first.data or first.reason
    second = await ctx.ask({"pay": said}, decisions=["approve", "to_legal"], four_eyes=True)
    return f"{second.decision} {said}"


@flow
async def clerk(ctx: Context, chat: Chat) -> str:
    """Notes what it is told beside its conversation; asks before it pays."""
    if chat.text == "wait":
        return str(await ctx.wait_signal("said"))
    answer = await ctx.ask({"pay": [each.text for each in chat.messages]}, decisions=["approve"], four_eyes=True)
    return str(answer.decision)


async def refused(engine: Any, gate: str, *names: str | Actor) -> None:
    for name in names:
        with pytest.raises(DecisionRefused, match="second pair of eyes"):
            await engine.decide(gate, "approve", by=name)


async def test_who_has_a_hand_in_a_run_has_one_in_what_it_signals(store: str) -> None:
    async with opened(store, workflows=[told, relay, sender]) as engine:
        run = await engine.start(told, by="bob")
        passes_on = await engine.start(relay, run.id, by=Actor("keys.carol", maker="carol"))
        await engine.signal(passes_on.id, "said", "to alice", by="alice")
        await passes_on.result()
        assert set(contributors(await run.state())) == {"keys.carol", "carol", "alice"}
        gate = await gate_of(run)
        await refused(engine, gate, "alice", "carol", "keys.carol", "bob")
        await engine.decide(gate, "approve", by="eve")
        assert await run.result() == "approve to alice"
        other = await engine.start(told, by="bob")
        await (await engine.start(sender, other.id, by=KEY)).result()
        await refused(engine, await gate_of(other), "alice", "keys.k")


async def test_who_made_a_key_has_a_hand_in_the_tasks_that_come_with_it(store: str) -> None:
    async with opened(store, workflows=[paying()]) as engine:
        desk = await engine.set_supervisor("desk", [WorkerAgent("payer", "paying", ["pay"])])
        await desk.submit("pay", task_id="t", by=FOR_ZED)
        async with asyncio.timeout(20):
            while (run := (await desk.result("t")).run_id) is None:
                await asyncio.sleep(0.002)
        await refused(engine, await gate_of(engine.run(run)), "alice", "zed")


async def test_who_decided_elsewhere_with_a_key_is_not_another_person(store: str) -> None:
    """In a child, in a parent, in a run that sends a signal, or in an earlier run of a conversation."""
    flows = [checked, checked_below, checked_elsewhere, tells_who, asks_above, asked_below, desk]

    async def decide(run: Run, *refused: str | Actor, by: str | Actor) -> None:
        gate = await gate_of(run)
        for each in refused:
            with pytest.raises(DecisionRefused, match="anyone but"):
                await engine.decide(gate, "approve", by=each)
        await engine.decide(gate, "approve", by=by)

    async def below(run: Run) -> Run:
        child = next(iter((await run.until(lambda state: state.children)).children))
        await engine.idle()
        return engine.run(child)

    async with opened(store, workflows=flows) as engine:
        for first, others in ((FOR_ZED, ("zed", "alice", KEY)), ("alice", ("Alice", KEY, FOR_ZED))):
            run = await engine.start(checked_below)
            await decide(await below(run), by=first)
            await decide(run, *others, by="bob")
            run = await engine.start(checked_elsewhere)
            await decide(await engine.start(tells_who, run.id), by=first)
            await decide(run, *others, by="bob")
            run = await engine.start(asks_above)
            await decide(run, by=first)
            await decide(await below(run), *others, by="bob")
            talk = str(first)
            await engine.open_conversation(talk, desk)
            for number, (by, refused_) in enumerate(((first, ()), ("bob", others))):
                await engine.send_message(talk, "pay", by="ann")
                while (run_id := (await engine.conversation(talk)).exchanges[number + 1].run) is None:
                    await engine.idle()
                await decide(engine.run(run_id), *refused_, by=by)
                await engine.run(run_id).result()
                await engine.idle()


async def test_a_fork_knows_who_made_the_keys_that_its_origin_was_decided_with(store: str) -> None:
    async with opened(store, workflows=[checked]) as engine:
        run = await engine.start(checked, by="ann")
        await engine.decide(await gate_of(run), "approve", by=FOR_ZED)
        await run.result()
        fork = await engine.fork(run.id, "flow#1", by="ann")
        assert (await fork.state()).makers == {"zed": ("alice",)}
        await engine.decide(await gate_of(fork), "approve", by="eve")


async def test_who_says_what_is_asked_next_does_not_decide_that(store: str) -> None:
    async with opened(store, workflows=[passed_on]) as engine:
        for decision, data, reason in (
            ("to_legal", {"to": "bob"}, None),
            ("reject", {"to": "bob"}, None),
            ("reject", None, "bob"),
        ):
            run = await engine.start(passed_on, by="alice")
            await engine.decide(await gate_of(run), decision, data, by=Actor("keys.k", maker="bob"), reason=reason)
            await run.until(lambda state: any(gate.opened.four_eyes for gate in state.gates.values()))
            gate = await gate_of(run)
            await refused(engine, gate, "bob", "keys.k")
            with pytest.raises(InvalidDecision, match="no other person would see"):
                await engine.decide(gate, "to_legal", {"to": "eve"}, by="eve")
            await engine.decide(gate, "approve", by="eve")
            assert await run.result() == f"approve {data or reason}"


async def test_who_had_a_hand_in_an_earlier_answer_has_one_in_what_is_asked_after_it(store: str) -> None:
    async def run_of(number: int) -> str:
        while (run := (await engine.conversation("c")).exchanges[number].run) is None:
            await engine.idle()
        return run

    async with opened(store, workflows=[clerk]) as engine:
        await engine.open_conversation("c", clerk)
        said = await engine.send_message("c", "wait", by="bob")
        signal = Actor("keys.k", "", "keys.k", maker="alice")
        await engine.signal(await run_of(said.number), "said", "all goes to alice", by=signal)
        assert (await engine.reply("c", said.number)).reply == "all goes to alice"
        said = await engine.send_message("c", "pay", by="carol")
        gate = await gate_of(engine.run(await run_of(said.number)))
        await refused(engine, gate, "alice", "keys.k", "bob", "carol")
        await engine.decide(gate, "approve", by="eve")
        assert (await engine.reply("c", said.number)).reply == "approve"


class Order(BaseModel):
    to: str
    amount: str


def paid_after(asking: Any) -> Workflow:
    """Pays what its input says, once that was approved."""
    wf = Workflow("paid_after", input=Order)
    wf.node("approval")(asking(lambda state: {"to": state.input.to, "amount": state.input.amount}))

    @wf.node("pay")
    @task
    def paid(state: Any) -> str:
        return f"paid {int(state.input.amount)} to {state.input.to}"

    wf.edge("approval", "pay")
    return wf


@pytest.mark.parametrize("asking", [human_gate(four_eyes=True), human_gate(quorum=2)], ids=["four_eyes", "quorum"])
async def test_what_several_eyes_have_seen_is_not_edited_after_that(store: str, asking: Any) -> None:
    async with opened(store) as engine:
        run = await engine.start(paid_after(asking), {"to": "supplier", "amount": "5 EUR"}, by="alice")
        gate = await gate_of(run)
        for name in ("bob", "carol"):
            with suppress(AlreadyDecided):
                await engine.decide(gate, "approve", by=name)
        with pytest.raises(RunFailed):
            await run.result()
        [letter] = await engine.dead_letters()
        with pytest.raises(Conflict, match="Fork the run from before that question"):
            await engine.edit_dead_letter(letter, input={"to": "alice", "amount": "1000000"}, by="alice")
        forked = await engine.fork(run.id, "approval#1", input={"to": "alice", "amount": "9"}, by="alice")
        assert await asks(forked)


async def test_what_was_sent_back_is_there_to_be_edited(store: str) -> None:
    """Nobody has vouched for it yet."""
    wf = Workflow("sent_back", input=Order)

    @wf.node("approval")
    @human_gate(four_eyes=True)
    def approval(state: Any) -> Any:
        return {"to": state.input.to}

    @wf.node("pay")
    @task
    def paid(state: Any) -> str:
        return f"paid {int(state.input.amount)} to {state.input.to}"

    wf.edge("approval", "pay", when="retry")
    async with opened(store) as engine:
        run = await engine.start(wf, {"to": "supplier", "amount": "5 EUR"}, by="alice")
        await engine.decide(await gate_of(run), "retry", by="bob")
        with pytest.raises(RunFailed):
            await run.result()
        [letter] = await engine.dead_letters()
        await engine.edit_dead_letter(letter, input={"to": "supplier", "amount": "5"}, by="alice")
        await engine.retry_dead_letter(letter, by="alice")
        assert await run.result() == "paid 5 to supplier"


async def test_a_gate_of_one_leaves_the_input_to_be_edited(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(paid_after(human_gate()), {"to": "supplier", "amount": "5 EUR"}, by="alice")
        await engine.decide(await gate_of(run), "approve", by="bob")
        with pytest.raises(RunFailed):
            await run.result()
        [letter] = await engine.dead_letters()
        await engine.edit_dead_letter(letter, input={"to": "supplier", "amount": "5"}, by="alice")
        await engine.retry_dead_letter(letter, by="alice")
        assert await run.result() == "paid 5 to supplier"


async def test_an_approval_does_not_cover_what_its_giver_has_written_for_the_same_step(store: str) -> None:
    async with opened(store) as engine:
        workflow = Workflow("pays", tools=[pay], tool_rules=RULES)

        @workflow.node("pay")
        @task(tools=[pay])
        async def paid(state: Any, ctx: Context) -> str:
            said = await ctx.shared("pool").read("k")
            return str(await ctx.tool(pay, said.value))

        await engine.grant_approval("pay", for_s=600, by="bob")
        await engine.write_shared_value("pool", "k", {"to": "bob", "amount": 1_000_000}, by="bob")
        assert await asks(await engine.start(workflow, by="alice"))
        await engine.write_shared_value("pool", "k", {"to": "ann", "amount": 5}, by="carol")
        assert await (await engine.start(workflow, by="alice")).result() == "paid ann 5"


@pytest.mark.parametrize("key", ["schedule/nightly/2026-11-27T13:45:00Z", "conversation/c/1/2", "Supervisor/desk/1"])
async def test_a_key_of_the_engine_s_own_cannot_be_taken(store: str, key: str) -> None:
    async with opened(store) as engine:
        with pytest.raises(InvalidInput, match="one of the engine's own"):
            await engine.start(paying(), key=key, by="alice")
        run = await engine.start(paying(), key="schedules", by="alice")
        await engine.pause(run.id)
        with pytest.raises(InvalidInput, match="one of the engine's own"):
            await engine.fork(run.id, "pay#1", key=key, by="alice")
