"""The sink of traces and the push of metrics that the settings ask for. Never here: what they send."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import holdfast
from holdfast.engine.runs.runtime import Runtime
from holdfast.errors import ModelRefused
from holdfast.models.family import provider_of
from holdfast.platform.machine import MachineClock
from holdfast.ports.metric import Sample
from holdfast.settings import Secrets, Settings, TelemetryRules
from holdfast.telemetry.exporter import METRICS, TRACES, exporter
from holdfast.telemetry.metrics import MetricsPush, message
from holdfast.telemetry.names import Naming
from holdfast.telemetry.otlp import Encoder, encode_json
from holdfast.telemetry.payload import PayloadReader
from holdfast.telemetry.sink import TraceSink

if TYPE_CHECKING:
    from holdfast.compose.metrics import ProcessMetrics


def naming_of(settings: Settings, rules: TelemetryRules) -> Naming:
    """Return the names of spans that the settings choose."""
    declared = {name: model.provider for name, model in settings.models.items() if model.provider is not None}

    def provider(model: str) -> str:
        try:
            return provider_of(model, declared)[0]
        except ModelRefused:
            return ""

    return Naming(rules.conventions, provider)


def trace_sink(settings: Settings, rules: TelemetryRules, runtime: Runtime, secrets: Secrets) -> TraceSink:
    """Return the sink. Raises MissingExtra."""
    resource = {"service.name": rules.service_name}
    encoder = Encoder(naming_of(settings, rules), resource, holdfast.__version__, PayloadReader() if rules.payloads else None)
    connection = exporter(rules.protocol, rules.endpoint, TRACES, encoder.json, encoder.message)
    return TraceSink(runtime.store.log, connection, rules.sampling, headers_of(rules, secrets))


def metrics_push(
    settings: Settings,
    rules: TelemetryRules,
    secrets: Secrets,
    every_s: float,
    metrics: ProcessMetrics,
    instance: str,
    now_ms: Callable[[], int],
) -> MetricsPush:
    """Return what pushes the metrics of the process `instance`. `now_ms` is the time of the store. Raises MissingExtra."""
    naming = naming_of(settings, rules)

    async def samples() -> list[Sample]:
        return [*await metrics.samples(), *naming.metrics(metrics.meter.usage())]

    protocol, endpoint = rules.metrics_protocol or rules.protocol, rules.metrics_endpoint or rules.endpoint
    return MetricsPush(
        exporter(protocol, endpoint, METRICS, encode_json, message),
        every_s,
        samples,
        {"service.name": rules.service_name, "service.version": holdfast.__version__, "service.instance.id": instance},
        holdfast.__version__,
        naming.schema_url,
        MachineClock(),
        now_ms,
        headers_of(rules, secrets),
    )


def headers_of(rules: TelemetryRules, secrets: Secrets) -> Callable[[], dict[str, str]]:
    """Return a function for the headers of each request; it raises MissingSecret where one has no value."""
    return lambda: {name: secrets.get(secret) for name, secret in rules.headers.items()}
