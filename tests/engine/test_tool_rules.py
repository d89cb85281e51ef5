"""Rules about calls of tools in runs: who is called, who is asked, what is told of a call that is denied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Engine, RunFailed, ToolRule, When, Workflow, task, tool, tool_node
from holdfast.core.facts.events import GateOpened
from holdfast.errors import AlreadyDecided, Conflict, DecisionRefused, UsageError
from tests.engine.history import events_of
from tests.engine.kit import Time, engine_at, gate_of

RULES = [
    ToolRule("refund", "deny", (When("amount", ">", 1000),), reason="More than anybody may pay back."),
    ToolRule("refund", "ask", (When("amount", ">", 100),), reviewers=("ann",)),
    ToolRule("refund", "allow"),
    ToolRule("sign", "allow"),
]


def desk(done: list[int], amount: Any, rules: Any = RULES) -> Workflow:
    @tool(effect="idempotent", approval=True)
    def refund(amount: int) -> str:
        done.append(amount)
        return "paid"

    wf = Workflow("desk", tool_rules=rules, tools=[refund])
    wf.node("pay")(tool_node(name=refund)(lambda state: {"amount": amount}))
    return wf


@task
async def wait(state: Any, ctx: Any) -> Any:
    return await ctx.wait_signal("go")


async def test_a_call_that_a_rule_allows_is_made_without_asking(store: str) -> None:
    done: list[int] = []
    async with Engine.open(store) as engine:
        run = await engine.start(desk(done, 100))
        assert await run.result() == "paid"
        assert not await events_of(run, GateOpened)
    assert done == [100]


async def test_a_call_that_a_rule_denies_is_not_made_and_it_is_said_why(store: str) -> None:
    done: list[int] = []
    async with Engine.open(store) as engine:
        run = await engine.start(desk(done, 1001))
        with pytest.raises(RunFailed, match=r"deny this call of 'refund'\. More than anybody may pay back\. It was not"):
            await run.result()
    assert done == []


async def test_a_call_that_a_rule_asks_about_asks_its_reviewers(store: str) -> None:
    done: list[int] = []
    async with Engine.open(store) as engine:
        run = await engine.start(desk(done, 101))
        await run.settled()
        (gate,) = await events_of(run, GateOpened)
        assert gate.reviewers == ("ann",)
        with pytest.raises(DecisionRefused):
            await engine.decide(gate.gate, "approve", by="bob")
        await engine.decide(gate.gate, "approve", by="ann")
        assert await run.result() == "paid"
    assert done == [101]


async def test_a_rule_that_asks_may_want_a_second_pair_of_eyes(store: str) -> None:
    done: list[int] = []
    rules = [ToolRule("refund", "ask", four_eyes=True)]
    async with Engine.open(store) as engine:
        for who in ("ann", "Ann "):
            await engine.grant_approval("refund", for_s=3600, by=who)
        run = await engine.start(desk(done, 7, rules), by="ann")
        await run.settled()
        (gate,) = await events_of(run, GateOpened)
        assert (gate.four_eyes, gate.requester) == (True, "ann")
        with pytest.raises(DecisionRefused, match="second pair of eyes"):
            await engine.decide(gate.gate, "approve", by="ann")
        await engine.decide(gate.gate, "approve", by="bob")
        assert await run.result() == "paid"
        await engine.grant_approval("refund", for_s=3600, by="bob")
        assert await (await engine.start(desk(done, 7, rules), by="ann")).result() == "paid"
    assert done == [7, 7]


async def test_a_call_that_was_edited_is_made_when_another_person_has_approved_it(store: str) -> None:
    done: list[int] = []
    async with Engine.open(store) as engine:
        run = await engine.start(desk(done, 7, [ToolRule("refund", "ask", four_eyes=True)]), by="ann")
        gate = await gate_of(run)
        before = await engine.gate(gate)
        await engine.decide(gate, "edit", {"amount": 9}, by="bob")
        assert done == []
        after = await engine.gate(gate)
        assert (after.shown["arguments"], after.initial_data) == (
            {**before.initial_data, "amount": 9},
            after.shown["arguments"],
        )
        for by in ("ann", "bob"):
            with pytest.raises(DecisionRefused, match="second pair of eyes"):
                await engine.decide(gate, "approve", by=by)
        with pytest.raises(Conflict, match="shows something else"):
            await engine.decide(gate, "approve", by="cyd", shown_hash=before.shown_hash)
        await engine.decide(gate, "approve", by="cyd", shown_hash=after.shown_hash)
        assert await run.result() == "paid"
    assert done == [9]


async def test_two_persons_approve_a_call_before_it_is_made(store: str) -> None:
    done: list[int] = []
    async with Engine.open(store) as engine:
        await engine.grant_approval("refund", for_s=3600, by="cyd")  # one person's word
        run = await engine.start(desk(done, 7, [ToolRule("refund", "ask", quorum=2)]), by="ann")
        gate = await gate_of(run)
        await engine.decide(gate, "approve", by="bob")
        with pytest.raises(DecisionRefused, match="'bob' has approved it already"):
            await engine.decide(gate, "approve", by="bob")
        shown = await engine.gate(gate)
        assert (done, shown.quorum, shown.approved_by) == ([], 2, ("bob",))
    async with Engine.open(store, workflows=[desk(done, 7, [ToolRule("refund", "ask", quorum=2)])]) as engine:
        await engine.decide(gate, "approve", by="eve")
        assert await engine.run(run.id).result() == "paid"
    assert done == [7]


async def test_an_approval_beforehand_of_one_who_contributed_is_not_for_four_eyes(store: str) -> None:
    done: list[int] = []
    async with Engine.open(store) as engine:
        await engine.grant_approval("refund", for_s=3600, by="bob")
        waits = desk(done, 7, [ToolRule("refund", "ask", four_eyes=True)])
        waits.node("wait")(wait)
        waits.edge("wait", "pay")
        run = await engine.start(waits, by="ann")
        await engine.signal(run.id, "go", {}, by="bob")
        gate = await gate_of(run)
        with pytest.raises(DecisionRefused, match="'bob' contributed"):
            await engine.decide(gate, "approve", by="bob")
    assert done == []


async def test_a_call_without_an_approval_in_time_is_not_made(tmp_path: Path) -> None:
    """The model or the code hears why; whoever retries the run is asked anew."""
    done: list[int] = []
    now = Time()
    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(desk(done, 7, [ToolRule("refund", "ask", expires_after_s=60)]))
        gate = await gate_of(run)
        now.forward(60)
        with pytest.raises(RunFailed, match=r"'refund' was not approved in time\. It was not called\.") as failed:
            await run.result()
        assert failed.value.error.error_class == "expired"
        with pytest.raises(AlreadyDecided, match="has expired"):
            await engine.decide(gate, "approve")
        await engine.retry(run.id)
        await engine.decide(await gate_of(run), "approve")
        assert await run.result() == "paid"
    assert done == [7]


async def test_what_a_person_edits_keeps_to_the_rules_too(store: str) -> None:
    done: list[int] = []
    async with Engine.open(store) as engine:
        run = await engine.start(desk(done, 101))
        await run.settled()
        (gate,) = await events_of(run, GateOpened)
        await engine.decide(gate.gate, "edit", data={"amount": 5000}, by="ann")
        with pytest.raises(RunFailed, match="deny this call"):
            await run.result()
    assert done == []


async def test_no_rule_lets_through_what_is_irreversible(store: str) -> None:
    done: list[str] = []

    @tool(irreversible=True)
    def sign(paper: str) -> str:
        done.append(paper)
        return "signed"

    wf = Workflow("desk", tool_rules=RULES, tools=[sign])
    wf.node("sign")(tool_node(name=sign)(lambda state: {"paper": "p"}))
    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        await run.settled()
        assert len(await events_of(run, GateOpened)) == 1
    assert done == []


def test_a_rule_that_says_nothing_is_refused_where_it_is_declared() -> None:
    with pytest.raises(UsageError, match="rule 1, about 'refund': 'amount' > 'much': give a number"):
        desk([], 1, [ToolRule("refund", "ask", (When("amount", ">", "much"),))])
