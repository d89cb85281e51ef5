"""A line to one provider: each call is one HTTP request, and what comes back of it is bounded before it is read.

Its import costs an HTTP client's, so only `holdfast.models.providers` has it, for a call. What stands in a request and
in a reply is known to `holdfast.models.anthropic` and `holdfast.models.openai`.

Never here: a retry, a redirect that is followed, a decision about money, the meaning of a failure.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import quote

import httpx2

from holdfast.core.values import policies
from holdfast.core.values.ids import CallId, run_of
from holdfast.core.values.payload import digest
from holdfast.errors import ModelRefused
from holdfast.models import anthropic, anthropic_stream, openai, openai_stream, turn, usage
from holdfast.models.family import ProviderName, base_url_variable
from holdfast.models.forwarded import gemini
from holdfast.models.forwarded import requests as forwarded
from holdfast.models.forwarded.events import EventSplitter
from holdfast.models.provider_call import ProviderCall, UnusableReply
from holdfast.models.stream import REPLY_BYTES, STREAM_BYTES, Assembly, Events, ReplyTooLarge, decoded
from holdfast.models.turn import ParsedReply
from holdfast.platform.current_span import trace_headers
from holdfast.ports import (
    EmbeddingReply,
    EmbeddingRequest,
    ForwardedReply,
    ForwardedRequest,
    ModelDelta,
    ModelReply,
    ModelRequest,
    ToolRequest,
)

_CONNECTIONS: Final = httpx2.Limits(max_connections=1_000, max_keepalive_connections=100)

PARTS: Final = 256
"""Of a reply are gone on with: more than anybody asks for, and than is taken (engine.operations.conversation)."""

_LAST_PIECE_S: Final = 1.0
"""How long the end of a body may take whose reply is whole."""

_NO_CREDIT: Final = frozenset(
    {
        "billing_error",  # Anthropic's
        "billing_hard_limit_reached",
        "credit_balance_exhausted",
        "insufficient_quota",
        "organization_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "project_spend_limit_exceeded",  # OpenAI's
        "exceeded_current_quota_error",  # Moonshot's
    }
)
"""Kinds of refusals that say that no waiting helps. They come as 400, 402 or 429."""
_NO_CREDIT_WORDS: Final = "credit balance is too low"
"""Anthropic's, of an invalid request."""

CALL_HEADER: Final = "x-client-request-id"
"""OpenAI keeps the id in its log, and gateways do; other servers ignore it. OpenAI's own `metadata` is refused unless it may
store the request."""
_LONGEST_ID: Final = 512
"""OpenAI refuses longer ones."""

_tls: Final = cache(httpx2.create_ssl_context)  # 25 ms to load what the process trusts


class Format(NamedTuple):
    """A provider's wire format: its address, its headers, its requests and its replies."""

    home: str
    path: str
    headers: Callable[[str, Mapping[str, str]], dict[str, str]]
    body: Callable[[str, ModelRequest], dict[str, Any]]
    parse_reply: Callable[[Mapping[str, Any], int], ParsedReply]
    in_pieces: Mapping[str, Any]
    """What is sent besides where the reply is to come in pieces."""
    assembly: Callable[[], Assembly]


def _only_forwarded(*_: Any) -> NoReturn:
    """Raise for a request that is no program's own."""
    raise ModelRefused("Google's models are only called for programs. Nothing was called.", error_class=policies.VALIDATION)


_FORMATS: Final[Mapping[ProviderName, Format]] = {
    "anthropic": Format(
        anthropic.HOME,
        anthropic.PATH,
        anthropic.headers,
        anthropic.body,
        anthropic.parse_reply,
        anthropic_stream.ASKED,
        anthropic_stream.MessageAssembly,
    ),
    "openai": Format(
        openai.HOME,
        openai.PATH,
        openai.headers,
        openai.body,
        openai.parse_reply,
        openai_stream.ASKED,
        openai_stream.CompletionAssembly,
    ),
    "google": Format(gemini.HOME, "", gemini.headers, _only_forwarded, _only_forwarded, {}, _only_forwarded),
}


def connect(provider: ProviderName, environment: Mapping[str, str]) -> Line:
    """A line to `provider`. Raises ModelRefused if there is no key for its own service."""
    key = environment.get(f"{provider.upper()}_API_KEY", "").strip()
    url = environment.get(base_url_variable(provider), "").strip()
    if provider == "google":
        key = key or environment.get("GEMINI_API_KEY", "").strip()
    if not key and not url:
        raise ModelRefused(
            f"{provider.upper()}_API_KEY is not set. Nothing was called. Set it in the process that executes the run, and retry"
            " the run.",
            error_class=policies.AUTHORIZATION,
        )
    format_ = _FORMATS[provider]
    return Line(provider, format_, url or format_.home, key, format_.headers(key, environment))


class Line:
    """One provider's client, and how it is asked."""

    def __init__(self, provider: ProviderName, format_: Format, url: str, key: str, headers: dict[str, str]) -> None:
        self._provider, self._format, self._key = provider, format_, key
        address = httpx2.URL(url)
        self._shown_url = f"{address.scheme}://{address.netloc.decode()}{address.path}"  # without a user or password
        # No time-out of its own: the caller has a deadline for the whole call.
        self._http = httpx2.AsyncClient(
            base_url=address, headers=headers, verify=_tls(), limits=_CONNECTIONS, timeout=None, follow_redirects=False
        )

    def call(self) -> ProviderCall:
        return ProviderCall(self._provider, self._shown_url, self._key)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def ask(self, name: str, request: ModelRequest, call: ProviderCall) -> ModelReply:
        """Send `request` to the model called `name` here; what happens on the wire is noted in `call`."""
        response = await self._send(self._format.body(name, request), call, request.call)
        content = await _read_body(response)
        if not response.is_success:
            raise _refusal(call, response, content)
        with _reading(call, response.status_code):
            return self._parse_reply(decoded(content), request, call)

    async def embed(self, name: str, request: EmbeddingRequest, call: ProviderCall) -> EmbeddingReply:
        """Ask for vectors, in OpenAI's format."""
        response = await self._send(openai.embedding_body(name, request), call, request.call, openai.EMBEDDINGS)
        content = await _read_body(response)
        if not response.is_success:
            raise _refusal(call, response, content)
        with _reading(call, response.status_code):
            data = decoded(content)
            call.usage = usage.of_embedding(data)
            return EmbeddingReply(openai.vectors(data, len(request.texts)), call.usage)

    async def stream(
        self, name: str, request: ModelRequest, call: ProviderCall, until_s: float
    ) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        """The same in pieces. None of them is waited for beyond `until_s` by the loop's clock."""
        async with asyncio.timeout_at(until_s):
            asked = {**self._format.body(name, request), **self._format.in_pieces}
            response = await self._send(asked, call, request.call)
        try:
            if not response.is_success:
                async with asyncio.timeout_at(until_s):
                    content = await _read_body(response)
                raise _refusal(call, response, content)
            body, assembly = Body(response.aiter_bytes(), until_s), self._format.assembly()
            while not assembly.is_complete():
                piece = await body.next_piece()
                with _reading(call, response.status_code):
                    events = list(body.events(piece))
                for data in events:
                    with _reading(call, response.status_code):
                        deltas = assembly.add(data)
                    for delta in deltas:
                        yield delta
                    if assembly.is_complete():
                        break
            with _reading(call, response.status_code):
                reply = self._parse_reply(assembly.body(), request, call)
            yield reply
            await body.drain()
        finally:
            await response.aclose()

    async def forward(
        self, request: ForwardedRequest, call: ProviderCall, until_s: float, tell: Callable[[str], None]
    ) -> ForwardedReply:
        """Send a program's request in its own format; each event of a stream is passed on as it comes."""
        path = forwarded.path_at(request)
        async with asyncio.timeout_at(until_s):
            response = await self._send(forwarded.sent(request), call, request.call, path, request.headers)
        kind = response.headers.get("content-type", "application/json")
        if response.is_success and request.stream and kind.startswith("text/event-stream"):
            try:
                return await self._forward_events(request, response, call, until_s, tell)
            finally:
                await response.aclose()
        async with asyncio.timeout_at(until_s):
            content = await _read_body(response)
        if not response.is_success:
            raise _refusal(call, response, content)
        with _reading(call, response.status_code):
            if request.stream:
                raise UnusableReply(f"it is no stream of events but {kind}")
            used = forwarded.usage_of(request, decoded(content))
            return ForwardedReply(kind, (content.decode(errors="replace"),), used, forwarded.bought(request))

    async def _forward_events(
        self,
        request: ForwardedRequest,
        response: httpx2.Response,
        call: ProviderCall,
        until_s: float,
        tell: Callable[[str], None],
    ) -> ForwardedReply:
        body, splitter, report = Body(response.aiter_bytes(), until_s), EventSplitter(), forwarded.report_of(request)
        pieces: list[str] = []
        while True:
            piece = await body.next_piece(may_end=report.may_end)
            with _reading(call, response.status_code):
                for event in splitter.feed(piece) if piece else splitter.rest():
                    if event.text.strip() and report.add(event.data):
                        pieces.append(event.text)
                        tell(event.text)
                    if report.is_complete:
                        break
            if report.is_complete or not piece:
                break
        with _reading(call, response.status_code):
            if (error := report.error) is not None:
                raise UnusableReply(f"its stream ended in an error: {error}")
        await body.drain()
        kind = response.headers.get("content-type", "text/event-stream")
        return ForwardedReply(kind, tuple(pieces), report.usage, forwarded.bought(request))

    async def _send(
        self,
        body: Mapping[str, Any],
        call: ProviderCall,
        id_: CallId | None,
        path: str | None = None,
        forwarded_headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send a request and return the provider's response, of which only the head has been read. The provider logs the id."""
        headers = {} if id_ is None else {CALL_HEADER: _logged(id_), **trace_headers(id_)}
        headers |= forwarded_headers or {}
        sent = self._http.build_request("POST", path or self._format.path, json=body, headers=headers)
        sent.extensions["trace"] = call.trace
        call.begun = True
        return await self._http.send(sent, stream=True)

    def _parse_reply(self, body: Any, request: ModelRequest, call: ProviderCall) -> ModelReply:
        """Return the reply that this JSON of a whole response contains."""
        call.usage = usage.of_reply(self._provider, body)
        return _reply(self._format.parse_reply(body, PARTS), request, call)


def _logged(call: CallId) -> str:
    """Return the id of a call as a header has it: ASCII, and of a very long one its run and its hash."""
    found = quote(call, safe=":/#~!.,[]")
    return found if len(found) <= _LONGEST_ID else f"{run_of(call)}:{digest(call)}"


async def _read_body(response: httpx2.Response) -> bytes:
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


@contextmanager
def _reading(call: ProviderCall, status: int) -> Iterator[None]:
    """Record the status if reading the reply fails inside: the fault is the reply's, not the line's. Raises UnusableReply, and
    errors of other kinds unchanged."""
    try:
        yield
    except ReplyTooLarge as excess:
        call.status, call.excess = status, str(excess)
        raise UnusableReply(call.excess) from None
    except (AttributeError, LookupError, TypeError) as problem:
        call.status = status
        raise UnusableReply(f"it is not of {call.provider}'s format ({type(problem).__name__}: {problem})") from None
    except Exception:
        call.status = status
        raise


class Body:
    """A reply that comes in pieces, as far as it has come. Pieces that are not read stay on the line."""

    def __init__(self, pieces: AsyncIterator[bytes], until_s: float) -> None:
        self._pieces = pieces
        self._until_s = until_s
        self._events = Events()
        self._size = 0

    async def next_piece(self, *, may_end: bool = False) -> bytes:
        """Return the next piece; nothing at the end, where the stream may end. Raises TimeoutError, and UnusableReply where it
        ends too early."""
        async with asyncio.timeout_at(self._until_s):
            piece = await anext(self._pieces, None)
        if piece is None:
            if may_end:
                return b""
            raise UnusableReply("the stream ended before the reply was complete")
        return piece

    def events(self, piece: bytes) -> Iterator[bytes]:
        """The data of the events that `piece` completes. Raises Excess."""
        self._size += len(piece)
        if self._size > STREAM_BYTES:
            raise ReplyTooLarge(f"its stream has more than {STREAM_BYTES // 1024 // 1024} MiB")
        return self._events.feed(piece)

    async def drain(self) -> None:
        """Read what ends the body behind a whole reply, so that another call can have the connection."""
        with suppress(TimeoutError, httpx2.HTTPError):
            async with asyncio.timeout(_LAST_PIECE_S):
                async for _ in self._pieces:
                    pass


def _refusal(call: ProviderCall, response: httpx2.Response, content: bytes) -> UnusableReply:
    """A reply that is no answer, with what it says of itself noted."""
    call.status = response.status_code
    call.retry_after_s = _retry_after_s(response.headers)
    try:
        data = decoded(content)
    except (ReplyTooLarge, ValueError, RecursionError):
        data = None
    error = data.get("error", data) if isinstance(data, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    call.error_text = message if isinstance(message, str) else content.decode(errors="replace")
    if isinstance(error, dict):
        call.out_of_credit = not _NO_CREDIT.isdisjoint(map(str, (error.get("type"), error.get("code"))))
    call.out_of_credit |= _NO_CREDIT_WORDS in call.error_text.lower()
    return UnusableReply(f"HTTP {call.status}")


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


def _reply(reply: ParsedReply, request: ModelRequest, call: ProviderCall) -> ModelReply:
    """The reply as the port gives it. A second answer stays among the tool requests: each must be replied to."""
    wanted = request.answer.name if request.answer else None
    calls = [
        ToolRequest(part["tool_call_id"], part["tool_name"], turn.arguments(part))
        for part in reply.parts
        if part["part_kind"] == "tool-call"
    ]
    answer = next((call for call in calls if call.name == wanted), None)
    return ModelReply(
        text="".join(part["content"] for part in reply.parts if part["part_kind"] == "text"),
        tool_requests=tuple(call for call in calls if call is not answer),
        answer=answer,
        usage=call.usage,
        finish_reason=reply.finish_reason,
        response_id=reply.response_id if isinstance(reply.response_id, str) else None,
        turn=turn.of(call.provider, reply, call.usage),
    )
