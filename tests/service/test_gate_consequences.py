"""What an open gate says of each decision before one is taken, and what follows then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, StateView, Workflow, flow, human_gate, task, tool
from holdfast.core.values.access import Access
from holdfast.core.values.actor import Actor
from holdfast.service.control.gate import story_of
from holdfast.service.declarations import query
from holdfast.service.declarations.command import Decide
from holdfast.service.gate import whole
from holdfast.service.principal import Principal
from holdfast.service.service import Service

IDA = Principal("ida", None, access=Access(("viewer", "reviewer")))
EVE = Principal("eve", None, access=Access(("viewer",)))


@tool(effect="idempotent")
def refund(to: str) -> str:
    """Give it back."""
    return f"refunded {to}"


@tool(effect="once", approval=True, compensation=refund, price_usd="0.25")
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@tool(effect="once")
def lose(to: str) -> str:
    """Pay, and hear nothing of it."""
    raise TimeoutError


@flow(tools=[pay, refund], cost_limit_usd="2.00")
async def pays(ctx: Context, given: Any) -> str:
    return str(await ctx.tool(pay, to="ada"))


@flow(tools=[lose])
async def loses(ctx: Context, given: Any) -> str:
    return str(await ctx.tool(lose, to="ada"))


@flow
async def risky(ctx: Context, given: Any) -> str:
    answer = await ctx.ask({"pay": 9}, decisions=["approve", "edit", "reject"], quorum=2, timeout_s=60, cancel_after_s=60)
    return str(answer.decision)


@flow
async def guarded(ctx: Context, given: Any) -> str:
    return str((await ctx.ask({"pay": 9}, decisions=["approve"], four_eyes=True)).decision)


def letter() -> Workflow:
    wf = Workflow("letter")

    @wf.node("ask")
    @human_gate(decisions=["approve", "reject", "later"])
    def ask(state: StateView) -> dict[str, int]:
        return {"pay": 9}

    @wf.node("send")
    @task
    def send(state: StateView) -> str:
        return "sent"

    @wf.node("file")
    @task
    def file(state: StateView) -> str:
        return "filed"

    wf.edge("ask", "send")
    wf.edge("ask", "file", when="later")
    return wf


LETTER = letter()


def limited() -> Workflow:
    wf = Workflow("limited", max_steps=1)

    @wf.node("first")
    @task
    def first(state: StateView) -> str:
        return "first"

    @wf.node("second")
    @task
    def second(state: StateView) -> str:
        return "second"

    wf.edge("first", "second")
    return wf


LIMITED = limited()


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[pays, loses, risky, guarded, LETTER, LIMITED]) as engine:
        yield engine


async def gate_row(engine: Engine, workflow: Any, who: Principal = IDA, by: str | None = None) -> dict[str, Any]:
    """Start a run, wait for its gate, and return the gate's row."""
    run = await engine.start(workflow, {}, by=by)
    state = await engine.run(run.id).until(lambda state: bool(state.gates) or bool(state.ended))
    (gate,) = state.gates
    (row,) = (await Service(engine, [workflow]).query(who, query.Gate(gate))).rows
    return dict(row)


def told(row: dict[str, Any]) -> dict[str, str]:
    return {each["decision"]: each["follows"] for each in row["consequences"]}


async def test_a_gate_that_is_decided_while_it_is_read_is_shown_all_the_same(engine: Engine) -> None:
    row = await gate_row(engine, pays)
    story, run = await story_of(engine, row["gate_id"]), await engine.find(row["run_id"])
    await Service(engine, [pays]).execute(IDA, Decide(row["gate_id"], shown_hash=row["shown_hash"]))
    await engine.run(row["run_id"]).result()
    assert (await whole(engine, story, run, Actor("ida"), None))["asked_together"] is None


async def test_a_gate_about_a_call_says_what_is_called_and_what_undoes_it(engine: Engine) -> None:
    row = await gate_row(engine, pays)
    assert row["call"] == {
        "tool": "pay",
        "arguments": {"to": "ada"},
        "policy": "once",
        "undone_by": "refund",
        "irreversible": False,
        "price_usd": "0.25",
    }
    assert told(row) == {"approve": "call_made", "edit": "call_made", "reject": "call_not_made", "answer": "answered"}
    assert (row["spendable_usd"], row["closed_at"], row["refusal"]) == ("2.00", None, None)
    await Service(engine, [pays]).execute(IDA, Decide(row["gate_id"], shown_hash=row["shown_hash"]))
    await engine.run(row["run_id"]).result()
    (row,) = (await Service(engine, [pays]).query(IDA, query.Gate(row["gate_id"]))).rows
    assert (row["consequences"], row["call"]["tool"], row["by"]) == ([], "pay", "ida")
    assert row["closed_at"] is not None


@pytest.mark.parametrize("decision", ["approve", "later", "reject"])
async def test_a_gate_of_a_graph_says_where_the_run_goes_on(engine: Engine, decision: str) -> None:
    row = await gate_row(engine, LETTER)
    said = {each["decision"]: (each["follows"], each["nodes"]) for each in row["consequences"]}
    assert said == {"approve": ("step_goes_on", ["send"]), "later": ("step_goes_on", ["file"]), "reject": ("run_fails", [])}
    await Service(engine, [LETTER]).execute(IDA, Decide(row["gate_id"], decision, shown_hash=row["shown_hash"]))
    state = await engine.run(row["run_id"]).until(lambda state: bool(state.ended))
    done = [name for name in ("send", "file") if name in state.steps and state.steps[name].status == "completed"]
    assert (done, state.ended) == (said[decision][1], "failed" if said[decision][0] == "run_fails" else "completed")


async def test_a_gate_of_several_persons_says_how_many_are_needed_and_when_it_gives_up(engine: Engine) -> None:
    row = await gate_row(engine, risky)
    assert row["consequences"][0] == {"decision": "approve", "follows": "counted", "nodes": [], "more": 1}
    assert told(row) == {"approve": "counted", "edit": "asked_again", "reject": "step_goes_on"}
    assert row["cancel_at"] > row["due_at"]
    assert (row["call"], row["spendable_usd"]) == (None, None)
    service = Service(engine, [risky])
    await service.execute(IDA, Decide(row["gate_id"], shown_hash=row["shown_hash"]))
    (row,) = (await service.query(IDA, query.Gate(row["gate_id"]))).rows
    assert told(dict(row))["approve"] == "step_goes_on"
    assert "has approved it already" in row["refusal"]


async def test_a_gate_says_why_a_caller_may_not_decide_it(engine: Engine) -> None:
    assert "second pair of eyes" in (await gate_row(engine, guarded, by="ida"))["refusal"]
    row = await gate_row(engine, guarded, by="ann")
    assert row["refusal"] is None
    (row,) = (await Service(engine, [guarded]).query(EVE, query.Gate(row["gate_id"]))).rows
    assert "reviewer" in row["refusal"]


async def test_the_questions_of_the_engine_say_what_follows_too(engine: Engine) -> None:
    assert told(await gate_row(engine, LIMITED)) == {"answer": "limit_raised", "reject": "run_fails"}
    row = await gate_row(engine, loses)
    assert told(row) == {"answer": "answered", "reject": "call_not_made", "retry": "call_made"}
    assert (row["call"]["tool"], row["call"]["arguments"], row["call"]["policy"]) == ("lose", {"to": "ada"}, "once")
