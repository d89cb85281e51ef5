"""Steps that ask for parts of pools: together they never have more than there is, in however many processes."""

from __future__ import annotations

import asyncio
import time
from itertools import combinations
from pathlib import Path

import pytest

from holdfast import Demand, Workflow, llm_node, task
from holdfast.core.views.status import status
from holdfast.engine.capacity.pool_client import PoolClient
from holdfast.models.providers import Providers
from holdfast.ports import Usage
from holdfast.testing.model_rule import Fault
from holdfast.testing.model_server import ModelServer, Rule
from tests.engine.kit import bounded, opened
from tests.engine.test_model_calls import HAIKU
from tests.engine.test_placing import FOUR_CORES, Stage, played, waits_of


@bounded
async def test_two_processes_together_never_have_more_slots_of_a_pool_than_there_are(store: str) -> None:
    stage = Stage()
    wf = played(stage, "scraping", Demand(pools={"BROWSERS": 2}), copies=6)
    async with opened(store, workflows=[wf]) as one, opened(store, workflows=[wf]) as other:
        await one.set_pool("BROWSERS", slots=5)
        runs = [await engine.start(wf) for engine in (one, other)]
        await stage.seen("scraping", 2)
        stage.go.set()
        for run in runs:
            await run.result()
    assert stage.most["scraping"] == 2, "five slots, and each takes two"


@bounded
async def test_a_step_waits_for_a_pool_until_it_is_declared_and_is_large_enough(store: str) -> None:
    stage = Stage()
    stage.go.set()
    wf = played(stage, "later", Demand(pools={"LATER": 3}))
    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        await engine.set_pool("LATER", slots=2)
        while await waits_of(run) != [("worker", "placement")]:
            await asyncio.sleep(0.01)
        await engine.set_pool("LATER", slots=3)
        await run.result()


@bounded
async def test_a_step_waits_until_its_too_small_pool_is_large_enough(store: str) -> None:
    stage = Stage()
    stage.go.set()
    wf = played(stage, "later", Demand(pools={"LATER": 3}))
    async with opened(store, workflows=[wf]) as engine:
        await engine.set_pool("LATER", slots=2)
        run = await engine.start(wf)
        await engine.idle()
        assert await waits_of(run) == [("worker", "placement")]
        await engine.set_pool("LATER", slots=3)
        await run.result()


@bounded
@pytest.mark.parametrize("amount", [1, None])
async def test_a_pool_that_was_not_lent_yet_is_waited_for(store: str, amount: int | None) -> None:
    stage = Stage()
    stage.go.set()
    wf = played(stage, "first", Demand(pools={"FREE": amount}))
    async with opened(store, execute=False) as desk:
        await desk.set_pool("FREE", slots=1)
        left = await desk.start(wf)
        async with opened(store, workflows=[wf]) as engine:
            await engine.idle()
            assert await left.status() == "completed"
    async with opened(store, workflows=[wf]) as engine:
        assert (await (await engine.start(wf)).settled()).ended == "completed"


@bounded
@pytest.mark.parametrize("slots", [None, 1])
async def test_a_pool_that_can_never_be_enough_is_not_waited_for(store: str, slots: int | None) -> None:
    wf = played(Stage(), "never", Demand(pools={"NEVER": 2}))
    async with opened(store, workflows=[wf]) as engine:
        if slots is not None:
            await engine.set_pool("NEVER", slots=slots)
        state = await (await engine.start(wf)).settled()
        assert status(state) == "waiting"
        await engine.idle()


@bounded
async def test_a_pool_that_another_process_has_is_waited_for(store: str) -> None:
    stage = Stage()
    wf, other = played(stage, "having", Demand(pools={"ONE": 1})), played(stage, "wanting", Demand(pools={"ONE": 1}))
    async with opened(store, workflows=[wf]) as first, opened(store, workflows=[other]) as second:
        await first.set_pool("ONE", slots=1)
        await first.start(wf)
        await stage.seen("having")
        run = await second.start(other)
        both = asyncio.gather(run.settled(), second.idle())
        while not any(share.is_short for share in await second.pool_shares("ONE")):
            await asyncio.sleep(0.05)
        assert not both.done()
        stage.go.set()
        state, _ = await both
        assert state.ended == "completed"


@bounded
async def test_a_rate_lets_out_its_burst_and_no_more_than_its_rate_after_that(store: str) -> None:
    at_s: list[float] = []
    wf = Workflow("calls")
    for number in range(30):
        wf.node(f"n{number}", demand=Demand(pools={"RPS": 1}))(task(lambda state: None))
    wf.node("end")(task(lambda state: None))
    for number in range(30):
        wf.edge(f"n{number}", "end")
    async with opened(store, workflows=[wf]) as engine:
        scheduler = engine.executor.placing.scheduler
        place = scheduler.place

        def placed(now_s: float):
            """Steps begin when their process comes to it; what the pool lets out is what is placed."""
            found = place(now_s)
            at_s.extend([now_s] * len(found))
            return found

        scheduler.place = placed
        await engine.set_pool("RPS", rate=40, burst=5)
        await (await engine.start(wf)).result()
    assert len(at_s) == 30
    for (i, first), (j, last) in combinations(enumerate(at_s), 2):
        assert j - i + 1 <= 5 + 40 * (last - first) + 1


@bounded
async def test_a_pool_is_all_or_nothing_with_the_worker(store: str) -> None:
    stage = Stage()
    both = played(stage, "both", Demand(pools={"A": 1, "B": 1}))
    only = played(stage, "only", Demand(pools={"A": 1}))
    async with opened(store, workflows=[both, only], resources=FOUR_CORES) as engine:
        await engine.set_pool("A", slots=1)
        stuck = await engine.start(both)  # nobody has declared B: so it takes nothing of A
        run = await engine.start(only)
        stage.go.set()
        await run.result()
        assert await waits_of(stuck) == [("worker", "placement")]


@bounded
async def test_what_a_killed_leaseholder_had_of_a_pool_is_free_again(store: str) -> None:
    stage = Stage()
    wf = played(stage, "held", Demand(pools={"ONE": 1}))
    async with opened(store, workflows=[wf]) as first:
        await first.set_pool("ONE", slots=1)
        run = await first.start(wf)
        await stage.seen("held")
    stage.go.set()
    async with opened(store, workflows=[wf]) as second:
        await second.run(run.id).result()


@bounded
async def test_an_amount_that_is_not_said_is_what_steps_of_its_kind_have_taken(store: str) -> None:
    from holdfast.core.capacity.estimates import Use

    wf = Workflow("guessing")
    asked: list[dict[str, int]] = []

    @wf.node("only", demand=Demand(pools={"TPM": None}))
    @task
    async def only(state):
        (held,) = engine.executor.placing.held()
        asked.append(dict(held.demand.pools))

    async with opened(store, workflows=[wf]) as engine:
        await engine.set_pool("TPM", rate=100_000, per_s=60, burst=50_000, counts="tokens", of="openai")
        await (await engine.start(wf)).result()
        await engine.runtime.store.lending.learn([Use("guessing", "only", "TPM", 7_000)])
        client: PoolClient = engine.executor.services.pool_client
        client._known_s.clear()
        await (await engine.start(wf)).result()
    assert asked == [{"TPM": 4_000}, {"TPM": 7_000}]


@bounded
async def test_what_steps_have_used_is_what_the_next_of_their_kind_asks_for(
    store: str, server: ModelServer, model: Providers
) -> None:
    wf = Workflow("asking")

    @wf.node("ask", demand=Demand(pools={"TPM": None}))
    @llm_node(model=HAIKU, max_tokens=50)
    async def ask(state):
        return {"system": "Be brief.", "user": "How?"}

    server.script.add(Rule(usage=Usage(900, 40)))
    async with opened(store, workflows=[wf], model=model) as engine:
        await engine.set_pool("TPM", rate=1_000_000, per_s=60, counts="tokens", of="anthropic")
        await (await engine.start(wf)).result()
        while not await engine.pool_estimates("TPM"):
            await asyncio.sleep(0.05)
        (learned,) = await engine.pool_estimates("TPM")
        assert (learned.workflow, learned.node, learned.amount, learned.samples) == ("asking", "ask", 940, 1)


@bounded
async def test_what_a_fallback_has_used_counts_for_the_pools_of_the_fallback(
    store: str, server: ModelServer, model: Providers
) -> None:
    wf = Workflow("asking")
    wf.node("ask", demand=Demand(pools={"FIRST": None, "SECOND": None}))(
        llm_node(model=HAIKU, max_tokens=50, fallback_models=["gpt-4.1-mini"])(lambda state: "How?")
    )
    server.script.add(Rule(model=HAIKU, fault=Fault("status", status=503)), Rule(usage=Usage(30, 40)))
    async with opened(store, workflows=[wf], model=model) as engine:
        await engine.set_pool("FIRST", rate=1_000_000, per_s=60, counts="tokens", of="anthropic")
        await engine.set_pool("SECOND", rate=1_000_000, per_s=60, counts="tokens", of="openai")
        await (await engine.start(wf)).result()
        while not await engine.pool_estimates("SECOND"):
            await asyncio.sleep(0.05)
        used = [[each.amount for each in await engine.pool_estimates(name)] for name in ("FIRST", "SECOND")]
    assert used == [[0], [70]]


@bounded
async def test_a_cheaper_model_counts_for_its_own_pools_only(store: str, server: ModelServer, model: Providers) -> None:
    wf = Workflow("asking", cost_limit_usd="0.0005")
    wf.node("ask", demand=Demand(pools={"DEAR": 5, "CHEAP": 5}))(
        llm_node(model="claude-opus-4-5", max_tokens=50, cheaper_models=["gpt-4.1-nano"])(lambda state: "How?")
    )
    async with opened(store, workflows=[wf], model=model) as engine:
        await engine.set_pool("DEAR", rate=100, counts="requests", of="anthropic")
        await engine.set_pool("CHEAP", rate=100, counts="requests", of="openai")
        await (await engine.start(wf)).result()
        while not await engine.pool_estimates("CHEAP"):
            await asyncio.sleep(0.05)
        used = [[each.amount for each in await engine.pool_estimates(name)] for name in ("DEAR", "CHEAP")]
    assert [each.model for each in server.calls] == ["gpt-4.1-nano"]
    assert used == [[0], [1]]


@bounded
async def test_a_step_that_calls_more_often_than_it_said_is_slowed_down_to_what_it_said(
    store: str, server: ModelServer, model: Providers
) -> None:
    wf = Workflow("eager")

    @wf.node("ask", demand=Demand(pools={"RPS": 4}))
    @task
    async def ask(state, ctx):
        for number in range(8):
            await ctx.model(HAIKU, f"question {number}", max_tokens=50)

    async with opened(store, workflows=[wf], model=model) as engine:
        await engine.set_pool("RPS", rate=100, burst=10, counts="requests", of="anthropic")
        began_s = time.monotonic()
        await (await engine.start(wf)).result()
        assert time.monotonic() - began_s >= 1.0 - 0.05, "four at once, and four a second after that"


@bounded
async def test_when_its_last_step_has_ended_a_process_says_that_it_uses_nothing_of_a_pool(store: str) -> None:
    stage = Stage()
    wf = played(stage, "only", Demand(pools={"P": 1}))
    async with opened(store, workflows=[wf]) as engine:
        await engine.set_pool("P", slots=3)
        run = await engine.start(wf)
        await stage.seen("only")
        while [share.used for share in await engine.pool_shares("P")] != [1]:
            await asyncio.sleep(0.05)
        stage.go.set()
        await run.result()
        while any(share.used for share in await engine.pool_shares("P")):
            await asyncio.sleep(0.05)


@bounded
async def test_what_is_placed_is_said_before_anything_of_it_could_be_given_back(tmp_path: Path) -> None:
    said: list[int] = []
    stage = Stage()
    wf = played(stage, "said", Demand(pools={"P": 2}))
    async with opened(f"sqlite:///{tmp_path / 'said.db'}", workflows=[wf]) as engine:
        place = engine.executor.placing.place

        def placed(*given, **named) -> None:
            place(*given, **named)
            if engine.executor.placing.held():
                said.append(engine.executor.services.pool_client._shares._needs["P"].used)

        engine.executor.placing.place = placed
        await engine.set_pool("P", slots=2)
        run = await engine.start(wf)
        await stage.seen("said")
        stage.go.set()
        await run.result()
    assert said
    assert set(said) == {2}


@bounded
async def test_however_many_steps_say_no_amount_the_store_is_asked_once(tmp_path: Path) -> None:
    wf = Workflow("many")
    for number in range(20):
        wf.node(f"n{number}", demand=Demand(pools={"P": None}))(task(lambda state: None))
    wf.node("end")(task(lambda state: None))
    for number in range(20):
        wf.edge(f"n{number}", "end")
    async with opened(f"sqlite:///{tmp_path / 'many.db'}", workflows=[wf]) as engine:
        await engine.set_pool("P", slots=50)
        asked: list[str | None] = []
        estimates = engine.runtime.store.lending.estimates

        async def counted(**about):
            asked.append(about.get("workflow"))
            return await estimates(**about)

        engine.runtime.store.lending.estimates = counted  # type: ignore[method-assign]
        await (await engine.start(wf)).result()
    assert asked == ["many"]
