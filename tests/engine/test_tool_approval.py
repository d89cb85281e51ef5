"""Tools that a person must approve: nothing happens before, and what happens is exactly what was let through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    Context,
    InvalidWorkflow,
    OperationFailed,
    RetryPolicy,
    RunFailed,
    Tool,
    ToolFailed,
    Workflow,
    flow,
    llm_node,
    step,
    task,
    tool,
    tool_node,
)
from holdfast.core.facts import events as ev
from holdfast.core.values.payload import digest
from holdfast.core.views.status import waiting_for
from holdfast.errors import AlreadyDecided, InvalidDecision, UsageError
from holdfast.models.providers import Providers
from holdfast.ports import ToolTurn
from holdfast.testing.model_server import Fault, ModelServer, Rule, ToolCall
from tests.engine.history import events_of
from tests.engine.kit import die, divergence, eventually, gate_of, opened
from tests.engine.recorder import Recorder

AT_ONCE = RetryPolicy(max_attempts=3, initial_s=0.001)


@pytest.fixture
def paid() -> list[Any]:
    return []


@pytest.fixture
def pay(paid: list[Any]) -> Tool:
    @tool(effect="once", approval=True)
    async def pay(to: str, amount: int = 1) -> str:
        paid.append((to, amount))
        return f"paid {amount} to {to}"

    return pay


def node(pay: Tool, arguments: dict[str, Any]) -> Workflow:
    wf = Workflow("pay")
    wf.node("pay")(tool_node(name=pay, retry=AT_ONCE)(lambda state: arguments))
    return wf


async def test_a_call_waits_for_its_approval_and_shows_what_it_would_do(store: str, pay: Tool, paid: list[Any]) -> None:
    async with opened(store) as engine:
        run = await engine.start(node(pay, {"to": "ada", "amount": 5}))
        gate = await gate_of(run)
        await eventually(lambda: not engine.runtime.runs.resident)
        opened_ = (await run.state()).gates[gate].opened
        assert (opened_.reason, opened_.allowed) == ("tool_approval", ("approve", "edit", "reject", "answer"))
        assert opened_.shown.value() == {"tool": "pay", "arguments": {"to": "ada", "amount": 5}}
        assert opened_.form == pay.schema
        assert (await engine.effects(run.id), paid) == ([], [])
        await engine.decide(gate, "approve", by="ann")
        assert await run.result() == "paid 5 to ada"
    assert paid == [("ada", 5)]


async def test_an_edited_call_runs_once_with_the_edited_arguments(store: str, pay: Tool, paid: list[Any]) -> None:
    async with opened(store) as engine:
        run = await engine.start(node(pay, {"to": "ada", "amount": 500}))
        await engine.decide(await gate_of(run), "edit", {"amount": 50})
        assert await run.result() == "paid 50 to ada"
        (intent,) = await events_of(run, ev.EffectIntended)
        assert intent.request.value() == {"to": "ada", "amount": 50}
        assert intent.args_hash == digest(["pay", {"to": "ada", "amount": 50}, None])
    assert paid == [("ada", 50)]


async def test_a_rejected_call_is_never_made_and_says_who_rejected_it(store: str, pay: Tool, paid: list[Any]) -> None:
    async with opened(store) as engine:
        run = await engine.start(node(pay, {"to": "mallory"}))
        await engine.decide(await gate_of(run), "reject", by="ann", reason="never heard of her")
        with pytest.raises(RunFailed, match="ann did not approve 'pay': never heard of her") as failed:
            await run.result()
        assert (failed.value.error.error_class, failed.value.error.tool) == ("rejected", "pay")
        assert len(await events_of(run, ev.ToolCallDenied)) == 1
        assert await engine.effects(run.id) == []
    assert paid == []


@pytest.mark.parametrize("data", [{"amount": "much"}, {"extra": 1}, {"to": None}])
async def test_an_edit_that_the_tool_does_not_take_is_refused_and_the_question_stays(
    store: str, pay: Tool, paid: list[Any], data: dict[str, Any]
) -> None:
    async with opened(store) as engine:
        run = await engine.start(node(pay, {"to": "ada"}))
        gate = await gate_of(run)
        with pytest.raises(InvalidDecision):
            await engine.decide(gate, "edit", data)
        with pytest.raises(InvalidDecision, match="approve, edit, reject, answer, not 'retry'"):
            await engine.decide(gate, "retry")
        await engine.decide(gate)
        await run.result()
        with pytest.raises(AlreadyDecided):
            await engine.decide(gate)
    assert paid == [("ada", 1)]


@pytest.mark.parametrize("said", [{"extra": [1, None]}, "by hand", None])
async def test_who_answers_in_the_tools_place_is_heard_and_nothing_is_called(
    store: str, pay: Tool, paid: list[Any], said: Any
) -> None:
    async with opened(store) as engine:
        run = await engine.start(node(pay, {"to": "ada"}))
        gate = await gate_of(run)
        with pytest.raises(InvalidDecision, match="say what the tool answered"):
            await engine.decide(gate, "answer")
        await engine.decide(gate, "answer", said, by="ann")
        assert await run.result() == said
        assert (await events_of(run, ev.EffectIntended), await engine.effects(run.id)) == ([], [])
        (decided,) = await events_of(run, ev.GateDecided)
        assert (decided.decision, decided.data.value(), decided.by) == ("answer", said, "ann")
    assert paid == []


async def test_an_answer_in_the_tools_place_stands_when_its_step_is_tried_again(store: str, pay: Tool, paid: list[Any]) -> None:
    wf, heard = Workflow("pay"), []

    @wf.node("work")
    @task(tools=[pay], retry=AT_ONCE)
    async def work(state, ctx):
        heard.append(await ctx.tool("pay", to="ada"))
        if len(heard) == 1:
            raise ToolFailed("not yet", retryable=True)
        return heard[-1]

    async with opened(store) as engine:
        run = await engine.start(wf)
        await engine.decide(await gate_of(run), "answer", {"paid": "in cash"})
        assert await run.result() == {"paid": "in cash"}
        assert len(await events_of(run, ev.GateOpened)) == 1
    assert (heard, paid) == ([{"paid": "in cash"}] * 2, [])


async def test_what_is_irreversible_waits_for_a_person_at_each_call(store: str, paid: list[Any]) -> None:
    @tool(irreversible=True)
    async def wipe(disk: str) -> str:
        paid.append(disk)
        return f"{disk} is empty"

    wf = Workflow("wipe")

    @wf.node("work")
    @task(tools=[wipe])
    async def work(state, ctx):
        return [await ctx.tool("wipe", disk=disk) for disk in ("a", "b")]

    async with opened(store) as engine:
        run = await engine.start(wf)
        first = await gate_of(run)
        assert paid == []
        await engine.decide(first)
        await run.until(lambda state: bool(state.gates) and first not in state.gates)
        assert paid == ["a"]
        await engine.decide(await gate_of(run))
        assert await run.result() == ["a is empty", "b is empty"]
    assert wf.warnings() == []


def test_what_is_irreversible_undoes_nothing() -> None:
    wf = Workflow("undo")

    @tool(irreversible=True)
    async def wipe(disk: str) -> None:
        pass

    @tool(effect="once", compensation=wipe)
    async def fill(disk: str) -> None:
        pass

    wf.node("fill")(tool_node(name=fill)(lambda state: {"disk": "a"}))
    words = "node 'fill': 'fill' is undone by 'wipe', which is irreversible and runs only after a person's approval"
    with pytest.raises(InvalidWorkflow, match=words):
        _ = wf.graph


async def test_a_flow_undoes_nothing_by_what_is_irreversible(store: str, paid: list[Any]) -> None:
    """How its steps are undone is found when it is needed: what `validate` cannot see is refused then, and a person asked."""

    @tool(irreversible=True)
    async def wipe() -> None:
        paid.append("wipe")

    @step(effect="once", compensation=wipe)
    async def fill() -> None:
        paid.append("fill")

    @flow
    async def order(ctx: Context) -> None:
        await fill()
        raise ValueError("too full")

    async with opened(store) as engine:
        run = await engine.start(order)
        state = await run.until(lambda state: bool(state.gates or state.ended))
        assert paid == ["fill"]
        (asked,) = [gate.opened for gate in state.gates.values()]
        assert asked.reason == "compensation_failed"
        assert "'wipe' is irreversible" in asked.shown.value()["message"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"effect": "read"}, "changes nothing, so it cannot be irreversible"),
        ({"compensation": "undo"}, "what has a compensation= is not irreversible"),
        ({"approval": lambda arguments: False}, "would let others through"),
    ],
)
def test_what_cannot_be_irreversible_is_refused_in_words(said: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=f"Tool 'wipe': .*{words}"):

        @tool(irreversible=True, **said)
        async def wipe() -> None: ...


async def test_only_the_calls_that_the_function_picks_are_asked_about(store: str, paid: list[Any]) -> None:
    @tool(effect="once", approval=lambda arguments: arguments["amount"] > 100)
    async def spend(amount: int) -> int:
        paid.append(amount)
        return amount

    wf = Workflow("spend")

    @wf.node("work")
    @task(tools=[spend])
    async def work(state, ctx):
        return [await ctx.tool("spend", amount=amount) for amount in (5, 500, 6)]

    async with opened(store) as engine:
        run = await engine.start(wf)
        gate = await gate_of(run)
        assert paid == [5]
        await engine.decide(gate)
        assert await run.result() == [5, 500, 6]
        assert len(await events_of(run, ev.GateOpened)) == 1


async def test_several_calls_at_once_are_asked_about_at_once_and_answered_one_by_one(
    store: str, pay: Tool, paid: list[Any]
) -> None:
    wf = Workflow("several")

    @wf.node("work")
    @task(tools=[pay])
    async def work(state, ctx):
        async def one(to):
            try:
                return await ctx.tool("pay", to=to)
            except OperationFailed as failed:
                return failed.error.error_class

        return await ctx.gather(one("ada"), one("ben"), one("cleo"))

    async with opened(store) as engine:
        run = await engine.start(wf)
        gates = (await run.until(lambda state: len(state.gates) == 3)).gates
        about = {asked.opened.shown.value()["arguments"]["to"]: gate for gate, asked in gates.items()}
        await engine.decide(about["cleo"])
        await eventually(lambda: paid == [("cleo", 1)])  # nobody waits for the others' answers
        await engine.decide(about["ben"], "reject")
        await engine.decide(about["ada"])
        assert await run.result() == ["paid 1 to ada", "rejected", "paid 1 to cleo"]
    assert paid == [("cleo", 1), ("ada", 1)]


async def test_a_retry_of_an_approved_call_is_not_asked_about_again(store: str, paid: list[Any]) -> None:
    @tool(effect="once", approval=True)
    async def pay(key: str) -> str:
        paid.append(key)
        if len(paid) < 3:
            raise ToolFailed("not now")
        return "paid"

    async with opened(store) as engine:
        run = await engine.start(node(pay, {}))
        await engine.decide(await gate_of(run))
        assert await run.result() == "paid"
        assert len(await events_of(run, ev.GateOpened)) == 1
    assert len(paid) == 3
    assert len(set(paid)) == 1


async def test_an_approval_given_while_no_process_worked_is_acted_upon_once(store: str, pay: Tool, paid: list[Any]) -> None:
    wf = node(pay, {"to": "ada"})
    async with opened(store) as engine:
        run = await engine.start(wf)
        gate = await gate_of(run)
        await die(engine)
    async with opened(store, execute=False) as desk:
        await desk.decide(gate)
    for _ in range(2):
        async with opened(store, workflows=[wf]) as engine:
            assert await engine.run(run.id).result() == "paid 1 to ada"
    assert paid == [("ada", 1)]


# --- In an agent loop -------------------------------------------------------------------------------------------------------


def agent(*tools: Tool) -> Workflow:
    wf = Workflow("agent")

    @wf.node("agent")
    @llm_node(model="claude-haiku-4-5", tools=tools, max_turns=5)
    async def agent_node(state):
        return {"system": "Pay what is due.", "user": "begin"}

    return wf


PAYS = Rule(turn=1, tool_calls=(ToolCall("pay", {"to": "ada", "amount": 500}), ToolCall("look", {})))


@pytest.fixture
def look() -> Tool:
    @tool(effect="read")
    async def look() -> str:
        return "a bill"

    return look


async def test_an_agent_waits_for_approval_inside_its_loop_and_uses_the_edited_call(
    store: str, server: ModelServer, model: Providers, pay: Tool, look: Tool, paid: list[Any]
) -> None:
    server.script.add(PAYS, Rule(turn=2, text="all done"))
    wf = agent(pay, look)
    async with opened(store, model=model) as engine:
        run = await engine.start(wf)
        gate = await gate_of(run)
        await run.until(lambda state: [wait.reason for wait in waiting_for(state)] == ["tool_approval"])
    assert paid == []
    async with opened(store, workflows=[wf], model=Providers(environment=server.environment)) as engine:
        await engine.decide(gate, "edit", {"amount": 50})
        assert await engine.run(run.id).result() == "all done"
    assert paid == [("ada", 50)]
    assert [call.turn for call in server.calls] == [1, 2]  # the first turn was not paid for again


async def test_a_model_gets_a_rejection_and_may_do_something_else(
    store: str, server: ModelServer, model: Providers, pay: Tool, look: Tool, paid: list[Any]
) -> None:
    server.script.add(PAYS, Rule(turn=2, text="then not"))
    async with opened(store, model=model) as engine:
        run = await engine.start(agent(pay, look))
        await engine.decide(await gate_of(run), "reject", by="ann")
        assert await run.result() == "then not"
    assert paid == []


async def test_a_model_hears_the_answer_of_a_person_as_the_tools(
    store: str, server: ModelServer, model: Providers, pay: Tool, look: Tool, paid: list[Any]
) -> None:
    server.script.add(PAYS, Rule(turn=2, text="paid by hand"))
    asked = Recorder(model)
    async with opened(store, model=asked) as engine:
        run = await engine.start(agent(pay, look))
        await engine.decide(await gate_of(run), "answer", {"paid": "in cash"}, by="ann")
        assert await run.result() == "paid by hand"
    heard = asked.asked[1].turns[-1]
    assert isinstance(heard, ToolTurn)
    assert [(each.name, each.is_error) for each in heard.replies] == [("pay", False), ("look", False)]
    assert (heard.replies[0].content, paid) == ('{"paid":"in cash"}', [])


async def test_a_model_that_asks_for_a_tool_it_was_not_given_gets_a_recorded_denial(
    store: str, server: ModelServer, model: Providers, look: Tool
) -> None:
    asks = Rule(turn=1, tool_calls=(ToolCall("look", {}), ToolCall("look", {})), fault=Fault("unknown_tool"))
    server.script.add(asks, Rule(turn=2, text="well"))
    async with opened(store, model=model) as engine:
        run = await engine.start(agent(look))
        assert await run.result() == "well"
        (denied,) = await events_of(run, ev.ToolCallDenied)
        assert (denied.tool, denied.error.error_class) == ("a_tool_nobody_offered", "denied")
        assert [row.tool for row, _ in await engine.effects(run.id)] == ["look"]


async def test_a_model_that_gives_a_tool_wrong_arguments_gets_an_error_and_nothing_happens(
    store: str, server: ModelServer, model: Providers, pay: Tool, look: Tool, paid: list[Any]
) -> None:
    server.script.add(Rule(turn=1, tool_calls=(ToolCall("pay", {"to": "ada", "amount": "lots"}),)), Rule(turn=2, text="well"))
    async with opened(store, model=model) as engine:
        run = await engine.start(agent(pay, look))
        assert await run.result() == "well"
        assert [denied.error.error_class for denied in await events_of(run, ev.ToolCallDenied)] == ["schema"]
        assert await events_of(run, ev.GateOpened) == []
    assert paid == []


@pytest.mark.usefixtures("replays")
async def test_code_that_drops_a_call_which_a_person_answered_stops_and_asks(
    tmp_path: Path, pay: Tool, paid: list[Any]
) -> None:
    """What a person gave in the tool's place left nothing but the question: other code must not go on over it."""
    calls = [True]

    @flow(tools=[pay])
    async def handle(ctx: Context) -> Any:
        if calls[0]:
            return await ctx.tool(pay, to="ada")
        await ctx.sleep(seconds=0)
        return await ctx.tool(pay, to="ada")

    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}") as engine:
        run = await engine.start(handle)
        gate = await gate_of(run)
        calls[0] = False
        await engine.decide(gate, "answer", "paid in cash", by="ann")
        told = await divergence(run)
        assert told["journal"]["operation"] == "gate 'tool_approval'"
    assert paid == []


@pytest.mark.usefixtures("replays")
async def test_no_person_is_asked_about_a_call_where_something_else_stands(
    tmp_path: Path, pay: Tool, look: Tool, paid: list[Any]
) -> None:
    """Else a person could answer in the tool's place over what the journal has there."""
    calls = [False]

    @flow(tools=[pay, look])
    async def handle(ctx: Context) -> Any:
        if not calls[0]:
            await ctx.tool(look)
            return await ctx.wait_signal("go on")
        return await ctx.tool(pay, to="ada")

    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}") as engine:
        run = await engine.start(handle)
        await run.settled()
        calls[0] = True
        await engine.signal(run.id, "go on")
        told = await divergence(run)
        assert (told["journal"]["operation"], told["code"]["operation"]) == ("tool 'look'", "tool 'pay'")
        assert not [each for each in await events_of(run, ev.GateOpened) if each.reason == "tool_approval"]
    assert paid == []
