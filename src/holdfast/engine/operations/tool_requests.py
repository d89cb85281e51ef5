"""Requests of a model, carried out: a tool is called, a workflow is run as a child, the conversation is handed over.

Each request of a reply gets a reply of its own before anything else follows. Never here: asking models (conversation), how a
tool is called (the executor).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.authoring.agents.chat import Chat, Message
from holdfast.authoring.agents.chat import ClientTool as ClientOffer
from holdfast.authoring.agents.memory import MemoryTool
from holdfast.authoring.agents.offer import Handoff
from holdfast.authoring.flow import Flow
from holdfast.authoring.step import EffectStep
from holdfast.authoring.tool import Tool
from holdfast.authoring.values.content import part_of
from holdfast.authoring.values.input_schema import as_enforced
from holdfast.authoring.workflow import Workflow
from holdfast.core.nouns.client_tools import ClientTool
from holdfast.core.values.content import parts_of
from holdfast.core.values.ids import Unique
from holdfast.core.values.policies import AUTHORIZATION, DENIED, REJECTED, SCHEMA, TOOL, VALIDATION
from holdfast.engine.operations import client_tool
from holdfast.engine.operations import prompt as prompts
from holdfast.engine.operations.child import Request
from holdfast.engine.operations.client_tool import ResultSender
from holdfast.engine.operations.exchange import OfferedTool
from holdfast.engine.operations.memory import reply as remembered
from holdfast.errors import InvalidInput, OperationFailed, SchemaMismatch
from holdfast.ports import ModelReply, ModelTurn, ToolReply, ToolRequest, ToolSpec, ToolTurn, Turn, UserTurn

if TYPE_CHECKING:
    from holdfast.engine.operations.context import StepContext

MAX_TOOL_REQUESTS: Final = 32
"""That a model may have in one reply. Of more none is done: each may be a question to a person."""
_TOO_MANY: Final = f"Nothing was done: you asked for more than {MAX_TOOL_REQUESTS} calls at a time. Ask for fewer."
_LEFT: Final = "Not done: you handed the conversation over in the same turn. Ask for one of the two."
_OF_CLIENT: Final = "Done by the user's application, which says of it:"
_REASON: Final = {"type": "object", "properties": {"reason": {"type": "string", "description": "Why, in a few words."}}}
_TOLD_TO_THE_MODEL: Final = frozenset({TOOL, SCHEMA, DENIED, REJECTED, VALIDATION, AUTHORIZATION})
"""Errors of a tool that a model can do something about; others (a lost lease, a time-out) are the step's."""


class HandoffResult(NamedTuple):
    """The result of handing a conversation over: the other agent's answer, and the message for the first one."""

    answer: Any
    turn: ToolTurn
    is_refused: bool


def spec(offered: OfferedTool) -> ToolSpec:
    """Return the description of an offer for a model."""
    if isinstance(offered, ClientTool):
        return ToolSpec(offered.name, f"{_OF_CLIENT} {offered.description}".strip(), offered.schema)
    if isinstance(offered, Tool | MemoryTool):
        return ToolSpec(offered.name, offered.description, offered.schema)
    if isinstance(offered, Handoff):
        told = offered.description or _purpose(offered.workflow)
        return ToolSpec(offered.name, f"Hand the conversation over to {offered.to!r}, who goes on with it. {told}", _REASON)
    schema = as_enforced(offered.input_schema) or {"type": "object"}
    return ToolSpec(offered.name, _purpose(offered) or f"Runs {offered.name!r}.", schema)


def _purpose(workflow: object) -> str:
    return (workflow.__doc__ if isinstance(workflow, Flow) else None) or ""


def open_requests(reply: ModelReply) -> list[ToolRequest]:
    """The requests of a reply, each of which wants an answer of its own before anything else can be said."""
    return [*reply.tool_requests, *([reply.answer] if reply.answer is not None else [])]


async def replies(
    context: StepContext,
    reply: ModelReply,
    requests: Sequence[ToolRequest],
    tools: Mapping[str, OfferedTool],
    to_answers: str,
    tell: ResultSender,
) -> ToolTurn:
    """Return the replies to one turn's requests: tools run at the same time, answers among the requests are sent back."""
    answers = [request for request in reply.tool_requests if request not in requests]
    if reply.answer is not None:
        answers.append(reply.answer)
    # Of too many none is offered, so each is denied, which is recorded in the place that it would have had.
    offered = tools if len(requests) <= MAX_TOOL_REQUESTS else {}

    async def done(request: ToolRequest) -> ToolReply:
        if isinstance(known := offered.get(request.name), ClientTool):
            return await client_tool.reply(context, request, known, tell)
        reply = await _tool_reply(context, request, offered)
        return await tell(reply if offered is tools else msgspec.structs.replace(reply, content=_TOO_MANY))

    called = await context.gather(*map(done, requests)) if requests else []
    sent_back = [await tell(ToolReply(each.id, each.name, to_answers, is_error=True)) for each in answers]
    return ToolTurn((*called, *sent_back))


async def _child_reply(context: StepContext, request: ToolRequest, workflow: Workflow) -> ToolReply:
    try:
        asked = Request(workflow, request.arguments, None, None, None)
        outcome = await context.call_child(asked, "return")
    except InvalidInput as problem:
        return ToolReply(request.id, request.name, problem.message, is_error=True)
    failed = outcome.status != "completed"
    return ToolReply(
        request.id, request.name, outcome.error or "" if failed else prompts.as_text(outcome.output), is_error=failed
    )


async def _tool_reply(context: StepContext, request: ToolRequest, offered: Mapping[str, OfferedTool]) -> ToolReply:
    if isinstance(known := offered.get(request.name), Workflow):
        return await _child_reply(context, request, known)
    if isinstance(known, MemoryTool):
        memory = context.memory(known.agent, user=known.user, embedder=known.embedder, most=known.most)
        return await remembered(memory, request, known)
    tools = {name: each for name, each in offered.items() if isinstance(each, Tool)}
    key, unique = _key(known, request.arguments)
    try:
        value = await context.call_tool(request.name, request.arguments, key=key, unique=unique, allowed=tools)
    except OperationFailed as failed:
        error = getattr(failed, "error", None)
        if error is None or (error.error_class not in _TOLD_TO_THE_MODEL):
            raise
        return ToolReply(request.id, request.name, error.message, is_error=True)
    return ToolReply(request.id, request.name, prompts.as_text(value))


def _key(tool: OfferedTool | None, arguments: Any) -> tuple[str | None, Unique]:
    """Return the name of an effect that names itself; the call refuses what does not fit."""
    if not isinstance(tool, EffectStep) or tool.key is None:
        return None, "run"
    try:
        return tool.key_for(tool.arguments(arguments)), tool.unique
    except SchemaMismatch:
        return None, "run"


def handoff_of(requests: Sequence[ToolRequest], offered: Mapping[str, OfferedTool]) -> ToolRequest | None:
    """The first request to hand the conversation over, where there is one."""
    if len(requests) > MAX_TOOL_REQUESTS:
        return None
    return next((each for each in requests if isinstance(offered.get(each.name), Handoff)), None)


async def hand_over(
    context: StepContext,
    reply: ModelReply,
    request: ToolRequest,
    offered: Mapping[str, OfferedTool],
    turns: Sequence[Turn],
    tell: ResultSender,
) -> HandoffResult:
    """Have the other agent go on with what was heard. Nothing else of the turn is done."""
    handoff = offered[request.name]
    assert isinstance(handoff, Handoff)
    why = request.arguments.get("reason") if isinstance(request.arguments, dict) else None
    messages = [message for turn in turns if (message := _message(turn)) is not None]
    tools = [msgspec.structs.asdict(each) for each in offered.values() if isinstance(each, ClientTool)]
    chat = Chat(messages=messages, reason=why if isinstance(why, str) else "", tools=[ClientOffer(**each) for each in tools])
    try:
        answer, refusal = await context.hand_over(handoff, chat), None
    except InvalidInput as problem:
        answer, refusal = None, problem.message
    told = prompts.as_text(answer) if refusal is None else refusal
    replies_ = (
        ToolReply(each.id, each.name, told, refusal is not None)
        if each is request
        else ToolReply(each.id, each.name, _LEFT, is_error=True)
        for each in open_requests(reply)
    )
    return HandoffResult(answer, ToolTurn(tuple([await tell(each) for each in replies_])), refusal is not None)


def _message(turn: Turn) -> Message | None:
    """Return the message of a turn, in words; None if it has none."""
    match turn:
        case UserTurn(text=text, parts=pieces):
            words = "\n\n".join(piece for piece in (text, *pieces) if isinstance(piece, str) and piece)
            parts = [part_of(msgspec.to_builtins(part)) for part in parts_of(pieces)]
            return Message(role="user", text=words, parts=parts)
        case ModelTurn():
            said = "".join(part["content"] for part in turn.replay["parts"] if part["part_kind"] == "text")
            return Message(role="assistant", text=said) if said else None
        case _:
            return None
