"""Telemetry in holdfast.toml: traces and metrics, log lines, the ClickHouse server for events.

Never here: a span, a metric, a line.
"""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, field_validator

from holdfast.settings.secrets import NameOfSecret
from holdfast.settings.table import TABLE


class TelemetryRules(BaseModel):
    """`[telemetry]` in holdfast.toml: receiver of the spans of runs (OTLP), and what they contain."""

    model_config = TABLE

    endpoint: str
    """Address of the receiver: `http://HOST:4318` over HTTP, `http://HOST:4317` over gRPC; `https` encrypts."""
    protocol: Literal["http", "grpc"] = "http"
    """Protocol: JSON over HTTP, or gRPC (extra `telemetry`)."""
    headers: dict[str, NameOfSecret] = {}
    """Headers of each request, by the name of the secret that holds the value: `authorization = "OTLP_TOKEN"`."""
    sampling: float = Field(default=1.0, ge=0, le=1, allow_inf_nan=False)
    """Part of the traces that is sent, chosen by their ids. A caller that does not record its trace is followed in that."""
    conventions: Literal["1.41.0", "genai-0.1"] = "1.41.0"
    """Release of OpenTelemetry's conventions for generative AI whose names are used."""
    payloads: bool = False
    """True to send prompts, replies, arguments and results, and names of people, without other personal data."""
    service_name: str = Field(default="holdfast", min_length=1)
    """Name of the sender: `service.name`."""
    metrics_every_s: float | None = Field(default=None, ge=1, le=3_600, allow_inf_nan=False)
    """Seconds between two pushes of metrics. By default none are pushed."""
    metrics_endpoint: str | None = None
    """Address of the receiver of metrics; by default `endpoint`."""
    metrics_protocol: Literal["http", "grpc"] | None = None
    """Protocol of metrics; by default `protocol`."""

    @field_validator("endpoint", "metrics_endpoint")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or parts.query:
            raise ValueError("endpoint is http://HOST:PORT or https://HOST:PORT, without a user; a token is a header")
        return value


class LogRules(BaseModel):
    """`[logs]` in holdfast.toml: the lines that commands write on standard error. Without it warnings and errors are written,
    unless your code sets up logging itself."""

    model_config = TABLE

    format: Literal["console", "json"] = "console"
    """Form of a line: for people, or one JSON object for programs."""
    level: Literal["debug", "info", "warning", "error"] = "warning"
    """Lowest level of the lines, of Holdfast and of your code."""


class ClickHouseRules(BaseModel):
    """`[clickhouse]` in holdfast.toml: a ClickHouse server that gets every event of every run, for analytics. See
    [Analytics](../howto/analytics.md)."""

    model_config = TABLE

    url: str
    """Address of its HTTP interface: `https://HOST:8443` or `http://HOST:8123`."""
    database: str = Field(default="holdfast", pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    """Database, which is created if it is missing."""
    user: str = Field(default="default", min_length=1, max_length=200)
    """Account that writes. It needs the rights to create tables and views in the database."""
    secret: NameOfSecret | None = None
    """Name of the secret with the account's password; by default it has none."""
    batch: int = Field(default=2_000, ge=1, le=50_000)
    """Maximum number of events of one insert."""
    payloads: bool = False
    """True to write events as JSON too, without secrets, e-mail addresses and long numbers. By default rows have names, times
    and amounts only."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        parts = urlsplit(value)
        extra = parts.username or parts.password or parts.path.strip("/") or parts.query or parts.fragment
        if parts.scheme not in ("http", "https") or not parts.hostname or extra:
            raise ValueError("it is https://HOST:PORT or http://HOST:PORT; user and secret have lines of their own")
        return value
