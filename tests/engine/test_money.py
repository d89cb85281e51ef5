"""Money, from a run's limit to the model's own journal: held before, settled after, in doubt when nobody can know."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import time
from decimal import Decimal
from typing import Any

import pytest

from holdfast import Engine, Join, RetryPolicy, Run, RunFailed, Workflow, llm_node, task
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.events import (
    GateOpened,
    HoldDeferred,
    ModelCallFailed,
    ModelCallHeld,
    ModelCallInDoubt,
    ModelCallReconciled,
    ModelCallSettled,
    RunStarted,
)
from holdfast.core.values.money import nanousd, usd
from holdfast.core.values.payload import NULL
from holdfast.core.views.status import waiting_for
from holdfast.errors import AlreadyClosed, InvalidDecision, InvalidInput, NotFound
from holdfast.models.prices import Prices
from holdfast.models.providers import Providers
from holdfast.ports import ModelRequest, UserTurn
from holdfast.testing.model_server import Fault, ModelServer, Rule, Usage
from tests.engine import spender
from tests.engine.history import assert_never_above, books, events_of
from tests.forks import Fork

HAIKU, NANO = "claude-haiku-4-5", "gpt-4.1-nano"
AT_ONCE = RetryPolicy(max_attempts=3, initial_s=0, jitter=0)
ONCE = RetryPolicy(max_attempts=1, rate_limit_attempts=1)


def asks(*names: str, model: str = HAIKU, max_tokens: int = 100, in_a_row: bool = True, **options: Any) -> Workflow:
    """A workflow of one model call a node: in a row, or all at once between `begin` and `end`."""
    wf = Workflow("asks", **options.pop("workflow", {}))
    for name in names:

        @wf.node(name)
        @llm_node(model=model, max_tokens=max_tokens, **options)
        async def ask(state, name=name):
            return {"system": "Be brief.", "user": f"question {name}"}

    if in_a_row:
        for before, after in zip(names, names[1:], strict=False):
            wf.edge(before, after)
        return wf
    wf.node("begin")(task(lambda state: None))
    wf.node("end")(task(join="all_required")(lambda state: sorted(state.events[name].output for name in names)))
    for name in names:
        wf.edge("begin", name)
        wf.edge(name, "end")
    return wf


async def held_by_one(engine: Engine, **options: Any) -> ModelCallHeld:
    """What one call of `asks` is held for, found out by a run of its own."""
    run = await engine.start(asks("n", **options))
    await run.result()
    (held,) = await events_of(run, ModelCallHeld)
    return held


async def hold_of_one(engine: Engine, **options: Any) -> int:
    """The same, of money."""
    return (await held_by_one(engine, **options)).hold_nanousd


def at_the_same_time(server: ModelServer) -> int:
    """How many calls were at the model at once, at most, as its journal tells."""
    most = now = 0
    for entry in server.journal.entries():
        now += {"received": 1, "replied": -1}.get(entry["event"], 0)
        most = max(most, now)
    return most


async def test_a_settled_call_says_what_its_providers_cache_had_of_it(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="yes", usage=Usage(1_000, 9, cache_read_tokens=600, cache_write_tokens=300)))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asks("n"))
        await run.result()
        (settled,) = await events_of(run, ModelCallSettled)
        assert (settled.input_tokens, settled.cache_read_tokens, settled.cache_write_tokens) == (1_000, 600, 300)
        assert settled.cacheable_nanousd == 100 * (1_000 - 100) + 300 * (1_250 - 100)


# --- What does not fit is not called ----------------------------------------------------------------------------------


async def test_a_call_beyond_the_budget_is_not_made_and_resumes_when_it_is_raised(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="answer to {user}"))
    wf = asks("a", "b")
    async with Engine.open(store, model=model) as engine:
        hold = await hold_of_one(engine)
        run = await engine.start(wf, cost_limit_usd=usd(hold))
        await run.settled()
        assert await run.status() == "budget_blocked"
        assert [call.user for call in server.calls[1:]] == ["question a"]

        row = await engine.find(run.id)
        reasons = {wait["reason"]: wait for wait in json.loads(row.waiting_for)}
        assert reasons["budget"]["kind"] == "gate"
        assert row.status == "budget_blocked"
        assert (row.held_nanousd, row.in_doubt_nanousd) == (0, 0)
        (asked,) = await events_of(run, GateOpened)
        shown = asked.shown.value()
        assert (shown["model"], shown["limit_usd"], shown["worst_case_usd"]) == (HAIKU, usd(hold), usd(hold))
        assert Decimal(shown["needed_limit_usd"]) == Decimal(usd(hold + row.settled_nanousd))
        assert "Nothing was called" in shown["message"]

        await engine.raise_budget(run.id, shown["needed_limit_usd"], by="ada")
        assert await run.result() == "answer to question b"
        assert [call.user for call in server.calls[1:]] == ["question a", "question b"]
        await assert_never_above(run, nanousd(shown["needed_limit_usd"]))


async def test_raising_too_little_asks_again_and_lowering_is_refused(store: str, server: ModelServer, model: Providers) -> None:
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asks("a"), cost_limit_usd="0.0001")
        await run.settled()
        await engine.raise_budget(run.id, "0.0002")
        state = await run.settled()
        assert await run.status() == "budget_blocked"
        assert len(await events_of(run, GateOpened)) == 2
        assert len(state.gates) == 1
        with pytest.raises(InvalidDecision, match="would not raise it"):
            await engine.raise_budget(run.id, "0.0001")
        assert server.calls == []


async def test_a_run_that_shall_fail_at_its_limit_fails_there(store: str, server: ModelServer, model: Providers) -> None:
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asks("a", workflow={"on_limit": "fail"}), cost_limit_usd="0.0001")
        with pytest.raises(RunFailed, match="Nothing was called") as failed:
            await run.result()
        assert failed.value.error.error_class == "limit"
        assert server.calls == []


async def test_the_question_about_the_money_may_be_answered_with_a_new_limit(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="."))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asks("a"), cost_limit_usd="0.0001")
        (gate,) = (await run.settled()).gates
        for wrong in ({}, {"limit_usd": "0.00005"}, {"limit_usd": "a lot"}):
            with pytest.raises(InvalidDecision):
                await engine.decide(gate, "answer", wrong)
        assert await run.status() == "budget_blocked"
        await engine.decide(gate, "answer", {"limit_usd": "0.10"}, by="ada")
        assert await run.result() == "."
        assert (await engine.find(run.id)).limit_nanousd == 100_000_000


async def test_a_budget_that_no_person_raises_ends_the_run(store: str, server: ModelServer, model: Providers) -> None:
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asks("a"), cost_limit_usd="0.0001")
        (gate,) = (await run.settled()).gates
        await engine.decide(gate, "reject", reason="too dear")
        with pytest.raises(RunFailed, match="too dear") as failed:
            await run.result()
        assert failed.value.error.error_class == "limit"
        assert server.calls == []


# --- Branches that race for it ----------------------------------------------------------------------------------------

TWELVE = tuple("abcdefghijkl")


async def test_twelve_branches_share_a_limit_that_three_fit_into_and_never_pass_it(
    store: str, server: ModelServer, model: Providers
) -> None:
    # A reply costs next to nothing beside its worst case, so that what comes back lets the next ones in.
    server.script.add(Rule(usage=Usage(input_tokens=1, output_tokens=1), latency_s=0.02, text="."))
    async with Engine.open(store, model=model) as engine:
        hold = await hold_of_one(engine)
        limit = 3 * hold + 12 * 10_000
        run = await engine.start(asks(*TWELVE, in_a_row=False), cost_limit_usd=usd(limit))
        assert await run.result() == ["."] * 12
        await assert_never_above(run, limit)
        assert at_the_same_time(server) == 3
        assert len(server.calls) == 13
        held = await events_of(run, ModelCallHeld)
        assert sorted(call.step for call in held) == [f"{name}#1" for name in TWELVE]
        assert await events_of(run, GateOpened) == []  # what waited for money in flight asked nobody
        assert len(await events_of(run, HoldDeferred)) >= 9
        last = (await books(run))[-1]
        assert (last.settled_nanousd, last.held_nanousd, last.in_doubt_nanousd) == (12 * 6_000, 0, 0)


async def test_calls_side_by_side_in_one_step_share_the_limit_too(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(usage=Usage(input_tokens=1, output_tokens=1), latency_s=0.02))
    wf = Workflow("gathered")

    @wf.node("ask")
    @task
    async def ask(state, ctx):
        return await ctx.gather(*(ctx.model(HAIKU, f"{n}", max_tokens=100) for n in range(8)))

    async with Engine.open(store, model=model) as engine:
        probe = await engine.start(wf)
        await probe.result()
        hold = max(held.hold_nanousd for held in await events_of(probe, ModelCallHeld))
        limit = 2 * hold + 8 * 6_000
        run = await engine.start(wf, cost_limit_usd=usd(limit))
        assert await run.result() == [f"I have read: {n}" for n in range(8)]
        assert len(server.calls) == 16
        await assert_never_above(run, limit)
        assert max(b.held_nanousd for b in await books(run)) == 2 * hold


async def test_branches_for_which_no_money_is_left_ask_once_and_go_on_together(
    store: str, server: ModelServer, model: Providers
) -> None:
    async with Engine.open(store, model=model) as engine:
        hold = await hold_of_one(engine)
        # Each reply costs what it was held for: three fit, nine never will.
        dear = Usage(input_tokens=(hold - 100 * 5_000) // 1_000, output_tokens=100)
        server.script.add(Rule(usage=dear, latency_s=0.02, text="."))
        limit = 3 * hold
        run = await engine.start(asks(*TWELVE, in_a_row=False), cost_limit_usd=usd(limit))
        state = await run.settled()
        assert await run.status() == "budget_blocked"
        assert len(server.calls) == 4
        assert len(state.gates) == 1
        assert {wait.reason for wait in waiting_for(state)} >= {"budget"}
        await assert_never_above(run, limit)

        await engine.raise_budget(run.id, usd(12 * hold))
        assert await run.result() == ["."] * 12
        assert len(server.calls) == 13
        await assert_never_above(run, 12 * hold)


# --- Settled, released, in doubt --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "input_rate", "output_rate", "cached_rate"), [(HAIKU, 1_000, 5_000, 100), (NANO, 100, 400, 25)]
)
async def test_a_call_is_settled_to_the_exact_price_of_what_the_model_says_it_used(
    store: str, server: ModelServer, model: Providers, name: str, input_rate: int, output_rate: int, cached_rate: int
) -> None:
    used = Usage(input_tokens=61, output_tokens=17, cache_read_tokens=20)
    server.script.add(Rule(usage=used, text="."))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asks("a", model=name))
        await run.result()
        (held,) = await events_of(run, ModelCallHeld)
        (settled,) = await events_of(run, ModelCallSettled)
        exact = 41 * input_rate + 20 * cached_rate + 17 * output_rate
        assert settled.call == held.call
        assert (settled.cost_nanousd, settled.input_tokens, settled.output_tokens) == (exact, 61, 17)
        assert [(b.settled_nanousd, b.held_nanousd) for b in await books(run)][-1] == (exact, 0)
        assert exact < held.hold_nanousd
        row = await engine.find(run.id)
        assert (row.settled_nanousd, row.held_nanousd, row.in_doubt_nanousd) == (exact, 0, 0)


@pytest.mark.parametrize("name", [HAIKU, NANO])
@pytest.mark.parametrize(
    ("fault", "in_doubt", "error_class"),
    [
        (Fault("status", status=400), False, "validation"),
        (Fault("status", status=401), False, "authorization"),
        (Fault("status", status=429, retry_after_s=0), False, "rate_limit"),
        (Fault("status", status=500), False, "model_transient"),
        (Fault("status", status=503), False, "model_transient"),
        (Fault("status", status=529), False, "model_transient"),
        (Fault("status", status=502), True, "model_transient"),
        (Fault("status", status=504), True, "timeout"),
        (Fault("hang"), True, "timeout"),
        (Fault("cut_before_reply"), True, "network"),
        (Fault("cut_in_body"), True, "network"),
        (Fault("malformed_body"), True, "model_transient"),
    ],
    ids=lambda value: f"{value.kind}-{value.status}" if isinstance(value, Fault) else None,
)
async def test_a_refused_call_gives_its_hold_back_and_one_of_unknown_fate_keeps_it(
    store: str, server: ModelServer, model: Providers, name: str, fault: Fault, in_doubt: bool, error_class: str
) -> None:
    hang = {"timeout_s": 0.1} if fault.kind == "hang" else {}
    await model.request(ModelRequest(name, "", (UserTurn("so that the client is loaded"),), 10))
    server.script.add(Rule(fault=fault))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asks("a", model=name, retry=ONCE, **hang), cost_limit_usd="1")
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert failed.value.error.error_class == error_class
        assert len(server.calls) == 2  # nothing tries again by itself
        (held,) = await events_of(run, ModelCallHeld)
        row = await engine.find(run.id)
        assert (row.held_nanousd, row.settled_nanousd) == (0, 0)
        assert row.in_doubt_nanousd == (held.hold_nanousd if in_doubt else 0)
        closed = await events_of(run, ModelCallInDoubt if in_doubt else ModelCallFailed)
        assert [call.call for call in closed] == [held.call]


@pytest.mark.parametrize("name", [HAIKU, NANO])
@pytest.mark.parametrize("fault", ["missing_usage", "negative_usage"])
async def test_a_reply_without_usage_is_accepted_and_its_whole_hold_stays_in_doubt(
    store: str, server: ModelServer, model: Providers, name: str, fault: Any
) -> None:
    server.script.add(Rule(fault=Fault(fault), text="still good"))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asks("a", model=name))
        assert await run.result() == "still good"
        assert len(server.calls) == 1
        (held,) = await events_of(run, ModelCallHeld)
        row = await engine.find(run.id)
        assert (row.settled_nanousd, row.held_nanousd, row.in_doubt_nanousd) == (0, 0, held.hold_nanousd)
        await engine.reconcile(held.call, "0.000123", by="ada")
        row = await engine.find(run.id)
        assert (row.settled_nanousd, row.in_doubt_nanousd) == (123_000, 0)


async def test_a_repeated_call_has_its_own_id_and_hold_and_older_doubts_stay_counted(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(times=2, fault=Fault("cut_before_reply")), Rule(text="at last"))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asks("a", retry=AT_ONCE), cost_limit_usd="1")
        assert await run.result() == "at last"
        held = await events_of(run, ModelCallHeld)
        assert len(held) == len({call.call for call in held}) == len(server.calls) == 3
        assert [call.call.rpartition(":")[2] for call in held] == ["1", "2", "3"]
        (settled,) = await events_of(run, ModelCallSettled)
        row = await engine.find(run.id)
        assert row.in_doubt_nanousd == held[0].hold_nanousd + held[1].hold_nanousd
        assert row.settled_nanousd == settled.cost_nanousd
        assert max(b.held_nanousd for b in await books(run)) == held[0].hold_nanousd  # one at a time


async def test_money_in_doubt_blocks_what_it_would_pay_for_until_it_is_reconciled(
    store: str, server: ModelServer, model: Providers
) -> None:
    async with Engine.open(store, model=model) as engine:
        hold = await hold_of_one(engine)
        server.script.add(Rule(times=1, fault=Fault("cut_before_reply")), Rule(text="at last"))
        run = await engine.start(asks("a", retry=AT_ONCE), cost_limit_usd=usd(hold))
        await run.settled()
        assert await run.status() == "budget_blocked"
        assert len(server.calls) == 2
        (doubted,) = await events_of(run, ModelCallInDoubt)
        await engine.reconcile(doubted.call, 0, by="ada")
        assert await run.result() == "at last"
        assert len(server.calls) == 3
        await assert_never_above(run, hold)
        (reconciled,) = await events_of(run, ModelCallReconciled)
        assert (reconciled.cost_nanousd, reconciled.by) == (0, "ada")


async def test_a_call_is_reconciled_once_and_only_if_it_is_in_doubt(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(times=1, fault=Fault("malformed_body")), Rule(text="."))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asks("a", retry=AT_ONCE))
        await run.result()
        doubted, settled = [held.call for held in await events_of(run, ModelCallHeld)]
        with pytest.raises(NotFound, match="No money is in doubt"):
            await engine.reconcile(settled, "0.01")
        with pytest.raises(InvalidInput, match="not an amount of dollars"):
            await engine.reconcile(doubted, "a cent")
        await engine.reconcile(doubted, "0.01")  # the run has ended: truth about money is never too late
        with pytest.raises(NotFound, match="No money is in doubt"):
            await engine.reconcile(doubted, "0.02")
        row = await engine.find(run.id)
        assert row.in_doubt_nanousd == 0
        assert row.settled_nanousd == 10_000_000 + (await events_of(run, ModelCallSettled))[0].cost_nanousd


# --- The outcome that comes late --------------------------------------------------------------------------------------


async def test_a_call_that_its_run_no_longer_waits_for_is_settled_when_its_reply_comes(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(user="question slow", latency_s=0.2, text="slow"), Rule(text="fast"))
    wf = asks("fast", "slow", in_a_row=False)
    wf.nodes["end"] = task(join=Join("any"))(lambda state: state.events["fast"].output)
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(wf)
        assert await run.result() == "fast"
        row = await engine.find(run.id)
        assert row.held_nanousd > 0  # still at the model
        async with asyncio.timeout(60):
            while (row := await engine.find(run.id)).held_nanousd:
                await asyncio.sleep(0.01)
        fast, slow = await events_of(run, ModelCallSettled)
        assert row.settled_nanousd == fast.cost_nanousd + slow.cost_nanousd
        assert row.in_doubt_nanousd == 0
        assert {call.outcome for call in server.calls} == {"sent"}


async def test_a_call_that_its_run_no_longer_waits_for_may_be_refused_without_a_sound(
    store: str, server: ModelServer, model: Providers, caplog: pytest.LogCaptureFixture
) -> None:
    server.script.add(Rule(user="question slow", latency_s=0.1, fault=Fault("status", status=503)), Rule(text="fast"))
    wf = asks("fast", "slow", in_a_row=False)
    wf.nodes["end"] = task(join=Join("any"))(lambda state: state.events["fast"].output)
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(wf)
        assert await run.result() == "fast"
        async with asyncio.timeout(5):
            while (row := await engine.find(run.id)).held_nanousd:
                await asyncio.sleep(0.01)
        assert row.in_doubt_nanousd == 0
        assert len(server.calls) == 2
    gc.collect()  # asyncio tells of exceptions that nobody heard when their tasks are collected
    assert [said for record in caplog.records if "fsync=off" not in (said := record.getMessage())] == []


async def test_a_settlement_that_comes_after_the_doubt_settles_the_call_once(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(times=1, fault=Fault("cut_in_body")), Rule(text="."))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asks("a", retry=AT_ONCE))
        assert await run.result() == "."
        doubted, settled = await events_of(run, ModelCallHeld)
        late = cmd.SettleModelCall(doubted.call, 1_000, 1, 0, NULL)
        await engine.runtime.runs.send(run._run, late)
        row = await engine.find(run.id)
        assert row.in_doubt_nanousd == 0
        assert row.settled_nanousd == 1_000 + (await events_of(run, ModelCallSettled))[0].cost_nanousd
        for call in (doubted.call, settled.call):
            with pytest.raises(AlreadyClosed):
                await engine.runtime.runs.send(run._run, cmd.SettleModelCall(call, 1_000, 1, 0, NULL))
        assert await run.result() == "."


# --- kill -9 with a call in flight ------------------------------------------------------------------------------------


def spend(store: str, server: ModelServer, workflow: str, *, until_calls: int | None = None) -> None:
    """Run `workflow` in a process of its own and kill it when the model has received so many calls, or else when the run
    has settled."""
    environment = {**os.environ, **server.environment, "HOLDFAST_LEASE_S": "3"}
    process = Fork("tests.engine.spender", store, workflow, environment=environment)
    try:
        if until_calls is None:
            assert process.stdout.readline() == "settled\n"
        else:
            while len(server.calls) < until_calls:
                assert process.poll() is None, "the victim ended by itself"
                time.sleep(0.02)
    finally:
        process.kill()
        process.communicate()


async def only_run(engine: Engine) -> Run:
    (row,) = await engine.runs()
    return engine.run(row.run)


async def test_a_killed_call_is_repeated_and_counts_as_spent_until_it_is_reconciled(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(user="question b", times=1, fault=Fault("hang")), Rule(text="answer to {user}"))
    spend(store, server, "row", until_calls=2)
    async with Engine.open(store, workflows=[spender.row()], model=model) as engine:
        run = await only_run(engine)
        assert await run.result() == "answer to question c"
        assert [call.user for call in server.calls] == ["question a", "question b", "question b", "question c"]
        held = await events_of(run, ModelCallHeld)
        assert len({call.call for call in held}) == 4
        (doubted,) = await events_of(run, ModelCallInDoubt)
        assert doubted.call == held[1].call
        assert doubted.error.error_class == "lost"
        row = await engine.find(run.id)
        assert (row.held_nanousd, row.in_doubt_nanousd) == (0, held[1].hold_nanousd)
        # Between hold and settlement no budget came free, at any event.
        assert all(b.committed_nanousd >= held[1].hold_nanousd for b in (await books(run))[len(await run.events()) // 2 :])
        settled = row.settled_nanousd
        await engine.reconcile(doubted.call, "0")
        row = await engine.find(run.id)
        assert (row.settled_nanousd, row.in_doubt_nanousd) == (settled, 0)


async def test_what_was_in_flight_at_a_kill_can_be_all_the_money_there_was(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(times=1, fault=Fault("hang")), Rule(text="."))
    spend(store, server, "tight", until_calls=1)
    async with Engine.open(store, workflows=[spender.tight()], model=model) as engine:
        run = await only_run(engine)
        await run.settled()
        assert await run.status() == "budget_blocked"
        assert len(server.calls) == 1
        limit = (await run.state()).budget.limit_nanousd
        assert limit is not None
        await assert_never_above(run, limit)
        (doubted,) = await events_of(run, ModelCallInDoubt)
        await engine.reconcile(doubted.call, "0.000001")
        assert await run.result() == "."
        assert len(server.calls) == 2
        await assert_never_above(run, limit)


async def test_a_call_that_outlives_its_run_and_process_ends_in_doubt_and_not_held(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(user="question slow", fault=Fault("hang")), Rule(text="fast"))
    spend(store, server, "quorum")
    async with Engine.open(store, workflows=[spender.quorum()], model=model) as engine:
        run = await only_run(engine)
        assert await run.result() == "fast"
        async with asyncio.timeout(60):
            while (row := await engine.find(run.id)).held_nanousd:
                await asyncio.sleep(0.01)
        assert row.in_doubt_nanousd > 0
        assert row.status == "completed"


# --- Short of money ---------------------------------------------------------------------------------------------------


async def test_where_money_is_short_a_shorter_reply_and_then_a_cheaper_model_do(
    store: str, server: ModelServer, model: Providers
) -> None:
    wf = asks("a", max_tokens=1000, min_tokens=100, cheaper_models=[NANO])
    async with Engine.open(store, model=model) as engine:
        free = await engine.start(wf)
        await free.result()
        (full,) = await events_of(free, ModelCallHeld)
        short = await engine.start(wf, cost_limit_usd=usd(full.hold_nanousd - 1))
        await short.result()
        (shorter,) = await events_of(short, ModelCallHeld)
        cheap = await engine.start(wf, cost_limit_usd=usd(shorter.hold_nanousd - 1))
        await cheap.result()
        (cheaper,) = await events_of(cheap, ModelCallHeld)
        assert [(call.model, call.max_tokens) for call in server.calls] == [(HAIKU, 1000), (HAIKU, 100), (NANO, 1000)]
        assert [each.sent_to for each in (full, shorter, cheaper)] == [HAIKU, HAIKU, NANO]
        for run, held in ((short, shorter), (cheap, cheaper)):
            await assert_never_above(run, (await run.state()).budget.limit_nanousd or 0)
            (settled,) = await events_of(run, ModelCallSettled)
            rates = (1_000, 5_000) if held.sent_to == HAIKU else (100, 400)
            assert settled.cost_nanousd == settled.input_tokens * rates[0] + settled.output_tokens * rates[1]


async def test_a_limit_on_tokens_asks_and_goes_on_when_it_is_extended(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="answer to {user}"))
    async with Engine.open(store, model=model) as engine:
        wf = asks("a", "b", workflow={"max_tokens": 400})
        probe = await engine.start(asks("n"))
        await probe.result()
        (held,) = await events_of(probe, ModelCallHeld)
        assert held.tokens <= 400 < 2 * held.tokens
        run = await engine.start(wf)
        # The second call's worst case does not fit beside what the first has really used.
        server.script.add(Rule(user="question a", usage=Usage(150, 90), text="answer"))
        state = await run.settled()
        assert await run.status() == "requires_attention"
        assert {wait.reason for wait in waiting_for(state)} >= {"max_tokens"}
        assert [call.user for call in server.calls[1:]] == ["question a"]
        await engine.extend(run.id, "tokens", 2_000)
        assert await run.result() == "answer to question b"
        assert [call.user for call in server.calls[1:]] == ["question a", "question b"]


async def test_parallel_calls_share_a_limit_on_tokens_too(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(usage=Usage(1, 1), latency_s=0.02, text="."))
    async with Engine.open(store, model=model) as engine:
        probe = await engine.start(asks("n"))
        await probe.result()
        (held,) = await events_of(probe, ModelCallHeld)
        wf = asks(*TWELVE, in_a_row=False, workflow={"max_tokens": 3 * held.tokens + 24})
        run = await engine.start(wf)
        assert await run.result() == ["."] * 12
        assert at_the_same_time(server) == 3
        assert len(server.calls) == 13


# --- What a run keeps of it -------------------------------------------------------------------------------------------


async def test_a_run_keeps_the_fingerprint_of_the_prices_that_it_is_held_to(
    store: str, server: ModelServer, model: Providers
) -> None:
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asks("a"))
        await run.result()
        (started,) = await events_of(run, RunStarted)
        assert started.price_fingerprint == Prices().fingerprint


async def test_a_reply_above_its_bound_is_recorded_as_it_is_and_raises_an_alarm(
    store: str, server: ModelServer, model: Providers, caplog: pytest.LogCaptureFixture
) -> None:
    server.script.add(Rule(usage=Usage(input_tokens=50_000, output_tokens=10), text="."))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asks("a"))
        assert await run.result() == "."
        (settled,) = await events_of(run, ModelCallSettled)
        assert settled.over_bound
        assert settled.cost_nanousd == 50_000 * 1_000 + 10 * 5_000
    (alarm,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert HAIKU in alarm.getMessage()
    assert "50010" in alarm.getMessage()
