"""Those who look on: what they are told is what the history says, in its order, and nothing that they do is felt."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from holdfast import Demand, RetryPolicy, Workflow, human_gate, llm_node, task, tool
from holdfast.models.providers import Providers
from holdfast.ports import (
    AppendsFlushed,
    CallBegan,
    CallEnded,
    EventsCommitted,
    GateBegan,
    GateEnded,
    Observation,
    PoolWaited,
    RunBegan,
    RunEnded,
    StepBegan,
    StepEnded,
    StepPlaced,
)
from holdfast.settings import PoolRules, Settings
from holdfast.testing.model_server import ModelServer, Rule
from tests.engine.kit import bounded, eventually, gate_of, opened
from tests.engine.test_model_calls import HAIKU

AT_ONCE = RetryPolicy(max_attempts=2, initial_s=0, jitter=0)
IN_RUNS = (RunBegan, RunEnded, StepBegan, StepEnded, CallBegan, CallEnded, GateBegan, GateEnded)


@tool(effect="idempotent")
async def pay(amount: int) -> str:
    return f"paid {amount}"


def bill() -> Workflow:
    """A step that fails once, a model call, a tool call, and a person's yes."""
    tries: list[int] = []
    wf = Workflow("bill")

    @wf.node("read")
    @task(retry=AT_ONCE)
    async def read(state):
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not today")

    @wf.node("judge")
    @llm_node(model=HAIKU, max_tokens=200)
    async def judge(state):
        return "Is it right?"

    @wf.node("pay")
    @task(tools=[pay])
    async def settle(state, ctx):
        return await ctx.tool("pay", amount=3)

    wf.node("sign")(human_gate()(lambda state: "Is it paid?"))
    for first, second in (("read", "judge"), ("judge", "pay"), ("pay", "sign")):
        wf.edge(first, second)
    return wf


def told(observation: Observation) -> str:
    """What began or ended, in words."""
    match observation:
        case RunBegan():
            return "run"
        case RunEnded(outcome=outcome):
            return f"run {outcome}"
        case StepBegan(step=step, attempt=attempt):
            return f"{step} {attempt}"
        case StepEnded(step=step, attempt=attempt, outcome=outcome):
            return f"{step} {attempt} {outcome}"
        case CallBegan(step=step, kind=kind, name=name):
            return f"{step} {kind} {name}"
        case CallEnded(step=step, kind=kind, outcome=outcome):
            return f"{step} {kind} {outcome}"
        case GateBegan(step=step, reason=reason):
            return f"{step} {reason}"
        case GateEnded(outcome=outcome):
            return f"gate {outcome}"
        case _:
            return ""


def commits(heard: list[Observation]) -> list[EventsCommitted]:
    return [each for each in heard if isinstance(each, EventsCommitted)]


@bounded
async def test_what_observers_get_is_the_history(tmp_path: Path, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(text="Yes."))
    first: list[Observation] = []
    order: list[int] = []
    observers = [first.append, lambda _: order.append(1), lambda _: order.append(2)]
    async with opened(str(tmp_path / "store.db"), model=model, observers=observers) as engine:
        run = await engine.start(bill(), tenant="ada")
        await engine.decide(await gate_of(run), "approve")
        await run.result()
        history, state = await run.events(), await run.state()
    assert [told(each) for each in first if isinstance(each, IN_RUNS)] == [
        "run",
        "read#1 1",
        "read#1 1 retrying",
        "read#1 2",
        "read#1 2 completed",
        "judge#1 1",
        f"judge#1 model {HAIKU}",
        "judge#1 model completed",
        "judge#1 1 completed",
        "pay#1 1",
        "pay#1 tool pay",
        "pay#1 tool completed",
        "pay#1 1 completed",
        "sign#1 1",
        "sign#1 approval",
        "sign#1 1 suspended",
        "gate approve",
        "sign#1 1 completed",
        "run completed",
    ]
    assert all(commit.own for commit in commits(first))
    assert [event for commit in commits(first) for event in commit.events] == [each.event for each in history]
    in_run = [each for each in first if isinstance(each, IN_RUNS)]
    assert {(each.run, each.tenant, each.workflow) for each in in_run} == {(run.id, "ada", "bill")}
    assert {each.at_ms for each in in_run} <= {each.at_ms for each in history}
    (call,) = [each for each in in_run if isinstance(each, CallEnded) and each.kind == "model"]
    (end,) = [each for each in in_run if isinstance(each, RunEnded)]
    assert call.cost_nanousd == end.cost_nanousd == state.budget.settled_nanousd > 0
    assert (call.input_tokens > 0, call.output_tokens > 0) == (True, True)
    assert end.took_ms == state.ended_at_ms - state.started_at_ms
    flushed = [each for each in first if isinstance(each, AppendsFlushed)]
    assert sum(each.taken for each in flushed) == len(commits(first))
    assert order == [1, 2] * len(first), "each is told of everything, one after the other"


@bounded
async def test_an_observer_that_raises_breaks_nothing_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wf = Workflow("plain")
    wf.node("only")(task(lambda state: 42))
    before: list[Observation] = []
    after: list[Observation] = []
    asked: list[Observation] = []

    def broken(observation: Observation) -> None:
        asked.append(observation)
        raise ValueError("a figure that cannot be")

    with caplog.at_level(logging.ERROR, "holdfast"):
        async with opened(str(tmp_path / "store.db"), observers=[before.append, broken, after.append]) as engine:
            assert await (await engine.start(wf)).result() == 42
            assert engine.broken is None
    assert before == asked == after
    assert {"run", "only#1 1", "only#1 1 completed", "run completed"} <= {told(each) for each in asked}
    assert caplog.text.count("an observer has failed") == caplog.text.count("ValueError: a figure that cannot be") == 1


@bounded
async def test_what_another_process_has_committed_is_announced_as_a_commit_alone(tmp_path: Path) -> None:
    """Whoever counts what began and ended in all processes of a fleet counts everything once."""
    going = asyncio.Event()
    wf = Workflow("asked")
    wf.node("sign")(human_gate()(lambda state: "Is it right?"))
    wf.node("meanwhile")(task(lambda state: going.wait()))
    store = str(tmp_path / "store.db")
    worker: list[Observation] = []
    desk: list[Observation] = []
    async with opened(store, workflows=[wf], observers=[worker.append]) as engine:
        run = await engine.start(wf)
        gate = await gate_of(run)
        async with opened(store, execute=False, observers=[desk.append]) as other:
            await other.decide(gate, "approve")
        await eventually(lambda: not commits(worker)[-1].own)
        going.set()
        await run.result()
        history = [each.event for each in await run.events()]
    assert [event for commit in commits(worker) for event in commit.events] == history, "it had the run in memory"
    decided = [event for commit in commits(desk) for event in commit.events]
    assert [event for commit in commits(worker) for event in commit.events if not commit.own] == decided
    assert [told(each) for each in desk if isinstance(each, IN_RUNS)] == ["gate approve", "sign#1 1 completed"]
    began_or_ended = [told(each) for each in worker + desk if isinstance(each, IN_RUNS)]
    assert len(set(began_or_ended)) == len(began_or_ended), "nothing is told by both"
    assert {"run", "gate approve", "sign#1 1 completed", "run completed"} <= set(began_or_ended)


@bounded
async def test_places_and_waits_for_a_providers_pools_are_reported(
    tmp_path: Path, server: ModelServer, model: Providers
) -> None:
    wf = Workflow("placed")
    wf.node("ask", demand=Demand(pools={"BROWSERS": 2}))(llm_node(model=HAIKU, max_tokens=200)(lambda state: "Is it right?"))
    heard: list[Observation] = []
    settings = Settings(pools={HAIKU: PoolRules(concurrent=1)})
    async with opened(
        str(tmp_path / "store.db"), workflows=[wf], model=model, settings=settings, observers=[heard.append]
    ) as engine:
        await engine.set_pool("BROWSERS", slots=2)
        run = await engine.start(wf)
        await run.result()
    (place,) = [each for each in heard if isinstance(each, StepPlaced)]
    assert (place.run, place.step, place.worker, place.pools) == (run.id, "ask#1", None, {"BROWSERS": 2})
    (wait,) = [each for each in heard if isinstance(each, PoolWaited)]
    assert (wait.run, wait.step, wait.model, wait.pools) == (run.id, "ask#1", HAIKU, (f"{HAIKU}/concurrent",))
    assert wait.took_s >= 0
    words = [type(each) for each in heard]
    assert words.index(StepPlaced) < words.index(StepBegan) < words.index(PoolWaited) < words.index(CallBegan)
