"""Decisions that come to a service, over whatever transport: each names the hash of what was shown."""

from __future__ import annotations

import asyncio
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
        with pytest.raises(InvalidDecision, match="shown_hash is required: the hash of what the gate shows"):
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
    with pytest.raises(InvalidDecision, match="shown_hash is required"):
        await service.execute(IDA, DecideTogether(first, {**decisions}))
    shown = digest([each.opened.shown_hash for each in state.gates.values()])
    await service.execute(IDA, DecideTogether(first, {**decisions}, shown))
    assert await engine.run(run.id).result() == ["paid ada", "paid bob"]


async def test_the_engine_s_own_questions_ask_for_the_hash_too(engine: Engine) -> None:
    service = Service(engine, [STRICT])
    run = await engine.start(LIMITED, {})
    (gate,) = await gates_of(engine, run.id)
    assert gate.partition(":")[2].startswith("!max_steps")
    with pytest.raises(InvalidDecision, match="shown_hash is required"):
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
        with pytest.raises(InvalidDecision, match="shown_hash is required: the hash of what the gate shows"):
            await service.execute(operator, Resolve(call, decision, "paid"))  # type: ignore[arg-type]
        with pytest.raises(Conflict, match="shows something else"):
            await service.execute(operator, Resolve(call, decision, "paid", shown_hash="0" * 64))  # type: ignore[arg-type]
    await service.execute(operator, Resolve(call, "answer", "paid by hand", shown_hash=opened.shown_hash))
    assert await run.result() == "paid by hand"
    with pytest.raises(AlreadyDecided, match=r"No question is open about the call .* any more: olga has decided 'answer'"):
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


@flow
async def asks_persons(ctx: Context, reviewers: list[str]) -> str:
    answer = await ctx.ask(
        {"question": f"For {len(reviewers)}?"}, decisions=["approve"], **({"reviewers": reviewers} if reviewers else {})
    )
    return str(answer.decision)


async def test_gates_are_listed_by_whom_they_ask_page_by_page(tmp_path: Path) -> None:
    """Those of others take no place of a page: a list that is not empty does not begin with an empty page."""
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[asks_persons]) as engine:
        for reviewers in (["bob"], ["eve"], [], ["role:legal"], ["eve"], ["IDA"], ["ops"], ["eve"], ["ida", "bob"]):
            run = await engine.start(asks_persons, reviewers)
            await engine.run(run.id).until(lambda state: bool(state.gates or state.ended))
        service = Service(engine, [asks_persons])
        ida = Principal("ida", roles=("legal",), teams=("ops",))

        async def listed(*asks: Any, limit: int = 9) -> list[list[str]]:
            rows, cursor = [], None
            while True:
                page = await service.query(ida, query.Gates(asks=asks, limit=limit, cursor=cursor))
                assert page.rows or not rows, "an empty page"
                rows += page.rows
                if (cursor := page.cursor) is None:
                    return [row["reviewers"] for row in rows]

        assert await listed("me") == await listed("me", limit=1) == [["IDA"], ["ida", "bob"]]
        assert await listed("team") == await listed("team", limit=1) == [["role:legal"], ["ops"]]
        assert await listed("anyone", limit=1) == [[]]
        assert len(await listed("me", "team", "anyone", limit=2)) == 5
        assert len(await listed()) == 9


async def test_a_gate_in_a_list_has_its_workflow_and_a_title(tmp_path: Path) -> None:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[asks_persons]) as engine:
        run = await engine.start(asks_persons, ["ida"])
        await engine.run(run.id).until(lambda state: bool(state.gates or state.ended))
        service = Service(engine, [asks_persons])
        (row,) = (await service.query(IDA, query.Gates())).rows
        assert (row["workflow"], row["title"]) == ("asks_persons", "For 1?")
        (whole,) = (await service.query(IDA, query.Gate(row["gate_id"]))).rows
        assert {name: whole[name] for name in row} == row


@flow
async def asks_below(ctx: Context, given: Any) -> str:
    return str(await ctx.child(asks_persons, ["ida"]))


async def test_gates_below_a_run_are_listed_with_it_for_who_reaches_their_workflow(tmp_path: Path) -> None:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[asks_persons, asks_below]) as engine:
        run = (await engine.start(asks_below, {})).id
        async with asyncio.timeout(20):
            while not (gates := await engine.gates()):
                await asyncio.sleep(0.01)
        service = Service(engine, [asks_persons, asks_below])
        assert (await service.query(IDA, query.Gates(run=run))).rows == []
        (row,) = (await service.query(IDA, query.Gates(run=run, below=True))).rows
        assert (row["gate_id"], row["workflow"]) == (gates[0][0].gate, "asks_persons")
        part = IDA._replace(access=Access(("reviewer",), workflows=("asks_below",)))
        assert (await service.query(part, query.Gates(run=run, below=True))).rows == []
        assert (await service.query(IDA, query.Gates(run=row["run_id"], below=True))).rows == [row]
