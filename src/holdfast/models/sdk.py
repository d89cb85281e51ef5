"""A line to one provider: its SDK's client, and the translation of requests and replies.

Importing this loads pydantic-ai, connecting loads the provider's SDK; only `holdfast.models.providers` does either, and
only for a call. Retries are off in the SDKs, and because an adapter may have one of its own (Anthropic's, for stale
thinking blocks), the HTTP client itself refuses to send a call twice.

Never here: a decision about money, a retry, the meaning of a failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import httpx2
import msgspec
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import ModelAPIError, ModelQuotaExceededError, ModelTimeoutError, UserError
from pydantic_ai.messages import (
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
from pydantic_ai.models import Model as Adapter
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from holdfast.core import policies
from holdfast.errors import ModelRefused
from holdfast.models import usage
from holdfast.models.bounds import ANSWER_HINT
from holdfast.models.exchange import Exchange
from holdfast.ports import AnswerSpec, ModelReply, ModelRequest, ModelTurn, ToolReply, ToolRequest, ToolTurn, UserTurn

if TYPE_CHECKING:
    from holdfast.models.providers import ProviderName

_HOMES: Final[Mapping[ProviderName, str]] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
}
_CONNECTIONS: Final = httpx2.Limits(max_connections=1_000, max_keepalive_connections=100)

REPLY_BYTES: Final = 4 * 1024 * 1024
"""Of a reply, unpacked: several times the longest answer that a model gives, and no longer to read than others may wait."""
_COLLECTIONS: Final = 50_000
"""Lists and objects in a reply, and brackets in its words: what is made of them takes a hundred times their bytes."""
PARTS: Final = 256
"""Of a reply go on: more than anybody asks for, and than is taken (engine.conversation)."""
_NOT_ASKED_FOR: Final = frozenset({"annotations", "citations", "logprobs"})
_OF_THE_WIRE: Final = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})

_OWN_MODELS: Final = re.compile(r"claude-|(ft:)?(gpt-(?!oss)|chatgpt-|o\d)")
"""Models of the two providers themselves; any other is served by somebody who speaks OpenAI's format."""

_EXCHANGE: Final[ContextVar[Exchange]] = ContextVar("exchange")
_tls: Final = cache(httpx2.create_ssl_context)  # 25 ms to load what the process trusts


class SentTwice(Exception):
    """An SDK or adapter tried by itself to send a call again."""


class UnusableReply(Exception):
    """The provider's reply is not a complete one."""


def connect(provider: ProviderName, environment: Mapping[str, str]) -> Line:
    """A line to `provider`. Raises ModelRefused if there is no key for its own service."""
    key, url = (environment.get(f"{provider.upper()}_{name}", "").strip() for name in ("API_KEY", "BASE_URL"))
    if not key and not url:
        raise ModelRefused(
            f"{provider.upper()}_API_KEY is not set. Nothing was called.", error_class=policies.AUTHORIZATION
        )
    return Line(provider, url or _HOMES[provider], key)


class Line:
    """One provider's client, and how it is asked."""

    def __init__(self, provider: ProviderName, url: str, key: str) -> None:
        self._provider, self._key = provider, key
        address = httpx2.URL(url)
        self._shown_url = f"{address.scheme}://{address.netloc.decode()}{address.path}"  # without a user or password
        self._http = _OnceClient(verify=_tls(), limits=_CONNECTIONS, follow_redirects=False)
        # A server of one's own may need no key, but the SDKs insist on one.
        self._adapter = _ADAPTERS[provider](url, key or "none", self._http)

    def exchange(self) -> Exchange:
        return Exchange(self._provider, self._shown_url, self._key)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def ask(self, name: str, request: ModelRequest, exchange: Exchange) -> ModelReply:
        """Send `request` to the model called `name` here; what happens on the wire is noted in `exchange`."""
        token = _EXCHANGE.set(exchange)
        try:
            response = await _send(self._adapter(name), _settings(name, request), request, exchange)
            return _reply(response, request, exchange)
        except ModelAPIError as error:
            exchange.retry_after_s = error.retry_after
            exchange.timed_out = isinstance(error, ModelTimeoutError)
            exchange.out_of_credit = isinstance(error, ModelQuotaExceededError)
            raise
        finally:
            _EXCHANGE.reset(token)


class _OnceClient(httpx2.AsyncClient):
    """Sends the request of each exchange once, and notes in it what came back."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        exchange = _EXCHANGE.get()
        if exchange.begun:
            raise SentTwice
        exchange.begun = True
        request.extensions["trace"] = exchange.trace
        response = await _read(await super().send(request, **{**options, "stream": True}))
        exchange.status = response.status_code
        if not response.is_success:
            exchange.said = _said(response)
            return response
        exchange.excess = _excess(response.content)
        if exchange.excess:
            raise UnusableReply(exchange.excess)
        return _with_usage(response, exchange)


async def _read(response: httpx2.Response) -> httpx2.Response:
    """With its body, as it is unpacked: of one that is too large no more than shows that."""
    body = bytearray()
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > REPLY_BYTES:
                break
    finally:
        await response.aclose()
    headers = [each for each in response.headers.raw if each[0].lower() not in _OF_THE_WIRE]
    return httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=response.request)


def _excess(body: bytes) -> str:
    """What there is too much of in a reply, if so: it is told from its bytes, before anything is made of them."""
    if len(body) > REPLY_BYTES:
        return f"it has more than {REPLY_BYTES // 1024 // 1024} MiB"
    if body.count(b"[") + body.count(b"{") > _COLLECTIONS:
        return f"it has more than {_COLLECTIONS:,} lists and objects"
    return ""


def _with_usage(response: httpx2.Response, exchange: Exchange) -> httpx2.Response:
    """Read the usage here: pydantic-ai makes zeros of one that it cannot read, and fails on none with the money spent.

    A reply whose usage cannot be read goes on with an empty one, so that the rest of it can be used; and without what was
    never asked for. Of its parts no more go on than anybody looks at: the price of all of them is known by then.
    """
    body = _json(response)
    exchange.usage = usage.of_reply(exchange.provider, body)
    if not isinstance(body, dict):
        return response
    if not _prune(body) and exchange.usage is not None:
        return response
    if exchange.usage is None:
        body["usage"] = {"input_tokens": 0, "output_tokens": 0} if exchange.provider == "anthropic" else None
    return httpx2.Response(response.status_code, json=body, request=response.request)


def _prune(body: dict[str, Any]) -> bool:
    """Whether anything had to go."""
    pruned = _cut(body, "choices", 1) | _cut(body, "content", PARTS)
    for each in (*_objects(body.get("choices")), *_objects(body.get("content"))):
        for part in (each, *_objects([each.get("message")])):
            pruned |= _cut(part, "tool_calls", PARTS)
            for name in _NOT_ASKED_FOR.intersection(part):
                pruned |= part.pop(name) is not None
    return pruned


def _cut(body: dict[str, Any], name: str, most: int) -> bool:
    """Have the list of that name be no longer; whether it was."""
    items = body.get(name)
    is_long = isinstance(items, list) and len(items) > most
    if is_long:
        body[name] = items[:most]  # type: ignore[index]
    return is_long


def _objects(items: Any) -> list[dict[str, Any]]:
    return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []


def _said(response: httpx2.Response) -> str:
    match _json(response):
        case {"error": {"message": str(message)}} | {"error": str(message)} | {"message": str(message)}:
            return message
        case _:
            return response.text


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _anthropic(url: str, key: str, http: _OnceClient) -> Callable[[str], Adapter[Any]]:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(base_url=url, api_key=key, http_client=http, max_retries=0)
    return lambda name: AnthropicModel(name, provider=AnthropicProvider(anthropic_client=client))


def _openai(url: str, key: str, http: _OnceClient) -> Callable[[str], Adapter[Any]]:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer, OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(base_url=url, api_key=key, http_client=http, max_retries=0)
    # Elsewhere `max_tokens` is the name everybody knows. Inlining a schema's definitions could outgrow its bound.
    elsewhere = OpenAIModelProfile(
        openai_chat_supports_max_completion_tokens=False, json_schema_transformer=OpenAIJsonSchemaTransformer
    )

    def adapter(name: str) -> Adapter[Any]:
        profile = None if _OWN_MODELS.match(name) else elsewhere
        return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client), profile=profile)

    return adapter


_ADAPTERS: Final = {"anthropic": _anthropic, "openai": _openai}


def _settings(name: str, request: ModelRequest) -> ModelSettings:
    """The settings of one request. Each adapter ignores those that are named after the other provider."""
    settings: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "timeout": request.timeout_s,
        "framing_announcement": "never",  # pydantic-ai would tell claude-sonnet-4-6 of tags that are never used here
    }
    if _OWN_MODELS.match(name):
        settings["service_tier"] = "default"  # left out, a project's default applies, which may be a dearer one
    if request.temperature is not None:
        settings["temperature"] = request.temperature
    if request.tools or request.answer:
        settings["anthropic_cache_tool_definitions"] = True
    if request.answer and not request.tools:
        settings["tool_choice"] = [request.answer.name]
    return cast(ModelSettings, settings)


async def _send(
    adapter: Adapter[Any], settings: ModelSettings, request: ModelRequest, exchange: Exchange
) -> ModelResponse:
    messages, parameters = _messages(request), _parameters(request)
    try:
        return await model_request(adapter, messages, model_settings=settings, model_request_parameters=parameters)
    except UserError:
        # Models that cannot be made to call a tool are only asked to. pydantic-ai finds out before it sends.
        if exchange.begun or "tool_choice" not in settings:
            raise
    del settings["tool_choice"]
    return await model_request(adapter, messages, model_settings=settings, model_request_parameters=parameters)


def _parameters(request: ModelRequest) -> ModelRequestParameters:
    """Tools, system and answer. The answer is a call of one more tool: that works at both, and beside other tools.

    A forced call keeps newer Claude models from thinking, and the newest refuse it: the tool's description asks too.
    """
    answer = request.answer
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
            for tool in request.tools
        ],
        output_mode="tool" if answer else "text",
        output_tools=[_answer_tool(answer)] if answer else [],
        allow_text_output=answer is None,
        instruction_parts=[InstructionPart(content=request.system)] if request.system else [],
    )


def _answer_tool(answer: AnswerSpec) -> ToolDefinition:
    return ToolDefinition(
        name=answer.name,
        description=f"{answer.description}\n\n{ANSWER_HINT}".strip(),
        parameters_json_schema=answer.schema,
        kind="output",
    )


def _messages(request: ModelRequest) -> list[ModelMessage]:
    messages: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    for turn in request.turns:
        match turn:
            case UserTurn(text=text):
                parts.append(UserPromptPart(text))
            case ToolTurn(replies=replies):
                parts.extend(_tool_return(reply) for reply in replies)
            case ModelTurn(replay=replay):
                # What people and tools say between two replies is one message.
                messages.extend([Message(parts)] if parts else [])
                messages.extend(ModelMessagesTypeAdapter.validate_python([replay]))
                parts = []
    return [*messages, Message(parts)] if parts else messages


def _tool_return(reply: ToolReply) -> ToolReturnPart:
    part = ToolReturnPart(reply.name, reply.content, tool_call_id=reply.id)
    return replace(part, outcome="failed") if reply.is_error else part


def _reply(response: ModelResponse, request: ModelRequest, exchange: Exchange) -> ModelReply:
    """The reply as the port gives it. A second answer stays among the tool requests: each must be replied to."""
    if response.state != "complete":
        raise UnusableReply(f"the reply is {response.state}")
    wanted = request.answer.name if request.answer else None
    calls = [
        ToolRequest(part.tool_call_id, part.tool_name, _arguments(part.args))
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    answer = next((call for call in calls if call.name == wanted), None)
    reported = (response.provider_details or {}).get("finish_reason")
    reply = ModelReply(
        text="".join(part.content for part in response.parts if isinstance(part, TextPart)),
        tool_requests=tuple(call for call in calls if call is not answer),
        answer=answer,
        usage=exchange.usage,
        finish_reason=response.finish_reason if reported else None,
        response_id=response.provider_response_id,
        turn=ModelMessagesTypeAdapter.dump_python([replace(response, provider_url=None)], mode="json")[0],
    )
    msgspec.json.encode(reply)  # raises for half a character: what cannot be stored cannot be used
    return reply


def _arguments(arguments: Any) -> Any:
    """The parsed object: Anthropic sends one, OpenAI its JSON text, which stays as it is if it is not one."""
    if not isinstance(arguments, str):
        return arguments or {}
    try:
        parsed = msgspec.json.decode(arguments or "{}")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, dict) else arguments
