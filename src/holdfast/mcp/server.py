"""The server: it lists the tools, carries a call out as the caller, and asks the caller's person at a gate.

Every answer is the row that --json prints. Never here: which tools there are (tool), a port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast import __version__
from holdfast.errors import HoldfastError, InvalidFile, InvalidInput
from holdfast.mcp import question
from holdfast.mcp.tool import TOOLS, FollowRun, Tool, ValidateWorkflow
from holdfast.service.declarations import command, query
from holdfast.service.declarations.declaration import Command, ListQuery, Query
from holdfast.service.declarations.query import Page, View

MAX_ANSWER_BYTES: Final = 256 * 1024
"""Of a longer answer a model would read nothing else."""

INSTRUCTIONS: Final = (
    "Holdfast runs workflows durably. Start a run with start_run or submit_workflow, then call follow_run until its status is"
    " completed, failed or cancelled. A run that waits for a person has a gate: list_gates shows what is asked, and decide_gate"
    " asks the person. explain_run says in sentences what a run waits for."
)

Context = ServerRequestContext[Any, Any]


class Caller(Protocol):
    """Commands and queries of one caller, checked against their permissions."""

    async def query(self, query: Query, /) -> Page: ...

    async def execute(self, command: Command, /) -> View | None: ...

    async def settled(self, run: str, /) -> View:
        """Wait until a run has ended or waits for a person; return it."""
        ...


def server(caller_of: Callable[[Context], Caller], *, decides_alone: bool) -> Server[Any]:
    """Return a server that acts for the caller of each request. `decides_alone` says that a client which cannot ask its person
    may decide gates all the same, with the caller's permissions."""

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(name, tool) for name, tool in TOOLS.items()])

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            found = await _call(context, caller_of(context), params, decides_alone=decides_alone)
        except HoldfastError as problem:
            return _failure(problem.message)
        return found if isinstance(found, types.InputRequiredResult) else _answer(found)

    return Server("holdfast", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool)


def _described(name: str, tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=not tool.is_command, destructive_hint=False, idempotent_hint=tool.is_repeatable, open_world_hint=False
    )
    return types.Tool(name=name, description=tool.about, input_schema=tool.schema, annotations=hints)


async def _call(
    context: Context, caller: Caller, params: types.CallToolRequestParams, *, decides_alone: bool
) -> View | types.InputRequiredResult:
    tool = TOOLS.get(params.name)
    if tool is None:
        raise InvalidInput(f"No tool {params.name!r:.80} exists here. The tools are: {', '.join(TOOLS)}. Nothing was done.")
    message = tool.message(params.arguments or {})
    match message:
        case ValidateWorkflow(yaml=text):
            return _validated(text)
        case FollowRun(run=run, wait_s=wait_s):
            return await _followed(caller, run, wait_s)
        case command.Start(workflow="", yaml=""):
            raise InvalidInput("Name the workflow to start, or give its text. Nothing was started.")
        case command.Decide():
            return await _decided(context, caller, message, params, decides_alone=decides_alone)
        case Command():
            return await caller.execute(message) or {"done": True}
        case ListQuery():
            page = await caller.query(message)
            return {"rows": page.rows, "cursor": page.cursor}
        case _:
            return (await caller.query(message)).rows[0]


async def _followed(caller: Caller, run: str, wait_s: int) -> View:
    try:
        async with asyncio.timeout(wait_s):
            await caller.settled(run)
    except TimeoutError:
        pass  # it goes on, and its row says so
    return (await caller.query(query.Run(run))).rows[0]


def _validated(text: str) -> View:
    from holdfast.actions.syntax.load import load  # noqa: PLC0415 - 50 ms for those who validate

    try:
        document = load(text, "workflow")
    except InvalidFile as invalid:
        mistakes = [msgspec.to_builtins(each) for each in invalid.mistakes]
        return {"valid": False, "mistakes": mistakes, "complete": invalid.is_complete}
    return {"valid": True, "workflow": document.name, "jobs": [job.id for job in document.jobs], "mistakes": []}


# --- Gates ------------------------------------------------------------------------------------------------------------


async def _decided(
    context: Context, caller: Caller, decision: command.Decide, params: types.CallToolRequestParams, *, decides_alone: bool
) -> View | types.InputRequiredResult:
    """Ask the caller's person what to decide, and decide that; without a client that can ask, what the caller decides."""
    gate = (await caller.query(query.Gate(decision.gate))).rows[0]
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        if decides_alone and "decision" in (params.arguments or {}):
            return await caller.execute(decision) or {"done": True}
        raise InvalidInput(
            f"Your client cannot ask its person, and a person decides this gate. Nothing was decided. In a terminal:"
            f" holdfast gates show {decision.gate}"
        )
    key = question.key_of(gate)
    response = (params.input_responses or {}).get(key)
    if response is None and context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        asked = types.ElicitRequestFormParams(message=question.words_of(gate), requested_schema=question.form_of(gate))
        return types.InputRequiredResult(input_requests={key: types.ElicitRequest(params=asked)})
    if response is None:
        response = await context.session.elicit_form(question.words_of(gate), question.form_of(gate), context.request_id)
    if not isinstance(response, types.ElicitResult) or response.action != "accept":
        raise InvalidInput(f"The person has not decided. The gate is still open: {decision.gate}")
    return await caller.execute(question.decision_of(gate, response.content or {})) or {"done": True}


# --- Answers ----------------------------------------------------------------------------------------------------------


def _answer(row: Mapping[str, Any]) -> types.CallToolResult:
    text = msgspec.json.encode(row)
    if len(text) > MAX_ANSWER_BYTES:
        return _failure(
            f"The answer has {len(text)} bytes, and at most {MAX_ANSWER_BYTES} are given to a model. It was carried out;"
            " ask for fewer rows, or for a part of it."
        )
    content = types.TextContent(type="text", text=text.decode())
    return types.CallToolResult(content=[content], structured_content=msgspec.json.decode(text))


def _failure(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=True)
