"""What is said to an agent is answered once, in order, whoever dies; and all of it costs no more than was allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast import Chat, Context, Engine, flow, tool
from holdfast.compose import open_administration
from holdfast.core.nouns.conversations import Conversation, ConversationTurn, scopes_of, take_message
from holdfast.core.values.access import Access
from holdfast.core.views.status import waiting_for
from holdfast.engine.runs.retention import cold
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.models.providers import Providers
from holdfast.service.declarations import command
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.settings import RetentionRules, Settings
from holdfast.testing.model_server import ModelServer, Rule, Usage
from tests.engine.kit import Time, bounded, die, engine_at, opened

MODEL = "claude-haiku-4-5"


@flow
async def parrot(ctx: Context, chat: Chat) -> str:
    if chat.text == "wait":
        return str(await ctx.wait_signal("go on"))
    return " ".join(f"{each.role[0]}:{each.text}" for each in chat.messages)


@flow
async def helper(ctx: Context, chat: Chat) -> str:
    return await ctx.model(MODEL, chat, system="Be brief.", max_tokens=100, stream=True)


@tool(effect="once")
def send_mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


@flow
async def mailer(ctx: Context, chat: Chat) -> str:
    if chat.text == "mail":
        await ctx.tool(send_mail, to="ann")
    await ctx.wait_signal("go on")
    return "done"


async def said(engine: Engine, text: str, **how: object) -> str | None:
    number = (await engine.send_message("c", text, **how)).number  # type: ignore[arg-type]
    return (await engine.reply("c", number)).reply


@bounded
async def test_what_was_said_is_remembered_by_whichever_process_is_asked(store: str) -> None:
    async with opened(store, workflows=[parrot]) as engine:
        await engine.open_conversation("c", parrot)
        assert await said(engine, "one") == "u:one"
        assert await said(engine, "two") == "u:one a:u:one u:two"
    async with opened(store, workflows=[parrot]) as engine:
        await engine.open_conversation("c", "parrot")
        assert await said(engine, "instead", after=1) == "u:one a:u:one u:instead"
        talk = await engine.conversation("c")
        assert [each.parent for each in talk.exchanges.values()] == [None, 1, 1]
        assert len({each.run for each in talk.exchanges.values()}) == 3


@bounded
async def test_the_same_key_is_the_same_message_and_its_run_is_started_once(store: str) -> None:
    async with opened(store, workflows=[parrot]) as one, opened(store, workflows=[parrot]) as two:
        await one.open_conversation("c", parrot)
        found = await asyncio.gather(*(each.send_message("c", "hello", key="m1") for each in (one, two, one, two)))
        assert {each.number for each in found} == {1}
        await one.reply("c", 1)
        assert len(await one.runs()) == 1
        with pytest.raises(Conflict, match="another message's"):
            await one.send_message("c", "other", key="m1")


def counted(port: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is read of the conversations of a store from now on, in its order."""
    kind, reads = type(port), list[str]()
    find, exchanges = kind.find, kind.exchanges

    async def found(self: Any, *name: str) -> Conversation | None:
        reads.append("conversation")
        return await find(self, *name)

    async def listed(self: Any, *name: str) -> Sequence[ConversationTurn]:
        reads.append("exchanges")
        return await exchanges(self, *name)

    monkeypatch.setattr(kind, "find", found)
    monkeypatch.setattr(kind, "exchanges", listed)
    return reads


@bounded
async def test_a_message_reads_its_conversation_once(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(store, workflows=[parrot], execute=False) as engine:
        await engine.open_conversation("c", parrot)
        reads = counted(engine.store.conversations, monkeypatch)
        first = await engine.send_message("c", "one")
        assert first.run is not None
        assert reads == ["conversation", "exchanges"]
        for _ in range(2):  # the second time it is the same message
            reads.clear()
            assert (await engine.send_message("c", "two", key="m2")).number == 2
            assert reads == ["conversation", "exchanges"]


@bounded
async def test_a_caller_is_checked_with_the_conversation_that_is_spoken_in(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(store, workflows=[parrot], execute=False) as engine:
        await engine.open_conversation("c", parrot)
        reads = counted(engine.store.conversations, monkeypatch)
        service, ann = Service(engine), Principal("ann", access=Access(("operator",)))
        for number in (1, 2):
            reads.clear()
            sent = await service.execute(ann, command.Say(conversation="c", text="one"))
            assert (sent["number"], reads) == (number, ["conversation", "exchanges"])


@bounded
async def test_a_conversation_that_others_have_changed_is_read_again(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(store, workflows=[parrot], execute=False) as engine:
        await engine.open_conversation("c", parrot)
        old = (await engine.conversation("c")).conversation
        await engine.send_message("c", "one")
        reads = counted(engine.store.conversations, monkeypatch)
        assert (await engine.send_message(old, "two")).number == 2
        assert reads == ["exchanges", "conversation", "exchanges"], reads


@bounded
async def test_a_message_whose_sender_died_is_answered_all_the_same(store: str) -> None:
    async with opened(store, workflows=[parrot], execute=False) as engine:
        await engine.open_conversation("c", parrot)
        talk = await engine.conversation("c")
        # It was written down, and then its process died before it could start anything.
        message = ConversationTurn(number=0, text="hello", at_ms=1)
        change = take_message(talk.conversation, {}, message, after=None, cannot_be_undone=())
        assert await engine.store.conversations.put(change)
        assert await engine.runs() == []
    async with opened(store, workflows=[parrot]) as engine:
        while (await engine.conversation("c")).exchanges[1].reply != "u:hello":
            await asyncio.sleep(0.05)
        assert len(await engine.runs()) == 1


@bounded
async def test_a_message_waits_interrupts_or_rolls_back_what_the_agent_is_at(store: str) -> None:
    async with opened(store, workflows=[parrot]) as engine:
        await engine.open_conversation("c", parrot)
        first = await engine.send_message("c", "wait")
        with pytest.raises(Conflict, match="wait for its reply"):
            await engine.send_message("c", "refused", on_busy="reject")
        queued = await engine.send_message("c", "queued")
        assert (first.status, queued.status) == ("active", "waiting")
        await engine.signal(str(first.run), "go on", "went on")
        assert (await engine.reply("c", queued.number)).reply == "u:wait a:went on u:queued"
        await engine.send_message("c", "wait")
        assert await said(engine, "stop", on_busy="interrupt") == (
            "u:wait a:went on u:queued a:u:wait a:went on u:queued u:wait u:stop"
        )
        await engine.send_message("c", "wait", after=1)
        assert await said(engine, "anew", on_busy="rollback") == "u:wait a:went on u:anew"
        exchanges = (await engine.conversation("c")).exchanges
        assert [each.number for each in exchanges.values() if each.left] == [5]
        assert [exchanges[number].status for number in (3, 5)] == ["cancelled", "cancelled"]


@bounded
async def test_what_cannot_be_undone_is_not_rolled_back(store: str) -> None:
    async with opened(store, workflows=[mailer]) as engine:
        await engine.open_conversation("c", mailer, on_busy="rollback")
        sent = await engine.send_message("c", "mail")
        await engine.run(str(sent.run)).settled()
        with pytest.raises(Conflict, match="send_mail did what cannot be undone"):
            await engine.send_message("c", "never mind")
        follows = await engine.send_message("c", "quick", on_busy="interrupt")
        while (await engine.conversation("c")).conversation.active != follows.number:
            await asyncio.sleep(0.02)
        assert (await engine.conversation("c")).exchanges[2].parent == 1


@bounded
async def test_a_model_learns_the_author_of_each_message_and_all_runs_have_one_budget(
    store: str, model: Providers, server: ModelServer
) -> None:
    async with opened(store, workflows=[helper], model=model) as engine:
        await engine.open_conversation("c", helper, cost_limit_usd="0.02")
        first = await said(engine, "Hello")
        await said(engine, "And now?")
        assert [(call.user, call.messages) for call in server.calls] == [("Hello", 1), ("And now?", 3)]
        assert (await engine.conversation("c")).exchanges[1].reply == first
        books = (await engine.conversation("c")).books
        spent = sum([row.settled_nanousd for row in await engine.runs()])
        assert books.settled == spent > 0
        await engine.set_conversation_budget("c", "0.0000001")
        message = await engine.send_message("c", "More?")
        run = engine.run(str(message.run))
        state = await run.settled()
        assert await run.status() == "budget_blocked"
        assert state.shared == scopes_of("default", "c")
        await engine.set_conversation_budget("c", 1)
        assert (await engine.reply("c", message.number)).status == "completed"


@bounded
async def test_all_runs_of_a_conversation_have_one_budget_of_tokens(store: str, model: Providers, server: ModelServer) -> None:
    server.script.add(Rule(usage=Usage(input_tokens=300, output_tokens=20)))
    async with opened(store, workflows=[helper], model=model) as engine:
        with pytest.raises(InvalidInput, match=r"no number of tokens.*Nothing was changed"):
            await engine.open_conversation("c", helper, max_tokens=-1)
        assert await engine.conversations() == []
        await engine.open_conversation("c", helper, max_tokens=10_000)
        await said(engine, "Hello")
        await said(engine, "And now?")
        talk = await engine.conversation("c")
        assert (talk.tokens.limit, talk.tokens.settled, talk.books.limit) == (10_000, 640, None)
        await engine.set_conversation_budget("c", max_tokens=700)
        message = await engine.send_message("c", "More?")
        (wait,) = waiting_for(await engine.run(str(message.run)).settled())
        assert (wait.kind, wait.reason) == ("tokens", "conversation_budget")
        await engine.set_conversation_budget("c", max_tokens=None)
        assert (await engine.reply("c", message.number)).status == "completed"


@bounded
async def test_an_agent_that_dies_in_mid_sentence_answers_all_the_same_and_once(
    store: str, model: Providers, server: ModelServer
) -> None:
    story = "It is a long story, and it has an end. " * 3
    server.script.add(Rule(text=story, pause_s=0.05))
    async with opened(store, workflows=[helper], model=model) as engine:
        await engine.open_conversation("c", helper)
        message = await engine.send_message("c", "Tell me.")
        await engine.send_message("c", "And then?")
        async for told in engine.watch_stream(str(message.run)):
            if told.kind == "text":
                break
        await die(engine)
    async with opened(store, workflows=[helper], model=model) as engine:
        assert (await engine.reply("c", 1)).reply == story
        assert (await engine.reply("c", 2)).status == "completed"
        assert [call.messages for call in server.calls] == [1, 1, 3]
        assert len(await engine.runs()) == 2


@bounded
async def test_what_cannot_be_is_refused_in_words(store: str) -> None:
    async with opened(store, workflows=[parrot, helper]) as engine:
        await engine.open_conversation("c", parrot)
        with pytest.raises(Conflict, match="is one with 'parrot', not with 'helper'"):
            await engine.open_conversation("c", helper)
        with pytest.raises(NotFound, match="nobody"):
            await engine.open_conversation("d", "nobody")
        with pytest.raises(InvalidInput, match="one of reject, enqueue"):
            await engine.open_conversation("d", parrot, on_busy="shout")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="1 to 128 bytes"):
            await engine.open_conversation(" ", parrot)
        with pytest.raises(NotFound, match="conversations list"):
            await engine.send_message("nowhere", "hello")
        with pytest.raises(InvalidInput, match="not empty"):
            await engine.send_message("c", "  ")
        with pytest.raises(InvalidInput, match="10000002 bytes as JSON; at most 1048576"):
            await engine.send_message("c", "x" * 10_000_000)
        assert (await engine.conversation("c")).exchanges == {}
        assert [each.id for each in await engine.conversations()] == ["c"]


@bounded
async def test_a_conversation_that_is_deleted_is_gone_and_one_of_its_name_is_another(store: str) -> None:
    async with opened(store, workflows=[parrot]) as engine:
        await engine.open_conversation("c", parrot)
        await said(engine, "a secret")
        waits = await engine.send_message("c", "wait")
        with pytest.raises(Conflict, match="The agent is at message 2 of conversation c"):
            await engine.delete_conversation("c")
        await engine.signal(str(waits.run), "go on", "well")
        await engine.reply("c", waits.number)
        await engine.delete_conversation("c")
        with pytest.raises(NotFound):
            await engine.conversation("c")
        assert len(await engine.runs()) == 2, "their histories leave with their months"
        await engine.open_conversation("c", parrot)
        assert await said(engine, "hello") == "u:hello"
        with pytest.raises(NotFound):
            await engine.delete_conversation("nobody")


@bounded
async def test_conversations_without_messages_for_days_are_deleted_where_that_is_set(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now, workflows=[parrot]) as engine:
        for name in ("c", "busy"):
            await engine.open_conversation(name, parrot)
        await said(engine, "hello")
        await engine.send_message("busy", "wait")
    now.forward(days=30)
    async with engine_at(tmp_path, now, workflows=[parrot]) as engine:
        await engine.open_conversation("new", parrot)
    known = Settings(retention=RetentionRules(conversations_days=30))
    now.forward(1)
    async with engine_at(tmp_path, now, workflows=[parrot], settings=known) as engine:
        while [each.id for each in await engine.conversations()] != ["busy", "new"]:
            await asyncio.sleep(0.02)


@bounded
async def test_a_conversation_whose_runs_are_archived_goes_on_and_is_shown(tmp_path: Path) -> None:
    then = Time()
    then.forward(days=-62)
    async with engine_at(tmp_path, then, workflows=[parrot]) as engine:
        await engine.open_conversation("c", parrot)
        await said(engine, "long ago")
        (row,) = await engine.runs()
    administration = await open_administration(tmp_path / "holdfast.db")
    for month in cold(await administration.standing(), 30):
        await administration.archive(month)
    await administration.aclose()
    async with opened(str(tmp_path / "holdfast.db"), workflows=[parrot]) as engine:
        assert await engine.store.log.is_archived(row.run)
        assert (await engine.conversation("c")).exchanges[1].reply == "u:long ago"
        assert await said(engine, "today") == "u:long ago a:u:long ago u:today"
        assert await said(engine, "instead", after=1) == "u:long ago a:u:long ago u:instead"
