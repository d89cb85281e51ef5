"""A run whose child is of a workflow that its caller does not reach: shown without it, and waited for without an error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast import Chat, Context, flow
from holdfast.core.values.access import Access
from holdfast.service.access.identity import Holder
from tests.http.kit import MAX_S, Asked, Port, known, served

IDENTITY = known(
    ops=Holder("clients.ops"),
    partly=Holder("clients.partly", tenant="acme", access=Access(("operator", "reviewer"), ("talking", "family", "shown"))),
)
SECRET = "only-of-the-hidden"


@flow
async def hidden(ctx: Context) -> str:
    return (await ctx.ask({SECRET: 1})).decision


@flow
async def shown(ctx: Context) -> None:
    await ctx.wait_signal("enough")


@flow
async def family(ctx: Context) -> None:
    await ctx.gather(ctx.child(hidden), ctx.child(shown))


@flow
async def talking(ctx: Context, chat: Chat) -> str:
    return f"they said {await ctx.child(hidden)}"


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[Port]:
    async with served(tmp_path, IDENTITY, workflows=(hidden, shown, family, talking)) as port:
        yield port


async def at_gate(ops: Asked) -> str:
    """The path of the one open gate, as soon as there is one."""
    async with asyncio.timeout(MAX_S):
        while not (rows := await ops.rows("/gates")):
            await asyncio.sleep(0.02)
    return f"/gates/{quote(rows[0]['gate_id'], safe='')}"


async def test_the_tree_of_a_run_leaves_out_what_is_hidden(port: Port) -> None:
    async with port.asked("ops" * 4) as ops, port.asked("partly" * 4) as partly:
        run = (await partly.post("/runs", {"workflow": "family"}))["run_id"]
        async with asyncio.timeout(MAX_S):
            while len(await ops.rows(f"/runs/{run}/children")) < 2:
                await asyncio.sleep(0.02)
        await at_gate(ops)
        whole, part = await ops.get(f"/runs/{run}/tree"), await partly.get(f"/runs/{run}/tree")
        assert [{each["workflow"] for each in row["runs"]} for row in (whole, part)] == [
            {"family", "hidden", "shown"},
            {"family", "shown"},
        ]
        assert (whole["is_whole"], part["is_whole"]) == (True, False)
        children = {each["run_id"] for each in await partly.rows(f"/runs/{run}/children")}
        assert {each["run_id"] for each in part["runs"]} == {run, *children}


async def test_an_agent_waits_where_the_gate_of_its_child_is_hidden(port: Port) -> None:
    message = {"id": "m0", "role": "user", "content": "May I?"}
    given: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": [message], "tools": [], "context": []}
    given |= {"state": {}, "forwardedProps": {}}
    async with port.asked("ops" * 4) as ops, port.asked("partly" * 4) as partly:
        first = asyncio.create_task(told(partly, given))
        gate = await at_gate(ops)
        again = asyncio.create_task(told(partly, given))
        ended, _ = await asyncio.wait({first, again}, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
        assert not ended, [each.result() for each in ended]
        result = {"id": "m1", "role": "tool", "toolCallId": "x", "content": "done"}
        unasked = {**given, "messages": [message, result]}
        assert await partly.refused("POST", "/agui/talking", unasked) == (422, "invalid_input")
        await ops.post(f"{gate}/decision", await ops.seen(gate, decision="approve"))
        for events in (await first, await again):
            assert [each["type"] for each in events if each["type"].startswith("RUN_")] == ["RUN_STARTED", "RUN_FINISHED"]
            assert (events[-1]["outcome"]["type"], events[-1]["result"]) == ("success", "they said approve")
            assert SECRET not in str(events)


async def told(who: Asked, given: dict[str, Any]) -> list[Any]:
    """The events of the agent's answer."""
    said = await who.said("POST", "/agui/talking", given)
    assert said.status_code == 200, said.text
    return [json.loads(line.removeprefix("data: ")) for line in said.text.splitlines() if line.startswith("data: ")]
