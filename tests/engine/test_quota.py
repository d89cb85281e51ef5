"""Model calls and their provider's limits: a call waits for its pools before anything is held for it, and does not fail."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast import Engine, RetryPolicy, Run, RunFailed, Workflow, llm_node, task
from holdfast.compose.from_settings import pools_of
from holdfast.core.capacity.lending import DeclaredPool
from holdfast.core.facts.commands import HoldModelCall
from holdfast.core.facts.events import AttemptFailed, Event, ModelCallFailed, ModelCallHeld, PoolsAwaited
from holdfast.core.views.status import status, waiting_for
from holdfast.engine.attempts.attempt import Attempt
from holdfast.errors import UsageError
from holdfast.models.providers import Providers
from holdfast.ports import Append
from holdfast.service import view
from holdfast.settings import PoolRules, Settings, load
from holdfast.testing.model_server import Fault, ModelServer, RateLimit, Rule
from tests.engine.history import events_of
from tests.engine.kit import carry_by, die, eventually, opened
from tests.engine.test_model_calls import HAIKU, one

ROOT = Path(__file__).resolve().parents[2]


def limited(**limits: Any) -> Settings:
    """The pools of one model."""
    return Settings(pools={HAIKU: PoolRules(**limits)})


async def results(engine: Engine, workflow: Workflow, count: int) -> list[Run]:
    runs = [await engine.start(workflow) for _ in range(count)]
    await asyncio.gather(*(run.result() for run in runs))
    return runs


# --- Waiting ----------------------------------------------------------------------------------------------------------


async def test_a_call_that_its_provider_refuses_until_later_waits_and_is_made_again(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(times=1, fault=Fault("status", status=429, retry_after_s=1)))
    async with opened(store, workflows=[workflow := one()], model=model, settings=limited(requests_per_min=6_000)) as engine:
        (run,) = await results(engine, workflow, 1)
        assert await events_of(run, AttemptFailed) == [], "nobody's retries are used up"
        assert [type(event) for event in await events_of(run, ModelCallHeld, ModelCallFailed)] == [
            ModelCallHeld,
            ModelCallFailed,
            ModelCallHeld,
        ]
    first, second = server.calls
    assert (first.status, second.status) == (429, 200)
    assert second.at_unix_s - first.at_unix_s >= 1.0


async def test_a_429_closes_the_pool_for_every_call_of_the_model(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(times=1, fault=Fault("status", status=429, retry_after_s=1)))
    async with opened(store, workflows=[workflow := one()], model=model, settings=limited(requests_per_min=60_000)) as engine:
        first = await engine.start(workflow)
        while not await events_of(first, ModelCallFailed):  # the pool is closed before that is written down
            await asyncio.sleep(0.01)
        await results(engine, workflow, 3)
        await first.result()
    refused, *others = server.calls
    assert all(call.at_unix_s - refused.at_unix_s >= 1.0 for call in others)
    assert [call.status for call in others] == [200] * 4


async def test_a_wait_for_quota_holds_no_money(store: str, server: ModelServer, model: Providers) -> None:
    settings = limited(requests_per_min=60, burst_s=1.0)
    async with opened(store, workflows=[workflow := one()], model=model, settings=settings) as engine:
        runs = [await engine.start(workflow) for _ in range(2)]
        done, waiting = await asyncio.wait([asyncio.create_task(run.result()) for run in runs], return_when="FIRST_COMPLETED")
        assert len(done) == 1
        (state,) = [state for run in runs if not (state := await run.state()).ended]
        assert (state.budget.held_nanousd, state.calls) == (0, {})
        await asyncio.wait(waiting)
    assert [call.status for call in server.calls] == [200, 200]


async def test_a_process_that_ends_leaves_nothing_of_a_pool_behind(store: str, server: ModelServer, model: Providers) -> None:
    for _ in range(3):
        async with opened(
            store, workflows=[workflow := one()], model=model, settings=limited(concurrent=1, requests_per_min=6_000)
        ) as engine:
            (run,) = await results(engine, workflow, 1)
            assert await events_of(run, PoolsAwaited) == [], "nothing that has ended is waited for"


async def test_a_call_that_waits_for_its_pools_holds_no_slot_and_says_what_it_waits_for(
    store: str, server: ModelServer, model: Providers
) -> None:
    plain = Workflow("plain")
    plain.node("only")(task(lambda state: None))
    settings = limited(requests_per_min=1)
    async with opened(store, workflows=[calls := one(), plain], model=model, settings=settings, slots=1) as engine:
        await (await engine.start(calls)).result()
        waiting = [await engine.start(calls) for _ in range(3)]
        states = [await run.until(lambda state: "pool" in [wait.kind for wait in waiting_for(state)]) for run in waiting]
        while not (why := await engine.why(waiting[0].id)) or why[0].refills_at_ms is None:
            await asyncio.sleep(0.05)
        reason, in_ms = why[0].reason, why[0].refills_at_ms - engine.store.clock.now_ms()
        assert (reason.waits_for, reason.pool, reason.limit) == ("pool", f"{HAIKU}/requests", 1)
        assert 0 < in_ms <= 61_000
        for state in states:
            (wait,) = waiting_for(state)
            assert (wait.kind, wait.reason, wait.about) == ("pool", "reservation", f"{HAIKU}/requests")
            assert (status(state), state.calls) == ("running", {})
        await (await engine.start(plain)).result()
        await engine.set_pool(f"{HAIKU}/requests", rate=6000, per_s=60, counts="requests", of=HAIKU)
        await asyncio.gather(*(run.result() for run in waiting))
        assert [waiting_for(await run.state()) for run in waiting] == [[], [], []]
    assert [call.status for call in server.calls] == [200] * 4


async def test_a_rate_lists_the_calls_that_wait_for_it_as_each_says_itself(
    store: str, server: ModelServer, model: Providers
) -> None:
    name = f"{HAIKU}/requests"
    async with opened(store, workflows=[workflow := one()], model=model, settings=limited(requests_per_min=1)) as engine:
        await (await engine.start(workflow)).result()
        waiting = []
        for number in range(3):
            waiting.append(await engine.start(workflow, tenant="acme" if number else "globex"))
            await waiting[-1].until(lambda state: "pool" in [wait.kind for wait in waiting_for(state)])
        async with asyncio.timeout(20):
            while len(pool := (await view.of_pool_in_use(engine, name))["waiting"]) < 3 or not pool[0]["starts_at"]:
                await asyncio.sleep(0.05)
            whole = await view.of_pool_in_use(engine, name)
        assert [each["run"] for each in pool] == [run.id for run in waiting], "the longest waiting first"
        assert {(each["model"], each["amount"], each["workflow"]) for each in pool} == {(HAIKU, 1, workflow.name)}
        assert (whole["waiting_calls"], whole["waiting_steps"]) == (3, 0)
        starts_ms = [datetime.fromisoformat(str(each["starts_at"])).timestamp() * 1000 for each in whole["waiting"]]
        assert [round(starts_ms[place] - starts_ms[place - 1]) for place in (1, 2)] == [60_000, 60_000], "one a minute"
        for place, (run, row) in enumerate(zip(waiting, whole["waiting"], strict=True), 1):
            (wait,) = waiting_for(await run.state())
            (why,) = await engine.why(run.id)
            assert (wait.about, why.reason.pool, why.reason.place, why.model) == (name, name, place, HAIKU)
            assert 0 <= wait.since_ms - row["since_ms"] < 10_000, "the call, and when the history has it"
            assert why.starts is not None
            assert abs(why.starts.at_ms - starts_ms[place - 1]) < 1_000, "refills are told in tenths of a second"
        mine = view.of_pool_for_one(whole, "acme", lambda name: True)
        assert [each["run"] for each in mine["waiting"]] == [run.id for run in waiting[1:]]
        await engine.set_pool(name, rate=6000, per_s=60, counts="requests", of=HAIKU)
        await asyncio.gather(*(run.result() for run in waiting))
        async with asyncio.timeout(20):
            while (await view.of_pool_in_use(engine, name))["waiting_calls"]:
                await asyncio.sleep(0.05)


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


async def test_a_call_that_fails_for_good_gives_its_place_back(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(times=1, fault=Fault("status", status=400)))
    async with opened(store, workflows=[workflow := one()], model=model, settings=limited(concurrent=1)) as engine:
        with pytest.raises(RunFailed):
            await (await engine.start(workflow)).result()
        await asyncio.wait_for((await engine.start(workflow)).result(), 5)


@pytest.mark.parametrize("heard", [False, True], ids=["while its hold is written", "when its hold has been written"])
async def test_a_step_whose_time_is_up_between_its_hold_and_its_call_leaves_nothing_behind(
    store: str, server: ModelServer, model: Providers, monkeypatch: pytest.MonkeyPatch, heard: bool
) -> None:
    monkeypatch.setattr("holdfast.engine.capacity.pool_client._KNOWN_S", 0)  # whoever asks for the pools asks the store
    plainly, delayed = Attempt.intend, []

    async def intend(self: Attempt, command: HoldModelCall) -> list[Event]:
        events = await plainly(self, command)
        if heard and not delayed:
            delayed.append(self)
            time.sleep(0.35)  # the process stands still, and the step's time is up meanwhile
        return events

    monkeypatch.setattr(Attempt, "intend", intend)
    workflow = one(timeout_s=0.3, retry=RetryPolicy(max_attempts=3, initial_s=0))
    async with opened(store, workflows=[workflow], model=model, settings=limited(concurrent=1)) as engine:
        carried = engine.runtime.runs.flush.append

        async def append(append: Append, *, patient: bool) -> None:
            if not heard and not delayed and any(isinstance(each.event, ModelCallHeld) for each in append.events):
                delayed.append(append)
                await eventually(lambda: engine.runtime.runs.mailbox(append.run)._envelopes)
            await carried(append, patient=patient)

        carry_by(engine, append)
        run = await engine.start(workflow)
        await asyncio.wait_for(run.result(), 10)  # the next attempt has money, and its part of the pools
        (timed_out,) = await events_of(run, AttemptFailed)
        assert timed_out.error.error_class == "timeout"
        first, _ = await events_of(run, ModelCallHeld)
        budget = (await run.state()).budget
        if heard:  # it was leaving, and how far it got cannot be known
            assert (budget.held_nanousd, budget.in_doubt_nanousd) == (0, first.hold_nanousd)
        else:
            assert (budget.held_nanousd, budget.in_doubt_nanousd) == (0, 0)
            assert len(server.calls) == 1


async def test_invariant_26_a_limit_holds_while_a_live_process_is_wrongly_declared_dead(tmp_path: Path, database: str) -> None:
    """Its call is still in flight when its successor makes it again: the provider takes one at a time, and never refuses."""
    settings = Settings(pools={HAIKU: PoolRules(concurrent=1)})
    with ModelServer(journal=tmp_path / "calls.jsonl", latency_s=2.0, limits={HAIKU: RateLimit(concurrent=1)}) as server:
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


# --- A cheaper way ----------------------------------------------------------------------------------------------------


async def test_a_cheaper_model_that_money_forces_waits_for_its_own_pools(
    store: str, server: ModelServer, model: Providers
) -> None:
    workflow = Workflow("cheaper", cost_limit_usd="0.002")

    @workflow.node("ask")
    @llm_node(model="claude-opus-4-5", max_tokens=100, cheaper_models=(HAIKU,))
    async def ask(state: Any) -> str:
        return "Which?"

    settings = Settings(pools={"claude-opus-4-5": PoolRules(concurrent=1), HAIKU: PoolRules(requests_per_min=60, burst_s=1)})
    async with opened(store, workflows=[workflow], model=model, settings=settings) as engine:
        began = time.monotonic()
        await results(engine, workflow, 3)
        assert time.monotonic() - began > 1.8, "the second and the third wait for the cheaper one's requests"
    assert [(call.model, call.status) for call in server.calls] == [(HAIKU, 200)] * 3


# --- Settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('[pools."claude-x"]\nburst_s = 1', "slots or a rate"),
        ('[pools."claude-x"]\nrequests_per_min = 0', "requests_per_min"),
        ('[pools."claude-x"]\nrequests_a_min = 5', "requests_a_min"),
        ('[pools."claude-x"]\nconcurrent = 2\nslots = 1', "slots or a rate"),
        ('[pools.BROWSERS]\nrate = 5\ncounts = "tokens"', "belong together"),
        ("pools = 3", "pools"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(tmp_path: Path, table: str, says: str) -> None:
    (tmp_path / "holdfast.toml").write_text(table)
    with pytest.raises(UsageError, match=says):
        pools_of(load(tmp_path))


def test_limits_are_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text('[pools."anthropic:claude-x"]\nrequests_per_min = 50\nconcurrent = 4\n')
    assert pools_of(load(tmp_path)) == [
        DeclaredPool("anthropic:claude-x/requests", "rate", 50, 60, 5, "requests", "anthropic:claude-x"),
        DeclaredPool("anthropic:claude-x/concurrent", "slots", 4, counts="requests", of="anthropic:claude-x"),
    ]


async def test_what_holdfast_toml_says_of_pools_is_where_a_store_begins(
    store: str, server: ModelServer, model: Providers, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(pools={"BROWSERS": PoolRules(slots=8), "RPS": PoolRules(rate=600, per="minute")})
    for _ in range(2):
        async with opened(store, workflows=[one()], model=model, settings=settings) as engine:
            known = {pool.name: pool for pool in await engine.pools()}
            assert known == {"BROWSERS": DeclaredPool("BROWSERS", "slots", 8), "RPS": DeclaredPool("RPS", "rate", 600, 60, 60)}
    assert "something else" not in caplog.text
    other = Settings(pools={"BROWSERS": PoolRules(slots=2)})
    async with opened(store, workflows=[one()], model=model, settings=other) as engine:
        assert (await engine.pool("BROWSERS")).limit == 8, "the store's word counts"
    assert "differ about the pool BROWSERS" in caplog.text


# --- A fleet ----------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(180)
def test_workers_share_a_limit_and_are_never_refused() -> None:
    """The short form of `bench/pools.py`, counted from the provider's journal. How much of the limit is used is measured
    there: it depends on how fast the machine is."""
    limits = ["--requests-per-min", "480", "--tokens-per-min", "60000"]
    trial = subprocess.run(
        [sys.executable, "bench/pools.py", "3", "--workers", "4", *limits],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert trial.returncode == 0, trial.stderr
    found = json.loads(trial.stdout)
    assert (found["refused"], found["failed"]) == (0, 0)
    assert min(found["used"].values()) > 0
