"""The store away for less than a lease, for longer, and for many leases, under twenty flows of every shape and twelve graphs: all
complete, and each effect happened once. `make stores` has the lengths that a deployment knows: 5, 13 and 60 s with a lease of ten.

The judge is what the tools have done.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from holdfast import Context, Engine, Run, Workflow, flow, step, task, tool, tool_node
from holdfast.core.facts import events as ev
from holdfast.settings import LEASE_S
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.postgres_server import PostgresServer
from tests.conftest import EVERYWHERE
from tests.engine.history import events_of
from tests.engine.kit import MAX_S, eventually
from tests.faults.test_server_faults import assert_whole, own, result, started

__all__ = ["own"]

CASES = [pytest.param(5, 1, marks=pytest.mark.long), pytest.param(13, 2), pytest.param(60, 1, marks=pytest.mark.long)]
"""For how many seconds the store is away, and how many processes work on the runs."""
FASTER = 1 if EVERYWHERE else 20
"""Lease and absence are both so many times shorter than in a deployment."""
ROUNDS = 12
FLOWS = 20
HOUR_S = 3600
MOMENT_S = 0.02


class World:
    """What the tools have done, and whether the store has gone."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.done: Counter[str] = Counter()
        self.is_gone = asyncio.Event()
        self.waiting: set[str] = set()
        """Who has come to its last round, which nobody gets through before the store has gone."""

    async def reach(self, run: str, number: int) -> None:
        if number == ROUNDS - 1:
            self.waiting.add(run)
            await self.is_gone.wait()


WORLD = World()


@tool(effect="once")
async def book(what: str, key: str) -> str:
    WORLD.done[what] += 1
    await asyncio.sleep(MOMENT_S / 4)
    return what


@step
async def price(number: int) -> int:
    await asyncio.sleep(MOMENT_S / 4)
    return number


@step
async def reach(run: str, number: int) -> int:
    await WORLD.reach(run, number)
    return number


@step
async def never() -> int:
    await asyncio.Event().wait()
    return 0


async def booked(ctx: Context, number: int, half: str) -> str:
    await reach(ctx.run_id, number)
    said: str = await ctx.tool("book", {"what": f"{ctx.run_id} {number} {half}"})
    return said


@flow(tools=[book])
async def in_sequence(ctx: Context) -> int:
    for number in range(ROUNDS):
        await booked(ctx, number, "a")
        await booked(ctx, number, "b")
    return ROUNDS


@flow(tools=[book])
async def branches(ctx: Context) -> int:
    for number in range(ROUNDS):
        await ctx.gather(booked(ctx, number, "a"), booked(ctx, number, "b"), price(number))
    return ROUNDS


@flow(tools=[book])
async def gathered(ctx: Context) -> int:
    for number in range(ROUNDS):
        await asyncio.gather(booked(ctx, number, "a"), booked(ctx, number, "b"), price(number))
    return ROUNDS


@flow(tools=[book])
async def grouped(ctx: Context) -> int:
    for number in range(ROUNDS):
        async with asyncio.TaskGroup() as group:
            group.create_task(booked(ctx, number, "a"))
            await booked(ctx, number, "b")
    return ROUNDS


@flow(tools=[book])
async def timers(ctx: Context) -> int:
    for number in range(ROUNDS):
        await ctx.sleep(MOMENT_S)
        await booked(ctx, number, "a")
        await asyncio.gather(asyncio.sleep(MOMENT_S), ctx.sleep(MOMENT_S))
        await booked(ctx, number, "b")
    return ROUNDS


@flow(tools=[book])
async def limited(ctx: Context) -> int:
    for number in range(ROUNDS):
        await asyncio.wait_for(booked(ctx, number, "a"), HOUR_S)
        try:
            async with asyncio.timeout(MOMENT_S):
                await ctx.wait_signal("never")
        except TimeoutError:
            await booked(ctx, number, "b")
    return ROUNDS


@flow(tools=[book])
async def raced(ctx: Context) -> int:
    for number in range(ROUNDS):
        racers = [asyncio.create_task(each) for each in (never(), booked(ctx, number, "a"))]
        _, slow = await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
        for racer in slow:
            racer.cancel()
        await booked(ctx, number, "b")
    return ROUNDS


@flow(tools=[book])
async def spoken_to(ctx: Context) -> int:
    """Its child sends it what it waits for."""
    for number in range(ROUNDS):
        speaking = asyncio.create_task(ctx.child(speaker, {"to": ctx.run_id, "number": number}))
        assert await ctx.wait_signal(f"word {number}") == number
        await booked(ctx, number, "a")
        await speaking
        await booked(ctx, number, "b")
    return ROUNDS


@flow
async def speaker(ctx: Context, to: str, number: int) -> int:
    await ctx.signal(to, f"word {number}", number)
    return await price(number)


async def item(ctx: Context, half: str) -> str:
    return await booked(ctx, ROUNDS, half)


@flow(tools=[book])
async def mapped(ctx: Context) -> int:
    """A map in the middle, a child and bookings of its own around it."""
    for number in range(ROUNDS):
        async with asyncio.timeout(HOUR_S):
            await booked(ctx, number, "a")
        await booked(ctx, number, "b")
        if number == ROUNDS // 2:
            await ctx.map(item, ["a", "b"], max_parallel=2)
    return ROUNDS


@flow(tools=[book])
async def as_they_come(ctx: Context) -> int:
    lock = asyncio.Lock()

    async def locked(number: int, half: str) -> str:
        async with lock:
            return await booked(ctx, number, half)

    for number in range(ROUNDS):
        made = [asyncio.create_task(locked(number, half)) for half in "ab"]
        for coming in asyncio.as_completed(made):
            await coming
    return ROUNDS


def graph(number: int) -> Workflow:
    wf = Workflow(f"graph-{number}")

    @task(tools=[book])
    async def begin(state: object, ctx: Context) -> None:
        await ctx.sleep(MOMENT_S)
        await WORLD.reach(ctx.run_id, ROUNDS - 1)

    wf.node("begin")(begin)
    for half in "ab":
        wf.node(half)(tool_node(name=book)(lambda state, half=half: {"what": f"{state.run_id} 0 {half}"}))
        wf.edge("begin", half)
        wf.edge(half, "end")
    wf.node("end")(task(lambda state: ROUNDS))
    return wf


SHAPES: list[Workflow] = [in_sequence, branches, gathered, grouped, timers, limited, raced, spoken_to, mapped, as_they_come]
GRAPHS = [graph(number) for number in range(12)]


@asynccontextmanager
async def engines(url: str, count: int, workflows: list[Workflow]) -> AsyncIterator[list[Engine]]:
    async with AsyncExitStack() as stack:
        made = []
        for _ in range(count):
            store = await PostgresStore.connect(url, lease_s=LEASE_S / FASTER)
            stack.push_async_callback(store.aclose)
            made.append(await stack.enter_async_context(Engine.open(store, workflows=workflows)))
        yield made


async def put_away(server: PostgresServer, away_s: float) -> None:
    await asyncio.to_thread(server.stop, signal.SIGQUIT)
    WORLD.is_gone.set()
    await asyncio.sleep(away_s)
    await asyncio.to_thread(server.restart)


def expected(run: Run, workflow: Workflow) -> dict[str, int]:
    rounds = 1 if workflow.name.startswith("graph") else ROUNDS + (workflow.name == "mapped")
    return {f"{run.id} {number} {half}": 1 for number in range(rounds) for half in "ab"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("away_s", "processes"),
    [*CASES, *((away_s, 3 - processes) for away_s, processes in (case.values for case in CASES) if EVERYWHERE)],
)
async def test_twenty_flows_and_twelve_graphs_complete_after_the_store_was_away(
    own: PostgresServer, away_s: int, processes: int
) -> None:
    WORLD.begin()
    async with asyncio.timeout(away_s + 2 * MAX_S), engines(own.url, processes, [*SHAPES, speaker, *GRAPHS]) as made:
        begun = [(workflow, str(number)) for number in range(FLOWS // len(SHAPES)) for workflow in SHAPES]
        begun += [(workflow, "graph") for workflow in GRAPHS]
        runs = [(await started(made[-1], workflow, f"{workflow.name} {key}"), workflow) for workflow, key in begun]
        assert len(runs) == FLOWS + len(GRAPHS)
        await eventually(lambda: len(WORLD.waiting) > len(GRAPHS) + FLOWS // 4)
        await put_away(own, away_s / FASTER)
        for run, _ in runs:
            assert await result(run) == ROUNDS
            await assert_whole(run)
            assert not list(await events_of(run, ev.StepFailed))
    wanted: dict[str, int] = {}
    for run, workflow in runs:
        wanted |= expected(run, workflow)
    assert WORLD.done == wanted
