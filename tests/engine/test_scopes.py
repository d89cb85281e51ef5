"""Limits above the run: what all runs of a tenant or a team may spend, across runs, processes and days."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast import Engine, Workflow, task
from holdfast.core.facts import events as ev
from holdfast.core.facts.commands import Tick
from holdfast.core.values.money import usd
from holdfast.core.values.scopes import ScopeRow
from holdfast.core.views.status import status, waiting_for
from holdfast.engine.runs.mailbox import Delivery, Envelope
from holdfast.errors import InvalidInput, OverLimit
from holdfast.models.providers import Providers
from holdfast.testing.model_server import Fault, ModelServer, Rule, Usage
from tests.engine import spender
from tests.engine.history import events_of
from tests.engine.kit import Time, bounded, engine_at, opened
from tests.engine.test_money import HAIKU, TWELVE, asks, at_the_same_time, held_by_one, hold_of_one
from tests.forks import Fork

CHEAP = Usage(input_tokens=1, output_tokens=1)
CHEAP_TOKENS = 2
COST = 6_000
"""What a reply of that usage costs."""


def history(path: Path) -> Iterator[tuple[int, ev.Event]]:
    """Every event of every run with the number of its transaction's append, in the order of the commits."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    appends: dict[str, int] = {}
    for append_id, payload in db.execute("select append_id, payload from events order by id").fetchall():
        yield appends.setdefault(append_id, len(appends)), ev.decode(payload)
    db.close()


def most_committed(path: Path) -> int:
    """The most that was settled, held and in doubt after any commit, of all runs together; added up here anew."""
    most = now = append = 0
    holds: dict[str, int] = {}
    for number, event in history(path):
        if number != append:
            most, append = max(most, now), number
        match event:
            case ev.ModelCallHeld():
                holds[event.call] = event.hold_nanousd
                now += event.hold_nanousd
            case ev.ModelCallSettled() | ev.ModelCallReconciled():
                now += event.cost_nanousd - holds.pop(event.call)
            case ev.ModelCallFailed():
                now -= holds.pop(event.call)
            case _:
                pass
    return max(most, now)


async def day_of(engine: Engine, tenant: str = "acme", team: str | None = None) -> ScopeRow:
    return (await engine.budgets(tenant, team=team))["day"]


@bounded
async def test_the_runs_of_a_tenant_share_its_day(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(usage=CHEAP, latency_s=0.02, text="."))
    async with opened(store, model=model) as engine:
        hold = await hold_of_one(engine)
        limit = 3 * hold + 24 * COST
        await engine.set_budget("acme", "day", usd(limit))
        runs = [await engine.start(asks("a", "b"), tenant="acme") for _ in range(12)]
        assert [await run.result() for run in runs] == ["."] * 12
        assert at_the_same_time(server) <= 3
        assert await day_of(engine) == ScopeRow((await day_of(engine)).scope, limit, 24 * COST)
        exceeded = [event for run in runs for event in await events_of(run, ev.ScopeExceeded)]
        assert exceeded
        assert not any(event.blocked for event in exceeded)
        assert await engine.waiting([(await day_of(engine)).scope]) == []


@bounded
async def test_what_the_runs_of_a_tenant_use_is_limited_in_tokens_and_in_money(
    store: str, server: ModelServer, model: Providers
) -> None:
    """Neither has room for what the other would let through."""
    server.script.add(Rule(usage=CHEAP, latency_s=0.02, text="."))
    async with opened(store, model=model) as engine:
        held = await held_by_one(engine)
        most = 3 * held.tokens + 24 * CHEAP_TOKENS
        await engine.set_budget("acme", "day", usd(1_000 * held.hold_nanousd), max_tokens=most)
        runs = [await engine.start(asks("a", "b"), tenant="acme") for _ in range(12)]
        assert [await run.result() for run in runs] == ["."] * 12
        assert at_the_same_time(server) <= 3
        day = (await engine.budgets("acme", tokens=True))["day"]
        assert day == ScopeRow(day.scope, most, 24 * CHEAP_TOKENS)
        exceeded = [event for run in runs for event in await events_of(run, ev.ScopeExceeded)]
        assert {(event.scope, event.needed_tokens) for event in exceeded} == {(day.scope, held.tokens)}
        await engine.set_budget("acme", "day", usd(24 * COST + held.hold_nanousd - 1), max_tokens=None)
        late = await engine.start(asks("a"), tenant="acme")
        (wait,) = waiting_for(await late.settled())
        assert (wait.kind, wait.reason) == ("money", "tenant_budget")
        await engine.set_budget("acme", "day", None, max_tokens=24 * CHEAP_TOKENS + held.tokens - 1)
        (wait,) = waiting_for(await late.until(lambda state: any(each.kind == "tokens" for each in waiting_for(state))))
        assert (wait.reason, wait.about) == ("tenant_budget", day.scope)
        assert [(each.wanted, each.left) for each in await engine.waiting([day.scope])] == [(held.tokens, held.tokens - 1)]
        await engine.set_budget("acme", "day", max_tokens=24 * CHEAP_TOKENS + held.tokens)
        assert await late.result() == "."


@bounded
async def test_commands_that_one_scope_refuses_again_and_again_are_decided_one_by_one() -> None:
    """Whatever a store has against them together: a run is not tried for ever."""
    problem = OverLimit("no room", scope="tenant/acme/day/2026-11-24", limit=10, used=12, held=0, wanted=3)
    alone, together = Delivery([envelope()]), Delivery([envelope(), envelope()])
    for tries in range(4):
        assert together.is_spoilt_by(problem) == (tries >= 2)
        assert not alone.is_spoilt_by(problem)
        assert together.heeds(problem)
        assert alone.heeds(problem)
        assert together.shortages[problem.scope].left == -2, "what is overdrawn has nothing left that could be freed"


def envelope() -> Envelope:
    return Envelope(Tick(), None, asyncio.Future())


async def test_a_hold_that_does_not_fit_hurts_nothing_that_was_decided_with_it(
    store: str, server: ModelServer, model: Providers
) -> None:
    """Twelve calls of one step leave as one append, three of which fit: these are made at once."""
    server.script.add(Rule(usage=CHEAP, latency_s=0.02))
    wf = Workflow("gathered")

    @wf.node("ask")
    @task
    async def ask(state, ctx):
        return await ctx.gather(*(ctx.model(HAIKU, "question", max_tokens=100) for _ in range(12)))

    async with opened(store, model=model) as engine:
        probe = await engine.start(wf)
        await probe.result()
        hold = max(held.hold_nanousd for held in await events_of(probe, ev.ModelCallHeld))
        await engine.set_budget("acme", "month", usd(3 * hold + 12 * COST))
        run = await engine.start(wf, tenant="acme")
        assert await run.result() == ["I have read: question"] * 12
        at = [recorded.at_ms for recorded in await run.events() if isinstance(recorded.event, ev.ModelCallHeld)]
        assert at[0] == at[1] == at[2], "as many as fit went in the first append"
        assert len(server.calls) == 24


@bounded
async def test_a_call_beyond_its_tenants_budget_blocks_its_run_until_the_limit_is_raised(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="answer to {user}"))
    async with opened(store, model=model) as engine:
        hold = await hold_of_one(engine)
        await engine.set_budget("acme", "month", usd(hold - 1))
        run = await engine.start(asks("a"), tenant="acme")
        other = await engine.start(asks("a"), tenant="umbrella")
        assert await other.result() == "answer to question a"
        state = await run.settled()
        assert status(state) == "budget_blocked"
        (wait,) = waiting_for(state)
        month = (await engine.budgets("acme"))["month"]
        assert (wait.kind, wait.reason, wait.about) == ("money", "tenant_budget", month.scope)
        assert [(each.run, each.wanted, each.left) for each in await engine.waiting([month.scope])] == [
            (run.id, hold, hold - 1)
        ]
        assert not state.gates
        await engine.set_budget("acme", "month", usd(hold))
        assert await run.result() == "answer to question a"
        assert len(server.calls) == 3


@bounded
async def test_a_limit_that_is_removed_lets_all_runs_go_on(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(text="."))
    async with opened(store, model=model) as engine:
        await engine.set_budget("acme", "day", "0.000001")
        runs = [await engine.start(asks("a"), tenant="acme") for _ in range(5)]
        for run in runs:
            assert status(await run.settled()) == "budget_blocked"
        await engine.set_budget("acme", "day", None)
        assert [await run.result() for run in runs] == ["."] * 5


@bounded
async def test_a_limit_set_at_noon_counts_the_morning(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    async with opened(store, model=model) as engine:
        hold = await hold_of_one(engine)
        for _ in range(3):
            await (await engine.start(asks("a"), tenant="acme")).result()
        await engine.set_budget("acme", "day", usd(3 * COST + hold - 1))
        run = await engine.start(asks("a"), tenant="acme")
        assert status(await run.settled()) == "budget_blocked"


@bounded
async def test_a_team_has_limits_of_its_own_below_its_tenant(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    async with opened(store, model=model) as engine:
        await engine.set_budget("acme", "day", "0.000001", team="search")
        blocked = await engine.start(asks("a"), tenant="acme", team="search")
        others = [
            await engine.start(asks("a"), tenant="acme", team="sales"),
            await engine.start(asks("a"), tenant="acme"),
            await engine.start(asks("a"), tenant="umbrella", team="search"),
        ]
        assert [await run.result() for run in others] == ["."] * 3
        assert [wait.reason for wait in waiting_for(await blocked.settled())] == ["team_budget"]
        assert (await day_of(engine)).settled == 2 * COST
        assert (await day_of(engine, team="sales")).settled == COST


@bounded
async def test_tomorrow_is_another_day(tmp_path: Path, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    now = Time()
    async with engine_at(tmp_path, now, model=model) as engine:
        hold = await hold_of_one(engine)
        await engine.set_budget("acme", "day", usd(hold + COST - 1))
        run = await engine.start(asks("a", "b"), tenant="acme")
        state = await run.settled()
        assert status(state) == "budget_blocked"
        (wait,) = waiting_for(state)
        assert wait.due_at_ms is not None
        assert 0 < wait.due_at_ms - now.ms <= 86_400_000
        now.ms = wait.due_at_ms - 1
        await asyncio.sleep(0.3)
        assert status(await run.settled()) == "budget_blocked"
        yesterday = await day_of(engine)
        now.ms = wait.due_at_ms
        assert await run.result() == "."
        assert await day_of(engine) != yesterday
        assert (await day_of(engine)).settled == COST
        assert (await engine.runtime.store.scopes.balances([yesterday.scope]))[0].settled == COST
        assert (await engine.budgets("acme"))["month"].settled in (COST, 2 * COST)  # the last day of a month


@bounded
async def test_a_limit_that_cannot_be_used_is_refused(store: str) -> None:
    async with opened(store, execute=False) as engine:
        for wrong in ("a lot", "-1", "nan"):
            with pytest.raises(InvalidInput, match="Nothing was changed"):
                await engine.set_budget("acme", "day", wrong)
        for few in (-1, 0.5, "many", True, 10**16):
            with pytest.raises(InvalidInput, match=r"no number of tokens; it is a whole one.*Nothing was changed"):
                await engine.set_budget("acme", "day", "1", max_tokens=few)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="limit_usd, max_tokens or both"):
            await engine.set_budget("acme", "day")
        with pytest.raises(InvalidInput):
            await engine.set_budget("\ud800", "day", "1")
        assert (await day_of(engine)).limit is None


def test_invariant_11_two_processes_never_pass_a_tenants_limit(tmp_path: Path, server: ModelServer) -> None:
    """They race for it call by call; what is settled, held and in doubt is added up from the histories alone."""
    server.script.add(Rule(usage=CHEAP, latency_s=0.01, text="."))
    path = tmp_path / "holdfast.db"
    limit = asyncio.run(spender.limit(str(path), calls=3))
    environment = {**os.environ, **server.environment}
    both = [Fork("tests.engine.spender", path, "crowd", environment=environment) for _ in range(2)]
    try:
        for process in both:
            assert process.communicate(timeout=60)[0].endswith("done\n")
    finally:
        for process in both:
            process.kill()
    events = [event for _, event in history(path)]
    assert sum(isinstance(event, ev.RunCompleted) for event in events) == 2 * spender.CROWD
    assert any(isinstance(event, ev.ScopeExceeded) for event in events)
    assert len(server.calls) == 2 * spender.CROWD * len(TWELVE)
    assert limit / 2 < most_committed(path) <= limit


@bounded
async def test_all_who_wait_behind_one_used_up_limit_have_the_same_status(
    store: str, server: ModelServer, model: Providers
) -> None:
    """Also those who came while a call was in flight that might have left enough, and left its money in doubt."""
    async with opened(store, model=model) as engine:
        hold = await hold_of_one(engine)
        server.script.add(Rule(times=1, latency_s=0.3, fault=Fault("missing_usage")))
        await engine.set_budget("acme", "day", usd(hold + 24 * COST))
        first = await engine.start(asks("a"), tenant="acme")
        await first.until(lambda state: state.budget.held_nanousd > 0)
        others = [await engine.start(asks("a"), tenant="acme") for _ in range(5)]
        for run in others:
            await run.until(lambda state: state.short)
        await first.result()
        for run in others:
            await run.until(lambda state: status(state) == "budget_blocked")
            (wait,) = waiting_for(await run.state())
            assert (wait.kind, wait.reason) == ("money", "tenant_budget")
        seqs = [(await run.state()).seq for run in others]
        await asyncio.sleep(0.5)  # nothing may happen now, again and again
        assert [(await run.state()).seq for run in others] == seqs
        (doubt,) = await engine.doubts()
        await engine.reconcile(doubt.call, 0)
        await asyncio.gather(*(run.result() for run in others))
