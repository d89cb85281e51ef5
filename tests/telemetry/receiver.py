"""A receiver of OTLP as others write one: opentelemetry-proto's services, on grpcio and on Python's own HTTP server.

It decodes what arrives by the official messages, and says no as often as a test asks. Never here: anything of Holdfast's.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc.aio
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services


class Received:
    """What has arrived."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: list[Any] = []
        """Requests with metrics, over gRPC."""
        self.resources: list[dict[str, Any]] = []
        self.schemas: set[str] = set()
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.answers: list[int] = []
        """What the next requests are answered, over HTTP; 200 after these."""
        self.refuses: set[str] = set()
        """Names of spans for which a request is answered 400."""
        self.goes_on = threading.Event()
        self.goes_on.set()
        """While it is not set, a request gets no answer."""

    def take(self, request: Any) -> None:
        for resource in request.resource_spans:
            self.resources.append(values(resource.resource.attributes))
            for scope in resource.scope_spans:
                self.schemas.add(scope.schema_url)
                self.spans += scope.spans

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    def only(self, name: str) -> Any:
        found = {span.span_id: span for span in self.named(name)}
        assert len(found) == 1, f"{name}: {[span.name for span in self.spans]}"
        return next(iter(found.values()))

    @property
    def names(self) -> Counter[str]:
        return Counter({span.span_id: span.name for span in self.spans}.values())

    async def until(self, name: str, count: int = 1) -> None:
        """Wait until as many different spans of a name have arrived."""
        async with asyncio.timeout(30):
            while self.names[name] < count:
                await asyncio.sleep(0.02)


def values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


class _Service(services.TraceServiceServicer):  # type: ignore[misc]  # generated without types
    def __init__(self, received: Received) -> None:
        self._received = received

    async def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - as the service names it
        self._received.headers.append({key: str(value) for key, value in context.invocation_metadata()})
        if self._received.answers and self._received.answers.pop(0) != 200:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        self._received.take(request)
        return messages.ExportTraceServiceResponse()


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):  # type: ignore[misc]  # generated without types
    def __init__(self, received: Received) -> None:
        self._received = received

    async def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - as the service names it
        self._received.headers.append({key: str(value) for key, value in context.invocation_metadata()})
        if self._received.answers and self._received.answers.pop(0) != 200:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        self._received.metrics.append(request)
        return metrics_service_pb2.ExportMetricsServiceResponse()


@asynccontextmanager
async def grpc_receiver() -> AsyncIterator[tuple[str, Received]]:
    received, server = Received(), grpc.aio.server()
    services.add_TraceServiceServicer_to_server(_Service(received), server)
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(_Metrics(received), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"http://127.0.0.1:{port}", received
    finally:
        await server.stop(None)


@contextmanager
def http_receiver() -> Iterator[tuple[str, Received]]:
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.headers.append({name.lower(): value for name, value in self.headers.items()})
            body = self.rfile.read(int(self.headers["content-length"]))
            received.goes_on.wait(60)
            status = received.answers.pop(0) if received.answers else 200
            if status == 200 and any(name.encode() in body for name in received.refuses):
                status = 400
            if status == 200:
                assert self.path == "/v1/traces"
                received.bodies.append(body)
                received.take(Parse(in_base64(body), messages.ExportTraceServiceRequest()))
            said = b"{}" if status == 200 else b"no"
            self.send_response(status)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def in_base64(body: bytes) -> str:
    """OTLP's JSON has ids in hexadecimal, where JSON of messages has bytes in base64: written anew for the official parser."""
    from base64 import b64encode

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: b64encode(bytes.fromhex(inner)).decode() if key in ("traceId", "spanId", "parentSpanId") else walk(inner)
                for key, inner in value.items()
            }
        return [walk(each) for each in value] if isinstance(value, list) else value

    return json.dumps(walk(json.loads(body)))
