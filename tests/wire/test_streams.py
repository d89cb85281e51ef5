"""Who watches a run over gRPC is told each word once, whoever is killed meanwhile: whoever tells him, and whoever works."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

from holdfast import Context, Engine, flow
from holdfast.service import query
from holdfast.testing.model_server import ModelServer, Rule
from holdfast.wire import Client
from tests.wire.kit import MOST_S, Server, ended, holdfast

SENTENCE = "Dear Ada, the parcel is late, and it will be at your door on Tuesday. Yours, Grace"


@flow
async def letter(ctx: Context, _: None) -> str:
    await ctx.stream("progress").write("asking")
    said: str = await ctx.model("claude-haiku-4-5", "Where is it?", max_tokens=200, stream=True)
    await ctx.stream("progress").write("asked")
    return said


async def heard(server: Server, run: str, told: list[dict[str, Any]], letters: int | None = None) -> None:
    """Go on to hear what is said, until so many letters of the latest call have come, or all is told."""
    cursor: str | None = told[-1]["cursor"] if told else "start"
    async with Client.connect(server.address) as client, asyncio.timeout(MOST_S):
        while cursor is not None:
            page = await client.ask(query.Streams(run=run, wait_s=1.0, cursor=cursor))
            told += page.rows
            cursor = page.cursor
            if letters is not None and len(words(told, told[-1]["source"])) >= letters:
                return


def words(told: list[dict[str, Any]], source: str) -> str:
    return "".join(each["text"] for each in told if each["kind"] == "text" and each["source"] == source)


async def test_nothing_is_missed_and_nothing_told_twice_when_who_tells_and_who_works_are_killed(tmp_path: Path) -> None:
    """In mid-sentence: first the process that serves, then the one that asks the model."""
    store, told = f"sqlite:///{tmp_path}/runs.db", list[dict[str, Any]]()
    with ModelServer(
        journal=tmp_path / "calls.jsonl", rules=[Rule(text=SENTENCE, pause_s=0.5, times=1), Rule(text=SENTENCE)]
    ) as models:

        def works() -> Any:
            return holdfast("worker", f"{__file__}:letter", "--store", store, folder=tmp_path, **models.environment)

        first, second, worker = Server(tmp_path), Server(tmp_path), works()
        with ended(first.process, second.process, worker):
            async with Engine.open(store, execute=False) as engine:
                run = (await engine.start(letter, None)).id
            await heard(first, run, told, 10)
            first.process.signal(signal.SIGKILL)
            await heard(second, run, told, 25)
            worker.signal(signal.SIGKILL)
            with ended(works()):
                await heard(second, run, told)
    first_call, again = words(told, "flow#1:0:1"), words(told, "flow#1:0:2")
    assert 25 <= len(first_call) < len(SENTENCE)
    assert SENTENCE.startswith(first_call)
    assert again == SENTENCE
    assert [(each["kind"], each["offset"]) for each in told if each["kind"] == "reset"] == [("reset", len(first_call))]
    assert [each["value"] for each in told if each["kind"] == "value"] == ["asking", "asked"]
    size: dict[str, int] = {}
    for each in told:
        if each["kind"] == "text":
            assert each["offset"] == size.get(each["source"], 0)
            size[each["source"]] = each["offset"] + len(each["text"])
