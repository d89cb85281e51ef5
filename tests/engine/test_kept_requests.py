"""What histories keep of requests to models: each turn once, by the policy of the workflow, and never a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import Tool, Workflow, llm_node, tool
from holdfast.core.facts.events import ModelCallHeld
from holdfast.core.values.model_request import AFTER, SAME, restored
from holdfast.core.values.payload import digest
from holdfast.models.providers import Providers
from holdfast.settings import Settings
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.engine.history import events_of
from tests.engine.kit import bounded, gate_of, opened

SYSTEM = "You write to ann@example.com, telephone +49 170 1234567."


@tool(effect="read")
async def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing at {where}, says bob@example.com"


def agent(*tools: Tool, **options: Any) -> Workflow:
    wf = Workflow("agent")

    @wf.node("agent")
    @llm_node(model="claude-haiku-4-5", tools=tools or (look,), max_tokens=200, **options)
    async def agent_node(state: Any) -> dict[str, str]:
        return {"system": SYSTEM, "user": "begin for eve@example.com, card 4929 1234 5678 9012"}

    return wf


def three_turns(server: ModelServer) -> None:
    server.script.add(
        *(Rule(turn=n, tool_calls=(ToolCall("look", {"where": str(n)}),)) for n in (1, 2)), Rule(turn=3, text="done")
    )


@bounded
async def test_each_turn_is_kept_once_and_the_whole_is_what_was_asked(
    store: str, server: ModelServer, model: Providers
) -> None:
    three_turns(server)
    async with opened(store, model=model, settings=Settings(store=store, keep_requests="full")) as engine:
        run = await engine.start(agent())
        assert await run.result() == "done"
        held = await events_of(run, ModelCallHeld)
    kept = [each.request.value() for each in held if each.request is not None]
    assert [each.get(SAME) for each in kept] == [None, 1, 3]
    assert [each.get(AFTER) for each in kept] == [None, held[0].call, held[1].call]
    assert ["system" in each for each in kept] == [True, False, False]
    whole: dict[str, Any] | None = None
    for each, event in zip(kept, held, strict=True):
        whole = restored(each, whole)
        assert digest(whole) == event.args_hash


@bounded
async def test_a_step_that_goes_on_after_a_wait_keeps_no_turn_again(store: str, server: ModelServer, model: Providers) -> None:
    @tool(effect="idempotent", approval="always")
    async def write(text: str) -> str:
        """Write something."""
        return text

    server.script.add(Rule(turn=1, tool_calls=(ToolCall("write", {"text": "hello"}),)), Rule(turn=2, text="done"))
    async with opened(store, model=model, settings=Settings(store=store, keep_requests="full")) as engine:
        run = await engine.start(agent(write))
        await engine.decide(await gate_of(run), "approve", by="ann")
        assert await run.result() == "done"
        first, second = [each.request.value() for each in await events_of(run, ModelCallHeld) if each.request is not None]
    assert "system" in first
    assert (second[SAME], "system" in second) == (1, False)


@bounded
async def test_only_a_call_whose_request_was_kept_is_a_base(store: str, server: ModelServer, model: Providers) -> None:
    @tool(effect="idempotent", approval="always")
    async def write(text: str) -> str:
        """Write something."""
        return text

    server.script.add(Rule(turn=1, tool_calls=(ToolCall("write", {"text": "hello"}),)), Rule(turn=2, text="done"))
    async with opened(store, model=model, settings=Settings(store=store, keep_requests="hash")) as engine:
        run = await engine.start(agent(write))
        gate = await gate_of(run)
    settings = Settings(store=store, keep_requests="full")
    async with opened(store, model=model, settings=settings, workflows=[agent(write)]) as engine:
        await engine.decide(gate, "approve", by="ann")
        run = engine.run(run.id)
        assert await run.result() == "done"
        first, second = await events_of(run, ModelCallHeld)
    assert first.request is None
    assert second.request is not None
    kept = second.request.value()
    assert AFTER not in kept
    assert digest(kept) == second.args_hash


@bounded
@pytest.mark.parametrize("policy", [None, "redacted", "full", "hash"])
async def test_a_policy_says_what_is_kept(store: str, server: ModelServer, model: Providers, policy: Any) -> None:
    three_turns(server)
    async with opened(store, model=model, settings=Settings(store=store, keep_requests=policy)) as engine:
        run = await engine.start(agent())
        await run.result()
        held = await events_of(run, ModelCallHeld)
    kept = json.dumps([None if each.request is None else each.request.value() for each in held])
    if policy == "hash":
        assert json.loads(kept) == [None, None, None]
    else:
        personal = ("ann@example.com", "1234567", "bob@example.com", "eve@example.com", "4929 1234 5678 9012")
        assert [each for each in personal if each in kept] == ([*personal] if policy == "full" else [])
        assert "You write to" in kept


@bounded
async def test_a_workflow_may_have_a_policy_of_its_own(store: str, server: ModelServer, model: Providers) -> None:
    three_turns(server)
    settings = Settings(store=store, keep_requests="full", keep_requests_of={"agent": "hash"})
    async with opened(store, model=model, settings=settings) as engine:
        run = await engine.start(agent())
        await run.result()
        assert {each.request for each in await events_of(run, ModelCallHeld)} == {None}


@bounded
async def test_no_policy_keeps_a_secret(
    store: str, server: ModelServer, model: Providers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secrets"
    file.touch(0o600)
    file.write_text(f"ADDRESS={SYSTEM[13:28]}\n")
    three_turns(server)
    async with opened(store, model=model, settings=Settings(store=store, keep_requests="full", secrets_file=file)) as engine:
        run = await engine.start(agent())
        await run.result()
        held = await events_of(run, ModelCallHeld)
    kept = json.dumps([each.request.value() for each in held if each.request is not None])
    assert SYSTEM[13:28] not in kept
    assert "[secret]" in kept
