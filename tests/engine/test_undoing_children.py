"""Undoing a run reaches what its children have done: each child undoes its own, in its parent's order, and nothing twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Context, Engine, Run, RunFailed, flow, tool
from holdfast.core.facts import events as ev
from holdfast.core.views.status import status
from tests.engine.history import events_of
from tests.engine.kit import bounded, die, eventually, opened

world: list[str] = []
broken: set[str] = set()


@pytest.fixture(autouse=True)
def fresh_world() -> None:
    world.clear()
    broken.clear()


@tool(effect="idempotent")
async def give_back(what: str) -> None:
    if what in broken:
        raise ValueError(f"{what} is stuck")
    world.append(f"give back {what}")


@tool(effect="idempotent", compensation="give_back")
async def take(what: str) -> str:
    world.append(f"take {what}")
    return what


@flow
async def leaf(ctx: Context, given: dict[str, str]) -> Any:
    await ctx.tool(take, what=f"{given['what']} 1")
    return await ctx.tool(take, what=f"{given['what']} 2")


@flow
async def branch(ctx: Context) -> Any:
    await ctx.tool(take, what="branch")
    await ctx.child(leaf, {"what": "leaf"})


@flow
async def looks(ctx: Context) -> str:
    return "nothing was done"


@flow
async def root(ctx: Context) -> None:
    await ctx.tool(take, what="first")
    await ctx.child(branch)
    await ctx.child(looks)
    other = await ctx.child(leaf, {"what": "other"}, background=True, key="other")
    await other.result()
    await ctx.tool(take, what="last")
    if (await ctx.wait_signal("go on")) == "fail":
        raise ValueError("it was all for nothing")


UNDONE = [f"give back {what}" for what in ("last", "other 2", "other 1", "leaf 2", "leaf 1", "branch", "first")]


async def ready(engine: Engine) -> Run:
    run = await engine.start(root)
    await run.until(lambda state: any(op.kind == "signal" for step in state.steps.values() for op in step.journal.values()))
    return run


def undone() -> list[str]:
    return [each for each in world if each.startswith("give back")]


@bounded
async def test_what_children_have_done_is_undone_by_them_in_the_order_of_their_parent(store: str) -> None:
    async with opened(store, workflows=[root]) as engine:
        seen: set[str] = set()
        for end in ("fail", "cancel"):
            world.clear()
            run = await ready(engine)
            if end == "fail":
                await engine.signal(run.id, "go on", "fail")
                with pytest.raises(RunFailed, match="all for nothing"):
                    await run.result()
            else:
                await engine.cancel(run.id, reason="never mind")
                await run.until(lambda state: bool(state.ended))
            assert undone() == UNDONE
            rows = [row for row in await engine.runs() if row.run not in {*seen, run.id}]
            seen |= {run.id, *(row.run for row in rows)}
            assert sorted((row.workflow, row.status) for row in rows) == [
                ("branch", "cancelled"),
                ("leaf", "cancelled"),
                ("leaf", "cancelled"),
                ("looks", "completed"),
            ]
            (taken,) = [row.run for row in rows if row.workflow == "branch"]
            state = await engine.run(taken).state()
            why = "has failed" if end == "fail" else "is cancelled: never mind"
            assert state.reason == f"undone: run {run.id}, which asked for it, {why}"
            ends = [type(each) for each in await events_of(engine.run(taken), ev.RunCompleted, ev.RunCancelled)]
            assert ends == [ev.RunCompleted, ev.RunCancelled]


@bounded
async def test_a_child_that_cannot_undo_what_it_did_asks_and_its_parent_waits(store: str) -> None:
    broken.add("leaf 1")
    async with opened(store, workflows=[root]) as engine:
        run = await ready(engine)
        await engine.cancel(run.id)
        gates: list[Any] = []
        while not gates:
            await asyncio.sleep(0.002)
            gates = [row for row, _ in await engine.gates() if row.reason == "compensation_failed"]
        assert (await run.state()).ended == ""
        assert undone() == UNDONE[:4]
        broken.clear()
        await engine.decide(gates[0].gate, "retry", by="grace")
        await run.until(lambda state: bool(state.ended))
        assert undone() == UNDONE


@bounded
async def test_who_dies_while_children_undo_what_they_did_has_nothing_undone_twice(store: str) -> None:
    async with opened(store, workflows=[root]) as engine:
        run = await ready(engine)
        await engine.cancel(run.id)
        await eventually(lambda: len(undone()) >= 2)
        await die(engine)
    async with opened(store, workflows=[root]) as engine:
        run = engine.run(run.id)
        await run.until(lambda state: bool(state.ended))
        assert status(await run.state()) == "cancelled"
        assert list(dict.fromkeys(undone())) == UNDONE
