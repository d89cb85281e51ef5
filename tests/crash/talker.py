"""A program that talks with an agent and dies at one of the points at which something lasts.

usage: python -m tests.crash.talker STORE DIRECTORY LIFE [AT]

It says the same in each life, each thing under a key. STORE is a file or a PostgreSQL. What the agent does to the world stands in a
file in DIRECTORY.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from holdfast import Chat, Context, Engine, flow, tool
from holdfast.core.nouns.conversations import ConversationTurn, OnBusy
from holdfast.errors import Conflict, RunEnded
from holdfast.ports import ModelReply, ModelRequest, Usage
from holdfast.settings import Settings
from tests.crash.boundary import Boundaries, CountedConnection

NAME, WORLD, LIMIT_USD = "talk", "world.jsonl", "0.02"
REPLIES = {
    "one": "one",
    "wait": "one wait",
    "queued": "one wait queued",
    "hang": None,
    "stop": "one wait queued hang stop",
    "hang on": None,
    "anew": "one wait queued hang stop anew",
    "branch": "one branch",
}
"""What the agent answers to each message: all that was said on the way to it."""
FOLLOWS = {
    "one": None,
    "wait": "one",
    "queued": "wait",
    "hang": "queued",
    "stop": "hang",
    "hang on": "stop",
    "anew": "stop",
    "branch": "one",
}


@tool(effect="idempotent", compensation="undo")
def do(what: str, key: str) -> str:
    with Path(sys.argv[2], WORLD).open("a") as world:
        world.write(json.dumps({"what": what, "key": key}) + "\n")
        world.flush()
        os.fsync(world.fileno())
    return what


@tool(effect="idempotent")
def undo(result: str, key: str) -> None:
    pass


@flow
async def agent(ctx: Context, chat: Chat) -> str:
    if chat.text.startswith("hang"):
        await ctx.wait_signal("never")
    if chat.text == "wait":
        await ctx.wait_signal("go on")
    await ctx.tool(do, what=chat.text)
    await ctx.model("claude-haiku-4-5", chat.text, max_tokens=20)
    return " ".join(each.text for each in chat.messages if each.role == "user")


class Model:
    """Says the same to everybody, for money. Keeps ports.Model as far as anybody here asks."""

    def __init__(self, boundaries: Boundaries) -> None:
        self._boundaries = boundaries

    async def prepare(self, model: str) -> None:
        pass

    async def request(self, request: ModelRequest) -> ModelReply:
        with self._boundaries.around("model request"):
            turn = {"parts": [{"part_kind": "text", "content": "well"}]}
            return ModelReply("well", (), None, Usage(10, 5), "stop", None, turn)


async def talk(engine: Engine) -> None:
    await engine.open_conversation(NAME, agent, cost_limit_usd=LIMIT_USD)

    async def say(text: str, on_busy: OnBusy = "enqueue", after: int | None = None) -> ConversationTurn:
        return await engine.send_message(NAME, text, key=text, on_busy=on_busy, after=after)

    async def hear(said: ConversationTurn) -> None:
        await engine.reply(NAME, said.number)

    await hear(await say("one"))
    waits = await say("wait")
    queued = await say("queued")
    if waits.status == "active":
        with contextlib.suppress(RunEnded):  # it was told in an earlier life
            await engine.signal(str(waits.run), "go on")
    await hear(queued)
    await say("hang")
    if "stop" not in [each.key for each in (await engine.conversation(NAME)).exchanges.values()]:
        try:
            await say("refused", "reject")
        except Conflict:
            pass
        else:
            raise AssertionError("the agent was at work")
    await hear(await say("stop", "interrupt"))
    await say("hang on")
    await hear(await say("anew", "rollback"))
    await hear(await say("branch", after=1))


def counted(boundaries: Boundaries, store: str) -> None:
    """Have each commit be a boundary: SQLite says so itself, of PostgreSQL the ports that a conversation goes through."""
    CountedConnection.boundaries = boundaries
    apsw.Connection = CountedConnection  # type: ignore[misc]
    from holdfast.stores.nouns.records import Conversations
    from holdfast.stores.postgres.log import Log

    def around(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        async def crossing(*given: Any) -> Any:
            with boundaries.around(name):
                return await call(*given)

        return crossing

    if not store.startswith("sqlite"):
        Conversations.put = around("a conversation", Conversations.put)  # type: ignore[method-assign]
    Log.append = around("an append", Log.append)  # type: ignore[method-assign]


async def main(store: str, boundaries: Boundaries) -> None:
    known = Settings(lease_s=1)  # nobody waits for long for what a killed process had
    model: Any = Model(boundaries)
    async with asyncio.timeout(60), Engine.open(store, workflows=[agent], model=model, settings=known) as engine:
        await talk(engine)


if __name__ == "__main__":
    where, folder, life, *rest = sys.argv[1:]
    crossed = Boundaries(Path(folder, f"{life}.trace"), at=int(rest[0]) if rest else None)
    counted(crossed, where)
    asyncio.run(main(where, crossed))
