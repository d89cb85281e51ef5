"""The OpenAI Chat Completions API: POST /v1/chat/completions, whole or as server-sent events.

Only the format; whether a key was given, what is said and what goes wrong are decided elsewhere.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

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

SYSTEM_ROLES = ("system", "developer")
FINISH_REASONS = {"turn": "stop", "tools": "tool_calls", "length": "length"}
ERROR_CODES = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


class OpenAIWire:
    name: WireName = "openai"
    path = "/v1/chat/completions"

    def read(self, body: dict[str, Any]) -> Call:
        model, messages = require(body, "model", str), require(body, "messages", list)
        if not all(isinstance(message, dict) for message in messages):
            raise BadRequest("messages: each is an object with a role")
        turns = tuple(_turn(message) for message in messages if message.get("role") not in SYSTEM_ROLES)
        check_results(turns)
        functions = [tool["function"] for tool in body.get("tools") or () if tool.get("type") == "function"]
        schemas = {function["name"]: function.get("parameters") or {} for function in functions}
        choice = body.get("tool_choice") or "auto"
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        return Call(
            wire=self.name,
            model=model,
            system="\n".join(texts(message.get("content")) for message in messages if message.get("role") in SYSTEM_ROLES),
            turns=turns,
            segments=(*_segments(body, messages, functions),),
            tools=() if choice == "none" else tuple(Tool(*item) for item in schemas.items()),
            demand=_demand(body, choice, schemas),
            max_tokens=limit,
            stream=bool(body.get("stream")),
            stream_usage=bool((body.get("stream_options") or {}).get("include_usage")),
            cache_control_on_tools=False,
            request_sha256=sha256(canonical(body)),
        )

    def reply(self, call: Call, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
        if answer.uses:
            message["tool_calls"] = [
                {"id": use.id, "type": "function", "function": {"name": use.name, "arguments": use.arguments}}
                for use in answer.uses
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": FINISH_REASONS[answer.ended_by]}
        return {**_head(call, answer, "chat.completion"), "choices": [choice], **_usage(answer.usage)}

    def events(self, call: Call, answer: Answer) -> list[str]:
        head = _head(call, answer, "chat.completion.chunk")

        def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> str:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
            return _event({**head, "choices": [choice], **({"usage": None} if call.stream_usage else {})})

        events = [chunk(delta) for delta in _deltas(answer)] + [chunk({}, FINISH_REASONS[answer.ended_by])]
        if call.stream_usage and answer.usage:
            events.append(_event({**head, "choices": [], **_usage(answer.usage)}))
        return [*events, "data: [DONE]\n\n"]

    def error(self, status: int, code: str | None, message: str) -> dict[str, Any]:
        kind, usual = ERROR_CODES.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
        return {"error": {"message": message, "type": kind, "param": None, "code": code or usual}}

    def error_event(self, error: dict[str, Any]) -> str:
        return _event(error)


def _turn(message: dict[str, Any]) -> Turn:
    match message.get("role"):
        case "tool":
            return Turn(assistant=False, results=(message["tool_call_id"],))
        case "assistant":
            calls = tuple(call["id"] for call in message.get("tool_calls") or ())
            return Turn(assistant=True, text=texts(message.get("content")), calls=calls)
        case "user":
            return Turn(assistant=False, text=texts(message.get("content")))
        case role:
            raise BadRequest(f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', and 'tool'.")


def _segments(body: dict[str, Any], messages: list[dict[str, Any]], functions: list[dict[str, Any]]) -> Iterator[Segment]:
    for function in functions:
        yield Segment(canonical(function))
    for message in messages:
        called = "".join(call["function"]["name"] + call["function"]["arguments"] for call in message.get("tool_calls") or ())
        yield Segment(texts(message.get("content")) + called)
    if schema := _format(body):
        yield Segment(canonical(schema))


def _format(body: dict[str, Any]) -> dict[str, Any] | None:
    response_format = body.get("response_format") or {}
    match response_format.get("type"):
        case "json_schema":
            schema: dict[str, Any] = response_format["json_schema"].get("schema") or {"type": "object"}
            return schema
        case "json_object":
            return {"type": "object"}
        case _:
            return None


def _demand(body: dict[str, Any], choice: Any, schemas: dict[str, dict[str, Any]]) -> Demand | None:
    if isinstance(choice, dict) and choice.get("type") == "function":
        name = choice["function"]["name"]
        if name not in schemas:
            raise BadRequest(f"Tool choice '{name}' not found in 'tools' parameter.")
        return Demand(schemas[name], name)
    if choice == "required" and schemas:
        last = list(schemas)[-1]  # where the tool that ends a conversation stands
        return Demand(schemas[last], last)
    schema = _format(body)
    return Demand(schema) if schema else None


def _head(call: Call, answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answer.id}", "object": kind, "created": int(time.time()), "model": call.model}


def _usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    return {
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens},
            "completion_tokens_details": {"reasoning_tokens": 0},
        }
    }


def _deltas(answer: Answer) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "" if answer.text else None}
    for piece in pieces(answer.text):
        yield {"content": piece}
    for index, use in enumerate(answer.uses):
        function = {"name": use.name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": use.id, "type": "function", "function": function}]}
        for piece in pieces(use.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"
