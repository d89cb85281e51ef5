"""Recorded runs are replayed in a store of their own: answered from the record, nobody called, what is missing told."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    Context,
    Engine,
    Run,
    StateView,
    Workflow,
    branch,
    check,
    flow,
    human_gate,
    llm_node,
    map_node,
    step,
    task,
    tool,
    tool_node,
)
from holdfast.core.money import nanousd
from holdfast.errors import NotRecorded, UsageError
from holdfast.evaluation import Live, Redaction, Replayed, RunRecord, load_records, quote, recorded, replay
from holdfast.evaluation.offline import offline
from holdfast.evaluation.recording import line, read
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer, Rule
from tests.engine.kit import Time, engine_at

MODEL = "openai:gpt-4o-mini"
WORLD: list[str] = []
"""What was really done."""
NOW: dict[str, Any] = {}
"""What the code is now, where that is another than when the runs were recorded."""


@pytest.fixture(autouse=True)
def _world() -> None:
    WORLD.clear()
    NOW.clear()


@tool(effect="once")
def refund(months: int) -> str:
    WORLD.append("refund")
    return "refunded"


def fetch(state: StateView, ctx: Context) -> dict[str, Any]:
    WORLD.append("fetch")
    if ctx.failures == 0:
        raise ConnectionError("away for a moment")
    return {"document": state.input["case"], "ann@example.org": "2 months"}


def case_of() -> Workflow:
    """Fetch (fails once), draft with a model, check, ask a person, pay."""
    wf = Workflow(name="case")
    wf.node("fetch")(task(fetch))

    @wf.node("draft")
    @llm_node(model=MODEL, max_tokens=50)
    def draft(state: StateView) -> str:
        return NOW.get("prompt", f"Draft a reply to {state.events['fetch'].output['document']}")

    @wf.node("validate")
    @check
    def validate(state: StateView) -> str:
        if NOW.get("calls"):
            NOW["calls"]()
        return "pass" if len(state.events["draft"].output) < NOW.get("most", 1000) else "reject"

    @wf.node("approval")
    @human_gate
    def approval(state: StateView) -> dict[str, Any]:
        return {"diff": state.events["draft"].output}

    wf.node("pay")(tool_node(name=refund)(lambda state: {"months": NOW.get("months", 1)}))
    wf.edge("fetch", "draft")
    wf.edge("draft", "validate")
    wf.edge("validate", "approval")
    wf.edge("approval", "pay")
    return wf


case = case_of()


async def to_the_end(engine: Engine, run: Run, now: Time, *, decision: str = "approve") -> None:
    """Let time go on, and a person decide, until the run has ended."""
    while True:
        state = await run.until(lambda state: bool(state.ended or state.gates or state.unfinished))
        if state.ended:
            return
        for gate in list(state.gates):
            await engine.decide(gate, decision, by="ann")
        now.forward(3600)
        await asyncio.sleep(0.005)


@pytest.fixture
async def record(tmp_path: Path, server: ModelServer, model: Providers) -> RunRecord:
    """One run of `case`, as it was recorded."""
    server.script.add(Rule(text="We pay two months. Questions: ann@example.org, +49 30 1234567."))
    now = Time()
    async with engine_at(tmp_path, now, workflows=[case], model=model) as engine:
        run = await engine.start(case, {"case": "Zebra 4711", "email": "bob@example.org"}, cost_limit_usd="0.10")
        await to_the_end(engine, run, now)
        found = await recorded(engine, run.id, None)
    assert WORLD == ["fetch", "fetch", "refund"]
    WORLD.clear()
    return found


async def replayed(records: Sequence[RunRecord], workflow: Workflow, **options: Any) -> list[Replayed]:
    return [each async for each in replay(records, [workflow], **options)]


# --- As it was --------------------------------------------------------------------------------------------------------


async def test_a_run_goes_the_way_that_it_went_and_nothing_is_done(record: RunRecord, server: ModelServer) -> None:
    calls = len(server.calls)
    [found] = await replayed([record], case)
    was = record.path()
    assert (found.passed, found.missing, found.comparison.same_way) == (True, (), True)
    assert found.path.nodes == ("fetch", "draft", "validate", "approval", "pay") == was.nodes
    assert (found.path.retries, found.path.model_calls, found.path.cost_nanousd) == (1, 1, was.cost_nanousd)
    assert (found.path.run, [use.tool for use in found.path.tools]) == (record.run, ["refund"])
    assert (WORLD, len(server.calls)) == ([], calls)


async def test_many_runs_are_replayed_beside_one_another(record: RunRecord) -> None:
    """Each with its own answers, in the order of the records."""
    assert [each.passed for each in await replayed([record], case)] == [True]
    text = line(record)
    others = [text.replace(record.run.encode(), f"{number:036d}".encode()) for number in range(120)]
    found = await replayed(list(read(others, "others")), case)
    assert [each.run for each in found] == [f"{number:036d}" for number in range(120)]
    assert all(each.passed for each in found)
    assert WORLD == []


async def test_a_record_is_what_its_line_says(record: RunRecord, tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_bytes(line(record) + b"\n" + line(record))
    assert load_records(file) == [record, record]
    assert record.path() == load_records(file)[0].path()


# --- What is different ------------------------------------------------------------------------------------------------


async def test_code_that_decides_otherwise_goes_another_way(record: RunRecord) -> None:
    NOW["most"] = 5
    [found] = await replayed([record], case)
    assert not found.passed
    assert found.path.nodes == ("fetch", "draft", "validate")
    assert found.comparison.status == ("completed", "failed")
    assert found.missing == ()


async def test_a_prompt_that_is_not_in_the_record_is_missed(record: RunRecord, server: ModelServer) -> None:
    calls = len(server.calls)
    NOW["prompt"] = "Be brief."
    [found] = await replayed([record], case)
    assert not found.passed
    assert found.missing == (f"draft#1 asks for model {MODEL!r} at 0",)
    assert len(server.calls) == calls


async def test_a_tool_that_is_asked_otherwise_is_missed_and_not_called(record: RunRecord) -> None:
    NOW["months"] = 12
    [found] = await replayed([record], case)
    assert found.missing == ("pay#1 asks for tool 'refund' at 0",)
    assert (found.passed, found.path.tool_calls, WORLD) == (False, 0, [])


async def test_a_node_that_the_record_does_not_have_is_missed(record: RunRecord) -> None:
    more = case_of()
    more.node("tell")(task(lambda state: WORLD.append("told")))
    more.edge("pay", "tell")
    [found] = await replayed([record], more)
    assert (found.missing, found.passed, WORLD) == (("tell#1 begins",), False, [])


async def test_a_gate_at_which_nobody_had_decided_stays_open(record: RunRecord) -> None:
    more = case_of()
    more.node("second")(human_gate(lambda state: {"diff": 1}))
    more.edge("pay", "second")
    [found] = await replayed([record], more)
    assert (found.passed, found.path.status) == (False, "waiting")


# --- Nobody is called -------------------------------------------------------------------------------------------------


def connect() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()):
        WORLD.append("connected")


def start_a_process() -> None:
    subprocess.run(["true"], check=True)
    WORLD.append("started")


def resolve() -> None:
    socket.getaddrinfo("localhost", 80)
    WORLD.append("resolved")


@pytest.mark.parametrize("call", [connect, start_a_process, resolve])
async def test_code_that_calls_outside_is_refused(record: RunRecord, call: Callable[[], None]) -> None:
    NOW["calls"] = call
    [found] = await replayed([record], case)
    assert (found.passed, found.path.status, WORLD) == (False, "failed", [])
    call()
    assert len(WORLD) == 1  # it may again


def test_what_is_refused_is_counted() -> None:
    with offline() as refused:
        with pytest.raises(NotRecorded, match=r"socket\.getaddrinfo"):
            resolve()
        assert refused == ["socket.getaddrinfo"]


# --- Live -------------------------------------------------------------------------------------------------------------


async def test_what_changed_is_quoted_and_then_asked_live(
    record: RunRecord, server: ModelServer, model: Providers
) -> None:
    calls = len(server.calls)
    assert await quote([record], [case]) == await quote([record], [case])
    assert (await quote([record], [case])).changed == 0
    NOW["prompt"] = "Be brief."
    quoted = await quote(
        [
            record,
        ],
        [case],
    )
    assert (quoted.runs, quoted.changed, quoted.recorded_nanousd) == (1, 1, record.path().cost_nanousd)
    assert len(server.calls) == calls
    server.script.add(Rule(text="Paid."))
    [found] = await replayed([record], case, live=Live("1.00"), model=model)
    assert (found.passed, found.live_calls, len(server.calls)) == (True, 1, calls + 1)
    assert 0 < found.live_nanousd == found.path.cost_nanousd <= quoted.first_calls_nanousd
    assert WORLD == []


async def test_live_calls_never_cost_more_than_was_said(
    record: RunRecord, server: ModelServer, model: Providers
) -> None:
    calls = len(server.calls)
    NOW["prompt"] = "Be brief."
    quoted = await quote([record], [case])
    text = line(record)
    records = list(read([text.replace(record.run.encode(), f"{n:036d}".encode()) for n in range(4)], "four"))
    most_nanousd = 2 * quoted.first_calls_nanousd
    found = await replayed(records, case, live=Live(most_nanousd / 10**9), model=model)
    spent = sum(each.live_nanousd for each in found)
    assert 2 <= len(server.calls) - calls < 4
    assert 0 < spent <= most_nanousd == nanousd(most_nanousd / 10**9)
    assert any("of what may be spent is left" in missing for each in found for missing in each.missing)


# --- Redacted ---------------------------------------------------------------------------------------------------------


async def test_a_redacted_record_says_nothing_personal_and_goes_the_same_way(record: RunRecord) -> None:
    redaction = Redaction(["DOCUMENT", "case"])
    events = tuple(type(each)(each.seq, each.at_ms, redaction.of(each.event)) for each in record.events)
    redacted = RunRecord(record.definition, events, redacted=True)
    said = line(redacted).decode()
    for personal in ("ann", "bob@", "1234567", "Zebra"):
        assert personal in line(record).decode()
        assert personal not in said, personal
    assert said.count("@redacted.invalid") >= 3
    assert "+49" not in said
    [found] = await replayed([redacted], case)
    assert found.passed, found


async def test_the_same_value_is_the_same_everywhere_and_in_no_other_file() -> None:
    one, other = Redaction(), Redaction()
    assert one._text("a@b.example and A@B.example") == " and ".join([one._text("a@b.example")] * 2)
    assert one._text("a@b.example") != other._text("a@b.example")
    assert one._text("run 0190f3aa-1111-7222-8333-944444444444 of 2026-11-23") == (
        "run 0190f3aa-1111-7222-8333-944444444444 of 2026-11-23"
    )


# --- Flows, maps, waits -----------------------------------------------------------------------------------------------


@step
def look_up(name: str) -> str:
    WORLD.append(f"look up {name}")
    if name == "b" and WORLD.count("look up b") < 2:
        raise ConnectionError("away for a moment")
    return f"found {name}"


@step
def weigh(number: int) -> int:
    WORLD.append(f"weigh {number}")
    return number * 2


@flow
async def inquiry(ctx: Context, given: dict[str, Any]) -> dict[str, Any]:
    begun = ctx.now()
    found = [await look_up(name) for name in given["names"]]
    try:
        await ctx.tool(refund, months=0)
    except Exception as refusal:
        found.append(type(refusal).__name__)
    await ctx.sleep(4 * 86_400)
    weights = await ctx.map(weigh, [1, 2, 3])
    said = await ctx.wait_signal("go", timeout_s=86_400)
    answer = await ctx.ask({"question": "Is that all?"}, decisions=("answer", "reject"))
    waited = (ctx.now() - begun).days
    return {"found": found, "weights": weights, "said": said, "answer": answer.data, "days": waited}


async def test_a_flow_is_run_and_each_of_its_steps_answered(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now, workflows=[inquiry]) as engine:
        run = await engine.start(inquiry, {"names": ["a", "b"]})
        await engine.signal(run.id, "go", {"on": 1})
        while not (state := await run.state()).ended:
            for gate in list(state.gates):
                await engine.decide(gate, "answer", {"all": True}, by="ann")
            now.forward(3600)
            await asyncio.sleep(0.005)
        result = await run.result()
        record = await recorded(engine, run.id, None)
    assert result["days"] >= 4
    WORLD.clear()
    [found] = await replayed([record], inquiry)
    assert found.passed, found
    assert WORLD == []
    assert found.path.retries == record.path().retries == 1


async def test_a_map_node_is_gone_through_and_its_items_are_answered(tmp_path: Path) -> None:
    wf = Workflow(name="letters")

    @wf.node("names")
    @task
    def names(state: StateView) -> list[str]:
        return ["x", "y", "z"]

    @wf.node("each")
    @map_node(lambda state: state.events["names"].output, max_parallel=2)
    @task
    def each(state: StateView, item: str) -> str:
        WORLD.append(item)
        return item.upper()

    @wf.node("which")
    @branch
    def which(state: StateView) -> str:
        return "many" if len(state.events["each"].output) > NOW.get("few", 2) else "few"

    wf.node("many")(task(lambda state: WORLD.append("many")))
    wf.node("few")(task(lambda state: WORLD.append("few")))
    wf.edge("names", "each")
    wf.edge("each", "which")
    wf.edge("which", "many", when="many")
    wf.edge("which", "few", when="few")
    async with engine_at(tmp_path, Time(), workflows=[wf]) as engine:
        run = await engine.start(wf)
        await run.result()
        record = await recorded(engine, run.id, None)
    assert sorted(WORLD) == ["many", "x", "y", "z"]
    WORLD.clear()
    assert [each.passed for each in await replayed([record], wf)] == [True]
    NOW["few"] = 5
    [found] = await replayed([record], wf)
    assert (found.missing, WORLD) == (("few#1 begins",), [])


# --- Bad records ------------------------------------------------------------------------------------------------------


async def test_only_a_run_that_has_ended_is_recorded(tmp_path: Path, model: Providers) -> None:
    async with engine_at(tmp_path, Time(), workflows=[case], model=model) as engine:
        run = await engine.start(case, {"case": "1"})
        with pytest.raises(UsageError, match="a record is of a run that has ended"):
            await recorded(engine, run.id, None)


async def test_a_record_of_another_workflow_is_refused(record: RunRecord) -> None:
    with pytest.raises(UsageError, match="one of the workflow 'case', which is not given; given are: inquiry"):
        await replayed([record], inquiry)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"{}", "no record of a run"),
        (b"[1]", "no record of a run"),
        (b"\xff", "no record of a run"),
        (b"[" * 5000, "no record of a run"),
        (b'{"holdfast_record": 2, "redacted": false, "definition": DEFINITION, "events": []}', "of format 2"),
        (b'{"holdfast_record": 1, "redacted": false, "definition": DEFINITION, "events": []}', "begins with the start"),
    ],
)
async def test_what_is_no_record_is_refused_in_words(record: RunRecord, text: bytes, why: str) -> None:
    definition = line(record).partition(b'"definition":')[2].partition(b',"events":')[0]
    with pytest.raises(UsageError, match=f"cases.jsonl, line 1: .*{why}"):
        list(read([text.replace(b"DEFINITION", definition)], "cases.jsonl"))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_records(tmp_path / "none.jsonl")
