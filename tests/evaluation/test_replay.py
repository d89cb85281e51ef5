"""Recorded runs are replayed in a store of their own: answered from the record, nobody called, what is missing told."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import (
    Context,
    Demand,
    Engine,
    Run,
    StateView,
    ToolRule,
    Workflow,
    branch,
    check,
    flow,
    human_gate,
    llm_node,
    map_node,
    remote_task,
    step,
    task,
    tool,
    tool_node,
)
from holdfast.core.facts.events import EffectCompleted
from holdfast.core.values.demand import Resources
from holdfast.core.values.money import nanousd
from holdfast.core.values.payload import inline
from holdfast.core.views.transcript import TurnChange
from holdfast.errors import NotRecorded, UsageError
from holdfast.evaluation import Live, Redaction, ReplayResult, RunRecord, load_records, quote, recorded, replay
from holdfast.evaluation.offline import offline
from holdfast.evaluation.recording import line, read
from holdfast.models.providers import Providers
from holdfast.platform.redaction import PersonalData
from holdfast.settings import Settings
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.actions.jobs.kit import workflow as file_of
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


async def replayed(records: Sequence[RunRecord], workflow: Workflow, **options: Any) -> list[ReplayResult]:
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
    others = [text.replace(record.run.encode(), f"00000000-0000-7000-8000-{number:012d}".encode()) for number in range(120)]
    found = await replayed(list(read(others, "others")), case)
    assert [each.run for each in found] == [f"00000000-0000-7000-8000-{number:012d}" for number in range(120)]
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
    [request] = found.requests
    assert (request.step, request.path, request.model) == ("draft#1", "0", MODEL)
    assert request.changes == (TurnChange("user", "Draft a reply to Zebra 4711", "Be brief."),)


@tool(effect="read")
def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing in {where}, says ann@example.org"


def agent_of() -> Workflow:
    wf = Workflow(name="agent")

    @wf.node("find")
    @llm_node(model=MODEL, max_tokens=50, tools=[look])
    def find(state: StateView) -> dict[str, Any]:
        return {"system": NOW.get("system", "Be kind."), "user": NOW.get("user", "Where is bob@example.org?")}

    return wf


agent = agent_of()


async def agent_record(tmp_path: Path, server: ModelServer, model: Providers, policy: str) -> RunRecord:
    server.script.add(Rule(turn=1, tool_calls=(ToolCall("look", {"where": "here"}),)), Rule(turn=2, text="Not here."))
    settings = Settings(keep_requests=policy)  # type: ignore[arg-type]
    async with Engine.open(tmp_path / "runs.db", workflows=[agent], model=model, settings=settings) as engine:
        run = await engine.start(agent, None)
        await run.result()
        return await recorded(engine, run.id, None)


@pytest.mark.parametrize("policy", ["full", "redacted", "hash"])
async def test_the_turn_that_differs_is_shown_as_far_as_it_was_kept(
    tmp_path: Path, server: ModelServer, model: Providers, policy: str
) -> None:
    record = await agent_record(tmp_path, server, model, policy)
    assert [each.passed for each in await replayed([record], agent)] == [True]
    NOW["system"] = "Be brief."
    [found] = await replayed([record], agent)
    changes = [each for request in found.requests for each in request.changes]
    assert changes == ([] if policy == "hash" else [TurnChange("system", "Be kind.", "Be brief.")])
    NOW.update(system="Be kind.", user="Where is eve@example.org?")
    [found] = await replayed([record], agent)
    changes = [each for request in found.requests for each in request.changes]
    if policy == "full":
        assert changes == [TurnChange("user", "Where is bob@example.org?", "Where is eve@example.org?")]


async def test_a_later_turn_that_differs_is_compared_with_the_whole_request(
    tmp_path: Path, server: ModelServer, model: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await agent_record(tmp_path, server, model, "full")
    events = [
        msgspec.structs.replace(each, event=msgspec.structs.replace(each.event, response=inline("gone")))
        if isinstance(each.event, EffectCompleted)
        else each
        for each in record.events
    ]
    [found] = await replayed([msgspec.structs.replace(record, events=tuple(events))], agent)
    [request] = found.requests
    [change] = request.changes
    assert (change.role, change.now) == ("tool look", "gone")
    assert "nothing in here" in (change.recorded or "")


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


async def test_an_undecided_gate_stays_open(record: RunRecord) -> None:
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


async def test_what_changed_is_quoted_and_then_asked_live(record: RunRecord, server: ModelServer, model: Providers) -> None:
    calls = len(server.calls)
    assert await quote([record], [case]) == await quote([record], [case])
    assert (await quote([record], [case])).changed == 0
    NOW["prompt"] = "Be brief."
    quoted = await quote([record], [case])
    assert (quoted.runs, quoted.changed, quoted.recorded_nanousd) == (1, 1, record.path().cost_nanousd)
    assert len(server.calls) == calls
    server.script.add(Rule(text="Paid."))
    [found] = await replayed([record], case, live=Live("1.00"), model=model)
    assert (found.passed, found.live_calls, len(server.calls)) == (True, 1, calls + 1)
    assert 0 < found.live_nanousd == found.path.cost_nanousd <= quoted.first_calls_nanousd
    assert WORLD == []


async def test_live_calls_never_cost_more_than_was_said(record: RunRecord, server: ModelServer, model: Providers) -> None:
    calls = len(server.calls)
    NOW["prompt"] = "Be brief."
    quoted = await quote([record], [case])
    text = line(record)
    records = list(
        read([text.replace(record.run.encode(), f"00000000-0000-7000-8000-{n:012d}".encode()) for n in range(4)], "four")
    )
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
    one, other = PersonalData(), PersonalData()
    assert one.without("a@b.example and A@B.example") == " and ".join([one.without("a@b.example")] * 2)
    assert one.without("a@b.example") != other.without("a@b.example")
    assert one.without("run 0190f3aa-1111-7222-8333-944444444444 of 2026-11-23") == (
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


# --- Children in the background ---------------------------------------------------------------------------------------


@flow
async def inner(ctx: Context, given: dict[str, Any]) -> str:
    WORLD.append(f"inner {given['n']}")
    if given["n"] == 2:
        raise ValueError("it is two")
    return f"did {given['n']}"


@flow
async def parent(ctx: Context, given: dict[str, Any]) -> dict[str, Any]:
    first = await ctx.child(inner, {"n": 1}, background=True)
    second = await ctx.child(inner, {"n": 2}, background=True)
    third = await ctx.child(inner, {"n": NOW.get("third", 3)}, on_failure="return")
    found = await second.result(on_failure="return")
    return {
        "first": await first.result(),
        "second": [found.status, found.error, found.run_id == second.run_id],
        "third": [third.status, third.output, bool(third.run_id)],
    }


async def test_children_are_answered_and_those_in_the_background_too(tmp_path: Path) -> None:
    async with engine_at(tmp_path, Time(), workflows=[parent, inner]) as engine:
        run = await engine.start(parent, {})
        result = await run.result()
        record = await recorded(engine, run.id, None)
    assert result["first"] == "did 1"
    assert result["second"][0] == "failed"
    assert result["third"] == ["completed", "did 3", True]
    WORLD.clear()
    [found] = await replayed([record], parent)
    assert (found.passed, found.missing, WORLD) == (True, (), [])
    assert await output_of(record, parent) == result
    NOW["third"] = 4
    [found] = await replayed([record], parent)
    assert (found.missing, found.passed, WORLD) == (("flow#1 asks for child 'inner' at 2",), False, [])


async def output_of(record: RunRecord, workflow: Workflow) -> Any:
    """What the last step of a replayed run returns."""
    seen: list[Any] = []

    @flow(name=workflow.name)
    async def spy(ctx: Context, given: dict[str, Any]) -> Any:
        seen.append(await workflow.nodes["flow"].handler(ctx, given))
        return seen[-1]

    await replayed([record], spy)
    return seen[-1]


# --- Standing approvals -----------------------------------------------------------------------------------------------


def asking() -> Workflow:
    """Pays without a question, as long as somebody has said so beforehand."""
    wf = Workflow(name="asking", tool_rules=[ToolRule("refund", "ask")])
    wf.node("pay")(tool_node(name=refund)(lambda state: {"months": NOW.get("months", 1)}))
    wf.node("again")(tool_node(name=refund)(lambda state: {"months": 2}))
    wf.edge("pay", "again")
    return wf


async def test_a_replayed_preapproved_call_asks_no_person_and_the_next_asks_its_reviewer(tmp_path: Path) -> None:
    wf, now = asking(), Time()
    async with engine_at(tmp_path, now, workflows=[wf]) as engine:
        await engine.grant_approval("refund", for_s=30 * 86_400, max_calls=1, by="ann")
        run = await engine.start(wf, {})
        await to_the_end(engine, run, now)
        record = await recorded(engine, run.id, None)
    assert WORLD == ["refund", "refund"]
    assert [each.node for each in record.path().approvals] == ["again"]
    WORLD.clear()
    [found] = await replayed([record], wf)
    assert (found.passed, found.missing, WORLD) == (True, (), [])
    assert [each.node for each in found.path.approvals] == ["again"]
    NOW["months"] = 12
    [found] = await replayed([record], wf)
    assert found.missing == ("pay#1 asks for another call of 'refund' than a standing approval was used for",)
    assert not found.passed


# --- Gates that expired -----------------------------------------------------------------------------------------------


def expiring(expires_after_s: float | None = 86_400) -> Workflow:
    """Asks until somebody answers in time; then pays."""
    wf = Workflow(name="expiring")
    wf.node("draft")(task(lambda state: "a draft"))
    asks = human_gate(expires_after_s=expires_after_s)
    wf.node("approval")(asks(lambda state: {"diff": state.visits("approval")}))
    wf.node("remind")(task(lambda state: WORLD.append("reminded")))
    wf.node("pay")(tool_node(name=refund)(lambda state: {"months": 1}))
    wf.edge("draft", "approval")
    wf.edge("approval", "pay", when="approve")
    wf.edge("approval", "remind", when="expired")
    wf.loop("remind", "approval", max_visits=3)
    return wf


@pytest.fixture
async def expired(tmp_path: Path) -> RunRecord:
    """A run whose gate expired once, and was approved 23 hours after it was asked again."""
    wf, now = expiring(), Time()
    async with engine_at(tmp_path, now, workflows=[wf]) as engine:
        run = await engine.start(wf, {})
        state = await run.until(lambda state: bool(state.gates))
        [first] = state.gates
        now.forward(90_000)
        state = await run.until(lambda state: bool(state.gates) and first not in state.gates)
        now.forward(82_800)
        await engine.decide(next(iter(state.gates)), "approve", by="ann")
        await run.result()
        found = await recorded(engine, run.id, None)
    assert found.path().nodes == ("draft", "approval", "remind", "approval", "pay")
    WORLD.clear()
    return found


async def test_a_gate_that_had_expired_expires_and_the_next_is_decided(expired: RunRecord) -> None:
    [found] = await replayed([expired], expiring())
    assert (found.passed, found.missing, WORLD) == (True, (), [])
    assert found.path.nodes == ("draft", "approval", "remind", "approval", "pay")


async def test_an_answer_that_would_come_too_late_now_does(expired: RunRecord) -> None:
    [found] = await replayed([expired], expiring(3600))
    assert found.path.nodes[:5] == ("draft", "approval", "remind", "approval", "remind")
    assert not found.passed
    assert found.missing == ("remind#2 begins",)


async def test_a_gate_that_had_expired_and_does_not_any_more_is_reported(expired: RunRecord) -> None:
    [found] = await replayed([expired], expiring(None))
    assert found.missing == ("approval#1 asks at a gate that had expired, and now stays open",)
    assert (found.passed, found.path.status, found.path.nodes) == (False, "waiting", ("draft", "approval"))


# --- Jobs of workflow files -------------------------------------------------------------------------------------------

FILE = """
name: release
env: {WHERE: "world.txt"}
jobs:
  build:
    runs-on: [gpu]
    retry: {max: 1, delay-seconds: 1}
    steps:
      - {run: 'echo built >> "$WORLD"'}
      - {id: publish, effect: once, run: 'echo published >> "$WORLD"; echo at=there >> "$GITHUB_OUTPUT"'}
      - {run: 'echo tried >> "$WORLD"; [ "$(grep -c tried "$WORLD")" -gt 1 ]'}
    outputs: {at: "${{ steps.publish.outputs.at }}"}
  test:
    runs-on: any
    needs: build
    strategy: {matrix: {n: [1, 2]}}
    steps: [{id: try, effect: once, run: 'echo "test ${{ matrix.n }}" >> "$WORLD"'}]
  tell:
    runs-on: any
    needs: [build, test]
    if: needs.build.outputs.at == 'there'
    steps: [{run: 'echo told >> "$WORLD"'}]
"""


async def test_the_jobs_of_a_file_are_answered_with_what_they_did_once(tmp_path: Path) -> None:
    world = tmp_path / "world"
    text = FILE.replace("$WORLD", str(world))
    made = file_of(text)
    async with engine_at(tmp_path, now := Time(), workflows=[made], labels=["gpu"]) as engine:
        run = await engine.start(made, {})
        while not (await run.state()).ended:
            now.forward(5)
            await asyncio.sleep(0.05)
        assert (await run.state()).ended == "completed"
        record = await recorded(engine, run.id, None)
    assert sorted(world.read_text().split("\n")) == sorted(
        ["built", "published", "tried", "built", "tried", "test 1", "test 2", "told", ""]
    )
    world.unlink()
    [found] = await replayed([record], made)
    assert (found.missing, found.passed, world.exists()) == ((), True, False), found
    for path in (found.path, record.path()):
        assert [use.tool for use in path.tools] == ["build.publish", "test.try", "test.try"]
    assert found.path.retries == record.path().retries == 1

    [found] = await replayed([record], file_of(text.replace("outputs.at == 'there'", "outputs.at == 'elsewhere'")))
    assert (found.passed, found.missing, found.path.nodes) == (
        False,
        ("tell#1 begins, whose job is another than the one that was recorded",),
        found.path.nodes,
    )
    for changed in (text.replace("echo published", "echo Published"), text.replace("world.txt", "elsewhere.txt")):
        [found] = await replayed([record], file_of(changed))
        assert found.missing[0] == "build#1 begins, whose job is another than the one that was recorded"
        assert (found.passed, world.exists()) == (False, False)


# --- Where steps run --------------------------------------------------------------------------------------------------


async def test_what_steps_ask_for_is_there_and_what_is_not_is_reported(tmp_path: Path) -> None:
    wf = Workflow(name="placed")
    wf.node("train", demand=Demand(labels=("gpu",), cpu_m=64_000, pools={"licences": 2}))(task(lambda state: 1))
    async with engine_at(tmp_path, Time(), workflows=[wf], labels=["gpu"], resources=Resources(cpu_m=64_000)) as engine:
        await engine.set_pool("licences", slots=3)
        run = await engine.start(wf, {})
        await run.result()
        record = await recorded(engine, run.id, None)
    [found] = await replayed([record], wf)
    assert (found.passed, found.missing) == (True, ())
    elsewhere = Workflow(name="placed")
    elsewhere.node("train")(remote_task(task="train")(lambda state: {}))
    [found] = await replayed([record], elsewhere)
    assert (found.passed, found.path.status) == (False, "waiting")
    assert found.missing == ("train#1 waits for a worker, which a replay does not have",)


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


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_records(tmp_path / "none.jsonl")
