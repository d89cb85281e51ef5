"""Handoffs: a conversation goes on with another agent, which answers what comes after it too; once, whoever dies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Chat, Context, Engine, Handoff, RunFailed, Workflow, flow, llm_node, tool
from holdfast.core.facts import events as ev
from holdfast.errors import Conflict, UsageError
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.engine.history import events_of
from tests.engine.kit import bounded, die, opened

HAIKU = "claude-haiku-4-5"
filtered: list[str] = []
paid: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    filtered.clear()
    paid.clear()


class Verdict(BaseModel):
    risk: str


@tool(effect="read")
async def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing at {where}"


@tool(effect="once")
async def pay(who: str) -> str:
    """Pay somebody."""
    paid.append(who)
    return "paid"


@flow
async def refunds(ctx: Context, chat: Chat) -> str:
    """For money that is to be paid back."""
    tools: Any = [look, Handoff("triage")]
    return await ctx.agent(HAIKU, chat, tools=tools, system="You refund.", max_tokens=100)


def brief(chat: Chat) -> Chat:
    filtered.append(chat.text)
    return chat.last(3)


@flow(cost_limit_usd=1)
async def triage(ctx: Context, chat: Chat) -> str:
    return await ctx.agent(HAIKU, chat, tools=[look, pay, Handoff(refunds, filter=brief)], system="You sort.", max_tokens=100)


def transfer(to: str, why: str = "") -> ToolCall:
    return ToolCall(f"transfer_to_{to}", {"reason": why} if why else {})


async def child_of(run_id: str, engine: Engine) -> Any:
    (asked,) = await events_of(engine.run(run_id), ev.ChildRequested)
    return engine.run(asked.child)


async def reply_to(engine: Engine, text: str, **how: Any) -> tuple[str | None, str | None]:
    number = (await engine.send_message("c", text, **how)).number
    said = await engine.reply("c", number)
    return said.reply, said.agent


# --- In a run -----------------------------------------------------------------------------------------------------------


@bounded
async def test_another_agent_is_given_what_was_said_and_its_answer_is_the_steps(
    store: str, server: ModelServer, model: Providers
) -> None:
    """Nothing of tools goes along, the filter is asked once, and what else the turn asked for is not done."""
    server.script.add(
        Rule(system="sort", turn=3, text="I look.", tool_calls=(ToolCall("look", {"where": "door"}),)),
        Rule(
            system="sort",
            text="I pass you on.",
            tool_calls=(ToolCall("pay", {"who": "ann"}), transfer("refunds", "money"), transfer("refunds")),
        ),
        Rule(system="refund", text="Paid back."),
    )
    said = [("user", "One"), ("assistant", "Two"), ("user", "Three"), ("assistant", "Four"), ("user", "My money?")]
    async with opened(store, model=model, workflows=[triage]) as engine:
        run = await engine.start(triage, {"messages": [{"role": role, "text": text} for role, text in said]})
        while not (await run.state()).children_asked:
            await asyncio.sleep(0.002)
        await die(engine)
    async with opened(store, model=model, workflows=[triage]) as engine:
        run = engine.run(run.id)
        assert await run.result() == "Paid back."
        child = await child_of(run.id, engine)
        given = (await child.state()).input.value()
        assert [each["text"] for each in given["messages"]] == ["Three", "Four", "My money?"]
        assert given["reason"] == "money"
        assert (await run.state()).handed_to == (child.id, "refunds")
    assert (filtered, paid) == (["My money?"], [])
    assert [call.turn for call in server.calls if call.turn > 2] == [3, 4], "what was paid for is not paid for again"


@bounded
async def test_an_impossible_handoff_is_reported_to_the_model_and_a_circle_ends(
    store: str, server: ModelServer, model: Providers
) -> None:
    """A run is 10 runs below its root at most; the agent there answers itself."""

    @flow(cost_limit_usd=1)
    async def lost(ctx: Context, chat: Chat) -> str:
        return await ctx.agent(HAIKU, chat, tools=[Handoff("nobody")], system="You are lost.", max_tokens=100)

    server.script.add(
        Rule(system="lost", turn=1, tool_calls=(transfer("nobody"),)),
        Rule(system="lost", text="Nobody is there."),
        Rule(system="sort", turn=1, tool_calls=(transfer("refunds"),)),
        Rule(system="sort", text="I stay."),
        Rule(system="refund", tool_calls=(transfer("triage"),)),
    )
    chat = {"messages": [{"role": "user", "text": "Hello"}]}
    async with opened(store, model=model, workflows=[triage, lost]) as engine:
        assert await (await engine.start(lost, chat)).result() == "Nobody is there."
        assert await (await engine.start(triage, chat)).result() == "I stay."
        assert len(await engine.runs()) == 12


@bounded
async def test_a_node_hands_over_and_the_answer_has_to_fit_its_output(
    store: str, server: ModelServer, model: Providers
) -> None:
    @flow
    async def judge(ctx: Context, chat: Chat) -> Any:
        return {"risk": "low", "more": 1} if chat.text == "good" else chat.text

    wf = Workflow("asks", input=Chat)

    @wf.node("ask")
    @llm_node(model=HAIKU, tools=[Handoff(judge, description="Judges.")], output=Verdict, max_tokens=100)
    async def ask(state: Any) -> Any:
        return {"messages": state.input.messages}

    assert wf.children == [judge]
    server.script.add(Rule(tool_calls=(transfer("judge"),)))
    async with opened(store, model=model, workflows=[wf]) as engine:
        for text in ("good", "bad"):
            run = await engine.start(wf, {"messages": [{"role": "user", "text": text}]})
            if text == "good":
                assert await run.result() == {"risk": "low"}
            else:
                with pytest.raises(RunFailed, match="does not fit the step's output"):
                    await run.result()
    assert len(server.calls) == 2


def test_what_cannot_be_handed_over_is_refused_in_words() -> None:
    @flow
    async def counts(ctx: Context, verdict: Verdict) -> None: ...

    with pytest.raises(UsageError, match="its input is no Chat"):
        Handoff(counts)
    with pytest.raises(UsageError, match="two things called 'transfer_to_refunds'"):
        llm_node(model=HAIKU, tools=[Handoff(refunds), Handoff("refunds")])
    with pytest.raises(UsageError, match="handoff 'transfer_to_over there'"):
        llm_node(model=HAIKU, tools=[Handoff("over there")])


@bounded
async def test_a_filter_that_leaves_nothing_to_answer_fails_the_step(store: str, server: ModelServer, model: Providers) -> None:
    @flow
    async def drops(ctx: Context, chat: Chat) -> str:
        none: Any = lambda chat: None  # noqa: E731
        return await ctx.agent(HAIKU, chat, tools=[Handoff(refunds, filter=none)], max_tokens=100)

    server.script.add(Rule(tool_calls=(transfer("refunds"),)))
    async with opened(store, model=model, workflows=[drops]) as engine:
        run = await engine.start(drops, {"messages": [{"role": "user", "text": "Hello"}]})
        with pytest.raises(RunFailed, match="has to return a Chat"):
            await run.result()


# --- In a conversation --------------------------------------------------------------------------------------------------


@bounded
async def test_the_agent_that_a_conversation_was_handed_to_answers_what_follows(
    store: str, server: ModelServer, model: Providers
) -> None:
    """Until it hands it back; a branch goes to the agent of the place that it begins behind."""
    server.script.add(
        Rule(system="sort", user="money", tool_calls=(transfer("refunds"),)),
        Rule(system="refund", user="else", tool_calls=(transfer("triage"),)),
        Rule(system="sort", text="Sorted."),
        Rule(system="refund", text="Refunded."),
    )
    async with opened(store, model=model, workflows=[triage]) as engine:
        await engine.open_conversation("c", triage)
        assert await reply_to(engine, "Hello") == ("Sorted.", None)
        assert await reply_to(engine, "My money") == ("Refunded.", "refunds")
        assert await reply_to(engine, "More") == ("Refunded.", "refunds")
        talk = await engine.conversation("c")
        run = await engine.runtime.store.views.run(talk.exchanges[3].run)  # type: ignore[arg-type]
        assert run is not None
        assert run.workflow == "refunds"
        child = await child_of(str(talk.exchanges[2].run), engine)
        assert (await child.state()).input.value()["conversation"] == "c"
        assert await reply_to(engine, "Something else") == ("Sorted.", None)
        assert await reply_to(engine, "And again", after=1) == ("Sorted.", None)
        assert await reply_to(engine, "And there", after=2) == ("Refunded.", "refunds")


@bounded
async def test_what_the_other_agent_did_cannot_be_rolled_back_either(store: str, server: ModelServer, model: Providers) -> None:
    @flow
    async def payer(ctx: Context, chat: Chat) -> str:
        await ctx.tool(pay, who="ann")
        return str(await ctx.wait_signal("go on"))

    @flow
    async def desk(ctx: Context, chat: Chat) -> str:
        return await ctx.agent(HAIKU, chat, tools=[Handoff(payer)], max_tokens=100)

    server.script.add(Rule(tool_calls=(transfer("payer"),)))
    async with opened(store, model=model, workflows=[desk]) as engine:
        await engine.open_conversation("c", desk)
        await engine.send_message("c", "Pay.")
        while not paid:
            await asyncio.sleep(0.002)
        with pytest.raises(Conflict, match="pay did what cannot be undone"):
            await engine.send_message("c", "Never mind.", on_busy="rollback")
