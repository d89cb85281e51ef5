"""Whoever has a hand in what a run asks about, whichever way it came there, decides none of its questions with four eyes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from holdfast import Chat, Context, Engine, LocalEmbedder, SemanticCache, flow
from holdfast.core.facts import events as ev
from holdfast.core.values.actor import Actor
from holdfast.errors import DecisionRefused, OperationFailed
from holdfast.models.providers import Providers
from holdfast.service.control.gate import story_of
from holdfast.service.gate import whole
from holdfast.testing.model_server import ModelServer, Rule
from tests.engine.history import events_of
from tests.engine.kit import bounded, gate_of, opened

BOB, EVE = Actor("keys.k", "", "keys.k", maker="bob"), Actor("eve")
SAME = LocalEmbedder("all alike", lambda texts: [(1.0, 0.0)] * len(texts), 2)


async def _asks(ctx: Context, shown: Any) -> Any:
    return (await ctx.ask({"shown": shown}, decisions=["approve"], four_eyes=True)).decision


@flow
async def reads(ctx: Context, how: str) -> Any:
    board = ctx.shared("board")
    match how:
        case "read":
            await board.read("case")
        case "changed":
            await board.changed("case")
        case "update":
            await board.update("case", lambda value: [value])
        case "merge":
            await board.write("case", {"more": 1}, expected_version=0, strategy="merge")
        case "reject":
            with suppress(OperationFailed):
                await board.write("case", {}, expected_version=0)
        case "first_write":
            await board.write("case", {}, expected_version=0, strategy="first_write")
        case "memory":
            await ctx.memory("clerk").recall("where to")
        case "cache":
            await ctx.model("claude-haiku-4-5", "Where to?", cache=SemanticCache(SAME), max_tokens=100)
    return await _asks(ctx, how)


@flow
async def writes(ctx: Context, how: str) -> None:
    await ctx.wait_signal("go")
    if how == "memory":
        await ctx.memory("clerk").remember("where to: to bob")
    elif how == "cache":
        await ctx.model("claude-haiku-4-5", "Where to, then?", cache=SemanticCache(SAME), max_tokens=100)
    else:
        await ctx.shared("board").write("case", {"to": "bob"})


async def refused(engine: Engine, gate: str, *who: str | Actor) -> None:
    for by in who:
        with pytest.raises(DecisionRefused, match="needs a second pair of eyes"):
            await engine.decide(gate, by=by)


@pytest.mark.parametrize("how", ["read", "changed", "update", "merge", "reject", "first_write", "memory", "cache"])
@bounded
async def test_who_has_a_hand_in_a_shared_value_that_a_run_has_read_does_not_decide_it(
    store: str, server: ModelServer, model: Providers, how: str
) -> None:
    """Its writer from outside and whoever made the key; of a run's write those who started it, or contributed to it."""
    server.script.add(Rule(text="To bob."))
    async with opened(store, workflows=[reads, writes], model=model) as engine:
        for is_run in (True, False):
            if is_run:
                writer = await engine.start(writes, how, by="kim")
                await engine.signal(writer.id, "go", by="dan")
                await writer.result()
            elif how not in ("memory", "cache"):
                await engine.write_shared_value("board", "case", {"to": "bob"}, by=BOB)
            else:
                continue
            run = await engine.start(reads, how, by="ann")
            gate = await gate_of(run)
            others = ("kim", "dan") if is_run else ("bob", BOB)
            await refused(engine, gate, "ann", *others)
            read = "!cache/" if how == "cache" else "clerk" if how == "memory" else "board/case"
            named = await events_of(run, ev.ContributorNamed)
            assert {each.name for each in named} == {"kim", "dan"} if is_run else {"keys.k", "bob"}
            assert all(read in (each.read or "") for each in named)
            await engine.decide(gate, by="eve")
            assert await run.result() == "approve"


@flow
async def below(ctx: Context, given: str) -> Any:
    if given == "asks":
        return await _asks(ctx, await ctx.wait_signal("ask"))
    return await ctx.wait_signal("go")


@flow
async def above(ctx: Context, given: str) -> Any:
    child = await ctx.child(below, given, background=True)
    if given == "waits":
        await _asks(ctx, given)
    return await child.result()


async def child_of(engine: Engine, run: Any) -> Any:
    state = await run.until(lambda state: any(not each.ended for each in state.children.values()))
    child = engine.run(next(iter(state.children)))
    while not await engine.runs(workflow="below"):
        await engine.idle()
    return child


@bounded
async def test_who_signals_a_child_under_way_does_not_decide_what_its_parent_asks(store: str) -> None:
    async with opened(store, workflows=[above, below]) as engine:
        run = await engine.start(above, "waits", by="ann")
        gate = await gate_of(run)
        child = await child_of(engine, run)
        await child.until(lambda state: bool(state.steps))
        await engine.signal(child.id, "no", by=BOB)
        await refused(engine, gate, "bob", BOB)
        shown = await whole(engine, await story_of(engine, gate), await engine.find(run.id), BOB, None)
        assert {"bob", "keys.k"} <= {*shown["contributors"]}
        await engine.signal(child.id, "go", by="dan")
        await run.until(lambda state: all(each.ended for each in state.children.values()))
        await refused(engine, gate, "bob", "dan")
        await engine.decide(gate, by=EVE)
        await run.result()


@bounded
async def test_who_signals_a_parent_does_not_decide_what_a_child_under_way_asks(store: str) -> None:
    async with opened(store, workflows=[above, below]) as engine:
        run = await engine.start(above, "asks", by="ann")
        child = await child_of(engine, run)
        await engine.signal(child.id, "ask", by="ann")
        gate = await gate_of(child)
        await engine.signal(run.id, "no", by=BOB)
        await refused(engine, gate, "bob", BOB)
        await engine.decide(gate, by="eve")
        assert await run.result() == "approve"


@bounded
async def test_who_has_a_parent_tried_again_does_not_decide_what_its_child_asks_then(store: str) -> None:
    broken = ["not yet"]

    @flow
    async def child_(ctx: Context) -> Any:
        if broken:
            raise ValueError(broken[0])
        return await _asks(ctx, 5)

    @flow
    async def parent(ctx: Context) -> Any:
        return await ctx.child(child_)

    async with opened(store, workflows=[parent]) as engine:
        run = await engine.start(parent, by="ann")
        await run.until(lambda state: state.ended == "failed")
        broken.clear()
        await engine.retry(run.id, by=BOB)
        child = engine.run(next(iter((await run.state()).children)))
        gate = await gate_of(child)
        assert {each.name for each in await events_of(child, ev.ContributorNamed)} == {"keys.k", "bob"}
        await refused(engine, gate, "bob", BOB)
        await engine.decide(gate, by="eve")
        assert await run.result() == "approve"


@flow
async def clerk(ctx: Context, chat: Chat) -> Any:
    return await _asks(ctx, [each.text for each in chat.messages]) if "pay" in chat.text else "fine"


@bounded
async def test_who_has_said_something_before_does_not_decide_what_an_answer_asks(store: str) -> None:
    async with opened(store, workflows=[clerk]) as engine:
        await engine.open_conversation("c", clerk)
        said = await engine.send_message("c", "all goes to Bob", by=BOB)
        await engine.reply("c", said.number)
        said = await engine.send_message("c", "pay", by="ann")
        while (run := (await engine.conversation("c")).exchanges[said.number].run) is None:
            await engine.idle()
        gate = await gate_of(engine.run(run))
        await refused(engine, gate, "ann", "bob", BOB)
        await engine.decide(gate, by="eve")
        assert (await engine.reply("c", said.number)).reply == "approve"
        said = await engine.send_message("c", "pay again", by=Actor("keys.l", "", "keys.l", maker="eve"))
        while (run := (await engine.conversation("c")).exchanges[said.number].run) is None:
            await engine.idle()
        gate = await gate_of(engine.run(run))
        await refused(engine, gate, "ann", "bob", "eve")
        await engine.decide(gate, by="zoe")
