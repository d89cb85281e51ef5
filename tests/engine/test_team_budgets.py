"""Team budgets: agents that share money and tokens, over runs, nodes and processes."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from holdfast import Accepted, Chat, Context, Engine, TeamAgent, WorkerAgent, Workflow, child, flow, llm_node
from holdfast.core.facts import events as ev
from holdfast.core.nouns.team_budgets import Books
from holdfast.core.values.money import usd
from holdfast.core.views.status import waiting_for
from holdfast.errors import InvalidInput, NotFound
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer, Rule, Usage
from tests.engine.history import events_of
from tests.engine.kit import bounded, opened
from tests.engine.test_money import HAIKU, asks, held_by_one

CHEAP = Usage(input_tokens=1, output_tokens=1)
COST = 6_000
"""Nano-dollars of a reply of that usage."""


async def money(engine: Engine) -> Books:
    books = (await engine.team_dashboard("research")).money
    assert books is not None
    return books


@bounded
async def test_an_agent_borrows_for_a_call_and_what_it_does_not_use_goes_back(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    async with opened(store, model=model) as engine:
        hold = (await held_by_one(engine)).hold_nanousd
        await engine.set_team_budget("research", {"writer": 1.5, "critic": 1.0, "planner": 2.0}, total_usd=usd(hold * 8 // 5))
        share = hold * 8 // 5 // 3
        assert [each.allocated for each in (await money(engine)).agents.values()] == [share] * 3
        run = await engine.start(asks("a"), team_budget="research", agent="writer")
        assert await run.result() == "."
        (held,) = await events_of(run, ev.ModelCallHeld)
        missing = hold - share
        first, second = "agent/default/research/critic", "agent/default/research/planner"
        assert held.agent == "writer"
        assert held.loans == {first: share // 2, second: missing - share // 2}, "equally idle: the lowest priority first"
        books = await money(engine)
        assert (books.allocated, books.used, books.held) == (share * 3, COST, 0)
        assert {name: each.allocated for name, each in books.agents.items()} == dict.fromkeys(books.agents, share)
        assert books.agents["writer"].remaining == share - COST
        assert books.remaining == hold * 8 // 5 - COST


@bounded
async def test_what_a_call_uses_of_a_loan_stays_with_who_borrowed(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(usage=Usage(input_tokens=1, output_tokens=90), text="."))
    async with opened(store, model=model) as engine:
        hold = (await held_by_one(engine)).hold_nanousd
        await engine.set_team_budget("research", {"writer": TeamAgent(1.0, 0.01), "critic": 1.0}, total_usd=usd(hold * 5))
        before = await money(engine)
        run = await engine.start(asks("a"), team_budget="research", agent="writer")
        await run.result()
        (settled,) = await events_of(run, ev.ModelCallSettled)
        books = await money(engine)
        own = before.agents["writer"].allocated
        assert books.agents["writer"].allocated == max(own, settled.cost_nanousd)
        assert books.agents["critic"].allocated == before.allocated - books.agents["writer"].allocated
        assert books.agents["writer"].utilization == settled.cost_nanousd / books.agents["writer"].allocated


@bounded
async def test_a_request_that_cannot_be_granted_waits_and_says_what_could_be_granted(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    async with opened(store, model=model) as engine:
        held = await held_by_one(engine)
        hold = held.hold_nanousd
        await engine.set_team_budget("research", {"writer": 1, "critic": 1}, total_usd=usd(hold))
        run = await engine.start(asks("a"), team_budget="research", agent="writer")
        (wait,) = waiting_for(await run.settled())
        assert (wait.reason, wait.about) == ("agent_budget", "agent/default/research/writer")
        (exceeded,) = await events_of(run, ev.ScopeExceeded)
        assert exceeded.blocked
        assert exceeded.grantable == hold // 2 + hold // 4
        assert {name: each.allocated for name, each in (await money(engine)).agents.items()} == {
            "writer": hold // 2,
            "critic": hold // 2,
        }, "nothing was taken from anybody"
        await engine.set_team_budget("research", {"writer": 1, "critic": 1}, total_usd=usd(2 * hold))
        assert await run.result() == "."


@bounded
async def test_a_workflow_that_fails_at_limits_reports_what_could_be_granted(
    store: str, server: ModelServer, model: Providers
) -> None:
    async with opened(store, model=model) as engine:
        held = await held_by_one(engine)
        await engine.set_team_budget("research", {"writer": 1, "critic": 1}, total_tokens=held.tokens)
        run = await engine.start(asks("a"), team_budget="research", agent="writer", on_limit="fail")
        state = await run.settled()
        assert state.error is not None
        could = held.tokens // 2 + held.tokens // 4
        assert f"agent writer in team budget research of default has no room under its limit of {held.tokens // 2} tokens" in (
            state.error.message
        )
        assert f"It could be granted {could} tokens" in state.error.message


@bounded
async def test_the_total_is_never_passed_and_all_loans_add_up_whichever_agent_asks(
    store: str, server: ModelServer, model: Providers
) -> None:
    """Three agents, four times the runs that the budget has room for at once, in two processes' worth of engines."""
    server.script.add(Rule(usage=CHEAP, latency_s=0.01, text="."))
    async with opened(store, model=model) as engine, opened(store, model=model) as other:
        hold = (await held_by_one(engine)).hold_nanousd
        total = hold * 4 + COST * 24
        await engine.set_team_budget("research", {"writer": 1.5, "critic": 1.0, "planner": 2.0}, total_usd=usd(total))
        agents = ["writer", "writer", "writer", "critic"]
        runs = [
            await (engine, other)[number % 2].start(asks("a", "b"), team_budget="research", agent=agents[number % 4])
            for number in range(12)
        ]
        seen = []
        while not all([(await run.state()).ended for run in runs]):
            books = await money(engine)
            seen.append(books.used + books.held + books.in_doubt)
            assert books.allocated <= total
            await asyncio.sleep(0.01)
        assert max(seen) <= total
        assert [await run.result() for run in runs] == ["."] * 12
        holds = [held for run in runs for held in await events_of(run, ev.ModelCallHeld)]
        assert any(held.loans for held in holds)
        books = await money(engine)
        assert (books.used, books.held) == (24 * COST, 0)
        assert books.allocated == total // 3 * 3


@bounded
async def test_each_node_may_be_an_agent_and_children_are_of_theirs(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    inner = asks("a", "b")
    wf = Workflow("team")

    @wf.node("plan")
    @llm_node(model=HAIKU, max_tokens=100)
    async def plan(state):
        return "question"

    @wf.node("research", agent="researcher")
    @child(workflow=inner)
    def research(state):
        return None

    @wf.node("criticise", agent="critic")
    @llm_node(model=HAIKU, max_tokens=100)
    async def criticise(state):
        return "question"

    for source, target in pairwise(["plan", "research", "criticise"]):
        wf.edge(source, target)
    async with opened(store, model=model) as engine:
        await engine.set_team_budget(
            "research", {"planner": 2.0, "researcher": 1.0, "critic": 1.0}, total_usd="1", total_tokens=100_000
        )
        run = await engine.start(wf, team_budget="research", agent="planner")
        assert await run.result() == "."
        board = await engine.team_dashboard("research")
        assert board.money is not None
        assert board.tokens is not None
        assert {name: each.used for name, each in board.money.agents.items()} == {
            "planner": COST,
            "researcher": 2 * COST,
            "critic": COST,
        }
        assert {name: each.used for name, each in board.tokens.agents.items()} == {"planner": 2, "researcher": 4, "critic": 2}


@bounded
async def test_who_is_no_agent_of_the_budget_is_refused_before_a_run_begins(store: str) -> None:
    wf = asks("a")
    async with opened(store) as engine:
        with pytest.raises(InvalidInput, match="has no team budget 'research'"):
            await engine.start(wf, team_budget="research", agent="writer")
        await engine.set_team_budget("research", {"writer": 1, "critic": 1}, total_usd="1")
        with pytest.raises(InvalidInput, match=r"'boss' is no agent of the team budget 'research'; those are critic, writer"):
            await engine.start(wf, team_budget="research", agent="boss")
        with pytest.raises(InvalidInput, match="give team_budget and agent, or none of both"):
            await engine.start(wf, agent="writer")
        with pytest.raises(InvalidInput, match="Say what the total is"):
            await engine.set_team_budget("research", {"writer": 1})
        with pytest.raises(InvalidInput, match="The total cannot be used"):
            await engine.set_team_budget("research", {"writer": 1}, total_usd="-1")
        await engine.remove_team_budget("research")
        with pytest.raises(NotFound, match="has no team budget 'research'"):
            await engine.team_dashboard("research")


@bounded
async def test_an_agent_that_its_budget_no_longer_knows_is_granted_nothing(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(usage=CHEAP, latency_s=0.01, text="."))
    async with opened(store, model=model) as engine:
        await engine.set_team_budget("research", {"writer": 1, "critic": 1}, total_usd="1")
        first = await engine.start(asks("a"), team_budget="research", agent="writer")
        await first.result()
        late = await engine.start(asks("a"), team_budget="research", agent="critic")
        await late.result()
        await engine.set_team_budget("research", {"writer": 1}, total_usd="1")
        books = await money(engine)
        assert books.agents["critic"].remaining == 0
        assert books.agents["writer"].allocated == 10**9 - COST
        with pytest.raises(InvalidInput):
            await engine.start(asks("a"), team_budget="research", agent="nobody")


@bounded
async def test_a_supervisors_runs_spend_as_the_agent_of_the_workers_name(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    async with opened(store, model=model) as engine:
        workers = [WorkerAgent(name, asks("a"), [f"{name}'s"]) for name in ("planner", "writer")]
        with pytest.raises(InvalidInput, match="no team budget 'research'"):
            await engine.set_supervisor("desk", workers, team_budget="research")
        await engine.set_team_budget("research", {"planner": 1.0}, total_usd=1)
        with pytest.raises(InvalidInput, match="'writer' is no agent"):
            await engine.set_supervisor("desk", workers, team_budget="research")
        await engine.set_team_budget("research", {"planner": 1.0, "writer": 1.0}, total_usd=1)
        desk = await engine.set_supervisor("desk", workers, team_budget="research")
        tasks = [await desk.submit(f"{name}'s", {}) for name in ("planner", "writer")]
        for task in tasks:
            assert isinstance(task, Accepted)
            assert (await desk.wait(task.task_id)).result == "."
        assert {name: each.used for name, each in (await money(engine)).agents.items()} == dict.fromkeys(
            ("planner", "writer"), COST
        )


@bounded
async def test_what_a_schedule_starts_spends_as_an_agent_of_its_team_budget(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    wf, paid = asks("a"), {"team_budget": "research", "agent": "writer"}
    async with opened(store, workflows=[wf], model=model) as engine:
        with pytest.raises(InvalidInput, match="no team budget 'research'"):
            await engine.set_schedule("nightly", wf, "0 0 * * *", **paid)
        await engine.set_team_budget("research", {"planner": 1.0, "writer": 1.0}, total_usd=1)
        with pytest.raises(InvalidInput, match="'critic' is no agent"):
            await engine.set_schedule("nightly", wf, "0 0 * * *", team_budget="research", agent="critic")
        with pytest.raises(InvalidInput, match="give team_budget and agent, or none of both"):
            await engine.set_schedule("nightly", wf, "0 0 * * *", team_budget="research")
        assert not await engine.schedules()
        await engine.set_schedule("nightly", wf, "0 0 * * *", **paid)
        day_ms, now_ms = 86_400_000, engine.store.clock.now_ms()
        (made, *_) = await engine.backfill_schedule("nightly", now_ms - day_ms, now_ms)
        await engine.run(made.run).result()
        assert {name: each.used for name, each in (await money(engine)).agents.items()} == {"planner": 0, "writer": COST}
        await engine.remove_team_budget("research")
        with pytest.raises(InvalidInput, match="no team budget 'research'"):
            await engine.backfill_schedule("nightly", now_ms - 2 * day_ms, now_ms - day_ms)


@bounded
async def test_what_a_conversation_spends_counts_in_its_team_budget_and_in_its_own(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))

    @flow
    async def helper(ctx: Context, chat: Chat) -> str:
        return await ctx.model(HAIKU, chat, max_tokens=100)

    async with opened(store, workflows=[helper], model=model) as engine:
        with pytest.raises(InvalidInput, match="no team budget 'research'"):
            await engine.open_conversation("c", helper, team_budget="research", agent="writer")
        await engine.set_team_budget("research", {"planner": 1.0, "writer": 1.0}, total_usd=1)
        await engine.open_conversation("c", "helper", team_budget="research", agent="writer", cost_limit_usd=1)
        for number in (1, 2):
            await engine.send_message("c", "And?")
            assert (await engine.reply("c", number)).reply == "."
        assert {name: each.used for name, each in (await money(engine)).agents.items()} == {"planner": 0, "writer": 2 * COST}
        assert (await engine.conversation("c")).books.settled == 2 * COST
        await engine.remove_team_budget("research")
        number = (await engine.send_message("c", "And now?")).number
        answered = await engine.reply("c", number)
        assert (answered.status, answered.run) == ("failed", None)
        assert "no team budget 'research'" in (answered.problem or "")
