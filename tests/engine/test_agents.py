"""Agents in flows: the loop of an `llm_node` as one call of plain Python, its tools, and workflows that do what it asks."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Context, RunFailed, Workflow, child, flow, llm_node, map_node, step, task, tool
from holdfast.core.facts import events as ev
from holdfast.errors import UsageError
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.engine.history import events_of
from tests.engine.kit import bounded, die, opened

HAIKU = "claude-haiku-4-5"
world: list[str] = []


@pytest.fixture(autouse=True)
def fresh_world() -> None:
    world.clear()


class Verdict(BaseModel):
    risk: str
    score: int


class Account(BaseModel):
    name: str


@tool(effect="read")
async def look(where: str) -> str:
    """Look somewhere."""
    world.append(f"look {where}")
    return f"nothing at {where}"


@step(effect="idempotent", key="pay:{name}", compensation="take_back")
def pay(name: str, amount: int = 1, key: str = "") -> str:
    world.append(f"pay {name} {amount}")
    return f"paid {name}"


@tool(effect="idempotent")
def take_back(name: str) -> None:
    world.append(f"take back {name}")


@step
async def bare(name: str) -> str:
    return name


@flow
async def research(ctx: Context, account: Account) -> dict[str, str]:
    """Find out who somebody is."""
    return {"who": f"{account.name} is known"}


@flow(cost_limit_usd=1)
async def clerk(ctx: Context, asked: dict[str, Any]) -> dict[str, Any]:
    said = await ctx.agent(HAIKU, asked["question"], tools=[look, pay, research], system="You are a clerk.", max_tokens=100)
    verdict = await ctx.agent(HAIKU, f"Judge: {said}", output=Verdict, max_tokens=100)
    if verdict.score < 0:
        raise ValueError("not good enough")
    return {"said": said, "score": verdict.score}


def asks(*calls: tuple[str, dict[str, Any]]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(name, given) for name, given in calls)


# --- What is promised ---------------------------------------------------------------------------------------------------


@bounded
async def test_a_flow_has_the_loop_of_an_agent_with_tools_and_workflows(
    store: str, server: ModelServer, model: Providers
) -> None:
    """Each turn is an operation, so what a killed process had paid for is not paid for again."""
    server.script.add(
        Rule(turn=1, user="who", tool_calls=asks(("look", {"where": "door"}), ("research", {"name": "Ada"}))),
        Rule(turn=2, user="who", tool_calls=asks(("pay", {"name": "ada", "amount": 5}))),
        Rule(turn=3, user="who", text="Ada, paid."),
        Rule(user="Judge", output={"risk": "low", "score": 3}),
    )
    async with opened(store, model=model, workflows=[clerk]) as first:
        run = await first.start(clerk, {"question": "who?"})
        await run.until(lambda state: state.children_asked > 0)
        await die(first)
    async with opened(store, model=model, workflows=[clerk]) as second:
        run = second.run(run.id)
        assert await run.result() == {"said": "Ada, paid.", "score": 3}
        intents = await events_of(run, ev.EffectIntended)
        assert [each.tool for each in intents if each.tool != "look"] == ["pay"]
        assert len(await events_of(run, ev.ChildRequested)) == 1
    assert set(world) == {"look door", "pay ada 5"}
    assert world.count("pay ada 5") == 1
    assert [call.turn for call in server.calls] == [1, 2, 3, 1]


@bounded
async def test_an_agents_effect_happens_once_by_its_key_and_is_undone_with_its_flow(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(
        Rule(turn=1, user="go", tool_calls=asks(("pay", {"name": "ada"}), ("pay", {"name": 3}))),
        Rule(turn=2, user="go", tool_calls=asks(("pay", {"name": "ada"}))),
        Rule(turn=3, user="go", text="Done."),
        Rule(user="Judge", output={"risk": "high", "score": -1}),
    )
    async with opened(store, model=model, workflows=[clerk]) as engine:
        run = await engine.start(clerk, {"question": "go"})
        with pytest.raises(RunFailed, match="not good enough"):
            await run.result()
        (denied,) = await events_of(run, ev.ToolCallDenied)
        assert denied.error.error_class == "schema"
    assert world == ["pay ada 1", "take back ada"]


# --- What is refused ----------------------------------------------------------------------------------------------------


def called(name: str) -> Workflow:
    return Workflow(name)


@pytest.mark.parametrize(
    ("tools", "output", "why"),
    [
        ([look, called("look")], None, "two things called 'look'"),
        (["look", look], None, "two things called 'look'"),
        ([called("a"), called("a")], None, "two things called 'a'"),
        ([called("final_result")], Verdict, "under which a model gives its answer"),
        ([called("not this")], None, "letters, digits"),
        ([bare], None, "cannot be offered to a model"),
    ],
)
def test_what_a_node_cannot_offer_is_refused_where_it_is_defined(tools: list[Any], output: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        llm_node(model=HAIKU, tools=tools, output=output)


@flow
async def confused(ctx: Context, kind: str) -> Any:
    second: dict[str, Any] = {"twice": look, "bare": bare, "turns": research}
    return await ctx.agent(HAIKU, "hello", tools=[look, second[kind]], max_turns=0 if kind == "turns" else 10)


graph = Workflow("graph")


@graph.node("asks")
@task(tools=[pay])
async def asks_in_a_graph(state: Any, ctx: Context) -> Any:
    return await ctx.agent(HAIKU, "hello", tools=[pay, look])


@bounded
async def test_what_a_flow_cannot_offer_is_refused_before_anything_is_called(
    store: str, server: ModelServer, model: Providers
) -> None:
    async with opened(store, model=model, workflows=[confused, graph]) as engine:
        for workflow, given, why in (
            (confused, "twice", "two things called 'look'.*Nothing was called"),
            (confused, "bare", "cannot be offered"),
            (confused, "turns", "max_turns=0"),
            (graph, None, "'look', which this step does not list"),
        ):
            run = await engine.start(workflow, given)
            with pytest.raises(RunFailed, match=why) as failed:
                await run.result()
            assert failed.value.error.error_class == "validation"
    assert server.calls == []


def test_a_process_with_the_code_of_a_flow_has_that_of_the_workflows_it_offers() -> None:
    offers = [research]

    @flow
    async def listed(ctx: Context) -> Any:
        return await ctx.agent(HAIKU, "hello", tools=offers)

    mapped = Workflow("mapped")
    mapped.node("all")(map_node(lambda state: state.input)(child(workflow=research)(lambda state, item: item)))

    assert (clerk.children, listed.children, mapped.children) == ([research], [research], [research])
