"""OpenAI's Chat Completions API, which many speak: a request as its JSON, and a reply's JSON as what it says.

The format: platform.openai.com, "Chat Completions". What others make of it, and which of OpenAI's models reason without
being asked, is as pydantic-ai 2.68 found it (profiles/openai.py, models/openai).

Never here: a connection, what a reply cost.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from holdfast.core.nouns.shared_values import packed
from holdfast.core.values.content import Piece
from holdfast.errors import InvalidInput
from holdfast.models import tool_schema, turn
from holdfast.models.bounds import ANSWER_HINT
from holdfast.models.content import PDF
from holdfast.models.provider_call import UnusableReply
from holdfast.models.turn import ParsedReply, Part
from holdfast.ports import EmbeddingRequest, ModelRequest, ModelTurn, ToolReply, ToolTurn, Turn, UserTurn

HOME: Final = "https://api.openai.com/v1"
PATH: Final = "/chat/completions"
EMBEDDINGS: Final = "/embeddings"

_OWN: Final = re.compile(r"(ft:)?(gpt-(?!oss)|chatgpt-|o\d)")
"""OpenAI's own models. Others are served by providers that use the same, mostly older, format."""

_REASONS: Final = re.compile(
    r"o[134]|gpt-5(?!-chat|\.[1-4])|gpt-5\.1-(chat|codex)|gpt-5\.2-(chat|pro)|gpt-5\.3-chat|gpt-5\.4-pro"
    r"|gpt-6(\.1)?-(astra|luna|sol|terra)"
)
"""Without being asked; those take no temperature."""

_REASONING: Final = ("reasoning", "reasoning_content")
"""Where others put what a model thought, to be given back there: OpenRouter and vLLM, DeepSeek."""

_HEARD: Final[Mapping[str, str]] = {"audio/mpeg": "mp3", "audio/wav": "wav"}

THOUGHT_BEGINS: Final = "<think>"
THOUGHT_ENDS: Final = "</think>"

_FINISHED: Final[Mapping[str, str]] = {
    "content_filter": "content_filter",
    "function_call": "tool_call",
    "length": "length",
    "stop": "stop",
    "tool_calls": "tool_call",
}


def headers(key: str, environment: Mapping[str, str]) -> dict[str, str]:
    """A key may belong to several organizations and projects; the environment says which of them pays."""
    variables = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
    found = {header: environment[name] for header, name in variables.items() if environment.get(name)}
    return found | ({"authorization": f"Bearer {key}"} if key else {})


def body(name: str, request: ModelRequest) -> dict[str, Any]:
    """The request to the model called `name` here."""
    system = [{"role": "system", "content": request.system}] if request.system else []
    turns = [message for each in request.turns for message in _messages(each)]
    made: dict[str, Any] = {"model": name, "messages": system + turns}
    if _OWN.match(name):
        # Left out, the project's default tier applies, which may be a dearer one.
        made |= {"max_completion_tokens": request.max_tokens, "service_tier": "default"}
    else:
        made["max_tokens"] = request.max_tokens
    if request.temperature is not None and not _REASONS.match(name):
        made["temperature"] = request.temperature
    if tools := _tools(request):
        made |= {"tools": tools, "tool_choice": "required" if request.answer else "auto"}
    return made


def embedding_body(name: str, request: EmbeddingRequest) -> dict[str, Any]:
    """The request for vectors to the model called `name` here."""
    made: dict[str, Any] = {"model": name, "input": list(request.texts), "encoding_format": "float"}
    return made if request.dimensions is None else made | {"dimensions": request.dimensions}


def vectors(reply: Mapping[str, Any], texts: int) -> tuple[bytes, ...]:
    """The vectors of a reply, one of each text. Raises UnusableReply."""
    found = {each["index"]: each["embedding"] for each in reply["data"]}
    if sorted(found) != [*range(texts)]:
        raise UnusableReply(f"it has {len(found)} vectors of {texts} texts")
    try:
        return tuple(packed([float(number) for number in found[index]]) for index in range(texts))
    except (InvalidInput, ValueError, OverflowError) as problem:
        raise UnusableReply(f"one of its vectors is none: {problem}") from None


def _tools(request: ModelRequest) -> list[dict[str, Any]]:
    """The answer is a call of one more tool: that works beside other tools, and at every provider."""
    tools = [_tool(tool.name, tool.description, tool.parameters) for tool in request.tools]
    if answer := request.answer:
        tools.append(_tool(answer.name, f"{answer.description}\n\n{ANSWER_HINT}".strip(), answer.schema))
    return tools


def _tool(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    parameters, is_strict = tool_schema.closed(schema)
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": {**function, "strict": True} if is_strict else function}


def _messages(message: Turn) -> Iterator[dict[str, Any]]:
    match message:
        case UserTurn(text=text, parts=()):
            yield {"role": "user", "content": text}
        case UserTurn(text=text, parts=parts):
            yield {"role": "user", "content": [_piece(piece) for piece in (text, *parts) if piece]}
        case ToolTurn(replies=replies):
            for reply in replies:
                yield {"role": "tool", "tool_call_id": reply.id, "content": _content(reply)}
        case ModelTurn():
            yield from _replay(message)


def _piece(piece: Piece) -> dict[str, Any]:
    """A document that is no PDF is sent as the text that it is."""
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    if piece.type == "document" and piece.media_type != PDF:
        return {"type": "text", "text": piece.content.decode()}
    data = b64encode(piece.content).decode()
    if piece.type == "audio":
        return {"type": "input_audio", "input_audio": {"data": data, "format": _HEARD[piece.media_type]}}
    uri = f"data:{piece.media_type};base64,{data}"
    if piece.type == "image":
        return {"type": "image_url", "image_url": {"url": uri}}
    return {"type": "file", "file": {"file_data": uri, "filename": "filename.pdf"}}


def _content(reply: ToolReply) -> str:
    """The format has no mark for an error: it is recognized by its shape."""
    return _json({"error": reply.content}) if reply.is_error else reply.content


def _replay(model_turn: ModelTurn) -> Iterator[dict[str, Any]]:
    parts = turn.parts(model_turn, "openai")
    text = "\n\n".join(part["content"] for part in parts if part["part_kind"] == "text")
    calls = [_call(part) for part in parts if part["part_kind"] == "tool-call"]
    thoughts = {part["id"]: part["content"] for part in parts if part.get("id") in _REASONING}
    if text or calls:
        message = {"role": "assistant", **thoughts, "content": text or None}
        yield {**message, "tool_calls": calls} if calls else message


def _call(part: Part) -> dict[str, Any]:
    """As the model wrote it, if it was an object that it wrote."""
    args, given = part.get("args"), turn.object_of(part)
    written = args if isinstance(args, str) and turn.arguments(part) == given else _json(given)
    function = {"name": part["tool_name"], "arguments": written}
    call = {"id": part["tool_call_id"], "type": "function", "function": function}
    extra = (part.get("provider_details") or {}).get("extra_content")
    return {**call, "extra_content": extra} if extra else call


def parse_reply(reply: Mapping[str, Any], max_parts: int) -> ParsedReply:
    """Return the content of the first choice of a complete reply, with its first `max_parts` calls. Raises UnusableReply if it
    is not complete."""
    choice = reply["choices"][0]
    message, reason = choice["message"], choice.get("finish_reason")
    if message.get("refusal"):
        return ParsedReply([], "content_filter", reply.get("id"))
    calls = (message.get("tool_calls") or [])[:max_parts]
    parts = [*_thoughts(message), *_texts(message.get("content")), *map(_call_part, calls)]
    return ParsedReply(parts, _FINISHED.get(reason) if isinstance(reason, str) else None, reply.get("id"))


def _thoughts(message: Mapping[str, Any]) -> list[Part]:
    """Return the thinking of a message, once: a server that fills both fields puts the same text in each."""
    found = [turn.thinking("openai", text, mark=name) for name in _REASONING if isinstance(text := message.get(name), str)]
    return found[:1]


def _texts(content: Any) -> list[Part]:
    text = without_thinking(content_text(content))
    return [turn.text(text)] if text else []


def content_text(content: Any) -> str:
    """The text of what a model says: some servers list it in pieces."""
    if isinstance(content, list):
        content = "".join(piece["text"] for piece in content if piece["type"] == "text")
    return content or ""


def without_thinking(text: str) -> str:
    """Return a model's answer without the thinking that its server left in the text."""
    *thought, rest = text.split(THOUGHT_ENDS)
    return "".join(each.partition(THOUGHT_BEGINS)[0] for each in thought) + rest


def _call_part(call: Any) -> Part:
    match call:
        case {"id": str(call_id), "function": {"name": str(name), "arguments": str(args)}}:
            extra = call.get("extra_content")  # Gemini's thought signature: refused where it does not come back
            return turn.tool_call(call_id, name, args, {"extra_content": extra} if extra else None)
        case _:
            raise UnusableReply(f"there is a call in it that was not asked for: {str(call)[:100]}")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
