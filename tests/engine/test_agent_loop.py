"""The agent loop when something goes wrong in the middle of it: every turn that was paid for counts, none is repeated."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Engine, RetryPolicy, RunFailed, Tool, Workflow, human_gate, llm_node, task, tool
from holdfast.core.facts.events import (
    EffectCompleted,
    EffectFailed,
    EffectIntended,
    HoldDeferred,
    ModelCallFailed,
    ModelCallHeld,
    ToolCallDenied,
)
from holdfast.core.values.money import usd
from holdfast.models.providers import Providers
from holdfast.testing.model_server import Fault, ModelServer, Rule, ToolCall, Usage
from tests.engine.history import assert_never_above, events_of
from tests.engine.kit import gate_of, opened

HAIKU, NANO = "claude-haiku-4-5", "gpt-4.1-nano"
BOTH = pytest.mark.parametrize("name", [HAIKU, NANO])
AT_ONCE = RetryPolicy(max_attempts=3, initial_s=0, jitter=0)


class Verdict(BaseModel):
    risk: str
    score: int


@pytest.fixture
def world() -> list[str]:
    return []


@pytest.fixture
def look(world: list[str]) -> Tool:
    @tool(effect="read")
    async def look(where: str) -> str:
        """Look somewhere."""
        world.append(f"look {where}")
        return f"nothing at {where}"

    return look


def agent(*tools: Tool, model: str = HAIKU, **options: Any) -> Workflow:
    wf = Workflow("agent", **options.pop("workflow", {}))

    @wf.node("agent")
    @llm_node(model=model, tools=tools, max_tokens=options.pop("max_tokens", 200), **options)
    async def agent_node(state):
        return {"system": "Look around.", "user": "begin"}

    return wf


def look_in_turn(*turns: int, then: str = "done") -> list[Rule]:
    return [
        *(Rule(turn=n, tool_calls=(ToolCall("look", {"where": str(n)}),)) for n in turns),
        Rule(turn=turns[-1] + 1, text=then),
    ]


# --- What a turn may ask for ------------------------------------------------------------------------------------------


async def test_the_tools_of_one_turn_run_at_the_same_time(store: str, server: ModelServer, model: Providers) -> None:
    meet = asyncio.Barrier(3)

    @tool(effect="read")
    async def wait(number: int) -> int:
        await asyncio.wait_for(meet.wait(), 5)
        return number

    server.script.add(
        Rule(turn=1, tool_calls=tuple(ToolCall("wait", {"number": n}) for n in (1, 2, 3))), Rule(turn=2, text="all met")
    )
    async with Engine.open(store, model=model) as engine:
        assert await (await engine.start(agent(wait))).result() == "all met"
    assert [call.turn for call in server.calls] == [1, 2]


@BOTH
async def test_what_a_tool_fails_with_is_sent_to_the_model_which_may_do_better(
    store: str, server: ModelServer, model: Providers, name: str
) -> None:
    weighed: list[int] = []

    @tool(effect="read")
    async def weigh(kilos: int) -> int:
        weighed.append(kilos)
        if kilos < 0:
            raise ValueError("nothing weighs less than nothing")
        return kilos

    server.script.add(
        *(Rule(turn=n, tool_calls=(ToolCall("weigh", {"kilos": kilos}),)) for n, kilos in enumerate(("many", -1, 7), 1)),
        Rule(turn=4, text="seven"),
    )
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(agent(weigh, model=name))
        assert await run.result() == "seven"
        (denied,) = await events_of(run, ToolCallDenied)
        assert (denied.tool, denied.error.error_class) == ("weigh", "schema")
        (failed,) = await events_of(run, EffectFailed)
        assert "less than nothing" in failed.error.message
    assert weighed == [-1, 7]
    assert [call.turn for call in server.calls] == [1, 2, 3, 4]


@BOTH
async def test_one_wrong_request_of_a_turn_does_not_keep_the_others_from_their_tools(
    store: str, server: ModelServer, model: Providers, world: list[str], look: Tool, name: str
) -> None:
    server.script.add(
        Rule(turn=1, fault=Fault("unknown_tool")),
        Rule(turn=1, tool_calls=(ToolCall("look", {"where": "a"}), ToolCall("look", {"where": "b"}))),
        Rule(turn=2, text="done"),
    )
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(agent(look, model=name))
        assert await run.result() == "done"
        (denied,) = await events_of(run, ToolCallDenied)
        assert denied.error.error_class == "denied"
        assert "it lists: look" in denied.error.message
    assert world == ["look b"]
    assert {call.status for call in server.calls} == {200}  # every request of the turn was replied to


@BOTH
async def test_arguments_that_are_not_even_an_object_never_reach_the_tool(
    store: str, server: ModelServer, model: Providers, world: list[str], look: Tool, name: str
) -> None:
    server.script.add(Rule(turn=1, fault=Fault("malformed_arguments")), *look_in_turn(1, 2))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(agent(look, model=name))
        assert await run.result() == "done"
        assert [denied.error.error_class for denied in await events_of(run, ToolCallDenied)] == ["schema"]
    assert world == ["look 2"]


@BOTH
async def test_an_answer_given_beside_requests_for_tools_is_asked_for_again_after_them(
    store: str, server: ModelServer, model: Providers, world: list[str], look: Tool, name: str
) -> None:
    server.script.add(
        Rule(turn=1, tool_calls=(ToolCall("look", {"where": "a"}),), output={"risk": "guessed", "score": 0}),
        Rule(turn=2, output={"risk": "low", "score": 3}),
    )
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(agent(look, model=name, output=Verdict))
        assert await run.result() == {"risk": "low", "score": 3}
    assert world == ["look a"]
    assert {call.status for call in server.calls} == {200}


@BOTH
async def test_a_wrong_answer_of_a_loop_is_mended_once_beyond_its_turns(
    store: str, server: ModelServer, model: Providers, world: list[str], look: Tool, name: str
) -> None:
    server.script.add(
        Rule(turn=1, tool_calls=(ToolCall("look", {"where": "a"}),)),
        Rule(turn=2, output={"risk": "low", "score": "three"}),
        Rule(turn=3, output={"risk": "low", "score": 3}),
    )
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(agent(look, model=name, output=Verdict, max_turns=2))
        assert await run.result() == {"risk": "low", "score": 3}
    assert [call.turn for call in server.calls] == [1, 2, 3]


@BOTH
@pytest.mark.parametrize("with_tools", [True, False])
@pytest.mark.parametrize("fits", [True, False])
async def test_two_answers_in_one_turn_are_one_answer_and_both_are_replied_to(
    store: str, server: ModelServer, model: Providers, look: Tool, name: str, with_tools: bool, fits: bool
) -> None:
    first = ToolCall("final_result", {"risk": "low", "score": 3 if fits else "three"})
    server.script.add(
        Rule(turn=1, tool_calls=(first,), output={"risk": "high", "score": 9}),
        Rule(turn=2, output={"risk": "mended", "score": 1}),
    )
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(agent(*([look] if with_tools else []), model=name, output=Verdict))
        assert await run.result() == ({"risk": "low", "score": 3} if fits else {"risk": "mended", "score": 1})
    assert [(call.turn, call.status) for call in server.calls] == [(1, 200), (2, 200)][: 1 if fits else 2]


async def test_a_model_called_by_a_steps_own_code_cannot_reach_the_steps_tools(
    store: str, server: ModelServer, model: Providers
) -> None:
    world: list[str] = []

    @tool(effect="once", name="a_tool_nobody_offered")
    async def pay() -> str:
        world.append("paid")
        return "paid"

    wf = Workflow("own")

    @wf.node("own")
    @task(tools=[pay])
    async def own(state, ctx):
        return await ctx.model(HAIKU, "begin")

    server.script.add(Rule(turn=1, fault=Fault("unknown_tool")), Rule(turn=2, text="in words, then"))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(wf)
        assert await run.result() == "in words, then"
        (denied,) = await events_of(run, ToolCallDenied)
        assert (denied.tool, denied.error.error_class) == ("a_tool_nobody_offered", "denied")
    assert world == []


# --- What goes wrong in the middle ------------------------------------------------------------------------------------


@BOTH
async def test_a_turn_that_fails_is_tried_again_without_the_turns_before_it(
    store: str, server: ModelServer, model: Providers, world: list[str], look: Tool, name: str
) -> None:
    server.script.add(Rule(turn=3, times=2, fault=Fault("status", status=503)), *look_in_turn(1, 2, 3))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(agent(look, model=name, retry=AT_ONCE))
        assert await run.result() == "done"
        assert len(await events_of(run, ModelCallFailed)) == 2
    assert [call.turn for call in server.calls] == [1, 2, 3, 3, 3, 4]
    assert world == ["look 1", "look 2", "look 3"]


async def test_a_tool_that_times_out_fails_its_step_and_its_neighbours_are_not_repeated(
    store: str, server: ModelServer, model: Providers, world: list[str], look: Tool
) -> None:
    @tool(effect="read", timeout_s=0.05)
    async def slow() -> str:
        world.append("slow")
        if world.count("slow") == 1:
            await asyncio.Event().wait()
        return "at last"

    server.script.add(
        Rule(turn=1, tool_calls=(ToolCall("slow", {}), ToolCall("look", {"where": "a"}))), Rule(turn=2, text="done")
    )
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(agent(look, slow, retry=AT_ONCE))
        assert await run.result() == "done"
        assert [done.response.value() for done in await events_of(run, EffectCompleted)] == ["nothing at a", "at last"]
    assert sorted(world) == ["look a", "slow", "slow"]
    assert [call.turn for call in server.calls] == [1, 2]


async def test_a_loop_without_money_in_its_third_turn_resumes_there_after_a_raise(
    store: str, server: ModelServer, model: Providers, world: list[str], look: Tool
) -> None:
    server.script.add(Rule(usage=Usage(input_tokens=1, output_tokens=1)), *look_in_turn(1, 2, 3))
    cost = 1_000 + 5_000
    async with Engine.open(store, model=model) as engine:
        free = await engine.start(agent(look))
        await free.result()
        holds = [held.hold_nanousd for held in await events_of(free, ModelCallHeld)]
        assert holds[1] + cost < holds[2]  # each turn carries the ones before it
        limit = 2 * cost + holds[2] - 1  # two turns fit, and the third just does not
        run = await engine.start(agent(look), cost_limit_usd=usd(limit))
        await run.settled()
        assert await run.status() == "budget_blocked"
        assert [call.turn for call in server.calls[4:]] == [1, 2]
        await assert_never_above(run, limit)
        await engine.raise_budget(run.id, "1")
        assert await run.result() == "done"
        assert [call.turn for call in server.calls[4:]] == [1, 2, 3, 4]
        assert world == ["look 1", "look 2", "look 3"] * 2
        assert len(await events_of(run, HoldDeferred)) == 1


@pytest.mark.parametrize(("dear", "cheap"), [(HAIKU, NANO), ("gpt-4.1", HAIKU)])
async def test_a_loop_keeps_its_conversation_with_a_cheaper_model_of_another_provider(
    store: str, server: ModelServer, model: Providers, world: list[str], look: Tool, dear: str, cheap: str
) -> None:
    server.script.add(*look_in_turn(1, 2))
    async with Engine.open(store, model=model) as engine:
        free = await engine.start(agent(look, model=dear))
        await free.result()
        first, second, _ = [held.hold_nanousd for held in await events_of(free, ModelCallHeld)]
        # The first turn fits at the dear model; after it the second does not.
        assert second > first
        limit = second
        run = await engine.start(agent(look, model=dear, cheaper_models=[cheap]), cost_limit_usd=usd(limit))
        assert await run.result() == "done"
        assert [held.sent_to for held in await events_of(run, ModelCallHeld)] == [dear, cheap, cheap]
        await assert_never_above(run, limit)
    assert [(call.model, call.turn, call.status) for call in server.calls[3:]] == [
        (dear, 1, 200),
        (cheap, 2, 200),
        (cheap, 3, 200),
    ]
    assert world == ["look 1", "look 2"] * 2


async def test_a_pause_between_two_turns_holds_the_next_back(
    store: str, server: ModelServer, model: Providers, world: list[str]
) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def look(where: str) -> str:
        world.append(where)
        reached.set()
        await go_on.wait()
        return "nothing"

    server.script.add(*look_in_turn(1))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(agent(look))
        await reached.wait()
        await engine.pause(run.id)
        go_on.set()
        await run.until(lambda state: not state.active)
        assert await run.status() == "paused"
        assert len(server.calls) == 1
        await engine.resume(run.id)
        assert await run.result() == "done"
    assert len(server.calls) == 2
    assert world == ["1"]


async def test_a_loop_of_many_turns_pays_for_each_once_and_ends_where_it_should(
    store: str, server: ModelServer, model: Providers, world: list[str], look: Tool
) -> None:
    turns = 12
    server.script.add(*look_in_turn(*range(1, turns + 1)))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(agent(look, max_turns=turns))
        with pytest.raises(RunFailed, match=f"within {turns} turns") as failed:
            await run.result()
        assert failed.value.error.error_class == "limit"
        assert len(await events_of(run, ModelCallHeld)) == turns
        assert len(await events_of(run, EffectIntended)) == turns - 1  # the last turn's wish is not granted
        assert (await run.state()).budget.held_nanousd == 0
    assert len(server.calls) == turns


# --- In a loop of the graph -------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_later_visit_goes_on_with_the_conversation_where_the_node_asks_for_it(
    store: str, server: ModelServer, model: Providers, look: Tool, name: str, goes_on: bool
) -> None:
    wf = Workflow("insist")

    @wf.node("judge")
    @llm_node(model=name, tools=[look], output=Verdict, max_tokens=200, continue_conversation=goes_on)
    async def judge(state):
        before = state.previous["enough"]
        return "begin" if before is None else f"no: {before.payload['reason']}"

    wf.node("enough")(human_gate(lambda state: {"diff": state.events["judge"].output}))
    wf.edge("judge", "enough")
    wf.loop("enough", "judge", when="retry", max_visits=2)
    server.script.add(
        Rule(user="begin", turn=1, tool_calls=(ToolCall("look", {"where": "here"}),)),
        Rule(user="begin", turn=2, output={"risk": "low", "score": 1}),
        Rule(user="no: look closer", output={"risk": "high", "score": 2}),
    )
    async with opened(store, model=model) as engine:
        run = await engine.start(wf)
        await engine.decide(await gate_of(run), "retry", reason="look closer")
    async with opened(store, model=model, workflows=[wf]) as engine:  # another process; only the store knows what was said
        run = engine.run(run.id)
        second = await run.until(lambda state: [gate for gate in state.gates if "enough#2" in gate])
        await engine.decide(next(iter(second.gates)))
        assert (await run.result())["edited_body"] == {"risk": "high", "score": 2}
    assert [call.turn for call in server.calls] == ([1, 2, 3] if goes_on else [1, 2, 1])
