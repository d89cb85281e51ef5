"""Calls of tools that a step asks about at the same time, shown and decided together, in one commit, all or none."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import GateDecision, Workflow, llm_node, tool
from holdfast.core.facts import events as ev
from holdfast.core.values.ids import GateId
from holdfast.errors import Conflict, InvalidDecision, InvalidInput, NotFound
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.engine.history import events_of
from tests.engine.kit import opened

HAIKU = "claude-haiku-4-5"
CALLS = tuple(
    ToolCall("pay", {"to": name, "amount": amount}) for name, amount in (("ada", 1), ("bob", 200), ("cid", 3), ("eve", 4))
)


@pytest.fixture
def paid() -> list[Any]:
    return []


@pytest.fixture
def desk(server: ModelServer, paid: list[Any]) -> Workflow:
    @tool(effect="once", approval=True)
    async def pay(to: str, amount: int = 1) -> str:
        paid.append((to, amount))
        return f"paid {amount} to {to}"

    wf = Workflow("desk")

    @wf.node("pay")
    @llm_node(model=HAIKU, tools=[pay], max_tokens=1_000)
    async def pay_all(state):
        return "Pay them all."

    server.script.add(Rule(turn=1, tool_calls=CALLS), Rule(turn=2, text="Done."))
    return wf


async def begun(engine: Any, desk: Workflow) -> tuple[Any, Any]:
    """The run, and what it asks when it has asked all of it."""
    run = await engine.start(desk, by="cleo")
    state = await run.until(lambda state: len(state.gates) == len(CALLS))
    return run, await engine.asked_together(next(iter(state.gates)))


async def test_calls_of_one_turn_are_shown_together_and_decided_one_by_one_in_one_commit(
    store: str, desk: Workflow, model: Providers, paid: list[Any], server: ModelServer
) -> None:
    async with opened(store, model=model) as engine:
        run, asked = await begun(engine, desk)
        assert [(each.tool, each.arguments["to"]) for each in asked.calls] == [("pay", n) for n in ("ada", "bob", "cid", "eve")]
        first, second, third, fourth = (each.gate for each in asked.calls)
        await engine.decide_together(
            {
                first: "approve",
                second: GateDecision("edit", {"amount": 20}),
                third: GateDecision("reject", reason="who is that?"),
                fourth: GateDecision("answer", "paid in cash"),
            },
            by="ann",
            shown_hash=asked.shown_hash,
        )
        assert await run.result() == "Done."
        decided = await events_of(run, ev.GateDecided)
        assert {(each.gate, each.decision, each.by) for each in decided} == {
            (first, "approve", "ann"),
            (second, "edit", "ann"),
            (third, "reject", "ann"),
            (fourth, "answer", "ann"),
        }
        places = [each.seq for each in await run.events() if isinstance(each.event, ev.GateDecided)]
        assert places == [*range(places[0], places[0] + 4)], "in one commit"
        assert len(server.calls) == 2
    assert sorted(paid) == [("ada", 1), ("bob", 20)]


async def test_of_answers_of_which_one_is_not_taken_none_is(
    store: str, desk: Workflow, model: Providers, paid: list[Any]
) -> None:
    async with opened(store, model=model) as engine:
        run, asked = await begun(engine, desk)
        first, second, *_ = (each.gate for each in asked.calls)
        for bad, refusal in (
            (GateDecision("edit", {"amount": "much"}), InvalidDecision),
            (GateDecision("retry"), InvalidDecision),
            (GateDecision("edit"), InvalidDecision),
        ):
            with pytest.raises(refusal):
                await engine.decide_together({first: "approve", second: bad}, by="ann")
        with pytest.raises(NotFound):
            await engine.decide_together({first: "approve", f"{run.id}:pay#1:9": "approve"}, by="ann")
        with pytest.raises(Conflict, match="Other calls are asked about together"):
            await engine.decide_together({first: "approve"}, by="ann", shown_hash="0" * 64)
        with pytest.raises(InvalidInput, match="No gate was named"):
            await engine.decide_together({})
        assert not await events_of(run, ev.GateDecided)
        await engine.decide(first, by="ann")
        left = await run.until(lambda state: GateId(first) not in state.gates)
        assert len(left.gates) == len(CALLS) - 1, "one by one, the others stay open"
        with pytest.raises(Conflict):
            await engine.decide_together(dict.fromkeys(left.gates, "approve"), shown_hash=asked.shown_hash)
        await engine.decide_together(dict.fromkeys(left.gates, "reject"), by="ann")
        assert await run.result() == "Done."
    assert paid == [("ada", 1)]


async def test_what_is_asked_of_people_otherwise_is_not_decided_together(store: str, desk: Workflow, model: Providers) -> None:
    from tests.engine.test_tool_approval import node

    @tool(effect="once", approval=True)
    async def pay(to: str) -> str:
        return to

    async with opened(store, model=model) as engine:
        _, asked = await begun(engine, desk)
        other = await engine.start(node(pay, {"to": "ada"}))
        (alone,) = (await other.until(lambda state: bool(state.gates))).gates
        assert [each.gate for each in (await engine.asked_together(alone)).calls] == [alone]
        with pytest.raises(NotFound):
            await engine.decide_together({asked.calls[0].gate: "approve", alone: "approve"})
        with pytest.raises(NotFound):
            await engine.asked_together(f"{other.id}:nobody#1:0")
