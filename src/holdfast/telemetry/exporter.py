"""Connections to a receiver of OTLP, for traces and for metrics: over HTTP with JSON, and over gRPC.

A receiver that is away, busy or not set up yet keeps its sender waiting; what it will never take is refused for good. Never
here: what is sent, and when.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

import httpx2
import msgspec

from holdfast.platform.extra import needs
from holdfast.platform.http_exchange import retry_after_s
from holdfast.platform.quiet_requests import quiet_requests
from holdfast.ports import SinkUnavailable

if TYPE_CHECKING:
    import grpc.aio

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

TIMEOUT_S: Final = 10.0
_REFUSED: Final = frozenset({400, 413, 415, 422})
"""Answers to what no other try would make better."""
_WORDS: Final = 200
"""Characters of an answer that are repeated."""


class Signal(NamedTuple):
    """One kind of telemetry at a receiver."""

    path: str
    """Its path over HTTP."""
    service: str
    """Its service over gRPC: `opentelemetry.proto.collector.SERVICE.v1`."""
    rejected: tuple[str, str]
    """Number of items that an answer says were not accepted: its field in JSON, and in a message."""


TRACES: Final = Signal("/v1/traces", "trace", ("rejectedSpans", "rejected_spans"))
METRICS: Final = Signal("/v1/metrics", "metrics", ("rejectedDataPoints", "rejected_data_points"))


class Refused(Exception):
    """The receiver will not take this, now or later."""


class Exporter(Protocol[T_contra]):
    """A connection to a receiver."""

    async def send(self, items: T_contra, headers: Mapping[str, str]) -> int:
        """Send items, and return how many of them the receiver did not accept. Raises SinkUnavailable, Refused."""
        ...

    async def aclose(self) -> None: ...


def exporter(
    protocol: Literal["http", "grpc"],
    endpoint: str,
    signal: Signal,
    as_json: Callable[[T], bytes],
    as_message: Callable[[T], Any],
) -> Exporter[T]:
    """Return a connection that sends items in one of two forms. Raises MissingExtra."""
    if protocol == "grpc":
        return GrpcExporter(endpoint, signal, as_message)
    return HttpExporter(endpoint, signal, as_json)


class HttpExporter(Generic[T]):
    """Sends JSON over HTTP."""

    def __init__(self, endpoint: str, signal: Signal, encode: Callable[[T], bytes]) -> None:
        """`endpoint` is the receiver's address, as in `http://127.0.0.1:4318`, or all of it with the signal's path."""
        self._signal = signal
        self._encode = encode
        base = endpoint.rstrip("/")
        self._url = base if base.endswith(signal.path) else f"{base}{signal.path}"
        self._client = httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False)

    async def send(self, items: T, headers: Mapping[str, str]) -> int:
        try:
            with quiet_requests():
                reply = await self._client.post(
                    self._url, content=self._encode(items), headers={**headers, "content-type": "application/json"}
                )
        except httpx2.HTTPError as problem:
            raise SinkUnavailable(f"{self._url} cannot be reached: {str(problem) or type(problem).__name__}") from None
        if reply.status_code in _REFUSED:
            raise Refused(f"{self._url} answers {answer(reply.status_code, reply.text)}")
        if not reply.is_success:
            said = f"{self._url} answers {answer(reply.status_code, reply.text)}"
            raise SinkUnavailable(said, retry_after_s(reply.headers))
        return _rejected(reply.content, self._signal.rejected[0])

    async def aclose(self) -> None:
        await self._client.aclose()


def answer(code: int | str, text: str) -> str:
    """Return what a receiver answered: its code, and the beginning of its words if it has any."""
    words = text[:_WORDS].strip()
    return f"{code}: {words}" if words else str(code)


def _rejected(body: bytes, field: str) -> int:
    """Return the number of items that an answer says were rejected; a collector may answer in any form, or not at all."""
    try:
        found = msgspec.json.decode(body)
        return int(found["partialSuccess"][field])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return 0


class GrpcExporter(Generic[T]):
    """Sends messages over gRPC."""

    def __init__(self, endpoint: str, signal: Signal, encode: Callable[[T], Any]) -> None:
        """`endpoint` is the receiver's address, as in `http://127.0.0.1:4317`; `https` encrypts. Raises MissingExtra."""
        with needs("telemetry", "Sending telemetry over gRPC"):
            import grpc.aio  # noqa: PLC0415 - an extra

            services = importlib.import_module(
                f"opentelemetry.proto.collector.{signal.service}.v1.{signal.service}_service_pb2_grpc"
            )
        self._signal = signal
        self._encode = encode
        scheme, _, address = endpoint.rpartition("://")
        self._address = address.rstrip("/")
        is_secure = scheme == "https"
        self._channel: grpc.aio.Channel = (
            grpc.aio.secure_channel(self._address, grpc.ssl_channel_credentials())
            if is_secure
            else grpc.aio.insecure_channel(self._address)
        )
        self._stub = getattr(services, f"{signal.service.capitalize()}ServiceStub")(self._channel)
        self._error = grpc.aio.AioRpcError
        self._refusing = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE}

    async def send(self, items: T, headers: Mapping[str, str]) -> int:
        metadata = tuple((name.lower(), value) for name, value in headers.items())
        try:
            accepted = await self._stub.Export(self._encode(items), timeout=TIMEOUT_S, metadata=metadata)
        except self._error as problem:
            said = f"{self._address} answers {answer(problem.code().name, problem.details() or '')}"
            if problem.code() in self._refusing:
                raise Refused(said) from None
            raise SinkUnavailable(said) from None
        return int(getattr(accepted.partial_success, self._signal.rejected[1]))

    async def aclose(self) -> None:
        await self._channel.close(grace=None)
