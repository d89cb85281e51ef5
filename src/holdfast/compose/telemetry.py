"""The sink of traces that the settings ask for. Never here: what it sends."""

from __future__ import annotations

import holdfast
from holdfast.engine.runs.runtime import Runtime
from holdfast.errors import ModelRefused
from holdfast.models.family import provider_of
from holdfast.settings import Secrets, Settings, TelemetryRules
from holdfast.telemetry.exporter import Exporter, GrpcExporter, HttpExporter
from holdfast.telemetry.names import Naming
from holdfast.telemetry.otlp import Encoder
from holdfast.telemetry.payload import PayloadReader
from holdfast.telemetry.sink import TraceSink


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
    kind = GrpcExporter if rules.protocol == "grpc" else HttpExporter
    exporter: Exporter = kind(rules.endpoint, encoder)

    def headers() -> dict[str, str]:
        return {name: secrets.get(secret) for name, secret in rules.headers.items()}

    return TraceSink(runtime.store.log, exporter, rules.sampling, headers)
