"""The example of an agent of another SDK does what it says: its tools run at the same time, and after a crash nothing is asked again."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples import agent_sdk
from examples.agent_sdk import quote
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import FUNCTION
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.engine.history import events_of
from tests.engine.kit import die, opened

RULES = [
    Rule(turn=1, tool_calls=(ToolCall("price", {"item": "lamp"}), ToolCall("price", {"item": "desk"}))),
    Rule(turn=2, text="They cost 350 EUR."),
]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelServer:  # type: ignore[misc]
    with ModelServer(journal=tmp_path / "calls.jsonl", rules=RULES) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running  # type: ignore[misc]


async def test_the_tools_of_an_agent_of_an_sdk_are_steps_beside_one_another(tmp_path: Path, server: ModelServer) -> None:
    async with opened(f"sqlite:///{tmp_path / 'quotes.db'}") as engine:
        run = await engine.start(quote, {"question": "What do a lamp and a desk cost?"})
        assert await run.result() == "They cost 350 EUR."
        recorded = [each for each in await events_of(run, ev.ValueRecorded) if each.kind == FUNCTION]
        assert sorted(each.name for each in recorded) == ["find_price", "find_price", "request_model", "request_model"]
        prefixes = {each.path.rpartition(".")[0] for each in recorded if each.name == "find_price"}
        assert len(prefixes) == 2, "each tool call has a task of its own"
    assert len(server.calls) == 2


async def test_an_agent_of_an_sdk_goes_on_after_a_crash_without_asking_again(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"sqlite:///{tmp_path / 'quotes.db'}"
    async with opened(store) as first, opened(store, workflows=[quote], execute=False) as desk:
        run = await first.start(quote, {"question": "What do a lamp and a desk cost?"})
        await run.until(lambda state: any(step.settlements for step in state.steps.values()))
        await die(first)
        async with opened(store, workflows=[quote]):
            assert await desk.run(run.id).result() == "They cost 350 EUR."
    assert len(server.calls) <= 3, "a recorded answer is not asked for again"
    assert agent_sdk.MODEL.endswith("gpt-5-mini")
