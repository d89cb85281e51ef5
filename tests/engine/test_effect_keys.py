"""Tenant-wide effect keys: runs that mean the same effect have it done once, whatever becomes of the first of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import RunFailed, ToolFailed, Workflow, task, tool, tool_node
from holdfast.core.facts import events as ev
from holdfast.core.values.ids import tenant_effect_key
from holdfast.core.views.status import status, waiting_for
from holdfast.errors import OutcomeUnknown, UsageError
from holdfast.stores.sqlite import SqliteStore
from tests.engine.history import events_of
from tests.engine.kit import bounded, eventually, gate_of, opened


class World:
    """Outside: what was sent, and under which keys. `first` is what becomes of the first request."""

    def __init__(self, first: Callable[[], Any] | None = None) -> None:
        self.sent: list[tuple[str, str]] = []
        self._first = first

    async def send(self, who: str, key: str) -> str:
        self.sent.append((who, key))
        if self._first is not None:
            first, self._first = self._first, None
            await first()
        return f"sent to {who}"


def invites(world: World, *, undo: Callable[[str], None] | None = None, fails: bool = False) -> Workflow:
    wf = Workflow("invites")

    @tool
    async def take_back(who: str) -> None:
        assert undo is not None
        undo(who)

    @tool(effect="once", compensation=take_back if undo is not None else None)
    async def invite(who: str, key: str) -> str:
        return await world.send(who, key)

    @wf.node("invite")
    @task(tools=[invite])
    async def asks(state, ctx):
        who = state.input["who"]
        return await ctx.tool("invite", who=who, key=state.input.get("key", f"invite:{who}"), unique="tenant")

    if fails:

        @wf.node("fail")
        @task
        async def fail(state):
            raise ValueError("no use")

        wf.edge("invite", "fail")
    return wf


@bounded
async def test_runs_that_mean_the_same_effect_have_it_done_once(store: str) -> None:
    world = World(first=lambda: asyncio.sleep(0.05))
    async with opened(store) as engine:
        runs = [await engine.start(invites(world), {"who": "ada"}, tenant="acme") for _ in range(6)]
        assert [await run.result() for run in runs] == ["sent to ada"] * 6
        assert world.sent == [("ada", tenant_effect_key("acme", "invite:ada", "invite"))]
        other = await engine.start(invites(world), {"who": "ada"}, tenant="umbrella")
        await other.result()
        assert len(world.sent) == 2, "another tenant's is another"
        late = await engine.start(invites(world), {"who": "ada"}, tenant="acme")
        assert await late.result() == "sent to ada"
        assert len(world.sent) == 2


@bounded
async def test_the_same_name_with_another_request_is_refused_and_names_the_run_that_has_it(store: str) -> None:
    world = World()
    async with opened(store) as engine:
        first = await engine.start(invites(world), {"who": "ada", "key": "the invitation"})
        await first.result()
        second = await engine.start(invites(world), {"who": "bob", "key": "the invitation"})
        with pytest.raises(RunFailed, match=first.id):
            await second.result()
        assert [who for who, _ in world.sent] == ["ada"]


@bounded
async def test_when_the_first_call_fails_the_second_is_made(store: str) -> None:
    async def fail() -> None:
        await asyncio.sleep(0.05)
        raise ToolFailed("no such address")

    world = World(first=fail)
    async with opened(store) as engine:
        first = await engine.start(invites(world), {"who": "ada"})
        await eventually(lambda: world.sent)
        second = await engine.start(invites(world), {"who": "ada"})
        with pytest.raises(RunFailed, match="no such address"):
            await first.result()
        assert await second.result() == "sent to ada"
        assert len(world.sent) == 2


@bounded
@pytest.mark.parametrize(("decision", "sent"), [("answer", 1), ("reject", 2)])
async def test_while_the_first_call_is_in_doubt_the_second_waits_for_what_a_person_says(
    store: str, decision: str, sent: int
) -> None:
    async def nobody_knows() -> None:
        raise OutcomeUnknown("the line broke")

    world = World(first=nobody_knows)
    async with opened(store) as engine:
        first = await engine.start(invites(world), {"who": "ada"})
        gate = await gate_of(first)
        second = await engine.start(invites(world), {"who": "ada"})
        state = await second.until(lambda state: status(state) == "waiting")
        (wait,) = waiting_for(state)
        assert (wait.kind, wait.reason) == ("effect", "same_effect_in_another_run")
        assert wait.about is not None
        assert wait.about.startswith(first.id), "it says whose it is"
        await asyncio.sleep(0.5)
        assert len(world.sent) == 1
        await engine.decide(gate, decision, {"answer": "it arrived"} if decision == "answer" else None)
        assert await second.result() == ({"answer": "it arrived"} if decision == "answer" else "sent to ada")
        assert len(world.sent) == sent


@bounded
async def test_an_effect_that_is_undone_may_be_done_again(store: str) -> None:
    world, undone = World(), []
    async with opened(store) as engine:
        first = await engine.start(invites(world, undo=undone.append, fails=True), {"who": "ada"})
        with pytest.raises(RunFailed):
            await first.result()
        assert undone == ["ada"]
        assert await (await engine.start(invites(world), {"who": "ada"})).result() == "sent to ada"
        assert len(world.sent) == 2


@bounded
async def test_a_tool_node_may_name_its_effect_for_the_tenant(store: str) -> None:
    world = World()
    wf, plain = Workflow("node"), Workflow("node")

    @tool(effect="once")
    async def invite(who: str, key: str) -> str:
        return await world.send(who, key)

    wf.node("invite")(tool_node(name=invite, key="invite:{who}", unique="tenant")(lambda state: {"who": "ada"}))
    plain.node("invite")(tool_node(name=invite, key="invite:{who}")(lambda state: {"who": "ada"}))
    assert wf.hash != plain.hash
    async with opened(store) as engine:
        for _ in range(2):
            run = await engine.start(wf)
            assert await run.result() == "sent to ada"
        assert await events_of(run, ev.EffectReused)
        assert len(world.sent) == 1
    with pytest.raises(UsageError):
        tool_node(name=invite, unique="tenant")


@bounded
async def test_two_processes_do_it_once(tmp_path: Path) -> None:
    """Twenty runs in two engines, each on a connection of its own, over and over."""
    world = World()
    one, two = [await SqliteStore.connect(tmp_path / "holdfast.db") for _ in range(2)]
    async with opened(one) as mine, opened(two) as theirs:
        begun = time.monotonic()
        for number in range(5):
            runs = [await engine.start(invites(world), {"who": f"guest {number}"}) for engine in (mine, theirs) * 3]
            assert [await run.result() for run in runs] == [f"sent to guest {number}"] * 6
        assert [who for who, _ in world.sent] == [f"guest {number}" for number in range(5)]
        assert time.monotonic() - begun < 20
    for store in (one, two):
        await store.aclose()
