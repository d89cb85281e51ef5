"""What pydantic-ai and the providers' own SDKs make of a request and of a reply, to hold the wires against.

Never here: a promise of Holdfast's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import httpx2
import msgspec
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    InstructionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequestPart,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import ModelRequest as Message
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer, OpenAIModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

from holdfast.core.values.content import Piece
from holdfast.models.bounds import ANSWER_HINT
from holdfast.models.family import provider_of
from holdfast.ports import ModelRequest, ModelTurn, ToolReply, ToolTurn, Turn, UserTurn

_ELSEWHERE = OpenAIModelProfile(
    openai_chat_supports_max_completion_tokens=False, json_schema_transformer=OpenAIJsonSchemaTransformer
)


class Heard(NamedTuple):
    text: str
    calls: list[tuple[str, str, Any]]
    response_id: str | None


async def asked(url: str, request: ModelRequest, *, in_pieces: bool = False) -> Heard:
    """Have the provider at `url` asked what `request` says, and its reply read, which may come `in_pieces`."""
    provider, name = provider_of(request.model, {})
    async with httpx2.AsyncClient(verify=False) as http:
        model, is_own = _model(provider, url, name, http)
        settings: dict[str, Any] = {"max_tokens": request.max_tokens, "timeout": 20.0, "framing_announcement": "never"}
        settings |= {"anthropic_cache_tool_definitions": True} if request.tools or request.answer else {}
        settings |= {"temperature": request.temperature} if request.temperature is not None else {}
        settings |= {"service_tier": "default"} if is_own else {}
        if request.answer and not request.tools:
            with contextlib.suppress(UserError):  # of those that cannot be forced: it finds out before it sends
                return await _asked(model, settings | {"tool_choice": [request.answer.name]}, request, in_pieces)
        return await _asked(model, settings, request, in_pieces)


async def _asked(model: Model, settings: Any, request: ModelRequest, in_pieces: bool) -> Heard:
    messages = _messages(request.turns)
    options: Any = {"model_settings": settings, "model_request_parameters": _parameters(request)}
    if in_pieces:
        async with model_request_stream(model, messages, **options) as stream:
            async for _ in stream:
                pass
            response = stream.get()
    else:
        response = await model_request(model, messages, **options)
    assert isinstance(response, ModelResponse)
    return Heard(
        "".join(part.content for part in response.parts if isinstance(part, TextPart)),
        [(part.tool_call_id, part.tool_name, _read(part.args)) for part in response.parts if isinstance(part, ToolCallPart)],
        response.provider_response_id,
    )


def _model(provider: str, url: str, name: str, http: httpx2.AsyncClient) -> tuple[Model, bool]:
    if provider == "anthropic":
        claude = AsyncAnthropic(base_url=url, api_key="key", max_retries=0, http_client=http)
        return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=claude)), name.startswith("claude-")
    is_own = name.startswith(("gpt-", "chatgpt-", "ft:gpt-", "o")) and not name.startswith("gpt-oss")
    gpt = AsyncOpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0, http_client=http)
    return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=gpt), profile=None if is_own else _ELSEWHERE), is_own


def _parameters(request: ModelRequest) -> ModelRequestParameters:
    answer = request.answer
    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
        for tool in request.tools
    ]
    outputs = [
        ToolDefinition(
            name=each.name,
            description=f"{each.description}\n\n{ANSWER_HINT}".strip(),
            parameters_json_schema=each.schema,
            kind="output",
        )
        for each in ([answer] if answer else [])
    ]
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="tool" if answer else "text",
        output_tools=outputs,
        allow_text_output=answer is None,
        instruction_parts=[InstructionPart(content=request.system)] if request.system else [],
    )


def _messages(turns: Sequence[Turn]) -> list[ModelMessage]:
    messages: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    for turn in turns:
        match turn:
            case UserTurn(text=text, parts=()):
                parts.append(UserPromptPart(text))
            case UserTurn(text=text, parts=pieces):
                parts.append(UserPromptPart([_piece(piece) for piece in (text, *pieces) if piece]))
            case ToolTurn(replies=replies):
                parts.extend(map(_returned, replies))
            case ModelTurn(replay=replay):
                messages.extend([Message(parts)] if parts else [])
                messages.extend(ModelMessagesTypeAdapter.validate_python([replay]))
                parts = []
    return [*messages, Message(parts)] if parts else messages


def _piece(piece: Piece) -> str | BinaryContent:
    return piece if isinstance(piece, str) else BinaryContent(piece.content, media_type=piece.media_type)


def _returned(reply: ToolReply) -> ToolReturnPart:
    part = ToolReturnPart(reply.name, reply.content, tool_call_id=reply.id)
    return replace(part, outcome="failed") if reply.is_error else part


def _read(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments or {}
    try:
        parsed = msgspec.json.decode(arguments or "{}")
    except msgspec.MsgspecError:
        return arguments
    return parsed if isinstance(parsed, dict) else arguments
