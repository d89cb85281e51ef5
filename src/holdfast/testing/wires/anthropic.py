"""The Anthropic Messages API: POST /v1/messages, whole or as server-sent events.

Only the format; whether a key was given, what is said and what goes wrong are decided elsewhere.
"""

import json
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.testing.wire import (
    Answer,
    BadRequest,
    Call,
    Demand,
    Segment,
    Tool,
    Turn,
    Usage,
    WireName,
    canonical,
    check_results,
    pieces,
    require,
    sha256,
    texts,
)

STOP_REASONS = {"turn": "end_turn", "tools": "tool_use", "length": "max_tokens"}
ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class AnthropicWire:
    name: WireName = "anthropic"
    path = "/v1/messages"

    def read(self, body: dict[str, Any]) -> Call:
        model, max_tokens = require(body, "model", str), require(body, "max_tokens", int)
        messages = [_blocks(message) for message in require(body, "messages", list)]
        turns = tuple(_turn(role, blocks) for role, blocks in messages)
        check_results(turns)
        offered = body.get("tools") or []
        schemas = {tool["name"]: tool.get("input_schema", {}) for tool in offered}
        choice = body.get("tool_choice") or {"type": "auto"}
        return Call(
            wire=self.name,
            model=model,
            system=texts(body.get("system")),
            turns=turns,
            segments=(*_segments(body, messages),),
            tools=() if choice["type"] == "none" else tuple(Tool(*item) for item in schemas.items()),
            demand=_demand(body, choice, schemas),
            max_tokens=max_tokens,
            stream=bool(body.get("stream")),
            stream_usage=True,
            cache_control_on_tools=any(tool.get("cache_control") for tool in offered),
            # Metadata names the run, and is no part of the question.
            request_sha256=sha256(canonical({name: each for name, each in body.items() if name != "metadata"})),
        )

    def reply(self, call: Call, answer: Answer) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
        content += [{"type": "tool_use", "id": use.id, "name": use.name, "input": _input(use.arguments)} for use in answer.uses]
        return _message(call, answer, content, STOP_REASONS[answer.ended_by], _usage(call, answer.usage))

    def events(self, call: Call, answer: Answer) -> list[str]:
        # A stream reports its usage twice: with one token of output before any text, and at the end.
        early = answer.usage and replace(answer.usage, output_tokens=1)
        return [
            _event("message_start", message=_message(call, answer, [], None, _usage(call, early))),
            _event("ping"),
            *_content_events(answer),
            _event(
                "message_delta",
                delta={"stop_reason": STOP_REASONS[answer.ended_by], "stop_sequence": None},
                **_usage(call, answer.usage),
            ),
            _event("message_stop"),
        ]

    def error(self, status: int, code: str | None, message: str) -> dict[str, Any]:
        kind = code or ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def error_event(self, error: dict[str, Any]) -> str:
        return _event("error", error=error["error"])


def _blocks(message: Any) -> tuple[str, list[dict[str, Any]]]:
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant", "system"):
        raise BadRequest("messages: each needs the role 'user' or 'assistant'")
    content = message.get("content")
    return message["role"], [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _turn(role: str, blocks: list[dict[str, Any]]) -> Turn:
    return Turn(
        assistant=role == "assistant",
        text=texts([block for block in blocks if block.get("type") == "text"]),
        calls=tuple(block["id"] for block in blocks if block.get("type") == "tool_use"),
        results=tuple(block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"),
    )


def _segments(body: dict[str, Any], messages: list[tuple[str, list[dict[str, Any]]]]) -> Iterator[Segment]:
    """In the order of the prompt cache: tools, system, messages."""
    system = body.get("system")
    for tool in body.get("tools") or ():
        plain = {key: value for key, value in tool.items() if key != "cache_control"}
        yield Segment(canonical(plain), _ttl(tool))
    for block in [{"text": system}] if isinstance(system, str) else system or ():
        yield Segment(texts([block]), _ttl(block))
    every = [block for _, blocks in messages for block in blocks]
    for block in every:
        # A mark on the request itself is a mark on its last block.
        yield Segment(_read_text(block), _ttl(block) or (_ttl(body) if block is every[-1] else None))
    if schema := _format(body):
        yield Segment(canonical(schema))


def _read_text(block: dict[str, Any]) -> str:
    match block.get("type"):
        case "tool_use":
            return str(block["name"]) + canonical(block["input"])
        case "tool_result":
            return texts(block.get("content"))
        case _:
            return texts([block])


def _ttl(block: dict[str, Any]) -> str | None:
    mark = block.get("cache_control")
    return str(mark.get("ttl", "5m")) if mark else None


def _format(body: dict[str, Any]) -> dict[str, Any] | None:
    output = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    schema: dict[str, Any] | None = output.get("schema")
    return schema


def _demand(body: dict[str, Any], choice: dict[str, Any], schemas: dict[str, dict[str, Any]]) -> Demand | None:
    if choice["type"] == "tool":
        if choice["name"] not in schemas:
            raise BadRequest(f"tool_choice: Tool '{choice['name']}' not found in provided tools")
        return Demand(schemas[choice["name"]], choice["name"])
    if choice["type"] == "any" and schemas:
        last = list(schemas)[-1]  # where the tool that ends a conversation stands
        return Demand(schemas[last], last)
    schema = _format(body)
    return Demand(schema) if schema else None


def _message(
    call: Call, answer: Answer, content: list[dict[str, Any]], stop_reason: str | None, usage: dict[str, Any]
) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": call.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        **usage,
    }


def _usage(call: Call, usage: Usage | None) -> dict[str, Any]:
    """Here `input_tokens` is only what the cache had no part in. Without a usage there is no such field at all."""
    if usage is None:
        return {}
    written = usage.cache_write_tokens
    ttl = next((segment.cache_ttl for segment in reversed(call.segments) if segment.cache_ttl), "5m")
    return {
        "usage": {
            "input_tokens": usage.input_tokens - usage.cache_read_tokens - written,
            "output_tokens": usage.output_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens,
            "cache_creation_input_tokens": written,
            "cache_creation": {
                "ephemeral_5m_input_tokens": written if ttl == "5m" else 0,
                "ephemeral_1h_input_tokens": written if ttl == "1h" else 0,
            },
            "service_tier": "standard",
        }
    }


def _input(arguments: str) -> Any:
    """A tool's input is an object here, so arguments cut short arrive as an empty one; only a stream can show them."""
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


def _content_events(answer: Answer) -> Iterator[str]:
    blocks: list[tuple[dict[str, Any], str, str, str]] = []
    if answer.text:
        blocks.append(({"type": "text", "text": ""}, "text_delta", "text", answer.text))
    for use in answer.uses:
        start = {"type": "tool_use", "id": use.id, "name": use.name, "input": {}}
        blocks.append((start, "input_json_delta", "partial_json", use.arguments))
    for index, (start, delta, field, text) in enumerate(blocks):
        yield _event("content_block_start", index=index, content_block=start)
        for piece in pieces(text):
            yield _event("content_block_delta", index=index, delta={"type": delta, field: piece})
        yield _event("content_block_stop", index=index)


def _event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, ensure_ascii=False)}\n\n"
