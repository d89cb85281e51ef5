"""The OpenAI Responses API: POST /v1/responses, whole or as server-sent events.

Only the format; what is said and what goes wrong are decided elsewhere. No response is kept, so a request brings all that was
said before.
"""

import json
import time
from collections.abc import Iterator, Mapping
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
from holdfast.testing.wires.openai import SYSTEM_ROLES, OpenAIWire

_KEPT = ("previous_response_id", "conversation", "background", "prompt")
"""Options that ask for something which a provider keeps."""


class ResponsesWire(OpenAIWire):
    name: WireName = "openai"
    path = "/v1/responses"

    def read(self, body: dict[str, Any]) -> Call:
        model = require(body, "model", str)
        for name in _KEPT:
            if body.get(name):
                raise BadRequest(f"{name}: leave it out and send the whole input; this server keeps no responses")
        items = _items(body.get("input"))
        turns = tuple(_turns(items))
        check_results(turns)
        tools = [tool for tool in body.get("tools") or () if tool.get("type") == "function"]
        schemas = {tool["name"]: tool.get("parameters") or {} for tool in tools}
        choice, allowed = _choice(body.get("tool_choice") or "auto", schemas)
        said = [texts(item.get("content")) for item in items if item.get("role") in SYSTEM_ROLES]
        return Call(
            wire=self.name,
            model=model,
            system="\n".join(filter(None, (body.get("instructions"), *said))),
            turns=turns,
            segments=(*_segments(body, items, tools),),
            tools=() if choice == "none" else tuple(Tool(*item) for item in allowed.items()),
            demand=_demand(body, choice, allowed),
            max_tokens=body.get("max_output_tokens"),
            stream=bool(body.get("stream")),
            stream_usage=True,
            cache_control_on_tools=False,
            request_sha256=sha256(canonical(body)),
        )

    def reply(self, call: Call, answer: Answer) -> dict[str, Any]:
        return _response(call, answer, "incomplete" if answer.ended_by == "length" else "completed", _output(answer))

    def events(self, call: Call, answer: Answer) -> list[str]:
        begun = _response(call, answer, "in_progress", [])
        whole = self.reply(call, answer)
        events = [
            ("response.created", {"response": begun}),
            ("response.in_progress", {"response": begun}),
            *(event for at, item in enumerate(whole["output"]) for event in _item_events(at, item)),
            (f"response.{whole['status']}", {"response": whole}),
        ]
        return [_event(kind, fields, number) for number, (kind, fields) in enumerate(events)]

    def error_event(self, error: dict[str, Any]) -> str:
        told = error["error"]
        return _event("error", {"code": told["code"] or told["type"], "message": told["message"], "param": None}, 0)


def _items(value: Any) -> list[dict[str, Any]]:
    items = [{"role": "user", "content": value}] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise BadRequest("input: a text, or a list of items")
    return items


def _turns(items: list[dict[str, Any]]) -> Iterator[Turn]:
    """Yield the turns of a conversation. What one response has put out, its text and its calls, is one turn."""
    said: Turn | None = None
    for item in items:
        if (part := _turn_of(item)) is not None:
            said = part if said is None else _join(said, part)
            continue
        if said is not None:
            yield said
        said = None
        match item.get("type", "message"), item.get("role"):
            case "function_call_output", _:
                yield Turn(assistant=False, results=(item["call_id"],))
            case "message", "user":
                yield Turn(assistant=False, text=texts(item.get("content")))
            case "message", role if role in SYSTEM_ROLES:
                pass
            case kind, role:
                raise BadRequest(f"input: an item of the type {kind!r} and the role {role!r} is not read here")
    if said is not None:
        yield said


def _turn_of(item: Mapping[str, Any]) -> Turn | None:
    """Return the part of a model's turn that an item is; None where it is none."""
    match item.get("type", "message"):
        case "function_call":
            return Turn(assistant=True, calls=(item["call_id"],))
        case "reasoning":
            return Turn(assistant=True)
        case "message" if item.get("role") == "assistant":
            return Turn(assistant=True, text=texts(item.get("content")))
        case _:
            return None


def _join(one: Turn, other: Turn) -> Turn:
    text = "\n".join(filter(None, (one.text, other.text)))
    return Turn(assistant=True, text=text, calls=(*one.calls, *other.calls))


def _choice(choice: Any, schemas: dict[str, dict[str, Any]]) -> tuple[Any, dict[str, dict[str, Any]]]:
    """Return what is chosen, and the tools that it leaves."""
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools":
        return choice, schemas
    names = {tool.get("name") for tool in choice.get("tools") or ()}
    return choice.get("mode", "auto"), {name: schema for name, schema in schemas.items() if name in names}


def _segments(body: dict[str, Any], items: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Iterator[Segment]:
    for tool in tools:
        yield Segment(canonical(tool))
    yield Segment(body.get("instructions") or "")
    for item in items:
        output = item.get("output")
        called = f"{item.get('name', '')}{item.get('arguments', '')}"
        yield Segment(texts(item.get("content")) + texts(output) + called)
    if schema := _format(body):
        yield Segment(canonical(schema))


def _format(body: dict[str, Any]) -> dict[str, Any] | None:
    given = (body.get("text") or {}).get("format") or {}
    match given.get("type"):
        case "json_schema":
            schema: dict[str, Any] = given.get("schema") or {"type": "object"}
            return schema
        case "json_object":
            return {"type": "object"}
        case _:
            return None


def _demand(body: dict[str, Any], choice: Any, schemas: dict[str, dict[str, Any]]) -> Demand | None:
    if isinstance(choice, dict) and choice.get("type") == "function":
        if choice["name"] not in schemas:
            raise BadRequest(f"Tool choice '{choice['name']}' not found in 'tools' parameter.")
        return Demand(schemas[choice["name"]], choice["name"])
    if choice == "required" and schemas:
        last = list(schemas)[-1]  # where the tool that ends a conversation stands
        return Demand(schemas[last], last)
    schema = _format(body)
    return Demand(schema) if schema else None


def _response(call: Call, answer: Answer, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "error": None,
        "incomplete_details": cut,
        "instructions": call.system or None,
        "max_output_tokens": call.max_tokens,
        "metadata": {},
        "model": call.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None if status == "in_progress" else _usage(answer.usage),
    }


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _output(answer: Answer) -> list[dict[str, Any]]:
    status = "incomplete" if answer.ended_by == "length" else "completed"
    items: list[dict[str, Any]] = []
    if answer.text or not answer.uses:
        content = [{"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}]
        head = {"type": "message", "id": f"msg_{answer.id}", "role": "assistant", "status": status}
        items.append({**head, "content": content})
    for use in answer.uses:
        head = {"type": "function_call", "id": f"fc_{use.id}", "call_id": use.id, "status": status}
        items.append({**head, "name": use.name, "arguments": use.arguments})
    return items


def _item_events(index: int, item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events that bring one item of the output, piece by piece."""
    place = {"item_id": item["id"], "output_index": index}
    if item["type"] == "message":
        (part,) = item["content"]
        text, of_part, empty = part["text"], {**place, "content_index": 0}, {**part, "text": ""}
        yield ("response.output_item.added", {"output_index": index, "item": {**item, "status": "in_progress", "content": []}})
        yield "response.content_part.added", {**of_part, "part": empty}
        for piece in pieces(text):
            yield "response.output_text.delta", {**of_part, "delta": piece, "logprobs": []}
        yield "response.output_text.done", {**of_part, "text": text, "logprobs": []}
        yield "response.content_part.done", {**of_part, "part": part}
    else:
        begun = {**item, "status": "in_progress", "arguments": ""}
        yield "response.output_item.added", {"output_index": index, "item": begun}
        for piece in pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {**place, "delta": piece}
        done = {"name": item["name"], "arguments": item["arguments"]}
        yield "response.function_call_arguments.done", {**place, **done}
    yield "response.output_item.done", {"output_index": index, "item": item}


def _event(kind: str, fields: dict[str, Any], number: int) -> str:
    data = {"type": kind, "sequence_number": number, **fields}
    return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
