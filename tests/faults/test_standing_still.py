"""A process alone that stands still, or is without its store, for longer than its lease: nobody finds it dead, and it goes on.

The judges are the results, what the tools have done, and how long the store was away.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from holdfast import Context, Engine, Workflow, flow, step, tool
from holdfast.core.facts import events as ev
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.postgres_server import FAST, PostgresServer
from tests.engine.history import events_of
from tests.engine.kit import bounded, opened
from tests.faults import stander
from tests.faults.test_server_faults import assert_whole, errand, result, started
from tests.forks import AsyncFork

LEASE_S = 0.5


async def stands(process: AsyncFork) -> bool:
    """Wait until a process stands still; false where it has ended."""
    while process.poll() is None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
                return True
        await asyncio.sleep(0.005)
    return False


@bounded
async def test_a_process_alone_that_stands_still_past_its_lease_goes_on_wherever_it_stood(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    process = await AsyncFork.start("tests.faults.stander", path, LEASE_S)
    try:
        stood = 0
        while await stands(process):
            stood += 1
            await asyncio.sleep(1.5 * LEASE_S)  # longer than its lease is what is tested
            process.send_signal(signal.SIGCONT)
        said, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
    finally:
        process.kill()
    assert stood == len(stander.PLACES), errors.decode()
    lines = said.decode().splitlines()
    assert lines == [f"said {stander.expected(5)}", f"world { {'item 3': 1, 'item 4': 1} }"]
    kinds = Counter(row[0] for row in sqlite3.connect(path).execute("select type from events"))
    assert kinds["AttemptLost"] == 0, "an attempt whose session lives is not lost"


@pytest.fixture
def own() -> Iterator[PostgresServer]:
    with PostgresServer(settings=FAST) as server:
        yield server


def load(world: Counter[str]) -> dict[str, Workflow]:
    """Every kind of work whose outcomes are recorded."""

    @step
    async def price(number: int) -> int:
        await asyncio.sleep(0.002)
        return number

    @tool(effect="once")
    async def book(what: str, key: str) -> str:
        world[what] += 1
        await asyncio.sleep(0)
        return what

    @flow
    async def steps(ctx: Context, count: int) -> int:
        return sum([await price(number) for number in range(count)])

    @flow
    async def streams(ctx: Context, count: int) -> int:
        for number in range(count):
            await ctx.stream("progress").write(number)
            await asyncio.sleep(0.002)
        return count

    async def seat(ctx: Context, number: int) -> int:
        await ctx.tool("book", {"what": f"{ctx.run_id} {number}"})
        await ctx.stream("seats").write(number)
        return number

    @flow(tools=[book])
    async def maps(ctx: Context, count: int) -> int:
        return sum(await ctx.map(seat, [*range(count)], max_parallel=4))

    @flow
    async def child(ctx: Context, count: int) -> int:
        return sum([await price(number) for number in range(count)])

    @flow
    async def children(ctx: Context, count: int) -> int:
        return sum(await ctx.gather(*(ctx.child(child, count // 4) for _ in range(3))))

    return {wf.name: wf for wf in (steps, streams, maps, child, children)}


@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.long), 2])
@bounded
async def test_runs_of_every_kind_end_after_their_store_was_away_for_longer_than_the_lease(
    own: PostgresServer, processes: int
) -> None:
    """Twice; nobody can find a session dead meanwhile, and the first who can may be its own process."""
    world: Counter[str] = Counter()
    workflows = load(world)
    graph = errand(world)
    async with AsyncExitStack() as stack:
        engines: list[Engine] = []
        for _ in range(processes):
            store = await PostgresStore.connect(own.url, lease_s=LEASE_S)
            stack.push_async_callback(store.aclose)
            engines.append(await stack.enter_async_context(opened(store, workflows=[*workflows.values(), graph])))
        runs = [
            await started(engines[0], workflows[name], f"{name} {number}", 300)
            for name in ("steps", "streams", "maps", "children")
            for number in range(3)
        ]
        for number in range(2):
            await asyncio.to_thread(own.stop, signal.SIGQUIT)
            await asyncio.sleep(2 * LEASE_S)  # longer than the lease is what is tested
            await asyncio.to_thread(own.restart)
            runs.append(await started(engines[0], graph, f"after {number}"))
        for run in runs:
            await result(run)
            await assert_whole(run)
        for run in runs:
            assert not list(await events_of(run, ev.StepFailed))
    assert max(world.values()) == 1, "nothing was done twice"
    assert len(world) == 3 * 300 + 2
