"""kill -9 of who talks with an agent, at points at which something lasts: between a message and its run, a run's end and its reply,
a reply and the next message."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from holdfast import Engine
from holdfast.testing.postgres_server import PostgresServer
from tests.crash import talker
from tests.crash.boundary import read_trace
from tests.forks import Fork
from tests.schemas import Schemas

EVERYTHING = os.environ.get("HOLDFAST_CRASH") == "all"
KILLS = 6
"""Of each kind of store, but for `make crash`."""


def live(store: str, directory: Path, number: int, at: int | None = None) -> bool:
    """A life of who talks; whether he came to the end."""
    words = (store, directory, number) if at is None else (store, directory, number, at)
    process = Fork("tests.crash.talker", *words)
    _, said = process.communicate(timeout=90)
    assert process.returncode in (0, -9), said
    return process.returncode == 0


async def judge(store: str, directory: Path) -> None:
    async with Engine.open(store, execute=False) as engine:
        found = await engine.conversation(talker.NAME)
        runs = await engine.runs()
    said = {each.text: each for each in found.exchanges.values()}
    assert len(found.exchanges) == len(said) == len(talker.REPLIES), (
        "each message is there once, and the refused one is not"
    )
    assert {text: each.reply for text, each in said.items()} == talker.REPLIES
    numbers = {text: each.number for text, each in said.items()}
    assert {text: each.parent for text, each in said.items()} == {
        text: None if before is None else numbers[before] for text, before in talker.FOLLOWS.items()
    }
    assert [text for text, each in said.items() if each.left] == ["hang on"]
    assert sorted(str(each.run) for each in said.values()) == sorted(row.run for row in runs), (
        "one run for each message"
    )
    assert Counter(row.status for row in runs) == {"completed": 6, "cancelled": 2}
    assert (found.conversation.active, found.conversation.waiting) == (None, ())
    books = found.books
    assert (books.settled, books.in_doubt) == (
        sum(row.settled_nanousd for row in runs),
        sum(row.in_doubt_nanousd for row in runs),
    )
    assert books.limit is not None
    assert 0 < books.settled + books.held + books.in_doubt <= books.limit
    world = {
        (each["what"], each["key"]) for each in map(json.loads, (directory / talker.WORLD).read_text().splitlines())
    }
    assert Counter(what for what, _ in world) == {text: 1 for text, reply in talker.REPLIES.items() if reply}


def killed_at_each_point(tmp_path: Path, lent: Callable[[Path], AbstractContextManager[str]], first: int) -> None:
    """`lent` is the store of a case, which has a directory of its own."""
    unbroken = tmp_path / "unbroken"
    unbroken.mkdir()
    with lent(unbroken) as store:
        assert live(store, unbroken, 1)
        asyncio.run(judge(store, unbroken))
    points = len([line for line in read_trace(unbroken / "1.trace") if "n" in line])
    tried = range(1 if EVERYTHING else first, points + 1, 1 if EVERYTHING else points // KILLS)
    killed = 0
    for at in tried:
        directory = tmp_path / f"killed-{at}"
        directory.mkdir()
        with lent(directory) as store:
            number = 1
            if not live(store, directory, number, at):
                killed += 1
                number += 1
                assert live(store, directory, number)
            asyncio.run(judge(store, directory))
    assert killed > len(tried) / 2, "most of them died where they were meant to"
    print(f"{killed} of {points} points")


def test_a_conversation_killed_at_any_point_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    killed_at_each_point(tmp_path, lambda directory: nullcontext(f"sqlite:///{directory}/talk.db"), 20)


def test_so_does_one_on_postgresql(tmp_path: Path, postgres: PostgresServer, schemas: Schemas) -> None:
    @contextmanager
    def lent(directory: Path) -> Iterator[str]:
        with schemas.lent() as schema:
            yield f"{postgres.url}?schema={schema}"

    killed_at_each_point(tmp_path, lent, 10)
