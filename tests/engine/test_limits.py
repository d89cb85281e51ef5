"""Caps on calls and on time, from the run's limit to what the model server and the tool saw; and what a model is told of them."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import Engine, RunFailed, Workflow, branch, flow, llm_node, step, task, tool
from holdfast.core.facts.events import GuardJudged, LimitNeared, LimitWouldStop, ModelCallHeld, ModelCallSettled, ValueRecorded
from holdfast.core.rules.limits import LimitsLeft
from holdfast.core.values.money import usd
from holdfast.core.views.status import status
from holdfast.errors import InvalidInput, UsageError
from holdfast.evaluation.recording import recorded
from holdfast.evaluation.replaying import replay
from holdfast.models.providers import Providers
from holdfast.testing.model_server import Fault, ModelServer, Rule, ToolCall, Usage
from tests.engine.history import events_of
from tests.engine.kit import Time, die, engine_at, gate_of

HAIKU = "claude-haiku-4-5"


def wide(branches: int, **limits: Any) -> Workflow:
    """Branches at once, each of which asks a model."""
    wf = Workflow("wide", **limits)
    wf.node("end")(task(lambda state: "done"))
    for number in range(branches):
        wf.node(f"n{number}")(llm_node(model=HAIKU, max_tokens=50)(lambda state, number=number: f"question {number}"))
        wf.edge(f"n{number}", "end")
    return wf


async def stopped(run: Any, reason: str) -> dict[str, Any]:
    """What the gate shows that stopped the run, once nothing is under way any more."""
    state = await run.until(lambda state: not state.active and len(state.gates) == 1)
    (gate,) = state.gates.values()
    assert gate.opened.reason == reason
    shown: dict[str, Any] = gate.opened.shown.value()
    return shown


async def test_parallel_branches_keep_the_cap_on_calls_and_continue_when_it_is_raised(
    store: str, server: ModelServer, model: Providers
) -> None:
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(wide(8, max_model_calls=3))
        shown = await stopped(run, "max_model_calls")
        assert len(server.calls) == 3
        assert sum(each["status"] == "completed" for each in shown["so_far"]["done"]) <= 3
        await engine.extend(run.id, "model_calls", 8)
        assert await run.result() == "done"
        assert len(server.calls) == 8
        assert [each.percent for each in await events_of(run, LimitNeared)][-1] == 100


async def test_a_cap_outlives_the_process_that_counted(tmp_path: Path, server: ModelServer, model: Providers) -> None:
    """The call of the dead was billed; its repeat is another call."""
    now = Time()
    server.script.add(Rule(times=1, fault=Fault("hang")))
    wf = wide(1, max_model_calls=2)
    async with engine_at(tmp_path, now, model=model, workflows=[wf], call_grace_s=0) as first:
        run = await first.start(wf)
        await run.until(lambda state: state.model_calls == 1)
        await asyncio.to_thread(_until_called, server)
        await die(first)
        async with engine_at(tmp_path, now, model=model, workflows=[wf]) as second:
            assert await second.run(run.id).result() == "done"
            assert (await second.run(run.id).state()).model_calls == len(server.calls) == 2


def _until_called(server: ModelServer) -> None:
    while not server.calls:
        pass


async def test_a_start_says_its_own_caps_and_bad_ones_start_nothing(store: str, server: ModelServer, model: Providers) -> None:
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(wide(2), max_model_calls=1, max_tool_calls=1, max_wall_s=3600)
        await stopped(run, "max_model_calls")
        for given in ({"max_model_calls": 0}, {"max_tool_calls": 2.5}, {"max_wall_s": float("inf")}, {"on_limit": "stop"}):
            with pytest.raises(InvalidInput, match="No run was started"):
                await engine.start(wide(2), **given)


async def test_tools_are_called_as_often_as_the_cap_allows(store: str) -> None:
    sent: list[int] = []

    @tool(effect="once")
    def send(number: int) -> int:
        sent.append(number)
        return number

    @flow(max_tool_calls=2, on_limit="fail")
    async def sends(ctx) -> str:
        for number in range(5):
            await ctx.tool(send, number=number)
        return "all"

    async with Engine.open(store) as engine:
        run = await engine.start(sends)
        with pytest.raises(RunFailed, match="used up its calls of tools, 2 of 2"):
            await run.result()
        assert sent == [0, 1]


async def test_wall_time_counts_while_a_run_waits_for_a_person(tmp_path: Path) -> None:
    now = Time()

    @flow(max_wall_s=3600)
    async def asks(ctx) -> str:
        await ctx.ask("Shall it go on?")
        return "yes"

    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(asks)
        asked = await gate_of(run)
        now.forward(4000)
        state = await run.until(lambda state: len(state.gates) == 2)
        assert status(state) == "requires_attention"
        await engine.decide(asked, "answer", "yes")
        assert (await run.state()).active == {}, "who answers does not set it going again"
        await engine.extend(run.id, "wall", 8000)
        assert await run.result() == "yes"


async def test_a_dry_run_goes_on_and_tells_where_it_would_have_stopped(
    store: str, server: ModelServer, model: Providers
) -> None:
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(wide(4, max_model_calls=2, cost_limit_usd="0.0001"), on_limit="record")
        assert await run.result() == "done"
        assert len(server.calls) == 4
        assert sorted(event.limit for event in await events_of(run, LimitWouldStop)) == ["cost", "model_calls"]


async def test_a_reply_billed_above_its_bound_is_the_last_that_passes_the_limit(
    store: str, server: ModelServer, model: Providers
) -> None:
    """Calls in a row of which each is billed 10,000 tokens that were never sent. What is held after the first covers them."""
    server.script.add(Rule(usage=Usage(input_tokens=10_000, output_tokens=10), text="."))
    wf = Workflow("row")
    for number in range(5):
        wf.node(f"n{number}")(llm_node(model=HAIKU, max_tokens=1000)(lambda state, number=number: f"question {number}"))
        if number:
            wf.edge(f"n{number - 1}", f"n{number}")
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(wf, cost_limit_usd="0.07")
        await stopped(run, "budget")
        state = await run.state()
        assert state.budget.limit_nanousd is not None
        assert state.budget.settled_nanousd <= state.budget.limit_nanousd
        assert state.bound_percents[HAIKU] > 100
        held = await events_of(run, ModelCallHeld)
        assert [event.bound_percent for event in held] == [100, *[state.bound_percents[HAIKU]] * 2]
        assert [event.over_bound for event in await events_of(run, ModelCallSettled)] == [True, *[False] * (len(held) - 1)]


# --- What is left ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("replays")
async def test_what_is_left_is_recorded_and_a_replay_gets_the_same(store: str) -> None:
    seen: list[int | None] = []

    @tool(effect="idempotent")
    def look() -> None: ...

    @flow(max_tool_calls=3)
    async def looks(ctx) -> int | None:
        await ctx.tool(look)
        first = await ctx.left()
        seen.append(first.tool_calls)
        await ctx.tool(look)
        await ctx.wait_signal("go")
        return (await ctx.left()).tool_calls

    async with Engine.open(store) as engine:
        run = await engine.start(looks)
        await run.until(lambda state: status(state) == "waiting")
        await engine.signal(run.id, "go")
        assert await run.result() == 1
        assert seen == [2, 2]


async def test_a_budget_notice_shows_a_model_its_remaining_calls_and_when_to_end(
    store: str, server: ModelServer, model: Providers
) -> None:
    @tool(effect="read")
    def look() -> str:
        return "nothing yet"

    server.script.add(Rule(times=4, tool_calls=(ToolCall("look", {}),)))
    wf = Workflow("told", max_model_calls=5)
    wf.node("agent")(llm_node(model=HAIKU, tools=[look], tell_budget=True)(lambda state: "Find it."))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(wf)
        await run.result()
        said = [call.user for call in server.calls]
        notices = [text.rpartition("[Budget")[2] for text in said]
        assert [f"{left} model calls left." in text for left, text in zip((5, 4, 3, 2, 1), notices, strict=True)] == [True] * 5
        assert ["come to an end now" in text for text in notices] == [False, False, False, False, True]
        told = [event for event in await events_of(run, ValueRecorded) if event.kind == "left"]
        assert len(told) == 5, "each is recorded beside its call"


# --- Tools that have a price ------------------------------------------------------------------------------------------------


async def test_tools_with_a_price_stay_within_the_runs_limit_and_their_cost_is_the_runs(store: str) -> None:
    looked: list[int] = []

    @tool(effect="read", price_usd="0.02")
    async def look(number: int) -> int:
        looked.append(number)
        await asyncio.sleep(0.01)
        return number

    @flow(cost_limit_usd="0.05")
    async def looks(ctx) -> list[int]:
        return await ctx.gather(*(ctx.tool(look, number=number) for number in range(4)))

    async with Engine.open(store) as engine:
        run = await engine.start(looks)
        shown = await stopped(run, "budget")
        assert len(looked) == 2
        assert shown["so_far"]["under_way"][0]["cost_usd"] == "0.04"
        await engine.raise_budget(run.id, "0.08")
        assert await run.result() == [0, 1, 2, 3]
        assert (await run.state()).budget.settled_nanousd == 80_000_000


async def test_a_tools_price_counts_in_the_day_of_its_tenant(store: str) -> None:
    @step(effect="once", price_usd="0.02")
    def send(number: int) -> int:
        return number

    @flow
    async def sends(ctx) -> int:
        for number in range(3):
            await send(number)
        return 3

    async with Engine.open(store) as engine:
        with pytest.raises(InvalidInput, match=r"period is 'year'; it is one of day, month\. Nothing was changed\."):
            await engine.set_budget("default", "year", 1)  # type: ignore[arg-type]
        await engine.set_budget("default", "day", "0.05")
        run = await engine.start(sends)
        await run.until(lambda state: not state.active and status(state) == "budget_blocked")
        assert (await engine.budgets("default"))["day"].settled == 40_000_000
        await engine.set_budget("default", "day", "0.10")
        assert await run.result() == 3
        assert (await engine.budgets("default"))["day"].used == 60_000_000


def test_a_price_that_is_none_is_refused_where_it_is_declared() -> None:
    for price in ("cheap", -1, "nan"):
        with pytest.raises(UsageError, match="price_usd"):
            tool(effect="read", price_usd=price)(lambda: None)
    with pytest.raises(UsageError, match="touches the world"):
        step(price_usd="0.02")(lambda: None)  # type: ignore[call-overload]


# --- What guards and conditions see -----------------------------------------------------------------------------------


def _spending(seen: list[Any], calls: int) -> Workflow:
    """The dear way is taken while two calls of a model are left, the cheap one else."""
    wf = Workflow(
        "spending",
        max_model_calls=calls,
        cost_limit_usd=1,
        max_tokens=100_000,
        max_tool_calls=7,
        max_steps=50,
        max_wall_s=3600,
        max_active_s=60,
    )

    def affordable(state: Any) -> bool:
        seen.append(state.left)
        return bool(state.left.model_calls >= 2)

    wf.node("first")(llm_node(model=HAIKU, max_tokens=50)(lambda state: "question"))
    wf.node("way")(branch(lambda state: "cheap" if state.left.model_calls < 2 else ["dear", "cheap"]))
    wf.node("dear")(task(lambda state: "dear"))
    wf.node("cheap")(task(lambda state: "cheap"))
    wf.edge("first", "way")
    wf.edge("way", "dear", guard=affordable)
    wf.edge("way", "cheap", guard=lambda state: state.left.model_calls < 2)
    return wf


@pytest.mark.parametrize(("calls", "output"), [(2, "cheap"), (3, "dear")])
async def test_a_guard_and_a_branch_see_what_is_left_of_every_limit(
    store: str, server: ModelServer, model: Providers, calls: int, output: str
) -> None:
    seen: list[LimitsLeft] = []
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(_spending(seen, calls))
        result = await run.result()
        assert (result if isinstance(result, str) else result[output]) == output
        spent = (await run.state()).budget.settled_nanousd
    for left in seen:
        assert (left.model_calls, left.tool_calls, left.steps) == (calls - 1, 7, 48)
        assert Decimal(left.cost_usd or 0) * 10**9 == 10**9 - spent
        assert left.tokens is not None
        assert 0 < left.tokens < 100_000
        assert left.active_s is not None
        assert left.wall_s is not None
        assert 0 < left.active_s <= 60
        assert 0 < left.wall_s <= 3600
    assert len(seen) == (calls > 2)


# --- What is left above a run -----------------------------------------------------------------------------------------


def _guarded(seen: list[Any], least_usd: str = "0.5") -> Workflow:
    """The dear way is taken while enough is left of every budget."""
    wf = Workflow("guarded")

    def affordable(state: Any) -> bool:
        seen.append(state.left)
        return bool(Decimal(state.left.spendable_usd) >= Decimal(least_usd))

    wf.node("way")(task(lambda state: state.left.above is None))
    wf.node("dear")(task(lambda state: "dear"))
    wf.node("cheap")(task(lambda state: "cheap"))
    wf.edge("way", "dear", guard=affordable)
    wf.edge("way", "cheap", guard=lambda state: not affordable(state))
    return wf


@pytest.mark.parametrize(("spent", "output"), [(1, "dear"), (2, "cheap")])
async def test_a_guard_sees_what_is_left_of_every_budget_above_its_run(store: str, spent: int, output: str) -> None:
    @step(effect="once", price_usd="0.3")
    def send(number: int) -> int:
        return number

    @flow
    async def sends(ctx) -> None:
        for number in range(spent):
            await send(number)

    @flow
    async def asks(ctx) -> Any:
        return await ctx.child("guarded", None, cost_limit_usd="3")

    seen: list[Any] = []
    async with Engine.open(store, workflows=[sends, asks, _guarded(seen)]) as engine:
        await engine.set_budget("acme", "day", "1", max_tokens=900)
        await engine.set_budget("acme", "month", "20", team="search")
        await (await engine.start(sends, tenant="acme")).result()
        run = await engine.start(asks, tenant="acme", team="search", cost_limit_usd="5")
        assert await run.result() == output
        left = usd(10**9 - spent * 3 * 10**8)
        above = {each.scope.rpartition("/")[0]: each for each in seen[0].above}
        assert above["tenant/acme/day"].cost_usd == left == seen[0].spendable_usd
        assert above["tenant/acme/day"].percent_used == 30 * spent
        assert above["tokens/tenant/acme/day"].tokens == 900 == seen[0].spendable_tokens
        assert above["team/acme/search/month"].cost_usd == "20.00"
        assert above["tree"].cost_usd == "5.00"
        assert seen[0].cost_usd == "3.00"
        [child] = await engine.runtime.store.views.runs(workflow="guarded")
        judged = await events_of(engine.run(child.run), GuardJudged)
        assert {each.above for each in judged} == {seen[0].above}, "what it saw is recorded"


async def test_a_guard_that_is_replayed_sees_what_it_saw(tmp_path: Path) -> None:
    """Elsewhere, where nobody has the tenant's budgets."""
    seen: list[Any] = []
    wf = _guarded(seen)
    async with engine_at(tmp_path, Time(), workflows=[wf]) as engine:
        await engine.set_budget("acme", "day", "0.4")
        run = await engine.start(wf, tenant="acme", cost_limit_usd="5")
        assert await run.result() == "cheap"
        record = await recorded(engine, run.id, None)
        saw, _ = seen[:], seen.clear()
    [found] = [each async for each in replay([record], [wf])]
    assert (found.passed, seen[0].above) == (True, saw[0].above)


@pytest.mark.usefixtures("replays")
async def test_what_is_left_above_is_recorded_and_a_replay_gets_the_same(store: str) -> None:
    seen: list[Any] = []

    @flow
    async def looks(ctx) -> str | None:
        seen.append(await ctx.left())
        await ctx.wait_signal("go")
        return (await ctx.left()).spendable_usd

    async with Engine.open(store, workflows=[looks]) as engine:
        await engine.set_budget("default", "day", "1")
        run = await engine.start(looks)
        await run.until(lambda state: status(state) == "waiting")
        await engine.set_budget("default", "day", "2")
        await engine.signal(run.id, "go")
        assert await run.result() == "2.00"
    assert [each.spendable_usd for each in seen] == ["1.00", "1.00"]
    assert seen[0] == seen[1]
