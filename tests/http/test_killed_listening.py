"""A listener to a run hears each word once, whichever process is killed meanwhile: the one that serves, or the one that works."""

from __future__ import annotations

import asyncio
import signal
from contextlib import aclosing
from pathlib import Path
from typing import Any

from holdfast import Context, Engine, flow
from holdfast.client import AsyncClient
from holdfast.service.declarations.query import View
from holdfast.testing.model_server import ModelServer, Rule
from tests.http.test_commands import serve
from tests.wire.kit import MAX_S, Process, ended, holdfast

SENTENCE = "Dear Ada, the parcel is late, and it will be at your door on Tuesday. Yours, Grace"


@flow
async def letter(ctx: Context, _: None) -> str:
    await ctx.stream("progress").write("asking")
    said: str = await ctx.model("claude-haiku-4-5", "Where is it?", max_tokens=200, stream=True)
    await ctx.stream("progress").write("asked")
    return said


async def heard(server: Process, run: str, told: list[View], letters: int | None = None) -> None:
    """Go on to hear what is said, until so many letters of the latest call have come, or all is told."""
    address = server.says(r"HTTP on (http://\S+)/api/v1\.")[1]
    after = told[-1]["cursor"] if told else None
    async with asyncio.timeout(MAX_S), AsyncClient(address) as client, aclosing(client.listen(run, after=after)) as listening:
        async for row in listening:
            told.append(row)
            if letters is not None and len(words(told, row["source"])) >= letters:
                return


def words(told: list[View], source: str) -> str:
    return "".join(each["text"] for each in told if each["kind"] == "text" and each["source"] == source)


async def test_a_listener_misses_and_repeats_nothing_when_server_and_worker_are_killed(tmp_path: Path) -> None:
    """In mid-sentence: first the process that serves, then the one that asks the model."""
    store, told = f"sqlite:///{tmp_path}/runs.db", list[View]()
    with ModelServer(
        journal=tmp_path / "calls.jsonl", rules=[Rule(text=SENTENCE, pause_s=0.5, times=1), Rule(text=SENTENCE)]
    ) as models:

        def works() -> Any:
            return holdfast("worker", f"{__file__}:letter", "--store", store, folder=tmp_path, **models.environment)

        first, second, worker = serve(tmp_path), serve(tmp_path), works()
        with ended(first, second, worker):
            async with Engine.open(store, execute=False) as engine:
                run = (await engine.start(letter, None)).id
            await heard(first, run, told, 10)
            first.signal(signal.SIGKILL)
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
