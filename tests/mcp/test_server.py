"""Runs as tools of an agent, asked by the official client in both eras of the protocol: over a port with tokens, and over the
standard input of `holdfast mcp`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from holdfast.core.values.access import Access
from holdfast.mcp import server
from holdfast.mcp.tool import TOOLS
from holdfast.service.access.identity import Holder
from tests.http.kit import MAX_S, NO_TLS, Port, known, served

IDENTITY = known(
    ida=Holder("clients.ida", tenant="acme", access=Access(("operator", "reviewer")), roles=("ida",)),
    eve=Holder("clients.eve", tenant="globex", access=Access(("operator", "reviewer"))),
    look=Holder("clients.look", tenant="acme", access=Access(("viewer",))),
)
Mode = Literal["auto", "legacy"]
FILE = "name: greet\njobs:\n  hello:\n    runs-on: any\n    steps:\n      - run: echo hello\n"


class Agent:
    """An agent's client, and what it has asked its person."""

    def __init__(self, client: Client, asked: list[types.ElicitRequestFormParams]) -> None:
        self.client = client
        self.asked = asked

    async def call(self, name: str, **arguments: Any) -> Any:
        """The row that a tool answers."""
        found = await self.client.call_tool(name, arguments)
        assert not found.is_error, found.content
        return found.structured_content

    async def refused(self, name: str, **arguments: Any) -> str:
        found = await self.client.call_tool(name, arguments)
        assert found.is_error
        assert isinstance(found.content[0], types.TextContent)
        return found.content[0].text

    async def waits(self) -> tuple[str, str]:
        """Start an order; its run and the gate at which it waits."""
        run = (await self.call("start_run", workflow="order", input={"item": "tea", "count": 2}))["run_id"]
        assert (await self.call("follow_run", run=run))["status"] == "waiting"
        (gate,) = (await self.call("list_gates", run=run))["rows"]
        return run, gate["gate_id"]


@asynccontextmanager
async def agent(
    port: Port, token: str, *, answer: types.ElicitResult | None = None, mode: Mode = "auto"
) -> AsyncIterator[Agent]:
    """An agent at a port; with an `answer` its client can ask a person, who gives that."""
    asked: list[types.ElicitRequestFormParams] = []

    async def ask(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params)
        assert answer is not None
        return answer

    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(verify=NO_TLS, headers=headers, timeout=MAX_S) as http,
        Client(
            streamable_http_client(f"{port.address}/mcp", http_client=http),
            mode=mode,
            elicitation_callback=None if answer is None else ask,
        ) as client,
    ):
        yield Agent(client, asked)


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[Port]:
    async with served(tmp_path, IDENTITY) as found:
        yield found


async def test_an_agent_starts_follows_and_explains_a_run(port: Port) -> None:
    async with agent(port, "ida" * 4) as ida:
        assert [each.name for each in (await ida.client.list_tools()).tools] == [*TOOLS]
        run = (await ida.call("start_run", workflow="quick", input="tea", key="once"))["run_id"]
        assert (await ida.call("start_run", workflow="quick", input="tea", key="once"))["run_id"] == run
        followed = await ida.call("follow_run", run=run, wait_s=50)
        assert (followed["status"], followed["output"]) == ("completed", {"did": "tea"})
        assert [row["run_id"] for row in (await ida.call("list_runs", status=["completed"]))["rows"]] == [run]
        assert "completed" in str(await ida.call("explain_run", run=run))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_is_wrong_is_said_to_the_model_and_changes_nothing(port: Port, mode: Mode) -> None:
    async with agent(port, "ida" * 4, mode=mode) as ida:
        assert "no workflow 'nope'" in await ida.refused("start_run", workflow="nope")
        assert "takes no argument 'runs'; it takes: run" in await ida.refused("show_run", runs="x")
        assert "do not fit" in await ida.refused("list_runs", limit="many")
        assert "Name the workflow" in await ida.refused("start_run")
        assert "No tool 'delete'" in await ida.refused("delete")
        assert (await ida.call("list_runs"))["rows"] == []
        assert (await ida.call("validate_workflow", yaml=FILE))["valid"]
        assert not (await ida.call("validate_workflow", yaml="jobs: 3"))["valid"]


async def test_a_gate_is_asked_of_the_person_and_decided_as_it_was_shown(port: Port) -> None:
    approved = types.ElicitResult(action="accept", content={"decision": "approve", "reason": "as agreed"})
    async with agent(port, "ida" * 4, answer=approved) as ida:
        run, gate = await ida.waits()
        await ida.call("decide_gate", gate=gate)
        (question,) = ida.asked
        assert "6" in question.message, "what it shows"
        assert (
            question.requested_schema["properties"]["decision"]["enum"] == (await ida.call("show_gate", gate=gate))["allowed"]
        )
        assert (await ida.call("follow_run", run=run))["output"] == "shipped tea"
        row = await ida.call("show_gate", gate=gate)
        assert (row["by"], row["decision"], row["decision_reason"]) == ("clients.ida", "approve", "as agreed")


async def test_a_person_who_declines_leaves_the_gate_open(port: Port) -> None:
    async with agent(port, "ida" * 4, answer=types.ElicitResult(action="decline")) as ida:
        _, gate = await ida.waits()
        assert "still open" in await ida.refused("decide_gate", gate=gate, decision="approve"), (
            "the model's own word is no answer"
        )
        assert (await ida.call("show_gate", gate=gate))["state"] == "open"


async def test_without_a_client_that_asks_the_token_decides_by_its_grants(port: Port) -> None:
    async with agent(port, "ida" * 4) as ida, agent(port, "look" * 4) as look, agent(port, "eve" * 4) as eve:
        run, gate = await ida.waits()
        assert "cannot ask its person" in await ida.refused("decide_gate", gate=gate)
        shown = (await look.call("show_gate", gate=gate))["shown_hash"]
        assert "reviewer" in await look.refused("decide_gate", gate=gate, decision="approve", shown_hash=shown)
        assert (await eve.call("list_runs"))["rows"] == []
        for name, arguments in {"show_run": {"run": run}, "follow_run": {"run": run}, "explain_run": {"run": run}}.items():
            assert "clients.eve" in (said := await eve.refused(name, **arguments)) or "no run" in said.lower()
        assert "still" not in await ida.refused("decide_gate", gate=gate, decision="approve", shown_hash="of something else")
        await ida.call("decide_gate", gate=gate, decision="approve", shown_hash=shown)
        assert (await ida.call("follow_run", run=run))["status"] == "completed"


async def test_an_answer_too_long_for_a_model_is_not_given(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_ANSWER_BYTES", 100)
    async with agent(port, "ida" * 4) as ida:
        assert "at most 100" in await ida.refused("list_workflows")


async def test_who_is_unknown_reaches_no_tool(port: Port) -> None:
    async with httpx2.AsyncClient(verify=NO_TLS) as http:
        said = await http.post(f"{port.address}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert said.status_code == 401
        said = await http.post(f"{port.address}/mcp", json={}, headers={"host": "evil.example"})
        assert said.status_code == 421


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_command_speaks_over_standard_input(tmp_path: Path, mode: Mode) -> None:
    command = shutil.which("holdfast", path=str(Path(sys.executable).parent))
    assert command is not None
    words = ["mcp", "--as", "ida", "--store", f"sqlite:///{tmp_path}/runs.db"]
    asked = []

    async def ask(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept", content={"decision": "approve"})

    started = stdio_client(StdioServerParameters(command=command, args=words, env={**os.environ}))
    async with Client(started, mode=mode, elicitation_callback=ask) as client, served(tmp_path):
        found = Agent(client, asked)
        run, gate = await found.waits()
        await found.call("decide_gate", gate=gate)
        assert len(asked) == 1
        assert (await found.call("follow_run", run=run))["status"] == "completed"
