"""Anthropic's Messages API: a request as its JSON, and a reply's JSON as what it says.

The format: docs.claude.com, "Messages". Which model takes what is not to be asked of the API; it is here as pydantic-ai
2.68 found it (profiles/anthropic.py), and a name that nobody knew then is taken for the oldest kind.

Never here: a connection, what a reply cost.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.core.values.content import Piece
from holdfast.core.values.ids import run_of
from holdfast.models import tool_schema, turn
from holdfast.models.bounds import ANSWER_HINT
from holdfast.models.content import PDF
from holdfast.models.provider_call import UnusableReply
from holdfast.models.turn import ParsedReply, Part
from holdfast.ports import ModelRequest, ModelTurn, ToolTurn, Turn, UserTurn

HOME: Final = "https://api.anthropic.com"
PATH: Final = "/v1/messages"
_VERSION: Final = "2026-10-21"

_OWN: Final = re.compile(r"claude-")
_THINKS_UNASKED: Final = re.compile(r"claude-((fable|mythos|opus|sonnet)-5|haiku-5-5|mythos-preview)")
_TAKES_NO_TEMPERATURE: Final = re.compile(r"claude-((fable|mythos|opus|sonnet)-5|haiku-5-5|opus-4-[78])")
_CANNOT_BE_FORCED: Final = re.compile(r"claude-((fable|mythos)-5-[12]|(opus|sonnet)-5-5)")
"""To call a tool. Those that think unasked can be, and do not think then."""

_REDACTED: Final = "redacted_thinking"
_FINISHED: Final[Mapping[str, str]] = {
    "compaction": "stop",
    "end_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "stop_sequence": "stop",
    "tool_use": "tool_call",
}


class UnparsedArguments(str):
    """The arguments of a tool call as raw text, because they are not a JSON object. Only a stream can contain it
    (anthropic_stream)."""

    __slots__ = ()


def headers(key: str, _: Mapping[str, str]) -> dict[str, str]:
    return {"anthropic-version": _VERSION, **({"authorization": f"Bearer {key}"} if key else {})}


def body(name: str, request: ModelRequest) -> dict[str, Any]:
    """The request to the model called `name` here."""
    made: dict[str, Any] = {"model": name, "max_tokens": request.max_tokens, "messages": _messages(request.turns)}
    if request.system:
        made["system"] = _texts(request.system)
    if request.call is not None:
        made["metadata"] = {"user_id": run_of(request.call)}  # the only field of it: opaque, and without a name in it
    if _OWN.match(name):
        made["service_tier"] = "standard_only"  # left out, the project's default applies, which may be a dearer one
    if request.temperature is not None and not _TAKES_NO_TEMPERATURE.match(name):
        made["temperature"] = request.temperature
    if tools := _tools(request):
        tools[-1]["cache_control"] = {"type": "ephemeral", "ttl": "5m"}
        made |= {"tools": tools, "tool_choice": {"type": "any" if _is_forced(name, request) else "auto"}}
    return made


def _is_forced(name: str, request: ModelRequest) -> bool:
    """Return True if the request forces the model to call a tool. Otherwise the prompt only asks for the call: the model may
    have to think which tool to use."""
    if request.answer is None or _CANNOT_BE_FORCED.match(name):
        return False
    return not request.tools or not _THINKS_UNASKED.match(name)


def _tools(request: ModelRequest) -> list[dict[str, Any]]:
    """The answer is a call of one more tool: that works beside other tools, and at every provider."""
    tools = [(tool.name, tool.description, tool.parameters) for tool in request.tools]
    if answer := request.answer:
        tools.append((answer.name, f"{answer.description}\n\n{ANSWER_HINT}".strip(), answer.schema))
    return [
        {"name": name, "description": description, "input_schema": tool_schema.bare(schema)}
        for name, description, schema in tools
    ]


def _messages(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Return the turns as messages. The user and tool turns between two replies become one message; an empty one is left
    out."""
    messages: list[dict[str, Any]] = []
    for each in turns:
        role, content = ("assistant", _replay(each)) if isinstance(each, ModelTurn) else ("user", _content_of(each))
        if content and messages and messages[-1]["role"] == role:
            messages[-1]["content"] += content
        elif content:
            messages.append({"role": role, "content": content})
    return messages


def _content_of(message: UserTurn | ToolTurn) -> list[dict[str, Any]]:
    if isinstance(message, UserTurn):
        return [*_texts(message.text), *(block for piece in message.parts for block in _piece(piece))]
    return [
        {"type": "tool_result", "tool_use_id": reply.id, "content": _texts(reply.content) or "", "is_error": reply.is_error}
        for reply in message.replies
    ]


def _replay(model_turn: ModelTurn) -> list[dict[str, Any]]:
    return [block for part in turn.parts(model_turn, "anthropic") for block in _blocks(part)]


def _blocks(part: Part) -> list[dict[str, Any]]:
    match part["part_kind"]:
        case "text":
            return _texts(part["content"])
        case "tool-call":
            call = {"id": part["tool_call_id"], "name": part["tool_name"], "input": turn.object_of(part)}
            return [{"type": "tool_use", **call}]
        case "thinking" if not part.get("signature"):
            return []  # cannot be verified, and would be refused
        case "thinking" if part.get("id") == _REDACTED:
            return [{"type": _REDACTED, "data": part["signature"]}]
        case "thinking":
            return [{"type": "thinking", "thinking": part["content"], "signature": part["signature"]}]
        case kind:
            raise ValueError(f"a part of kind {kind} in an earlier reply")


def _piece(piece: Piece) -> list[dict[str, Any]]:
    if isinstance(piece, str):
        return _texts(piece)
    if piece.type == "image" or piece.media_type == PDF:
        data = b64encode(piece.content).decode()
        return [{"type": piece.type, "source": {"type": "base64", "media_type": piece.media_type, "data": data}}]
    if piece.type == "document":
        source = {"type": "text", "media_type": "text/plain", "data": piece.content.decode()}
        return [{"type": "document", "source": source}]
    raise ValueError(f"{piece}: nothing here hears it")


def _texts(text: str) -> list[dict[str, Any]]:
    """Empty text is refused."""
    return [{"type": "text", "text": text}] if text else []


def parse_reply(reply: Mapping[str, Any], max_parts: int) -> ParsedReply:
    """Return the content of a complete reply, with its first `max_parts` parts. Raises UnusableReply for a reply that is not
    complete."""
    reason = reply.get("stop_reason")
    if reason == "pause_turn":
        raise UnusableReply("the reply is not complete: the model wants to go on")
    parts = [_part(block) for block in reply["content"][:max_parts]]
    return ParsedReply(parts, _FINISHED.get(reason) if isinstance(reason, str) else None, reply.get("id"))


def _part(block: Any) -> Part:
    match block:
        case {"type": "text", "text": str(text)}:
            return turn.text(text)
        case {"type": "tool_use", "id": str(call), "name": str(name), "input": dict(args)}:
            return turn.tool_call(call, name, args)
        case {"type": "tool_use", "id": str(call), "name": str(name), "input": UnparsedArguments() as args}:
            return turn.tool_call(call, name, str(args))
        case {"type": "thinking", "thinking": str(text), "signature": str(signature)}:
            return turn.thinking("anthropic", text, signature=signature)
        case {"type": "redacted_thinking", "data": str(data)}:
            return turn.thinking("anthropic", "", signature=data, mark=_REDACTED)
        case _:
            raise UnusableReply(f"there is a part in it that was not asked for: {str(block)[:100]}")
