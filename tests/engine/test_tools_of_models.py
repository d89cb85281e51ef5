"""The agent loop's tools and a model that chooses the way: what a model may do, and what it is told when it may not."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

from holdfast import Engine, RunFailed, TransitionDenied, Workflow, branch, llm_node, task, tool
from holdfast.core.facts import events as ev
from holdfast.models.providers import Providers
from holdfast.models.wire import PARTS
from holdfast.testing.model_server import Fault, ModelServer, Rule, ToolCall

HAIKU = "claude-haiku-4-5"


class Verdict(BaseModel):
    risk: str
    score: int


def agent(world: list[str], *, tools: list[str] = ["look", "weigh"], **options) -> Workflow:  # noqa: B006
    wf = Workflow("agent")

    @tool(effect="read")
    async def look(where: str) -> str:
        world.append(f"look {where}")
        return f"nothing at {where}"

    @tool(effect="read")
    async def weigh(kilos: int) -> int:
        world.append(f"weigh {kilos}")
        if kilos < 0:
            raise ValueError("nothing weighs less than nothing")
        return kilos

    @tool(effect="once")
    async def forbidden() -> str:
        world.append("forbidden")
        return "done"

    known = {"look": look, "weigh": weigh, "forbidden": forbidden}

    @wf.node("agent")
    @llm_node(model=HAIKU, tools=[known[name] for name in tools], max_tokens=300, **options)
    async def agent_node(state):
        return {"system": "Look around.", "user": "begin"}

    return wf


async def result(store: str, model: Providers, wf: Workflow):
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(wf)
        output = await run.result()
        return output, [recorded.event for recorded in await run.events()]


async def test_the_tools_of_one_turn_run_at_the_same_time(store: str, server: ModelServer, model: Providers) -> None:
    wf = Workflow("together")
    meet = asyncio.Barrier(3)

    @tool(effect="read")
    async def wait(number: int) -> int:
        await asyncio.wait_for(meet.wait(), 60)
        return number

    @wf.node("agent")
    @llm_node(model=HAIKU, tools=[wait])
    async def agent_node(state):
        return "begin"

    server.script.add(
        Rule(turn=1, tool_calls=tuple(ToolCall("wait", {"number": n}) for n in (1, 2, 3))), Rule(turn=2, text="all met")
    )
    output, _ = await result(store, model, wf)
    assert output == "all met"
    assert [call.turn for call in server.calls] == [1, 2]


async def test_a_tool_outside_the_nodes_list_is_denied_on_record_and_to_the_model(
    store: str, server: ModelServer, model: Providers
) -> None:
    world: list[str] = []
    server.script.add(Rule(turn=1, fault=Fault("unknown_tool")), Rule(turn=2, text="fine"))
    output, events = await result(store, model, agent(world, tools=["look"]))
    assert output == "fine"
    assert world == []
    (denied,) = [event for event in events if isinstance(event, ev.ToolCallDenied)]
    assert denied.error.error_class == "denied"
    assert len(server.calls) == 2


async def test_arguments_that_do_not_fit_never_reach_the_tool_and_the_model_may_mend_them(
    store: str, server: ModelServer, model: Providers
) -> None:
    world: list[str] = []
    server.script.add(
        Rule(turn=1, tool_calls=(ToolCall("weigh", {"kilos": "many"}),)),
        Rule(turn=2, tool_calls=(ToolCall("weigh", {"kilos": 7}),)),
        Rule(turn=3, text="seven"),
    )
    output, events = await result(store, model, agent(world))
    assert output == "seven"
    assert world == ["weigh 7"]
    (denied,) = [event for event in events if isinstance(event, ev.ToolCallDenied)]
    assert (denied.tool, denied.error.error_class) == ("weigh", "schema")


async def test_an_error_of_a_tool_is_sent_to_the_model(store: str, server: ModelServer, model: Providers) -> None:
    world: list[str] = []
    server.script.add(Rule(turn=1, tool_calls=(ToolCall("weigh", {"kilos": -1}),)), Rule(turn=2, text="it cannot be weighed"))
    output, events = await result(store, model, agent(world))
    assert output == "it cannot be weighed"
    (failed,) = [event for event in events if isinstance(event, ev.EffectFailed)]
    assert "less than nothing" in failed.error.message


async def test_a_loop_that_does_not_end_stops_at_max_turns_and_calls_nothing_more(
    store: str, server: ModelServer, model: Providers
) -> None:
    world: list[str] = []
    server.script.add(*(Rule(turn=n, tool_calls=(ToolCall("look", {"where": str(n)}),)) for n in range(1, 9)))
    with pytest.raises(RunFailed, match="within 3 turns") as failed:
        await result(store, model, agent(world, max_turns=3))
    assert failed.value.error.error_class == "limit"
    assert len(server.calls) == 3
    assert world == ["look 1", "look 2"]


async def test_tools_and_a_structured_answer_go_together(store: str, server: ModelServer, model: Providers) -> None:
    world: list[str] = []
    server.script.add(
        Rule(turn=1, tool_calls=(ToolCall("look", {"where": "door"}),)), Rule(turn=2, output={"risk": "low", "score": 3})
    )
    output, _ = await result(store, model, agent(world, output=Verdict))
    assert output == {"risk": "low", "score": 3}
    assert world == ["look door"]


def routed(**edges) -> Workflow:
    wf = Workflow("routed")

    @wf.node("route")
    @branch(model=HAIKU)
    async def route(state):
        return {"system": "Choose the way.", "user": "a customer wants money back"}

    wf.node("refund")(task(lambda state: "refund"))
    wf.node("refuse")(task(lambda state: "refuse"))
    wf.edge("route", "refund", when="pay", **edges)
    wf.edge("route", "refuse")
    return wf


async def test_a_model_chooses_among_the_declared_ways(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(output={"next": "pay", "rationale": "it is due"}))
    output, _ = await result(store, model, routed())
    assert output == "refund"


async def test_a_way_that_is_not_declared_is_mended_once_and_then_fails(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(output={"next": "elsewhere", "rationale": "why not"}))
    with pytest.raises(RunFailed) as failed:
        await result(store, model, routed())
    assert failed.value.error.error_class == "schema"
    assert len(server.calls) == 2


async def test_guards_are_asked_about_what_a_model_chose(store: str, server: ModelServer, model: Providers) -> None:
    def due(state):
        raise TransitionDenied("nothing is due")

    wf = routed(guard=due)
    server.script.add(Rule(output={"next": "pay", "rationale": "it is due"}))
    output, events = await result(store, model, wf)
    assert output["next"] == "pay"  # the choice is the end: no way led on from it
    (judged,) = [event for event in events if isinstance(event, ev.GuardJudged)]
    assert (judged.allowed, judged.reason) == (False, "nothing is due")


async def test_a_reply_with_too_many_tools_opens_no_gate_and_the_model_gets_an_error(
    store: str, server: ModelServer, model: Providers
) -> None:
    wf = Workflow("agent")

    @tool(effect="once", approval=True)
    async def pay(amount: int) -> str:
        raise AssertionError("nobody was asked")

    @wf.node("agent")
    @llm_node(model=HAIKU, tools=[pay], max_tokens=8_000)
    async def agent_node(state):
        return {"user": "begin"}

    asked = tuple(ToolCall("pay", {"amount": number}) for number in range(300))
    server.script.add(Rule(turn=1, tool_calls=asked), Rule(turn=2, text="then not"))
    output, events = await result(store, model, wf)
    assert output == "then not"
    assert not any(isinstance(event, ev.GateOpened) for event in events)
    assert sum(isinstance(event, ev.ToolCallDenied) for event in events) == PARTS, "and the rest is not even looked at"
    assert sum(isinstance(event, ev.ModelCallSettled) for event in events) == 2
