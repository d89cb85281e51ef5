"""A database that goes away under load, and replies that are lost: every run ends, and the world was changed once each.

The judge is what the tools and the model server have seen, not what the store says.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast import Context, Engine, Run, Workflow, flow, llm_node, task, tool, tool_node
from holdfast.core.facts import events as ev
from holdfast.engine.runs.mailbox import PATIENCE_S
from holdfast.errors import StoreError
from holdfast.models.providers import Providers
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.model_server import ModelServer
from holdfast.testing.postgres_server import FAST, PostgresServer
from holdfast.testing.tcp_proxy import TcpProxy
from tests.engine.history import events_of
from tests.engine.kit import bounded
from tests.faults.test_failover import Pair, pair, version
from tests.stores.test_postgres import COMMIT, proxy

__all__ = ["pair", "proxy", "version"]

RUNS = 200


def errand(world: Counter[str]) -> Workflow:
    """A step, an effect that must happen once, and a step."""
    wf = Workflow("errand")

    @tool(effect="once")
    async def post(what: str, key: str) -> str:
        world[what] += 1
        await asyncio.sleep(0)
        return what

    wf.node("think")(task(lambda state: state.run_id))
    wf.node("post")(tool_node(name=post)(lambda state: {"what": state.run_id}))
    wf.node("note")(task(lambda state: state.events["post"].output))
    wf.edge("think", "post")
    wf.edge("post", "note")
    return wf


@asynccontextmanager
async def engine_on(url: str, **options: object) -> AsyncIterator[Engine]:
    store = await PostgresStore.connect(url)
    try:
        async with asyncio.timeout(100), Engine.open(store, **options) as engine:  # type: ignore[arg-type]
            yield engine
    finally:
        await store.aclose()


async def started(engine: Engine, wf: Workflow, key: str, given: object = None) -> Run:
    """Start a run for certain: again under the same key, for as long as the store is away."""
    while True:
        try:
            return await engine.start(wf, given, key=key)
        except StoreError:
            await asyncio.sleep(0.1)


async def result(run: Run) -> object:
    while True:
        try:
            return await run.result()
        except StoreError:
            await asyncio.sleep(0.1)


async def assert_whole(run: Run) -> None:
    """A gap-free history whose attempts only ever go up."""
    recorded = await run.events()
    assert [each.seq for each in recorded] == list(range(1, len(recorded) + 1))
    attempts: dict[str, int] = {}
    for start in await events_of(run, ev.StepStarted):
        assert start.attempt > attempts.get(start.step, 0)
        attempts[start.step] = start.attempt


@pytest.fixture
def own() -> Iterator[PostgresServer]:
    with PostgresServer(settings=FAST) as server:
        yield server


@pytest.mark.parametrize(
    "away_s",
    [0.0, pytest.param(PATIENCE_S + 3, marks=pytest.mark.long)],
    ids=["restarted", "away for longer than a command waits"],
)
async def test_server_stops_in_the_middle_lose_no_run_and_repeat_no_effect(own: PostgresServer, away_s: float) -> None:
    world: Counter[str] = Counter()
    wf = errand(world)
    async with engine_on(own.url, workflows=[wf]) as engine:
        starting = [asyncio.create_task(started(engine, wf, f"key {n}")) for n in range(RUNS)]
        for stop in range(1, 2 if away_s else 4):
            while sum(world.values()) < stop * RUNS // 5:
                await asyncio.sleep(0.005)
            await asyncio.to_thread(own.stop, signal.SIGQUIT)
            acknowledged = [each.result().id for each in starting if each.done()]
            await asyncio.sleep(away_s)
            await asyncio.to_thread(own.restart)
        runs = await asyncio.gather(*starting)
        assert len({run.id for run in runs}) == RUNS
        assert set(acknowledged) <= {run.id for run in runs}
        assert [await result(run) for run in runs] == [run.id for run in runs]
        for run in runs:
            await assert_whole(run)
    assert world == dict.fromkeys([run.id for run in runs], 1)


@bounded
@pytest.mark.long
async def test_who_watches_hears_each_value_once_though_the_server_stops_in_the_middle(own: PostgresServer) -> None:
    """And the one who writes: what was on its way is brought again."""

    @flow
    async def counts(ctx: Context, count: int) -> str:
        for number in range(count):
            await ctx.stream("progress").write(number)
            await asyncio.sleep(0.002)
        return "done"

    heard: list[int] = []
    async with engine_on(own.url, workflows=[counts]) as engine, engine_on(own.url, execute=False) as elsewhere:
        run = await engine.start(counts, 600)

        async def watch() -> None:
            cursor = "start"
            while True:
                try:
                    async for told in elsewhere.watch_stream(run.id, since=cursor):
                        heard.append(told.value)
                        cursor = told.cursor
                except StoreError:
                    await asyncio.sleep(0.05)  # he comes back with his cursor
                else:
                    return

        watching = asyncio.create_task(watch())
        for stop in (1, 2):
            while len(heard) < stop * 150:
                await asyncio.sleep(0.002)
            await asyncio.to_thread(own.stop, signal.SIGQUIT)
            await asyncio.to_thread(own.restart)
        await watching
        assert await result(run) == "done"
    assert heard == list(range(600))


@bounded
async def test_runs_go_on_over_a_network_that_loses_replies_and_do_nothing_twice(
    database: str, proxy: TcpProxy, tmp_path: Path
) -> None:
    """Tools and model calls: what has been paid for is not asked for again."""
    chance = random.Random(7)
    world: Counter[str] = Counter()
    wf = errand(world)
    wf.node("ask")(llm_node(model="claude-haiku-4-5", max_tokens=50)(lambda state: f"Summarise {state.run_id}"))
    wf.edge("note", "ask")
    with ModelServer(journal=tmp_path / "calls.jsonl") as server:
        model = Providers(environment=server.environment)
        url = database.replace(f":{proxy.server_port}/", f":{proxy.port}/")
        async with engine_on(url, workflows=[wf], model=model) as engine:
            starting = [asyncio.create_task(started(engine, wf, f"key {n}")) for n in range(40)]

            async def harm() -> None:
                proxy.lose_reply_to(COMMIT)
                while True:
                    await asyncio.sleep(chance.uniform(0.2, 0.8))
                    chance.choice([proxy.cut, lambda: proxy.lose_reply_to(COMMIT)])()

            harming = asyncio.create_task(harm())
            runs = await asyncio.gather(*starting)
            for run in runs:
                await result(run)
            harming.cancel()
            for run in runs:
                await assert_whole(run)
        calls = (tmp_path / "calls.jsonl").read_text()
    assert world == dict.fromkeys([run.id for run in runs], 1)
    assert [calls.count(f"Summarise {run.id}") for run in runs] == [1] * len(runs)
    assert proxy.lost > 0


async def test_invariant_07_attempts_go_up_and_effects_happen_once_across_a_failover(pair: Pair) -> None:
    """The standby has not got the last of it when the primary dies; nothing of that was acknowledged, nor acted upon."""
    world: Counter[str] = Counter()
    wf = errand(world)
    async with engine_on(pair.url, workflows=[wf]) as engine:
        starting = [asyncio.create_task(started(engine, wf, f"key {n}")) for n in range(60)]
        while sum(world.values()) < 10:
            await asyncio.sleep(0.005)
        pair.wire.silent = True
        await pair.waits()
        acknowledged = [each.result().id for each in starting if each.done()]
        await asyncio.to_thread(pair.fail_over)
        runs = await asyncio.gather(*starting)
        assert set(acknowledged) <= {run.id for run in runs}
        assert [await result(run) for run in runs] == [run.id for run in runs]
        for run in runs:
            await assert_whole(run)
    assert world == dict.fromkeys([run.id for run in runs], 1)


@bounded
async def test_runs_behind_a_transaction_pooler_complete_each_effect_once(pooled_database: str) -> None:
    world: Counter[str] = Counter()
    wf = errand(world)
    async with engine_on(pooled_database, workflows=[wf]) as one, engine_on(pooled_database, workflows=[wf]) as two:
        runs = await asyncio.gather(*(started(chosen, wf, f"key {n}") for n in range(30) for chosen in (one, two)))
        assert len({run.id for run in runs}) == 30, "a key belongs to one run, whoever starts it"
        assert [await result(run) for run in runs] == [run.id for run in runs]
    assert world == dict.fromkeys([run.id for run in runs], 1)
