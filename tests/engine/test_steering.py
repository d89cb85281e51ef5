"""A message that comes while the agent is at work is read before its next model call, once, and by nobody twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Chat, Context, Handoff, StateView, Tool, Workflow, flow, llm_node, tool
from holdfast.core.facts import commands as cmd
from holdfast.core.nouns.conversations import ConversationTurn, take_message
from holdfast.core.values.ids import RunId
from holdfast.core.values.payload import inline
from holdfast.models.providers import Providers
from holdfast.ports import ToolTurn
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.engine.kit import bounded, die, names, opened
from tests.engine.recorder import Recorder

MODEL = "claude-haiku-4-5"


@pytest.fixture
def asked(model: Providers) -> Recorder:
    return Recorder(model)


class Desk:
    """A tool that takes its time."""

    def __init__(self) -> None:
        self.begun, self.done = asyncio.Event(), asyncio.Event()

    @property
    def look(self) -> Tool:
        @tool(effect="read")
        async def look(where: str) -> str:
            """Look somewhere."""
            self.begun.set()
            await self.done.wait()
            return f"nothing at {where}"

        return look


def agent(*tools: Tool | Handoff, **options: Any) -> Workflow:
    wf = Workflow("agent", input=Chat)

    @wf.node("answer")
    @llm_node(model=MODEL, tools=tools, max_tokens=200, **options)
    async def answer(state: StateView) -> dict[str, Any]:
        return {"system": "Look around.", "messages": state.input.messages}

    return wf


LOOKS = [
    Rule(turn=1, tool_calls=(ToolCall("look", {"where": "home"}),)),
    Rule(user=("now", "late"), text="well"),
    Rule(text="done"),
]


@bounded
async def test_it_comes_after_the_tools_replies_and_counts_as_said(store: str, asked: Recorder, server: ModelServer) -> None:
    server.script.add(*LOOKS)
    desk = Desk()
    async with opened(store, workflows=[wf := agent(desk.look)], model=asked) as engine:
        await engine.open_conversation("c", wf, on_busy="steer")
        first = await engine.send_message("c", "Where is it?")
        await desk.begun.wait()
        second = await engine.send_message("c", "Be quick.", key="k")
        assert (second.steers, second.run) == (first.number, first.run)
        assert (await engine.send_message("c", "Be quick.", key="k")).number == second.number
        desk.done.set()
        assert [(await engine.reply("c", number)).reply for number in (1, 2)] == ["done"] * 2
        assert asked.told == [["Where is it?"], ["Where is it?", "Be quick."]]
        assert isinstance(asked.asked[1].turns[-2], ToolTurn), "no request of a tool is left without its reply"
        await engine.send_message("c", "And now?")
        await engine.reply("c", 3)
        assert asked.told[2] == ["Where is it?", "Be quick.", "And now?"]
        talk = await engine.conversation("c")
        assert [(each.status, each.parent, each.reply) for each in talk.exchanges.values()] == [
            ("completed", None, "done"),
            ("completed", None, None),
            ("completed", 1, "well"),
        ]
        history = await names(engine.run(str(first.run)))
        assert (history.count("MessageReceived"), history.count("MessageRead")) == (1, 1)
        assert "MessageRead" not in await names(engine.run(str(talk.exchanges[3].run)))


@flow
async def colleague(ctx: Context, chat: Chat) -> str:
    return " / ".join(each.text for each in chat.messages)


@bounded
async def test_it_goes_along_when_the_conversation_is_handed_to_another_agent(
    store: str, asked: Recorder, server: ModelServer
) -> None:
    server.script.add(LOOKS[0], Rule(tool_calls=(ToolCall("transfer_to_colleague", {}),)))
    desk = Desk()
    wf = agent(desk.look, Handoff(colleague))
    async with opened(store, workflows=[wf, colleague], model=asked) as engine:
        await engine.open_conversation("c", wf, on_busy="steer")
        await engine.send_message("c", "Where is it?")
        await desk.begun.wait()
        await engine.send_message("c", "Be quick.")
        desk.done.set()
        assert (await engine.reply("c", 1)).reply == "Where is it? / Be quick."


@bounded
async def test_what_the_run_did_not_read_is_the_next_exchange(store: str, asked: Recorder, server: ModelServer) -> None:
    server.script.add(Rule(user="first", text="one", latency_s=0.3), Rule(text="two"))
    async with opened(store, workflows=[wf := agent()], model=asked) as engine:
        await engine.open_conversation("c", wf)
        first = await engine.send_message("c", "first")
        while not asked.asked:
            await asyncio.sleep(0.002)
        second = await engine.send_message("c", "second", on_busy="steer")
        third = await engine.send_message("c", "third", on_busy="enqueue")
        assert (await engine.reply("c", second.number)).reply == "two"
        await engine.reply("c", third.number)
        assert asked.told == [["first"], ["first", "second"], ["first", "second", "third"]]
        exchanges = (await engine.conversation("c")).exchanges
        assert [each.parent for each in exchanges.values()] == [None, 1, 2]
        assert len({each.run for each in exchanges.values()}) == 3
        assert first.run == exchanges[1].run


@flow
async def patient(ctx: Context, chat: Chat) -> str:
    said = await ctx.model(MODEL, chat, max_tokens=100)
    await ctx.wait_signal("go on")
    aside = await ctx.model(MODEL, "What is the time?", max_tokens=100)
    return f"{said} {aside} {await ctx.model(MODEL, chat, max_tokens=100)}"


@bounded
async def test_a_run_that_waits_reads_it_when_it_goes_on(store: str, asked: Recorder) -> None:
    async with opened(store, workflows=[patient], model=asked) as engine:
        await engine.open_conversation("c", patient, on_busy="steer")
        message = await engine.send_message("c", "one")
        await (run := engine.run(str(message.run))).settled()
        await engine.send_message("c", "two")
        await engine.send_message("c", "three")
        await die(engine)
    async with opened(store, workflows=[patient], model=asked) as engine:
        await engine.send_message("c", "four", on_busy="steer")
        await engine.signal(run.id, "go on")
        assert (await engine.reply("c", 1)).status == "completed"
        assert asked.told == [["one"], ["What is the time?"], ["one", "two", "three", "four"]]
        assert (await names(engine.run(run.id))).count("MessageRead") == 3


@bounded
async def test_who_dies_after_it_was_read_asks_the_same_again(store: str, asked: Recorder, server: ModelServer) -> None:
    server.script.add(LOOKS[0], Rule(turn=2, latency_s=0.2, times=1, text="done"), *LOOKS[1:])
    desk = Desk()
    async with opened(store, workflows=[wf := agent(desk.look)], model=asked) as engine:
        await engine.open_conversation("c", wf, on_busy="steer")
        message = await engine.send_message("c", "Where?")
        await desk.begun.wait()
        await engine.send_message("c", "Quick.")
        desk.done.set()
        while len(asked.asked) < 2:
            await asyncio.sleep(0.002)
        # The call is under way: what comes now is not part of it, whoever makes it again.
        await engine.send_message("c", "Late.")
        await die(engine)
    async with opened(store, workflows=[wf], model=asked) as engine:
        assert (await engine.reply("c", 1)).reply == "done"
        assert asked.asked[1].compared() == asked.asked[2].compared()
        assert asked.told[2] == ["Where?", "Quick."]
        assert (await engine.reply("c", 3)).reply == "well"
        assert asked.told[3] == ["Where?", "Quick.", "Late."]
        history = await names(engine.run(str(message.run)))
        assert (history.count("MessageReceived"), history.count("MessageRead")) == (2, 1)


@bounded
async def test_a_message_whose_sender_died_reaches_the_run_all_the_same(store: str, asked: Recorder) -> None:
    async with opened(store, workflows=[patient], model=asked) as engine:
        await engine.open_conversation("c", patient)
        message = await engine.send_message("c", "one")
        await (run := engine.run(str(message.run))).settled()
        talk = await engine.conversation("c")
        # Written down, and told to the run: then its process died before it could write that down.
        change = take_message(
            talk.conversation,
            talk.exchanges,
            ConversationTurn(number=0, text="two", at_ms=1, on_busy="steer"),
            after=None,
            cannot_be_undone=(),
        )
        assert await engine.store.conversations.put(change)
        said = inline({"role": "user", "text": "two"})
        await engine.runtime.runs.send(RunId(run.id), cmd.SendMessage(2, said))
        replied = asyncio.create_task(engine.reply("c", 1))
        while (await engine.conversation("c")).conversation.steering:
            await asyncio.sleep(0.02)
        await engine.signal(run.id, "go on")
        await replied
        assert asked.told[-1] == ["one", "two"]


@bounded
async def test_a_fork_gets_at_the_same_place_what_its_origin_got(store: str, asked: Recorder, server: ModelServer) -> None:
    server.script.add(*LOOKS)
    desk = Desk()
    async with opened(store, workflows=[wf := agent(desk.look)], model=asked) as engine:
        await engine.open_conversation("c", wf, on_busy="steer")
        message = await engine.send_message("c", "Where?")
        await desk.begun.wait()
        await engine.send_message("c", "Quick.")
        desk.done.set()
        await engine.reply("c", 1)
        fork = await engine.fork(str(message.run), "answer#1")
        assert (await engine.run(fork.id).result()) == "done"
        assert len(asked.asked) == 2, "each call took the outcome that it had"
