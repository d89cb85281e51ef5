"""A line to one provider: each call is one HTTP request, and what comes back of it is bounded before it is read.

Its import costs an HTTP client's, so only `holdfast.models.providers` has it, for a call. What stands in a request and
in a reply is known to `holdfast.models.anthropic` and `holdfast.models.openai`.

Never here: a retry, a redirect that is followed, a decision about money, the meaning of a failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, Final, NamedTuple

import httpx2
import msgspec

from holdfast.core import policies
from holdfast.errors import ModelRefused
from holdfast.models import anthropic, openai, turn, usage
from holdfast.models.exchange import Exchange, UnusableReply
from holdfast.models.family import ProviderName
from holdfast.models.turn import Said
from holdfast.ports import ModelReply, ModelRequest, ToolRequest

_CONNECTIONS: Final = httpx2.Limits(max_connections=1_000, max_keepalive_connections=100)

REPLY_BYTES: Final = 4 * 1024 * 1024
"""Of a reply, unpacked: several times the longest answer that a model gives, and no longer to read than others may wait."""
_COLLECTIONS: Final = 50_000
"""Lists and objects in a reply, and brackets in its words: what is made of them takes a hundred times their bytes."""
PARTS: Final = 256
"""Of a reply are gone on with: more than anybody asks for, and than is taken (engine.conversation)."""

_NO_CREDIT: Final = frozenset({
    "billing_error",  # Anthropic's
    "billing_hard_limit_reached", "credit_balance_exhausted", "insufficient_quota", "organization_spend_limit_exceeded",
    "organization_usage_limit_exceeded", "project_spend_limit_exceeded",  # OpenAI's
    "exceeded_current_quota_error",  # Moonshot's
})  # fmt: skip
"""Kinds of refusals that say that no waiting helps. They come as 400, 402 or 429."""
_NO_CREDIT_WORDS: Final = "credit balance is too low"
"""Anthropic's, of an invalid request."""

_tls: Final = cache(httpx2.create_ssl_context)  # 25 ms to load what the process trusts


class Format(NamedTuple):
    """How a provider is spoken to: where, with which headers, what is sent, and what its replies say."""

    home: str
    path: str
    headers: Callable[[str, Mapping[str, str]], dict[str, str]]
    body: Callable[[str, ModelRequest], dict[str, Any]]
    said: Callable[[Mapping[str, Any], int], Said]


_FORMATS: Final[Mapping[ProviderName, Format]] = {
    "anthropic": Format(anthropic.HOME, anthropic.PATH, anthropic.headers, anthropic.body, anthropic.said),
    "openai": Format(openai.HOME, openai.PATH, openai.headers, openai.body, openai.said),
}


def connect(provider: ProviderName, environment: Mapping[str, str]) -> Line:
    """A line to `provider`. Raises ModelRefused if there is no key for its own service."""
    key, url = (environment.get(f"{provider.upper()}_{name}", "").strip() for name in ("API_KEY", "BASE_URL"))
    if not key and not url:
        raise ModelRefused(
            f"{provider.upper()}_API_KEY is not set. Nothing was called.", error_class=policies.AUTHORIZATION
        )
    format_ = _FORMATS[provider]
    return Line(provider, format_, url or format_.home, key, format_.headers(key, environment))


class Line:
    """One provider's client, and how it is asked."""

    def __init__(self, provider: ProviderName, format_: Format, url: str, key: str, headers: dict[str, str]) -> None:
        self._provider, self._format, self._key = provider, format_, key
        address = httpx2.URL(url)
        self._shown_url = f"{address.scheme}://{address.netloc.decode()}{address.path}"  # without a user or password
        # No time-out of its own: whoever asks has a deadline for the whole call.
        self._http = httpx2.AsyncClient(
            base_url=address, headers=headers, verify=_tls(), limits=_CONNECTIONS, timeout=None, follow_redirects=False
        )

    def exchange(self) -> Exchange:
        return Exchange(self._provider, self._shown_url, self._key)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def ask(self, name: str, request: ModelRequest, exchange: Exchange) -> ModelReply:
        """Send `request` to the model called `name` here; what happens on the wire is noted in `exchange`."""
        sent = self._http.build_request("POST", self._format.path, json=self._format.body(name, request))
        sent.extensions["trace"] = exchange.trace
        exchange.begun = True
        body = await self._reply(sent, exchange)
        exchange.usage = usage.of_reply(self._provider, body)
        try:
            said = self._format.said(body, PARTS)
        except (AttributeError, LookupError, TypeError) as problem:
            raise UnusableReply(
                f"it is not of {self._provider}'s format ({type(problem).__name__}: {problem})"
            ) from None
        return _reply(said, request, exchange)

    async def _reply(self, sent: httpx2.Request, exchange: Exchange) -> Any:
        """The JSON of a reply that is one."""
        response = await self._http.send(sent, stream=True)
        content = await _read(response)
        exchange.status = response.status_code
        if not response.is_success:
            _note_refusal(exchange, response, content)
            raise UnusableReply(f"HTTP {response.status_code}")
        exchange.excess = _excess(content)
        if exchange.excess:
            raise UnusableReply(exchange.excess)
        return msgspec.json.decode(content)  # refuses half a character, too: what cannot be stored cannot be used


async def _read(response: httpx2.Response) -> bytes:
    """Its body, as it is unpacked: of one that is too large no more than shows that."""
    body = bytearray()
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > REPLY_BYTES:
                break
    finally:
        await response.aclose()
    return bytes(body)


def _excess(body: bytes) -> str:
    """What there is too much of in a reply, if so: it is told from its bytes, before anything is made of them."""
    if len(body) > REPLY_BYTES:
        return f"it has more than {REPLY_BYTES // 1024 // 1024} MiB"
    if body.count(b"[") + body.count(b"{") > _COLLECTIONS:
        return f"it has more than {_COLLECTIONS:,} lists and objects"
    return ""


def _note_refusal(exchange: Exchange, response: httpx2.Response, content: bytes) -> None:
    """What a reply that is no answer says of itself."""
    exchange.retry_after_s = _retry_after_s(response.headers)
    try:
        said = None if _excess(content) else msgspec.json.decode(content)
    except (ValueError, RecursionError):
        said = None
    error = said.get("error", said) if isinstance(said, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    exchange.said = message if isinstance(message, str) else content.decode(errors="replace")
    if isinstance(error, dict):
        exchange.out_of_credit = not _NO_CREDIT.isdisjoint(map(str, (error.get("type"), error.get("code"))))
    exchange.out_of_credit |= _NO_CREDIT_WORDS in exchange.said.lower()


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds; None for a date in no calendar, and for a number that is none."""
    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            wait_s = float(milliseconds) / 1000
        elif (wait := headers.get("retry-after", "")).isdigit():
            wait_s = float(wait)
        else:
            wait_s = max(0.0, parsedate_to_datetime(wait).timestamp() - time.time())
    except (OverflowError, TypeError, ValueError):
        return None
    return wait_s if 0 <= wait_s < float("inf") else None


def _reply(said: Said, request: ModelRequest, exchange: Exchange) -> ModelReply:
    """The reply as the port gives it. A second answer stays among the tool requests: each must be replied to."""
    wanted = request.answer.name if request.answer else None
    calls = [
        ToolRequest(part["tool_call_id"], part["tool_name"], turn.arguments(part))
        for part in said.parts
        if part["part_kind"] == "tool-call"
    ]
    answer = next((call for call in calls if call.name == wanted), None)
    return ModelReply(
        text="".join(part["content"] for part in said.parts if part["part_kind"] == "text"),
        tool_requests=tuple(call for call in calls if call is not answer),
        answer=answer,
        usage=exchange.usage,
        finish_reason=said.finish_reason,
        response_id=said.response_id if isinstance(said.response_id, str) else None,
        turn=turn.of(exchange.provider, said, exchange.usage),
    )
