"""Spans in OTLP's form: a request of the trace service, as JSON for HTTP and as a message for gRPC.

In JSON ids are hexadecimal, 64-bit integers are texts and enumerations numbers. Never here: a name of a convention, a
connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.core.values.payload import Payload
from holdfast.core.views.span_parts import Span
from holdfast.telemetry.names import OTHER_PAYLOADS, PAYLOADS, Naming, Run

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_NS_PER_MS: Final = 1_000_000
_FAILED: Final = {"code": 2}
_SAMPLED: Final = 1
MAX_PAYLOAD_CHARS: Final = 16_384
"""Of a payload, as collectors take attributes of a few kilobytes."""

_MAX_KNOWN: Final = 4096
_LONGEST_KNOWN: Final = 100
"""Attributes that are kept as JSON, and characters of their values: half a megabyte."""

encode_json = msgspec.json.Encoder().encode


class Exported(NamedTuple):
    """A span of a run, to be sent."""

    span: Span
    run: Run


class Encoder:
    """The form of spans for one receiver."""

    def __init__(
        self, naming: Naming, resource: Mapping[str, str], version: str, payload: Callable[[Payload], str] | None = None
    ) -> None:
        """`resource` describes the sender. `payload` returns a payload as it may be shown; without it none is."""
        self._naming = naming
        self._known: dict[tuple[str, str], msgspec.Raw] = {}
        self._resource = {"attributes": attributes_of(resource)}
        self._scope = {"name": "holdfast", "version": version}
        self._payload = payload

    def json(self, spans: Iterable[Exported]) -> bytes:
        """Return a request with these spans as JSON."""
        return encode_json(self._request([self._span(*each, self._encoded) for each in spans]))

    def message(self, spans: Iterable[Exported]) -> ExportTraceServiceRequest:
        """Return a request with these spans as a message. Raises ImportError without opentelemetry-proto."""
        return message(self.request(spans))

    def request(self, spans: Iterable[Exported]) -> dict[str, Any]:
        """Return the same in the terms of JSON, of which a message is made too."""
        return self._request([self._span(*each, attributes_of) for each in spans])

    def _request(self, spans: list[dict[str, Any]]) -> dict[str, Any]:
        scope: dict[str, Any] = {"scope": self._scope, "spans": spans}
        if self._naming.schema_url:
            scope["schemaUrl"] = self._naming.schema_url
        return {"resourceSpans": [{"resource": self._resource, "scopeSpans": [scope]}]}

    def _encoded(self, values: Mapping[str, Any]) -> list[Any]:
        """Return attributes as JSON already: most texts are the same in many spans."""
        known, found = self._known, []
        for name, value in values.items():
            if type(value) is int:
                found.append(msgspec.Raw(b'{"key":"%b","value":{"intValue":"%d"}}' % (name.encode(), value)))
                continue
            encoded = known.get((name, value)) if type(value) is str else None
            if encoded is None:
                encoded = msgspec.Raw(encode_json({"key": name, "value": _value(value)}))
                if type(value) is str and len(value) <= _LONGEST_KNOWN:
                    if len(known) >= _MAX_KNOWN:
                        known.clear()
                    known[name, value] = encoded
            found.append(encoded)
        return found

    def _span(self, span: Span, run: Run, written: Callable[[Mapping[str, Any]], list[Any]]) -> dict[str, Any]:
        attributes = self._naming.attributes(span, run, with_people=self._payload is not None)
        if self._payload is not None:
            for name, payload in zip(PAYLOADS.get(span.kind, OTHER_PAYLOADS), (span.received, span.returned), strict=True):
                if payload is not None:
                    attributes[name] = self._payload(payload)[:MAX_PAYLOAD_CHARS]
        began_ns = span.began_at_ms * _NS_PER_MS
        found: dict[str, Any] = {
            "traceId": span.trace_id,
            "spanId": span.span_id,
            "parentSpanId": span.parent_id,
            "flags": _SAMPLED,
            "name": self._naming.name(span),
            "kind": self._naming.kind(span),
            "startTimeUnixNano": str(began_ns),
            "endTimeUnixNano": str(began_ns + span.took_ms * _NS_PER_MS),
            "attributes": written(attributes),
        }
        if span.error:
            found["status"] = _FAILED
        if span.links:
            found["links"] = [{"traceId": trace_id, "spanId": id_, "flags": _SAMPLED} for trace_id, id_ in span.links]
        return found


def attributes_of(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return attributes in the terms of JSON."""
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    kind = type(value)
    if kind is str:
        return {"stringValue": value}
    if kind is int:
        return {"intValue": str(value)}
    if kind is bool:
        return {"boolValue": value}
    return {"doubleValue": value} if kind is float else {"stringValue": str(value)}


def message(request: Mapping[str, Any]) -> ExportTraceServiceRequest:
    """Return a request as the message that gRPC sends. Raises ImportError without opentelemetry-proto."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: PLC0415 - only gRPC needs it

    made = ExportTraceServiceRequest()
    for resource in request["resourceSpans"]:
        spans = made.resource_spans.add()
        fill(spans.resource.attributes, resource["resource"]["attributes"])
        for scope in resource["scopeSpans"]:
            found = spans.scope_spans.add(schema_url=scope.get("schemaUrl", ""))
            found.scope.name, found.scope.version = scope["scope"]["name"], scope["scope"]["version"]
            for each in scope["spans"]:
                _add(found.spans, each)
    return made


def _add(spans: Any, span: Mapping[str, Any]) -> None:
    made = spans.add(
        trace_id=bytes.fromhex(span["traceId"]),
        span_id=bytes.fromhex(span["spanId"]),
        parent_span_id=bytes.fromhex(span["parentSpanId"]),
        flags=span["flags"],
        name=span["name"],
        kind=span["kind"],
        start_time_unix_nano=int(span["startTimeUnixNano"]),
        end_time_unix_nano=int(span["endTimeUnixNano"]),
    )
    fill(made.attributes, span["attributes"])
    if (status := span.get("status")) is not None:
        made.status.code = status["code"]
    for link in span.get("links", ()):
        made.links.add(trace_id=bytes.fromhex(link["traceId"]), span_id=bytes.fromhex(link["spanId"]), flags=link["flags"])


def fill(attributes: Any, values: Sequence[Mapping[str, Any]]) -> None:
    """Add attributes in the terms of JSON to those of a message."""
    for each in values:
        ((kind, value),) = each["value"].items()
        into = attributes.add(key=each["key"]).value
        if kind == "stringValue":
            into.string_value = value
        elif kind == "intValue":
            into.int_value = int(value)
        elif kind == "boolValue":
            into.bool_value = value
        else:
            into.double_value = value
