"""What the dead left undone outside their runs is done by whoever looks; and looking costs next to nothing where there is nothing."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from holdfast import Engine
from holdfast.compose.fleet import leading
from holdfast.core.nouns.conversations import ConversationTurn, take_message
from holdfast.engine.background.follow_ups import LONGEST_S, FollowUps
from holdfast.queues.none import NoQueue
from holdfast.settings import Settings
from tests.engine.kit import bounded, opened
from tests.engine.test_conversations import parrot


async def said_by_one_who_died(engine: Engine, text: str) -> None:
    """The message is written down, and nothing is begun."""
    await engine.open_conversation("c", parrot)
    talk = await engine.conversation("c")
    message = ConversationTurn(number=0, text=text, at_ms=1)
    assert await engine.store.conversations.put(
        take_message(talk.conversation, talk.exchanges, message, after=None, cannot_be_undone=())
    )


async def nothing(limit: int) -> list[object]:
    return []


@bounded
async def test_a_leader_alone_begins_what_was_said_by_one_who_died(database: str) -> None:
    settings = Settings(store=database)
    async with Engine.open(database, execute=False, settings=settings, queue=NoQueue()) as asking:
        await said_by_one_who_died(asking, "hello")
        assert await asking.runs() == []
        async with leading(database, settings=settings):
            while (await asking.conversation("c")).exchanges[1].run is None:
                await asyncio.sleep(0.05)
        async with opened(database, workflows=[parrot]):
            assert (await asking.reply("c", 1)).reply == "u:hello"
        assert len(await asking.runs()) == 1


@bounded
async def test_who_ends_a_run_has_the_next_message_follow_at_once(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(store, workflows=[parrot]) as engine:
        await engine.open_conversation("c", parrot)
        monkeypatch.setattr(engine.store.conversations, "due", nothing)  # whoever looks finds none
        first = await engine.send_message("c", "wait")
        await engine.send_message("c", "and then")
        await engine.signal(str(first.run), "go on", "went on")
        while (await engine.conversation("c")).exchanges[2].status != "completed":
            await asyncio.sleep(0.01)


class Hands:
    """A clock that is moved by hand."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


@bounded
async def test_looking_is_rare_where_nothing_is_and_soon_where_a_process_died(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(store, workflows=[parrot], execute=False) as engine:
        asked: Counter[str] = Counter()
        conversations, children = engine.store.conversations, engine.store.children
        due, pending = conversations.due, children.pending

        async def counted_due(limit: int) -> object:
            asked["due"] += 1
            return await due(limit)

        async def counted_pending(before_ms: int, limit: int) -> object:
            asked["pending"] += 1
            return await pending(before_ms, limit)

        monkeypatch.setattr(conversations, "due", counted_due)
        monkeypatch.setattr(children, "pending", counted_pending)
        clock = Hands()
        runtime = engine.runtime._replace(clock=clock)  # type: ignore[arg-type]
        follow_ups = FollowUps(runtime, engine.payloads)
        for turn in range(600):
            clock.now_s = turn / 10
            await follow_ups.turn(died=False)
        assert asked == {"due": 14, "pending": 14}, "in a minute"
        await said_by_one_who_died(engine, "hello")
        clock.now_s += LONGEST_S
        await follow_ups.turn(died=False)
        while (await engine.conversation("c")).exchanges[1].run is None:
            await asyncio.sleep(0.01)
        clock.now_s += LONGEST_S
        await follow_ups.turn(died=False)
        looked = asked["due"]
        clock.now_s += 0.5
        await follow_ups.turn(died=True)
        assert asked["due"] == looked + 1
        await follow_ups.aclose()
