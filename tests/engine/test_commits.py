"""One commit carries each transition: an outcome leaves with what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast import Engine, Workflow, human_gate, llm_node, task, tool, tool_node
from holdfast.errors import HoldfastError
from holdfast.models.providers import Providers
from holdfast.ports import Append
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.engine.kit import gate_of, opened

MODEL = "claude-haiku-4-5"


def commits_of(engine: Engine) -> list[list[str]]:
    """What each commit from now on carries, as the names of its events."""
    store, seen = engine.runtime.store, []
    append = store.log.append

    async def spy(appends: Sequence[Append]) -> Sequence[HoldfastError | None]:
        seen.extend([type(each.event).__name__ for each in one.events] for one in appends)
        return await append(appends)

    store.log.append = spy  # type: ignore[method-assign]
    return seen


async def commits(store: str, wf: Workflow, model: Providers, decide: bool = False) -> list[list[str]]:
    async with opened(store, workflows=[wf], model=model) as engine:
        seen = commits_of(engine)
        run = await engine.start(wf)
        if decide:
            await engine.decide(await gate_of(run))
        await run.result()
        return seen


@tool(effect="once")
async def pay(amount: int) -> int:
    return amount


@tool(effect="read")
def look(what: str) -> str:
    """Look."""
    return what


ENDS = ["StepCompleted", "StepStarted"]


async def test_a_plain_step_is_one_commit(store: str, model: Providers) -> None:
    wf = Workflow("plain")
    wf.node("a")(task(lambda state: 1))
    wf.node("b")(task(lambda state: 2))
    wf.edge("a", "b")
    assert await commits(store, wf, model) == [["RunStarted", "StepStarted"], ENDS, ["StepCompleted", "RunCompleted"]]


async def test_a_tool_node_is_two_commits(store: str, model: Providers) -> None:
    wf = Workflow("pays")
    wf.node("a")(tool_node(name=pay)(lambda state: {"amount": 1}))
    wf.node("b")(tool_node(name=look)(lambda state: {"what": "x"}))
    wf.edge("a", "b")
    assert await commits(store, wf, model) == [
        ["RunStarted", "StepStarted"],
        ["EffectIntended"],
        ["EffectCompleted", *ENDS],
        ["EffectIntended"],
        ["EffectCompleted", "StepCompleted", "RunCompleted"],
    ]


async def test_a_model_call_is_two_commits(store: str, model: Providers) -> None:
    wf = Workflow("asks")
    wf.node("a")(llm_node(model=MODEL)(lambda state: "hello"))
    wf.node("b")(llm_node(model=MODEL)(lambda state: "hello again"))
    wf.edge("a", "b")
    assert await commits(store, wf, model) == [
        ["RunStarted", "StepStarted"],
        ["ModelCallHeld"],
        ["ModelCallSettled", *ENDS],
        ["ModelCallHeld"],
        ["ModelCallSettled", "StepCompleted", "RunCompleted"],
    ]


async def test_a_turn_of_an_agent_begins_in_the_commit_that_ends_the_one_before(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(turn=1, tool_calls=(ToolCall("look", {"what": "x"}),)), Rule(turn=2, text="seen"))
    wf = Workflow("agent")
    wf.node("a")(llm_node(model=MODEL, tools=[look])(lambda state: "look"))
    assert await commits(store, wf, model) == [
        ["RunStarted", "StepStarted"],
        ["ModelCallHeld"],
        ["ModelCallSettled", "EffectIntended"],
        ["EffectCompleted", "ModelCallHeld"],
        ["ModelCallSettled", "StepCompleted", "RunCompleted"],
    ]


async def test_a_gate_is_one_commit_to_wait_and_one_to_go_on(store: str, model: Providers) -> None:
    wf = Workflow("gate")
    wf.node("a")(human_gate(lambda state: {"diff": "x"}))
    wf.node("b")(task(lambda state: 1))
    wf.edge("a", "b")
    found: list[Any] = await commits(store, wf, model, decide=True)
    assert found == [
        ["RunStarted", "StepStarted"],
        ["GateOpened", "StepSuspended"],
        ["GateDecided", *ENDS],
        ["StepCompleted", "RunCompleted"],
    ]
