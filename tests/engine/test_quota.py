"""Model calls and their provider's limits: a call waits for its pools before anything is held for it, and does not fail."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast import Engine, Run, RunFailed, Workflow, llm_node
from holdfast.core.events import AttemptFailed, ModelCallFailed, ModelCallHeld
from holdfast.core.quota import Pool, Standing
from holdfast.errors import UsageError
from holdfast.machine import MachineClock
from holdfast.models.providers import Providers
from holdfast.models.quota import Lent, Limits, Quotas
from holdfast.pools.book import Book
from holdfast.pools.borrower import Borrower
from holdfast.ports import ModelRequest, Usage, UserTurn
from holdfast.settings import PoolLimits, Settings, load
from holdfast.testing.model_server import Fault, ModelServer, RateLimit, Rule
from tests.engine.history import events_of
from tests.engine.kit import die, opened
from tests.engine.test_model_calls import HAIKU, NANO, one

ROOT = Path(__file__).resolve().parents[2]


def limited(**limits: Any) -> Settings:
    """The pools of one model, counted in the process."""
    return Settings(pool_limits={HAIKU: PoolLimits(**limits)})


async def results(engine: Engine, workflow: Workflow, count: int) -> list[Run]:
    runs = [await engine.start(workflow) for _ in range(count)]
    await asyncio.gather(*(run.result() for run in runs))
    return runs


# --- Waiting ----------------------------------------------------------------------------------------------------------


async def test_a_call_that_its_provider_refuses_until_later_waits_and_is_made_again(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(times=1, fault=Fault("status", status=429, retry_after_s=1)))
    async with opened(
        store, workflows=[workflow := one()], model=model, settings=limited(requests_per_min=6_000)
    ) as engine:
        (run,) = await results(engine, workflow, 1)
        assert await events_of(run, AttemptFailed) == [], "nobody's retries are used up"
        assert [type(event) for event in await events_of(run, ModelCallHeld, ModelCallFailed)] == [
            ModelCallHeld, ModelCallFailed, ModelCallHeld,
        ]  # fmt: skip
    first, second = server.calls
    assert (first.status, second.status) == (429, 200)
    assert second.at_unix_s - first.at_unix_s >= 1.0


async def test_a_429_closes_the_pool_for_every_call_of_the_model(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(times=1, fault=Fault("status", status=429, retry_after_s=1)))
    async with opened(
        store, workflows=[workflow := one()], model=model, settings=limited(requests_per_min=60_000)
    ) as engine:
        first = await engine.start(workflow)
        while not server.calls:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        await results(engine, workflow, 3)
        await first.result()
    refused, *others = server.calls
    assert all(call.at_unix_s - refused.at_unix_s >= 1.0 for call in others)
    assert [call.status for call in others] == [200] * 4


async def test_a_wait_for_quota_holds_no_money(store: str, server: ModelServer, model: Providers) -> None:
    settings = limited(requests_per_min=60, burst_s=1.0)
    async with opened(store, workflows=[workflow := one()], model=model, settings=settings) as engine:
        runs = [await engine.start(workflow) for _ in range(2)]
        done, waiting = await asyncio.wait(
            [asyncio.create_task(run.result()) for run in runs], return_when="FIRST_COMPLETED"
        )
        assert len(done) == 1
        (state,) = [state for run in runs if not (state := await run.state()).ended]
        assert (state.budget.held_nanousd, state.calls) == (0, {})
        await asyncio.wait(waiting)
    assert [call.status for call in server.calls] == [200, 200]


async def test_no_more_calls_are_in_flight_than_a_provider_takes_at_once(tmp_path: Path, store: str) -> None:
    limit = {HAIKU: RateLimit(concurrent=2)}
    with ModelServer(journal=tmp_path / "calls.jsonl", latency_s=0.1, limits=limit) as server:
        model = Providers(environment=server.environment)
        async with opened(store, workflows=[workflow := one()], model=model, settings=limited(concurrent=2)) as engine:
            await results(engine, workflow, 8)
        assert [call.status for call in server.calls] == [200] * 8
        await model.aclose()


async def test_without_pools_the_same_provider_refuses(tmp_path: Path, store: str) -> None:
    """The witness of the test above can speak."""
    limit = {HAIKU: RateLimit(concurrent=2)}
    with ModelServer(journal=tmp_path / "calls.jsonl", latency_s=0.4, limits=limit) as server:
        model = Providers(environment=server.environment)
        async with opened(store, workflows=[workflow := one()], model=model, settings=Settings()) as engine:
            await results(engine, workflow, 8)
        assert 429 in [call.status for call in server.calls]
        await model.aclose()


async def test_a_call_that_has_no_money_gives_its_quota_back(store: str, server: ModelServer, model: Providers) -> None:
    settings = limited(concurrent=1, tokens_per_min=600)
    async with opened(store, workflows=[workflow := one()], model=model, settings=settings) as engine:
        poor = await engine.start(workflow, cost_limit_usd="0.000001")
        state = await poor.settled()
        assert state.gates
        rich = await engine.start(workflow)
        await asyncio.wait_for(rich.result(), 5)


async def test_a_call_that_fails_for_good_gives_its_place_back(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(times=1, fault=Fault("status", status=400)))
    async with opened(store, workflows=[workflow := one()], model=model, settings=limited(concurrent=1)) as engine:
        with pytest.raises(RunFailed):
            await (await engine.start(workflow)).result()
        await asyncio.wait_for((await engine.start(workflow)).result(), 5)


async def test_invariant_26_a_limit_holds_while_a_live_process_is_wrongly_declared_dead(
    tmp_path: Path, database: str
) -> None:
    """Its call is still in flight when its successor makes it again: the provider takes one at a time, and never refuses."""
    settings = Settings(pools=database, pool_limits={HAIKU: PoolLimits(concurrent=1)})
    with ModelServer(
        journal=tmp_path / "calls.jsonl", latency_s=2.0, limits={HAIKU: RateLimit(concurrent=1)}
    ) as server:
        model, workflow = Providers(environment=server.environment), one()
        options: dict[str, Any] = {"workflows": [workflow], "model": model, "settings": settings}
        async with opened(database, **options) as declared_dead, opened(database, **options) as successor:
            run = await declared_dead.start(workflow)
            while not server.calls:
                await asyncio.sleep(0.01)
            await die(declared_dead)
            await asyncio.wait_for(successor.run(run.id).result(), 15)
        assert [call.status for call in server.calls] == [200, 200]
        first, second = server.calls
        assert second.at_unix_s - first.at_unix_s >= 2.0
        await model.aclose()


# --- How much ---------------------------------------------------------------------------------------------------------


def request(model: str = HAIKU, max_tokens: int = 100, timeout_s: float = 600.0) -> ModelRequest:
    return ModelRequest(model, "", (UserTurn("?"),), max_tokens, timeout_s=timeout_s)


def quotas(limits: Mapping[str, Limits]) -> tuple[Quotas, Borrower]:
    clock = MachineClock()
    borrower = Borrower(Book(clock), clock, "tester")
    return Quotas(limits, borrower, clock), borrower


async def lent(found: Quotas, input_bound: int, **options: Any) -> Lent:
    got = await found.reserve(request(**options), input_bound)
    assert got is not None
    return got


def amount(got: Lent, pool: str) -> int:
    return next(want.amount for want in got.shares.wants if want.pool.name == pool)


async def test_the_input_is_estimated_by_what_earlier_replies_turned_out_to_be() -> None:
    found, borrower = quotas({HAIKU: Limits(tokens_per_min=10_000_000, burst_s=60)})
    pool = f"{HAIKU}/tokens"
    first = await lent(found, 1_000)
    assert amount(first, pool) == 1_000 + 100, "before the first reply nothing but the bound is certain"
    found.used(first, HAIKU, Usage(250, 10))
    second = await lent(found, 1_000)
    assert amount(second, pool) == 275 + 100
    found.used(second, HAIKU, Usage(500, 10))
    third = await lent(found, 1_000)
    assert amount(third, pool) == 550 + 100, "more counts at once"
    found.used(third, HAIKU, Usage(250, 10))
    assert amount(await lent(found, 1_000), pool) > 500 + 100, "less is believed slowly"
    await borrower.aclose()


async def test_what_a_reply_did_not_use_comes_back_and_what_it_used_beyond_is_charged() -> None:
    found, borrower = quotas({HAIKU: Limits(tokens_per_min=60, input_tokens_per_min=60_000, burst_s=60)})
    got = await lent(found, 20, max_tokens=30)
    found.used(got, HAIKU, Usage(5, 5))
    found.used(got, HAIKU, None)
    assert 48 <= left(await shown(borrower, f"{HAIKU}/tokens"), 60) <= 52
    got = await lent(found, 20, max_tokens=10)
    found.used(got, HAIKU, Usage(40, 0))
    assert left(await shown(borrower, f"{HAIKU}/tokens"), 60) < 15
    await borrower.aclose()


async def shown(borrower: Borrower, name: str) -> Standing:
    await asyncio.sleep(0.05)
    (found,) = await borrower.show([Pool(name, "rate", 1)])
    return found


def left(found: Standing, per_min: int) -> float:
    return min(60.0, (found.now_us - found.empty_at_us) / 1e6) * per_min / 60


async def test_models_of_one_provider_share_what_is_given_for_it_or_for_its_key() -> None:
    limits = Limits(requests_per_min=600, burst_s=60)
    own, borrower = quotas({"anthropic": limits, "ANTHROPIC_API_KEY": limits, HAIKU: limits})
    names = [want.pool.name for want in (await lent(own, 10)).shares.wants]
    assert names == [f"{HAIKU}/requests", "anthropic/requests", "ANTHROPIC_API_KEY/requests"]
    other = await own.reserve(request("claude-sonnet-4-5"), 10)
    assert other is not None
    assert [want.pool.name for want in other.shares.wants] == ["anthropic/requests", "ANTHROPIC_API_KEY/requests"]
    assert await own.reserve(request(NANO), 10) is None, "nothing limits it"
    own.close(await lent(own, 10), HAIKU, 60.0, 0)
    assert await asyncio.wait_for(own.reserve(request("claude-sonnet-4-5"), 10), 2) is not None
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(own.reserve(request(), 10), 0.3)
    await borrower.aclose()


async def test_a_call_may_take_no_longer_than_its_place_is_lent() -> None:
    found, borrower = quotas({HAIKU: Limits(concurrent=1, burst_s=1, lease_s=40.0)})
    got = await lent(found, 10)
    assert got.timeout_s == 40.0 - 15.0
    assert found.in_time(got)
    got.timeout_s += 10.5
    assert not found.in_time(got), "it was lent so long ago that its request would outlive it"
    await borrower.aclose()


# --- A cheaper way ----------------------------------------------------------------------------------------------------


async def test_a_cheaper_model_that_money_forces_waits_for_its_own_pools(
    store: str, server: ModelServer, model: Providers
) -> None:
    workflow = Workflow("cheaper", cost_limit_usd="0.002")

    @workflow.node("ask")
    @llm_node(model="claude-opus-4-5", max_tokens=100, cheaper_models=(HAIKU,))
    async def ask(state: Any) -> str:
        return "Which?"

    settings = Settings(
        pool_limits={"claude-opus-4-5": PoolLimits(concurrent=1), HAIKU: PoolLimits(requests_per_min=60, burst_s=1)}
    )
    async with opened(store, workflows=[workflow], model=model, settings=settings) as engine:
        began = time.monotonic()
        await results(engine, workflow, 3)
        assert time.monotonic() - began > 1.8, "the second and the third wait for the cheaper one's requests"
    assert [(call.model, call.status) for call in server.calls] == [(HAIKU, 200)] * 3


# --- Settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('[pools."claude-x"]\nburst_s = 1', "limits nothing"),
        ('[pools."claude-x"]\nrequests_per_min = 0', "requests_per_min"),
        ('[pools."claude-x"]\nrequests_a_min = 5', "requests_a_min"),
        ('[pools."claude-x"]\nconcurrent = 2\nlease_s = 1', "lease_s"),
        ("pools = 3", "pool_limits"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(tmp_path: Path, table: str, says: str) -> None:
    (tmp_path / "holdfast.toml").write_text(table)
    with pytest.raises(UsageError, match=says):
        load(tmp_path)


def test_limits_are_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text('[pools."anthropic:claude-x"]\nrequests_per_min = 50\nconcurrent = 4\n')
    assert load(tmp_path).pool_limits == {"anthropic:claude-x": PoolLimits(requests_per_min=50, concurrent=4)}


def test_pools_are_counted_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_POOLS", "redis://127.0.0.1:6379/0")
    assert load(tmp_path).pools == "redis://127.0.0.1:6379/0"
    monkeypatch.setenv("HOLDFAST_POOLS", "memcached://here")
    with pytest.raises(UsageError, match="process, store, redis"):
        load(tmp_path)


async def test_a_store_that_cannot_count_pools_is_refused(tmp_path: Path) -> None:
    settings = Settings(pools="store", pool_limits={HAIKU: PoolLimits(concurrent=1)})
    with pytest.raises(UsageError, match="HOLDFAST_POOLS=store"):
        async with Engine.open(tmp_path / "holdfast.db", settings=settings):
            pass


# --- A fleet ----------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(180)
@pytest.mark.parametrize("pools", ["redis", "postgres"])
def test_workers_share_a_limit_and_are_never_refused(pools: str) -> None:
    """The short form of `bench/pools.py`, counted from the provider's journal. How much of the limit is used is measured
    there: it depends on how fast the machine is."""
    limits = ["--requests-per-min", "480", "--tokens-per-min", "60000"]
    trial = subprocess.run(
        [sys.executable, "bench/pools.py", pools, "3", "--workers", "4", *limits], cwd=ROOT, capture_output=True, text=True, timeout=170,
    )  # fmt: skip
    assert trial.returncode == 0, trial.stderr
    found = json.loads(trial.stdout)
    assert (found["refused"], found["failed"]) == (0, 0)
    assert min(found["used"].values()) > 0
