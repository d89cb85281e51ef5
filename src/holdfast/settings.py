"""Settings: the environment and `holdfast.toml`, read once into one frozen value; and secrets, by name.

Never here: a default that only one adapter knows, a secret's value in a repr, a message or a file of ours.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from holdfast.errors import MissingSecret, UsageError
from holdfast.platform import privacy
from holdfast.platform.address import is_number, may_be_called, networks
from holdfast.platform.masking import SHORTEST, Mask, Masking, MaskingOfTexts, passwords, share

LEASE_S: Final = 10.0
_NUL_SHOWN: Final = "\u2400"
"""The sign for NUL, in its place: no text of PostgreSQL holds the character itself."""
AUDIT_KEY: Final = "HOLDFAST_AUDIT_KEY"
"""Secret with which the audit log is signed; several with commas between, the newest first."""
_SHORTEST_AUDIT_KEY: Final = 32
"""Bytes: as many as SHA-256 gives, below which a key of HMAC is discouraged (RFC 2104, section 3)."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROVIDER_KEYS: Final = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN")


class SecretName(str):
    """The name of a secret, in the type of each setting that takes one (`NameOfSecret`)."""

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        """Raises ValueError for what can be no name, without repeating it: it may be the value."""
        if not _VARIABLE.fullmatch(value):
            raise ValueError(
                "it takes the name of a secret, of letters, digits and _, like API_TOKEN. Set the value in the environment"
                " variable of that name, or in HOLDFAST_SECRETS_FILE"
            )
        return super().__new__(cls, value)


NameOfSecret = Annotated[str, AfterValidator(SecretName)]


class DeclaredModel(BaseModel):
    """`[models."NAME"]` in holdfast.toml: a model without a price in the catalogue, or with another price here."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    input_usd_per_mtok: Decimal = Field(ge=0)
    """Dollars for a million tokens of input."""
    output_usd_per_mtok: Decimal = Field(ge=0)
    """Dollars for a million tokens of output."""
    cache_read_usd_per_mtok: Decimal | None = Field(default=None, ge=0)
    """Dollars for a million tokens read from the provider's cache; by default the price of other input."""
    cache_write_usd_per_mtok: Decimal | None = Field(default=None, ge=0)
    """Dollars for a million tokens written to it; by default 1.25 times the price of other input."""
    context_tokens: int | None = Field(default=None, gt=0)
    """Size of the model's context: the input of a request is at most this."""
    provider: str | None = None
    """Provider: `anthropic` or `openai`; by default from the model's name."""


class PoolRules(BaseModel):
    """`[pools."NAME"]` in holdfast.toml: a pool of that name, as `holdfast pools set` declares it; or a provider's limits for
    the model, for all its models, or for the key of that name."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    slots: int | None = None
    """Maximum in use at a time."""
    rate: int | None = None
    """Maximum in each period."""
    per: Literal["second", "minute", "hour", "day"] | None = None
    """Length of the period."""
    burst: int | None = None
    """Maximum of a rate at once after a pause; by default a tenth of it."""
    counts: Literal["requests", "tokens", "input_tokens", "output_tokens"] | None = None
    """Unit that the provider counts."""
    of: str | None = None
    """Model, provider or key that the pool limits."""
    requests_per_min: int | None = Field(default=None, gt=0)
    """Calls in a minute: the pool `NAME/requests`."""
    tokens_per_min: int | None = Field(default=None, gt=0)
    """Tokens of input and output together in a minute: `NAME/tokens`."""
    input_tokens_per_min: int | None = Field(default=None, gt=0)
    """Tokens of input in a minute: `NAME/input_tokens`."""
    output_tokens_per_min: int | None = Field(default=None, gt=0)
    """Tokens of output in a minute: `NAME/output_tokens`."""
    concurrent: int | None = Field(default=None, gt=0)
    """Calls in flight at once: `NAME/concurrent`."""
    burst_s: float = Field(default=6.0, gt=0, le=60, allow_inf_nan=False)
    """Burst after a pause, as seconds of the limit."""

    @property
    def limits(self) -> dict[str, int]:
        """The provider's limits for a minute, by what they count."""
        found = {
            "requests": self.requests_per_min,
            "tokens": self.tokens_per_min,
            "input_tokens": self.input_tokens_per_min,
            "output_tokens": self.output_tokens_per_min,
        }
        return {counts: limit for counts, limit in found.items() if limit is not None}

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        is_pool = self.slots is not None or self.rate is not None
        if is_pool == bool(self.limits or self.concurrent is not None):
            raise ValueError(
                "it takes slots or a rate; or what a provider allows, at least one of requests_per_min, tokens_per_min,"
                " input_tokens_per_min, output_tokens_per_min and concurrent"
            )
        return self


VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
VariableValue = Annotated[str, StringConstraints(max_length=48 * 1024)]


class RetentionRules(BaseModel):
    """`[retention]` in holdfast.toml: `hot_days = 30`, `conversations_days = 90`."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    conversations_days: int | None = Field(default=None, ge=1, le=36_500)
    """Days without a message after which a conversation is deleted. None: never."""

    hot_days: int | None = Field(default=None, ge=1, le=36_500)
    """Days that a month stays in the tables after its end. Then `holdfast serve` archives it (on PostgreSQL the leader, on
    SQLite with `--grpc`), as soon as no run holds it back."""


class LaneRules(BaseModel):
    """`[lanes.NAME]` in holdfast.toml: the runs of a lane, by the names of workflows, of tenants and of services that
    start them (`--as`, `Engine.start(by=...)`); and how their steps are placed."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    workflows: tuple[str, ...] = ()
    """Workflows whose runs belong to the lane."""
    tenants: tuple[str, ...] = ()
    """Tenants whose runs belong to the lane."""
    services: tuple[str, ...] = ()
    """Services whose runs belong to the lane."""
    placement: Literal["least_loaded", "best_fit"] | None = None
    """Placement in the lane; by default that of all lanes."""


class BudgetRules(BaseModel):
    """`[budget]` in holdfast.toml: the handling of money in doubt that is not reconciled. If it is not set, the money stays in
    doubt."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    doubt_after_h: float = Field(gt=0, le=8_784, allow_inf_nan=False)
    """Hours in doubt before the rule applies."""
    settle: Literal["unspent", "hold"]
    """Cost of the call by the rule: nothing, or the whole reservation."""
    set_by: str = Field(min_length=1, max_length=200)
    """Name recorded with each settlement."""


class HoldBackRules(BaseModel):
    """`[hold_back.WORKFLOW]` in holdfast.toml: results that a new version of the workflow needs before its runs begin without
    asking. Set it for every process that starts runs."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    suite: str = Field(min_length=1)
    """Suite of scenarios, by its file as `holdfast eval FILE --keep` names it."""
    min_scenarios: int = Field(default=1, ge=1)
    """Scenarios that a result must have."""
    max_drop: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False)
    """Share of passed scenarios by which it may be below the version before: 0.02 is two of a hundred."""
    reviewers: tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...] = Field(default=(), max_length=50)
    """Persons or roles (`role:lead`) who may release a version; by default any reviewer."""


class ClickHouseRules(BaseModel):
    """`[clickhouse]` in holdfast.toml: a ClickHouse server that gets every event of every run, for analytics. See
    [Analytics](../howto/analytics.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

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


class FetchRules(BaseModel):
    """`[fetch]` in holdfast.toml: hosts from which content parts with an address are read. By default every public host, over
    https."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    hosts: tuple[str, ...] | None = None
    """Only these hosts."""
    allow_private: bool | tuple[str, ...] = False
    """Private networks to allow besides public addresses, as for an HTTP tool; http is allowed for them."""

    @field_validator("allow_private")
    @classmethod
    def _are_networks(cls, value: bool | tuple[str, ...]) -> bool | tuple[str, ...]:
        if not isinstance(value, bool):
            for each in value:
                ip_network(each)  # ValueError says which is none
        return value


class ChannelRules(BaseModel):
    """`[channels.NAME]` in holdfast.toml: a channel for notifications. Secrets are named, and stand in the environment or the
    secrets file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    kind: Literal["webhook", "mail", "slack"]
    """Kind of the channel: signed webhooks (Standard Webhooks), mail over SMTP, or an incoming webhook of Slack."""
    url: str | None = None
    """Address of the webhook. A webhook with `hosts` needs none."""
    secrets: tuple[NameOfSecret, ...] = ()
    """Names of the secrets that sign a webhook, the newest first: several while they are rotated."""
    url_secret: NameOfSecret | None = None
    """Name of the secret that holds the address of Slack's webhook."""
    host: str | None = None
    """SMTP server."""
    port: int | None = Field(default=None, ge=1, le=65_535)
    """Port of the SMTP server; by default 587, or 465 with `tls`."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """Encryption of the connection to the SMTP server."""
    sender: str | None = None
    """Address from which mail is sent."""
    username: str | None = None
    """User at the SMTP server."""
    password_secret: NameOfSecret | None = None
    """Name of the secret with the password of that user."""
    to: tuple[str, ...] = ()
    """Mail addresses for notifications that name no recipient."""
    tenants: tuple[str, ...] = ()
    """Tenants whose own rules and starts may use the channel: names, or patterns like `*`. Rules of this file always may."""
    hosts: tuple[str, ...] = ()
    """Hosts that others may name, like `*.example.com`: of a webhook, for addresses that starts name as
    `on_end="https://HOST/…"`; of mail, for addresses in tenants' own rules."""
    allow_private: bool | tuple[str, ...] = False
    """Private networks to allow besides public addresses, as for an HTTP tool."""
    ca_file: Path | None = None
    """File with further certificate authorities."""

    @field_validator("allow_private")
    @classmethod
    def _are_networks(cls, value: bool | tuple[str, ...]) -> bool | tuple[str, ...]:
        if not isinstance(value, bool):
            for each in value:
                ip_network(each)  # ValueError says which is none
        return value

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        needs = {
            "webhook": (bool(self.url or self.hosts) and bool(self.secrets), "url (or hosts) and secrets"),
            "mail": (bool(self.host and self.sender), "host and sender"),
            "slack": (bool(self.url_secret), "url_secret"),
        }
        has_all, wanted = needs[self.kind]
        if not has_all:
            raise ValueError(f"a channel of kind {self.kind} needs {wanted}")
        if self.hosts and self.kind == "slack":
            raise ValueError("hosts belong to a webhook or to mail")
        target = self.host if self.kind == "mail" else _host_of(self.url)
        if target is not None and not _may_be_reached(target, self.allow_private):
            raise ValueError(
                f"{target} is in a private network, to which nothing is sent; name its network in allow_private, like"
                ' ["10.0.0.0/8"]'
            )
        return self


def _host_of(url: str | None) -> str | None:
    try:
        return None if url is None else urlsplit(url).hostname
    except ValueError:  # the channel says what is wrong with it
        return None


def _may_be_reached(host: str, allow_private: bool | tuple[str, ...]) -> bool:
    """Return False for an address or `localhost` that no message may go to. Other names are looked up when one is sent."""
    if host == "localhost":
        return bool(allow_private)
    return not is_number(host) or may_be_called(ip_address(host.strip("[]")), networks(allow_private))


class NotificationRules(BaseModel):
    """`[notifications.NAME]` in holdfast.toml: a rule that says who is notified of what. Tenants may set rules of their
    own besides."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    occasions: tuple[str, ...]
    """Occasions to notify of: gate_opened, gate_reminder, gate_escalated, gate_expired, run_completed, run_failed,
    run_cancelled, run_budget_blocked, budget, dead_letter, doubt, worker_lost, schedule_missed."""
    channel: str
    """Channel, by its name in `[channels.NAME]`."""
    to: tuple[str, ...] = ()
    """Recipients: mail addresses, names in `[people.NAME]`, or `@asked` for the reviewers of a gate. By default those of the
    channel."""
    tenant: str = "*"
    """Tenant whose runs it is about; `*` for all."""
    workflows: tuple[str, ...] = ()
    """Only these workflows: names, or patterns like `order*`."""
    labels: dict[str, str] = {}
    """Only runs with all of these labels."""
    teams: tuple[str, ...] = ()
    """Only runs of these teams."""
    children: bool = False
    """True to be notified of the ends of child runs too."""
    digest_s: float = 10.0
    """Seconds for which notifications are gathered to become one message; 0 for a message each."""
    title: str | None = None
    """Template of the title, like `{workflow}: {occasion}`."""
    details: bool = False
    """True to include titles of gates and texts of errors, without secrets."""


class PersonRules(BaseModel):
    """`[people.NAME]` in holdfast.toml: the addresses of a reviewer, or of a role, for `@asked` and `to`."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    mail: str | None = None
    """Mail address."""


_ASYMMETRIC: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_SYMMETRIC: Final = ("HS256", "HS384", "HS512")


class SignedTokenRules(BaseModel):
    """`[identity]` in holdfast.toml: signed tokens (JWT) of people: their issuer, and the meaning of their claims."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    issuer: str = Field(min_length=1)
    """Issuer of the tokens: the claim `iss`."""
    audience: str = Field(min_length=1)
    """Audience of the tokens: the claim `aud` names it."""
    jwks_url: str | None = None
    """Address of the issuer's keys (RFC 7517)."""
    key_file: Path | None = None
    """File with the one key instead: PEM, or for an HS algorithm the secret, readable only by its owner."""
    algorithms: tuple[str, ...] = ("RS256",)
    """Accepted algorithms, whatever a token names."""
    leeway_s: float = Field(default=30.0, ge=0, le=300)
    """Maximum difference of the issuer's clock, in seconds."""
    tenant_claim: str = "tenant"
    """Claim that names the tenant."""
    tenantless: bool = False
    """True to let a token without that claim act for all tenants; otherwise it is refused."""
    roles_claim: str = "roles"
    """Claim that lists the roles in which the person decides."""
    teams_claim: str = "teams"
    """Claim that lists the person's teams."""
    grants_claim: str = "holdfast"
    """Claim that lists the grants: viewer, operator, reviewer, author, admin."""
    grants: tuple[str, ...] = ("viewer",)
    """Grants of tokens without that claim."""

    @model_validator(mode="after")
    def _has_one_kind_of_key(self) -> SignedTokenRules:
        if (self.jwks_url is None) == (self.key_file is None):
            raise ValueError("say either jwks_url or key_file")
        if self.jwks_url is not None and not is_private(self.jwks_url):
            raise ValueError("jwks_url must be https: anyone who could change its response could sign tokens")
        known = _ASYMMETRIC if self.jwks_url is not None else (*_ASYMMETRIC, *_SYMMETRIC)
        if not self.algorithms or (wrong := next((each for each in self.algorithms if each not in known), None)):
            raise ValueError(
                f"algorithms are of {', '.join(known)}; {wrong!r} is none here" if self.algorithms else "say algorithms"
            )
        if self.key_file is not None and len({each[:2] for each in self.algorithms}) > 1:
            raise ValueError("the algorithms of one key are of one kind")
        return self


class TelemetryRules(BaseModel):
    """`[telemetry]` in holdfast.toml: receiver of the spans of runs (OTLP), and what they contain."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

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
    """Seconds between two pushes of metrics, as JSON over HTTP. By default none are pushed."""
    metrics_endpoint: str | None = None
    """Address of the receiver of metrics; by default `endpoint`."""

    @model_validator(mode="after")
    def _pushes_over_http(self) -> Self:
        if self.metrics_every_s is not None and self.metrics_endpoint is None and self.protocol == "grpc":
            raise ValueError("metrics are pushed over HTTP: say metrics_endpoint, as in http://HOST:4318")
        return self

    @field_validator("endpoint", "metrics_endpoint")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or parts.query:
            raise ValueError("endpoint is http://HOST:PORT or https://HOST:PORT, without a user; a token is a header")
        return value


class SignInRules(BaseModel):
    """`[sign_in]` in holdfast.toml: identity provider (OpenID Connect) at which people sign in with a browser, and what its
    claims allow them. It needs `public_url`."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    issuer: str
    """Address of the provider: the claim `iss`."""
    client_id: str = Field(min_length=1)
    """Id of this server as a client of the provider. Register the redirect address
    `PUBLIC_URL/api/v1/sign-in/oidc/callback`."""
    secret: NameOfSecret = "HOLDFAST_SIGN_IN_SECRET"
    """Name of the secret with the client's secret. Without such a secret it is a public client."""
    title: str = Field(default="Single sign-on", min_length=1, max_length=60)
    """Name of the provider on the page for signing in."""
    scopes: tuple[str, ...] = ("openid", "profile")
    """Scopes to ask for."""
    algorithms: tuple[str, ...] = ("RS256",)
    """Accepted algorithms, whatever a token names."""
    leeway_s: float = Field(default=30.0, ge=0, le=300)
    """Maximum difference of the provider's clock, in seconds."""
    name_claim: str = "sub"
    """Claim that names the person. An `email` must be verified."""
    tenant: str | None = Field(default=None, min_length=1)
    """Tenant of all people. By default the tenant claim names it."""
    tenant_claim: str = "tenant"
    """Claim that names the tenant."""
    tenantless: bool = False
    """True to let a person without that claim act for all tenants; otherwise they have no access."""
    roles_claim: str = "roles"
    """Claim that lists the person's roles."""
    teams_claim: str = "teams"
    """Claim that lists the person's teams."""
    grants: dict[str, tuple[str, ...]] = {}
    """Grants of each role; of the role `*`, everyone's. A person without a grant has no access."""

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if not is_private(self.issuer):
            raise ValueError("issuer must be https: anyone who could change its response could sign in")
        if not self.algorithms or not {*self.algorithms} <= {*_ASYMMETRIC}:
            raise ValueError(f"algorithms are of {', '.join(_ASYMMETRIC)}")
        if "openid" not in self.scopes:
            raise ValueError("scopes need openid")
        return self


def is_private(url: str) -> bool:
    """Return True for an address whose answer cannot be changed on the way: of https, or of this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    is_local = parts.hostname in ("127.0.0.1", "::1", "localhost") and parts.username is None
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and is_local))


class PortBounds(BaseModel):
    """`[bounds]` in holdfast.toml: the load that the ports of a process take at a time, for all callers together. One address
    or tenant may use at most half of the free capacity, one token half of its tenant's. So new callers find room, and a
    single caller gets a half or a quarter of each figure here."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    connections: int = Field(default=4_000, ge=4)
    """Open connections to an HTTP port, and calls to a gRPC port; never more than half of the files that the process may open.
    Connections of proxies (`--behind-proxy`) are counted together only."""
    requests: int = Field(default=400, ge=4)
    """Requests and gRPC calls that are answered at a time."""
    waiting: int = Field(default=4_000, ge=4)
    """Requests and calls that wait for their turn."""
    wait_s: float = Field(default=5.0, gt=0, le=60, allow_inf_nan=False)
    """Longest wait for a turn, in seconds."""
    reading: int = Field(default=64, ge=4)
    """Bodies and messages, up to 4 MiB each, that are read at a time, or are over 64 KiB and being answered."""
    streams: int = Field(default=4_000, ge=4)
    """Open streams."""
    requests_per_s: int = Field(default=1_000, ge=1)
    """Requests of one token in a second; a tenant has twice as many."""
    burst: int = Field(default=2_000, ge=1)
    """Requests of one token at once after a pause; a tenant has twice as many."""
    head_s: float = Field(default=10.0, gt=0, le=300, allow_inf_nan=False)
    """Seconds for the head of a request, and for a worker's first message."""
    body_s: float = Field(default=30.0, gt=0, le=300, allow_inf_nan=False)
    """Seconds for a body or message, and for a client to read what it was sent."""


class ScriptLimits(BaseModel):
    """`[limits]` in holdfast.toml: limits of each process of a script in a workflow file, unless the file sets its own.

    They stop runaway scripts and no working ones: runtimes reserve much more memory than they use.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    memory_mb: int = Field(default=256_000, ge=16)
    """Megabytes of address space."""
    cpu_s: int = Field(default=86_400, ge=1)
    """Seconds of processor time."""
    file_mb: int = Field(default=64_000, ge=1)
    """Megabytes of one file that it writes."""
    processes: int = Field(default=16_384, ge=1)
    """Processes and threads of the worker's account, all together; Linux does not apply it to root."""


class LogRules(BaseModel):
    """`[logs]` in holdfast.toml: the lines that commands write on standard error. Without it warnings and errors are written,
    unless your code sets up logging itself."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    format: Literal["console", "json"] = "console"
    """Form of a line: for people, or one JSON object for programs."""
    level: Literal["debug", "info", "warning", "error"] = "warning"
    """Lowest level of the lines, of Holdfast and of your code."""


_ACTIONS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "start": (frozenset({"workflow"}), frozenset({"version", "input"})),
    "signal": (frozenset({"signal"}), frozenset({"workflow", "run", "key", "data"})),
    "decide": (frozenset({"people"}), frozenset({"allow_private"})),
}
"""The fields that each action of a hook needs, and those that it may have besides."""
_OF_HOOKS: Final = frozenset({"scheme", "secrets", "header", "tenant", "action", "only_if", "delivery"})


class HookPerson(BaseModel):
    """A person who decides in Slack: `{ name = "ann", roles = ["legal"] }`, or the name alone."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: str = Field(min_length=1, max_length=200)
    """Name under which the person decides."""
    roles: tuple[str, ...] = ()
    """Roles in which the person decides."""
    teams: tuple[str, ...] = ()
    """Teams of the person."""

    @model_validator(mode="before")
    @classmethod
    def _is_a_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class HookRules(BaseModel):
    """`[hooks.NAME]` in holdfast.toml: what a signed request to `POST /hooks/NAME` does. Texts of `input`, `data`, `run`, `key`
    and `delivery` may hold expressions over the request: `${{ body.order.id }}`, `${{ headers.X-GitHub-Event }}`."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    scheme: Literal["standard", "stripe", "github", "slack", "secret"]
    """Signature: `standard` (Standard Webhooks), `stripe`, `github`, `slack`, or `secret`, a shared secret in a header."""
    secrets: tuple[NameOfSecret, ...] = Field(min_length=1, max_length=4)
    """Names of the secrets, the newest first. A request signed with any of them is accepted: two while you rotate."""
    header: str = Field(default="Authorization", pattern=r"^[A-Za-z0-9-]{1,64}$")
    """With `secret`: the header that carries it. In `Authorization` it follows `Bearer`."""
    tenant: str = Field(default="default", min_length=1, max_length=200)
    """Tenant for which it acts."""
    action: Literal["start", "signal", "decide"] = "start"
    """`start` starts a run, `signal` sends one a signal, `decide` takes decisions that people make with buttons in Slack."""
    only_if: str | None = None
    """Condition over the request, like `body.action == 'opened'`. Others are answered with 200 and do nothing."""
    delivery: str | None = None
    """Id of a delivery, which is acted on once. By default that of the scheme (`webhook-id`, `X-GitHub-Delivery`, Stripe's
    event id), else the hash of the body."""
    workflow: str | None = Field(default=None, min_length=1)
    """Workflow to start, or whose runs may be signalled (a pattern; by default any)."""
    version: int = Field(default=0, ge=0)
    """Version to start; 0 means the highest."""
    input: Any = "${{ body }}"
    """Input of the run; by default the body."""
    run: str | None = None
    """Id of the run to signal."""
    key: str | None = None
    """Start key of the run to signal, instead of its id."""
    signal: str | None = Field(default=None, min_length=1)
    """Name of the signal."""
    data: Any = "${{ body }}"
    """Data of the signal; by default the body."""
    people: dict[Annotated[str, StringConstraints(pattern=r"^[A-Z0-9]{1,40}/[A-Z0-9]{1,40}$")], HookPerson] = {}
    """People who decide in Slack, by the ids of team and user: `"T024BE7LD/U061F7AUR" = "ann"`."""
    allow_private: bool | tuple[str, ...] = False
    """Private networks to which answers for Slack may go, as for an HTTP tool: for a proxy or a test."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        given, (needs, may) = self.model_fields_set, _ACTIONS[self.action]
        if missing := sorted(needs - given):
            raise ValueError(f"action {self.action!r} needs {missing[0]}")
        if strange := sorted(given - needs - may - _OF_HOOKS):
            raise ValueError(f"{strange[0]} does not go with action {self.action!r}")
        if self.action == "signal" and (self.run is None) == (self.key is None):
            raise ValueError("a signal needs either run or key: the run to which it goes")
        if self.action == "decide" and self.scheme != "slack":
            raise ValueError("action 'decide' is for scheme 'slack'")
        if "header" in given and self.scheme != "secret":
            raise ValueError(f"header does not go with scheme {self.scheme!r}, which has its own")
        return self


HookName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]


class Settings(BaseModel):
    """Everything that is set from outside. Environment variables are `HOLDFAST_STORE`, `HOLDFAST_SECRETS_FILE` …"""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    store: str = "sqlite:///holdfast.db"
    """The store of all runs: `sqlite:///PATH`, or `postgresql://USER@HOST/DATABASE` for a fleet. Environment only."""
    queue: str | None = None
    """The fleet's queue: `redis://HOST:PORT/DB`. Without one, processes find their work in the store."""
    blobs: str = "store"
    """Place for payloads over 64 KiB: `store` (its own table), `file:///FOLDER`, or `s3://BUCKET/PREFIX`."""
    secrets_file: Path | None = None
    """File of `NAME=value` lines with secrets. Secrets in the environment need no file."""
    key_file: Path | None = None
    """File of the tenants' keys that encrypt stored payloads: TOML lines `TENANT = "KEY"`. Without it nothing is encrypted."""
    encrypt: Literal["nothing", "payloads"] | None = None
    """Encrypt new stored payloads, or nothing (the default). Older ones are read with the key file. A store with encrypted
    payloads opens only if this is set."""
    workflow_grace_s: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    """Seconds that a runnable run may wait while no live process has its workflow; then a person is asked. A deployment must
    start the new processes within this time."""
    retention_days: int | None = Field(default=None, ge=1)
    """Age in days at which `holdfast store archive`, without a month, archives a month of runs."""
    lease_s: float = Field(default=LEASE_S, ge=1, le=300)
    """Seconds without contact to the store before other processes take over the work of a process. It is renewed five times as
    often."""
    resident_flows_mb: int = Field(default=64, ge=0)
    """Memory for waiting flows in each process, in megabytes, about. A flow in memory continues at once; the others are
    replayed. With 0 none is kept."""
    weights: dict[str, Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]] = {}
    """Relative share of a tenant when slots or pools are short; by default 1: `[weights]` in holdfast.toml."""
    retention: RetentionRules | None = None
    """Automatic archiving: `[retention]` in holdfast.toml. Without it no month is archived by itself."""
    budget: BudgetRules | None = None
    """Rule for money in doubt: `[budget]` in holdfast.toml. Without it the money stays in doubt."""
    hold_back: dict[str, HoldBackRules] = {}
    """Results that new versions of workflows need: `[hold_back.WORKFLOW]` in holdfast.toml."""
    clickhouse: ClickHouseRules | None = None
    """ClickHouse server for analytics: `[clickhouse]` in holdfast.toml. Without it no event is exported there."""
    fetch: FetchRules = FetchRules()
    """Hosts from which content parts are read: `[fetch]` in holdfast.toml."""
    identity: SignedTokenRules | None = None
    """Issuer of signed tokens for gRPC and HTTP ports: `[identity]` in holdfast.toml. Without it none are accepted."""
    public_url: str | None = None
    """Address under which browsers reach the HTTP port, as in `https://holdfast.example.com`, if a proxy changes the header
    `Host`, or if people sign in at a provider."""
    sign_in: SignInRules | None = None
    """Identity provider for the console: `[sign_in]` in holdfast.toml. Without it people sign in with a token."""
    bounds: PortBounds = PortBounds()
    """Load that gRPC and HTTP ports take at a time: `[bounds]` in holdfast.toml."""
    channels: dict[str, ChannelRules] = {}
    """Channels for notifications: `[channels.NAME]` in holdfast.toml."""
    notifications: dict[str, NotificationRules] = {}
    """Rules that say who is notified of what: `[notifications.NAME]` in holdfast.toml."""
    people: dict[str, PersonRules] = {}
    """Addresses of reviewers and roles: `[people.NAME]` in holdfast.toml."""
    limits: ScriptLimits = ScriptLimits()
    """Limits of the scripts of workflow files: `[limits]` in holdfast.toml."""
    logs: LogRules = LogRules()
    """Form and level of log lines: `[logs]` in holdfast.toml, or as JSON in the variable."""
    hooks: Annotated[dict[HookName, HookRules], Field(max_length=500)] = {}
    """Signed requests that start runs, send signals or decide: `[hooks.NAME]` in holdfast.toml."""
    lanes: dict[str, LaneRules] = {}
    """The lanes of the fleet besides `default`, in order; a run belongs to the first that names it."""
    models: dict[str, DeclaredModel] = {}
    keep_requests: Literal["hash", "redacted", "full"] | None = None
    """Form in which histories keep requests to models: `redacted` (the default: without e-mail addresses and long numbers),
    `full` (the default of `holdfast dev`), or `hash`. Known secrets are never kept, the hash always. After a crash and in a
    replay, it shows that the request is the same."""
    keep_requests_of: dict[str, Literal["hash", "redacted", "full"]] = {}
    """The same for workflows by name, as in `WORKFLOW = "full"`: `[keep_requests_of]` in holdfast.toml."""
    send_call_ids: bool = True
    """True to send providers the ids of calls: `X-Client-Request-Id` has run, step, place and attempt, and Anthropic's
    `metadata.user_id` the run."""
    exports: Literal["none", "redacted", "whole"] = "redacted"
    """Records of runs that may be written to files: none, only redacted ones, or any."""
    placement: Literal["least_loaded", "best_fit"] = "least_loaded"
    """Worker that gets a step, among those that fit: the least loaded, or the one with the least left afterwards."""
    pools: dict[str, PoolRules] = {}
    """Pools of a new store: `[pools.NAME]` in holdfast.toml. Existing pools keep the store's values."""
    telemetry: TelemetryRules | None = None
    """Receiver of traces: `[telemetry]` in holdfast.toml. Without it none are sent."""
    vars: Annotated[dict[VariableName, VariableValue], Field(max_length=500)] = {}
    """Values of the context `vars` in workflow files: `[vars]` in holdfast.toml. A run keeps those it began with."""

    @model_validator(mode="before")
    @classmethod
    def _of_environment(cls, values: Any) -> Any:
        """Fill in values that were not given from the environment: tables as JSON, anything else as it is."""
        if not isinstance(values, dict):
            return values
        found = dict(values)
        for name in cls.model_fields:
            variable = f"HOLDFAST_{name.upper()}"
            said = os.environ.get(variable)
            if name in found or said is None:
                continue
            try:
                found[name] = json.loads(said) if _is_table(name) else said
            except ValueError:
                raise ValueError(f'{variable} is no JSON; it holds a table, like {{"NAME": …}}') from None
        return found

    @field_validator("public_url")
    @classmethod
    def _is_an_origin(cls, value: str | None) -> str | None:
        """Return the address as browsers name it in `Origin`."""
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username is not None or not is_private(value):
            raise ValueError("public_url is the address of the port: https://HOST or https://HOST:PORT, without a path")
        return f"{parts.scheme}://{parts.netloc.lower()}"

    @model_validator(mode="after")
    def _has_keys(self) -> Self:
        if self.encrypt == "payloads" and self.key_file is None:
            raise ValueError("encrypt takes a key_file (HOLDFAST_KEY_FILE), in which each tenant has its key")
        if self.sign_in is not None and self.public_url is None:
            raise ValueError("[sign_in] needs public_url: the provider sends browsers back to that address")
        for name, rule in self.notifications.items():
            channel = self.channels.get(rule.channel)
            if channel is not None and channel.kind == "mail" and not rule.to and not channel.to:
                raise ValueError(
                    f"[notifications.{name}] has no recipient: set `to` there or in [channels.{rule.channel}], as addresses,"
                    " names in [people] or @asked"
                )
        return self

    def strategy(self, lane: str) -> Literal["least_loaded", "best_fit"]:
        """Return the rule that chooses among the fitting workers for a step of that lane."""
        rules = self.lanes.get(lane)
        return self.placement if rules is None or rules.placement is None else rules.placement


IN_FILE: Final = frozenset(
    {
        "blobs",
        "bounds",
        "budget",
        "channels",
        "clickhouse",
        "encrypt",
        "fetch",
        "hold_back",
        "hooks",
        "identity",
        "keep_requests",
        "keep_requests_of",
        "key_file",
        "lanes",
        "lease_s",
        "limits",
        "logs",
        "models",
        "notifications",
        "people",
        "placement",
        "pools",
        "public_url",
        "queue",
        "resident_flows_mb",
        "retention",
        "retention_days",
        "secrets_file",
        "send_call_ids",
        "sign_in",
        "telemetry",
        "vars",
        "weights",
        "workflow_grace_s",
    }
)
"""The settings that may stand in holdfast.toml; the others are taken from the environment."""


def _is_table(name: str) -> bool:
    """Return True if a setting is a table in holdfast.toml, and JSON in its environment variable."""
    kind = str(Settings.model_fields[name].annotation)
    return "holdfast.settings." in kind or kind.startswith("dict[")


def load(directory: Path | None = None) -> Settings:
    """The settings of a process that runs in `directory`. Raises UsageError for a holdfast.toml that cannot be used."""
    path = (directory or Path.cwd()) / "holdfast.toml"
    given: dict[str, Any] = {}
    if path.is_file():
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
            raise UsageError(f"holdfast.toml cannot be read: {problem}. Nothing was started.") from None
        unknown = set(given) - IN_FILE
        if unknown:
            raise UsageError(
                f"holdfast.toml: nothing here knows {', '.join(sorted(unknown))}. It may hold"
                f" {', '.join(f'[{name}]' if _is_table(name) else name for name in sorted(IN_FILE))}."
            )
    try:
        return Settings(**given)
    except ValidationError as problem:
        found = "; ".join(_in_words(each) for each in problem.errors(include_url=False, include_input=False))
        raise UsageError(f"The settings cannot be used: {found}. Nothing was started.") from None


_NAMES: Final = {
    r"^[A-Za-z_][A-Za-z0-9_]{0,99}$": "a name has 1 to 100 letters, digits and _, and does not begin with a digit",
    r"^[A-Za-z_][A-Za-z0-9_]{0,63}$": "a name has 1 to 64 letters, digits and _, and does not begin with a digit",
    r"^[A-Za-z0-9-]{1,64}$": "the name of a header has 1 to 64 letters, digits and -",
    r"^[A-Z0-9]{1,40}/[A-Z0-9]{1,40}$": "a person in Slack is TEAM/USER by their ids, like T024BE7LD/U061F7AUR",
    r"^[a-z0-9][a-z0-9_-]{0,63}$": "a name has 1 to 64 small letters, digits, _ and -, and begins with a letter or digit",
}
"""The patterns of names, in words."""


def _in_words(problem: Any) -> str:
    """Return one problem of Pydantic's as a person reads it: the setting, and what is wrong with it."""
    *place, last = [each for each in problem["loc"] if each != "[key]"] or [""]
    at = ".".join(map(str, [*place, last]))
    if problem["type"] == "extra_forbidden":
        where = f" in [{'.'.join(map(str, place))}]" if place else ""
        return f"nothing here knows {last}{where}"
    words = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "string_pattern_mismatch":
        words = _NAMES.get(problem["ctx"]["pattern"], words)
    return f"{at}: {as_part(words)}" if at else as_part(words)


def as_part(message: str) -> str:
    """Return the message of an error without its end, as part of a longer one that says what was not done."""
    for end in (" Nothing was done.", " Nothing was started."):
        message = message.removesuffix(end)
    return message.rstrip(" .")


class Secrets:
    """Secrets by name, from the environment or a file of `NAME=value` lines; and the removal of their values from
    whatever is stored, logged or shown."""

    def __init__(self, file: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._file = _read(file) if file is not None else {}
        self._mask = Mask()
        share(self._mask)  # logs show none of them
        self.redact_bytes: Final = self._mask.apply
        """Returns text or JSON, encoded, without the value of any known secret. The same object if there was none."""
        self._mask.add([*self._file.values(), *(self._environment.get(name, "") for name in _PROVIDER_KEYS)])

    def __repr__(self) -> str:
        return f"<{len(self._mask)} secrets>"

    def know_passwords(self, *addresses: str | None) -> None:
        """Have the passwords in these URLs replaced as well."""
        for address in addresses:
            self._mask.add(passwords(address or ""))

    def get(self, name: str) -> str:
        """The secret's value. From now on it is replaced wherever it would be stored. Raises MissingSecret."""
        value = self._file.get(name) or self._environment.get(name)
        if not value:
            try:
                SecretName(name)
            except ValueError as problem:
                raise MissingSecret(f"There is no such secret: {problem}.") from None
            raise MissingSecret(f"There is no secret {name!r}. Set the environment variable {name}, or HOLDFAST_SECRETS_FILE.")
        if len(value) < SHORTEST:
            raise MissingSecret(
                f"The secret {name!r} is shorter than {SHORTEST} characters, so it cannot be distinguished from"
                " ordinary text when it is to be removed. Use a longer one."
            )
        self._mask.add([value])
        return value

    def audit_keys(self) -> tuple[bytes, ...]:
        """The keys with which the audit log is signed, the newest first, as the secret HOLDFAST_AUDIT_KEY has them with commas
        between; none where it is not set. Raises UsageError for one that could be guessed."""
        if not self.has(AUDIT_KEY):
            return ()
        keys = [each.strip() for each in self.get(AUDIT_KEY).split(",")]
        self._mask.add(keys)
        if any(len(each.encode()) < _SHORTEST_AUDIT_KEY for each in keys):
            raise UsageError(
                f"Each key in {AUDIT_KEY} needs {_SHORTEST_AUDIT_KEY} bytes or more: `openssl rand -hex 32` makes one."
                " Nothing was started."
            )
        return tuple(each.encode() for each in keys)

    def has(self, name: str) -> bool:
        """Return True if a secret of that name exists."""
        return bool(self._file.get(name) or self._environment.get(name))

    def masking(self) -> Masking:
        """The same of a text that comes in pieces."""
        return Masking(self._mask)

    def masking_of_texts(self) -> MaskingOfTexts:
        """Return the same for texts that come one after the other."""
        return MaskingOfTexts(self._mask)

    def redact(self, text: str) -> str:
        """`text` as it may be stored and shown: without secrets, and without what not every database can hold."""
        return self.redact_bytes(text.encode("utf-8", "replace")).decode().replace("\0", _NUL_SHOWN)


def _read(path: Path) -> dict[str, str]:
    try:
        lines = privacy.read_secret(path, "secrets file").decode().splitlines()
    except UnicodeDecodeError as problem:
        raise UsageError(f"The secrets file {path} is no text in UTF-8: {problem.reason}. Nothing was started.") from None
    pairs = (line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}
