"""kill -9 of who talks with an agent, at points at which something lasts: between a message and its run, a run's end and its reply,
a reply and the next message."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from holdfast import Engine
from holdfast.testing.postgres_server import PostgresServer
from tests.crash import talker
from tests.crash.killing import Words, killed_everywhere
from tests.schemas import Schemas


def judge(store: str, directory: Path) -> None:
    asyncio.run(_judge(store, directory))


async def _judge(store: str, directory: Path) -> None:
    async with Engine.open(store, execute=False) as engine:
        found = await engine.conversation(talker.NAME)
        runs = await engine.runs()
    said = {each.text: each for each in found.exchanges.values()}
    assert len(found.exchanges) == len(said) == len(talker.REPLIES), "each message is there once, and the refused one is not"
    assert {text: each.reply for text, each in said.items()} == talker.REPLIES
    numbers = {text: each.number for text, each in said.items()}
    assert {text: each.parent for text, each in said.items()} == {
        text: None if before is None else numbers[before] for text, before in talker.FOLLOWS.items()
    }
    assert [text for text, each in said.items() if each.left] == ["hang on"]
    assert sorted(str(each.run) for each in said.values()) == sorted(row.run for row in runs), "one run for each message"
    assert Counter(row.status for row in runs) == {"completed": 6, "cancelled": 2}
    assert (found.conversation.active, found.conversation.waiting) == (None, ())
    books = found.books
    assert (books.settled, books.in_doubt) == (
        sum(row.settled_nanousd for row in runs),
        sum(row.in_doubt_nanousd for row in runs),
    )
    assert books.limit is not None
    assert 0 < books.settled + books.held + books.in_doubt <= books.limit
    world = {(each["what"], each["key"]) for each in map(json.loads, (directory / talker.WORLD).read_text().splitlines())}
    assert Counter(what for what, _ in world) == {text: 1 for text, reply in talker.REPLIES.items() if reply}


def test_a_conversation_killed_at_any_point_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    killed_everywhere(
        "talker", tmp_path, judge, shares=53, lent=lambda directory: nullcontext((f"sqlite:///{directory}/talk.db", directory))
    )


def test_so_does_one_on_postgresql(tmp_path: Path, postgres: PostgresServer, schemas: Schemas) -> None:
    @contextmanager
    def lent(directory: Path) -> Iterator[Words]:
        with schemas.lent() as schema:
            yield f"{postgres.url}?schema={schema}", directory

    killed_everywhere("talker", tmp_path, judge, shares=53, lent=lent)
