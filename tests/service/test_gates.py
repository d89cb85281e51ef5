"""Decisions that come to a service, over whatever transport: each names the hash of what was shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, StateView, ToolRule, Workflow, flow, human_gate, task, tool, tool_node
from holdfast.core.facts.events import GateOpened
from holdfast.core.values.access import Access
from holdfast.core.values.ids import GateId
from holdfast.core.values.payload import digest, inline
from holdfast.errors import AlreadyDecided, Conflict, InvalidDecision
from holdfast.service.declarations import query
from holdfast.service.declarations.command import Decide, DecideTogether, Resolve
from holdfast.service.principal import Principal
from holdfast.service.service import Service

IDA = Principal("ida", None, access=Access(("reviewer",)))


@tool(effect="once", approval=True)
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@flow
async def asks(ctx: Context, hash_optional: bool) -> str:
    return str((await ctx.ask({"pay": 9}, decisions=["approve"], hash_optional=hash_optional)).decision)


@flow
async def risky(ctx: Context, level: Any) -> str:
    answer = await ctx.ask(
        {"pay": 9},
        decisions=["approve"],
        proposed_action="pay",
        evidence_ids=["e1"],
        risk_level=level,
        expires_after_s=3600,
        quorum=2,
    )
    return str(answer.decision)


@tool(effect="once")
def lose(to: str) -> str:
    """Pay, and hear nothing of it."""
    raise TimeoutError


@flow(tools=[lose])
async def loses(ctx: Context, given: Any) -> str:
    return str(await ctx.tool(lose, to="ada"))


@flow(tools=[pay])
async def pays(ctx: Context, names: list[str]) -> list[str]:
    return await ctx.gather(*(ctx.tool(pay, to=name) for name in names))


def gated(name: str, hash_optional: bool) -> Workflow:
    """A gate that is a node, and a tool that is asked about by rule."""
    wf = Workflow(name, tools=[pay], tool_rules=[ToolRule("pay", "ask", hash_optional=hash_optional)])

    @wf.node("ask")
    @human_gate(hash_optional=hash_optional)
    def ask(state: StateView) -> dict[str, int]:
        return {"pay": 9}

    @wf.node("pay")
    @tool_node(name=pay)
    def paying(state: StateView) -> dict[str, str]:
        return {"to": "ada"}

    wf.edge("ask", "pay")
    return wf


def limited() -> Workflow:
    """Its limit on steps is reached before its second."""
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
STRICT, LAX = gated("strict", hash_optional=False), gated("lax", hash_optional=True)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[asks, pays, loses, risky, STRICT, LAX, LIMITED]) as engine:
        yield engine


async def gates_of(engine: Engine, run: str) -> list[str]:
    """Wait for the gates of a run."""
    state = await engine.run(run).until(lambda state: bool(state.gates) or bool(state.ended))
    return [*state.gates]


async def test_a_decision_names_what_was_shown_unless_its_gate_says_otherwise(engine: Engine) -> None:
    service = Service(engine, [asks])
    lax, strict = [(await engine.start(asks, each)).id for each in (True, False)]
    (open_,) = await gates_of(engine, lax)
    await service.execute(IDA, Decide(open_))
    (gate,) = await gates_of(engine, strict)
    for decision in ("approve", "reject"):
        with pytest.raises(InvalidDecision, match="Give shown_hash, the hash of what gate"):
            await service.execute(IDA, Decide(gate, decision))
    with pytest.raises(Conflict, match="shows something else"):
        await service.execute(IDA, Decide(gate, shown_hash="0" * 64))
    (row,) = (await service.query(IDA, query.Gate(gate))).rows
    assert row["hash_optional"] is False
    await service.execute(IDA, Decide(gate, shown_hash=row["shown_hash"]))
    assert await engine.run(strict).result() == "approve"
    with pytest.raises(AlreadyDecided):
        await service.execute(IDA, Decide(gate))


async def test_a_node_and_a_rule_say_it_as_a_question_does(engine: Engine) -> None:
    service = Service(engine, [STRICT, LAX])
    for workflow, is_optional in ((STRICT, False), (LAX, True)):
        run = await engine.start(workflow, {})
        for reason in ("approval", "tool_approval"):
            (gate,) = await gates_of(engine, run.id)
            opened = (await engine.run(run.id).state()).gates[GateId(gate)].opened
            assert (opened.reason, opened.hash_optional) == (reason, is_optional)
            if not is_optional:
                with pytest.raises(InvalidDecision):
                    await service.execute(IDA, Decide(gate))
            shown = None if is_optional else opened.shown_hash
            await service.execute(IDA, Decide(gate, shown_hash=shown))
            await engine.run(run.id).until(
                lambda state, gate=gate: GateId(gate) not in state.gates and (state.gates or state.ended)
            )  # type: ignore[misc]
        assert await engine.run(run.id).result() == "paid ada"


async def test_calls_that_are_asked_together_are_decided_by_the_hash_of_them_all(engine: Engine) -> None:
    service = Service(engine, [pays])
    run = await engine.start(pays, ["ada", "bob"])
    state = await engine.run(run.id).until(lambda state: len(state.gates) == 2)
    decisions = dict.fromkeys(state.gates, "approve")
    first = next(iter(decisions))
    with pytest.raises(InvalidDecision, match="Give shown_hash"):
        await service.execute(IDA, DecideTogether(first, {**decisions}))
    shown = digest([each.opened.shown_hash for each in state.gates.values()])
    await service.execute(IDA, DecideTogether(first, {**decisions}, shown))
    assert await engine.run(run.id).result() == ["paid ada", "paid bob"]


async def test_the_engine_s_own_questions_ask_for_the_hash_too(engine: Engine) -> None:
    service = Service(engine, [STRICT])
    run = await engine.start(LIMITED, {})
    (gate,) = await gates_of(engine, run.id)
    assert gate.partition(":")[2].startswith("!max_steps")
    with pytest.raises(InvalidDecision, match="Give shown_hash"):
        await service.execute(IDA, Decide(gate, "answer", {"steps": 9}))
    asked = await engine.gate(gate)
    assert asked.form["required"] == ["steps"]
    await service.execute(IDA, Decide(gate, "answer", {"steps": 9}, shown_hash=asked.shown_hash))
    assert await engine.run(run.id).result() == "second"
    assert (await engine.gate(gate)).form is None


async def test_what_became_of_a_call_is_decided_by_the_hash_of_its_question(engine: Engine) -> None:
    service, operator = Service(engine, [loses]), Principal("olga", None, access=Access(("operator",)))
    run = await engine.start(loses, {})
    (gate,) = await gates_of(engine, run.id)
    opened = (await engine.run(run.id).state()).gates[GateId(gate)].opened
    call = opened.subject or ""
    for decision in ("answer", "reject", "retry"):
        with pytest.raises(InvalidDecision, match=f"Give shown_hash, the hash of what gate {gate} shows"):
            await service.execute(operator, Resolve(call, decision, "paid"))  # type: ignore[arg-type]
        with pytest.raises(Conflict, match="shows something else"):
            await service.execute(operator, Resolve(call, decision, "paid", shown_hash="0" * 64))  # type: ignore[arg-type]
    await service.execute(operator, Resolve(call, "answer", "paid by hand", shown_hash=opened.shown_hash))
    assert await run.result() == "paid by hand"
    with pytest.raises(Conflict, match="No question is open about the call"):
        await service.execute(operator, Resolve(call, "retry"))


async def test_code_in_the_engine_s_process_decides_as_before(engine: Engine) -> None:
    run = await engine.start(asks, False)
    (gate,) = await gates_of(engine, run.id)
    await engine.decide(gate, by="ida")
    assert await engine.run(run.id).result() == "approve"


async def test_a_list_says_what_gates_propose_and_may_be_of_some_risks(engine: Engine) -> None:
    service = Service(engine, [risky])
    gates = {}
    for level in ("low", "high", "critical"):
        run = await engine.start(risky, level)
        gates[level] = (await gates_of(engine, run.id))[0]
    (row,) = (await service.query(IDA, query.Gates(risk_level=("high",)))).rows
    (whole,) = (await service.query(IDA, query.Gate(gates["high"]))).rows
    for each in (row, whole):
        assert (each["proposed_action"], each["evidence_ids"], each["risk_level"]) == ("pay", ["e1"], "high")
        assert each["expires_at"] is not None
        assert (each["quorum"], each["approved_by"]) == (2, [])
    rows = (await service.query(IDA, query.Gates(risk_level=("low", "critical")))).rows
    assert [each["gate_id"] for each in rows] == [gates["low"], gates["critical"]]
    await service.execute(IDA, Decide(row["gate_id"], shown_hash=whole["shown_hash"]))
    (row,) = (await service.query(IDA, query.Gates(risk_level=("high",)))).rows
    (whole,) = (await service.query(IDA, query.Gate(gates["high"]))).rows
    assert row["approved_by"] == whole["approved_by"] == ["ida"]


def test_a_gate_that_an_earlier_version_has_opened_takes_a_decision_without_a_hash() -> None:
    assert GateOpened(GateId("r:a#1:0"), "approval", inline({}), digest({}), ("approve",)).hash_optional
