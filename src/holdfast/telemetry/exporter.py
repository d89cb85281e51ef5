"""Connections to a receiver of OTLP: over HTTP with JSON, and over gRPC.

A receiver that is away, busy or not set up yet keeps spans waiting in the store; a span that it will never take is dropped.
Never here: which spans, when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import httpx2
import msgspec

from holdfast.platform.extra import needs
from holdfast.platform.http_exchange import retry_after_s
from holdfast.platform.quiet_requests import quiet_requests
from holdfast.ports import SinkUnavailable
from holdfast.telemetry.otlp import Encoder, Exported, message

if TYPE_CHECKING:
    import grpc.aio

TIMEOUT_S: Final = 10.0
PATH: Final = "/v1/traces"
_REFUSED: Final = frozenset({400, 413, 415, 422})
"""Answers to what no other try would make better."""
_WORDS: Final = 200
"""Characters of an answer that are repeated."""


class Refused(Exception):
    """The receiver will not take these spans, now or later."""


class Exporter(Protocol):
    """A connection to a receiver."""

    async def send(self, spans: Sequence[Exported], headers: Mapping[str, str]) -> int:
        """Send spans, and return how many of them the receiver did not accept. Raises SinkUnavailable, Refused."""
        ...

    async def aclose(self) -> None: ...


class HttpExporter:
    """Sends JSON over HTTP."""

    def __init__(self, endpoint: str, encoder: Encoder) -> None:
        """`endpoint` is the receiver's address, as in `http://127.0.0.1:4318`, or all of it with `/v1/traces`."""
        self._encoder = encoder
        base = endpoint.rstrip("/")
        self._url = base if base.endswith(PATH) else f"{base}{PATH}"
        self._client = httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False)

    async def send(self, spans: Sequence[Exported], headers: Mapping[str, str]) -> int:
        try:
            with quiet_requests():
                reply = await self._client.post(
                    self._url, content=self._encoder.json(spans), headers={**headers, "content-type": "application/json"}
                )
        except httpx2.HTTPError as problem:
            raise SinkUnavailable(f"{self._url} cannot be reached: {str(problem) or type(problem).__name__}") from None
        if reply.status_code in _REFUSED:
            raise Refused(f"{self._url} answers {answer(reply.status_code, reply.text)}")
        if not reply.is_success:
            said = f"{self._url} answers {answer(reply.status_code, reply.text)}"
            raise SinkUnavailable(said, retry_after_s(reply.headers))
        return _rejected(reply.content)

    async def aclose(self) -> None:
        await self._client.aclose()


def answer(code: int | str, text: str) -> str:
    """Return what a receiver answered: its code, and the beginning of its words if it has any."""
    words = text[:_WORDS].strip()
    return f"{code}: {words}" if words else str(code)


def _rejected(body: bytes) -> int:
    """Return the number of spans that an answer says were rejected; a collector may answer in any form, or not at all."""
    try:
        found = msgspec.json.decode(body)
        return int(found["partialSuccess"]["rejectedSpans"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return 0


class GrpcExporter:
    """Sends messages over gRPC."""

    def __init__(self, endpoint: str, encoder: Encoder) -> None:
        """`endpoint` is the receiver's address, as in `http://127.0.0.1:4317`; `https` encrypts. Raises MissingExtra."""
        with needs("telemetry", "Sending traces over gRPC"):
            import grpc.aio  # noqa: PLC0415 - an extra
            from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc  # noqa: PLC0415 - as above

        self._encoder = encoder
        scheme, _, address = endpoint.rpartition("://")
        self._address = address.rstrip("/")
        is_secure = scheme == "https"
        self._channel: grpc.aio.Channel = (
            grpc.aio.secure_channel(self._address, grpc.ssl_channel_credentials())
            if is_secure
            else grpc.aio.insecure_channel(self._address)
        )
        stub: Any = trace_service_pb2_grpc.TraceServiceStub
        self._stub = stub(self._channel)
        self._error = grpc.aio.AioRpcError
        self._refusing = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE}

    async def send(self, spans: Sequence[Exported], headers: Mapping[str, str]) -> int:
        metadata = tuple((name.lower(), value) for name, value in headers.items())
        try:
            accepted = await self._stub.Export(message(self._encoder.request(spans)), timeout=TIMEOUT_S, metadata=metadata)
        except self._error as problem:
            said = f"{self._address} answers {answer(problem.code().name, problem.details() or '')}"
            if problem.code() in self._refusing:
                raise Refused(said) from None
            raise SinkUnavailable(said) from None
        return int(accepted.partial_success.rejected_spans)

    async def aclose(self) -> None:
        await self._channel.close(grace=None)
