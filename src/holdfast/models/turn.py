"""A model's reply in the shape that histories keep and later requests replay.

It is the JSON of pydantic-ai's ModelResponse, as far as it is read: histories of 0.1 hold that, and one shape is less to read
than two. A turn, with every kind of part:

    {"kind": "response", "provider_name": "anthropic", "usage": {"output_tokens": 5}, "parts": [
        {"part_kind": "thinking", "id": null, "content": "…", "signature": "…", "provider_name": "anthropic"},
        {"part_kind": "text", "content": "…"},
        {"part_kind": "tool-call", "tool_name": "…", "tool_call_id": "…", "args": {…}, "provider_details": null}]}

The `id` of thinking says how its provider marks it, `args` may be the JSON text that a model wrote, and `provider_details` may
hold an `extra_content` that goes back with the call.

Never here: a provider's format, money.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from holdfast.ports import ModelReply, ModelTurn, ToolRequest, Usage

Part: TypeAlias = Mapping[str, Any]


class ParsedReply(NamedTuple):
    """A reply as its provider's format has been read: its parts, why it ended (None if unknown), its id."""

    parts: list[Part]
    finish_reason: str | None
    response_id: Any


def text(content: str) -> Part:
    return {"part_kind": "text", "content": content}


def thinking(provider: str, content: str, *, signature: str | None = None, mark: str | None = None) -> Part:
    return {"part_kind": "thinking", "id": mark, "content": content, "signature": signature, "provider_name": provider}


def tool_call(call_id: str, name: str, args: Any, details: dict[str, Any] | None = None) -> Part:
    return {"part_kind": "tool-call", "tool_name": name, "tool_call_id": call_id, "args": args, "provider_details": details}


def in_words(content: str) -> dict[str, Any]:
    """Return a reply of which only the text is known."""
    return {"kind": "response", "provider_name": "", "usage": {}, "parts": [text(content)]}


def create_reply(output: Any) -> ModelReply:
    """The reply of a model of which a person says what it came to: a text, or else the data that it was asked for."""
    if isinstance(output, str):
        return ModelReply(output, (), None, None, "stop", None, in_words(output))
    answer = ToolRequest("said", "answer", output)
    text = msgspec.json.encode(output).decode()  # for callers that asked for words
    return ModelReply(
        text, (), answer, None, "stop", None, in_words("") | {"parts": [tool_call(answer.id, answer.name, output)]}
    )


def of(provider: str, reply: ParsedReply, usage: Usage | None) -> dict[str, Any]:
    """The reply as a later request has it. What it took to think is kept: replayed, it may be billed again."""
    return {
        "kind": "response",
        "provider_name": provider,
        "usage": {"output_tokens": usage.output_tokens} if usage is not None else {},
        "parts": reply.parts,
    }


def parts(turn: ModelTurn, provider: str) -> list[Part]:
    """Return the parts that are replayed to `provider`: thinking goes only to the provider whose model produced it."""
    made_by = turn.replay.get("provider_name")
    return [
        part
        for part in turn.replay["parts"]
        if part["part_kind"] != "thinking" or (part.get("provider_name") or made_by) == provider
    ]


def arguments(part: Part) -> Any:
    """The object that a tool is called with; the text as it came where that is none."""
    args = part.get("args") or {}
    if not isinstance(args, str):
        return args
    try:
        parsed = msgspec.json.decode(args)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return args
    return parsed if isinstance(parsed, dict) else args


def object_of(part: Part) -> dict[str, Any]:
    """The object that a tool is called with, or one that holds the text that a model wrote in its place."""
    args = arguments(part)
    return args if isinstance(args, dict) else {"INVALID_JSON": args}
