"""`http_tool`: a tool that is one HTTP request.

Declared in one place, refused there where it cannot work, and called as any other tool is. Never here: what goes over
the wire (http_exchange), which addresses may be called (address), what a reply means (http_reply).
"""

from __future__ import annotations

import math
import re
import ssl
import sys
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import msgspec
from pydantic import BaseModel, ConfigDict, create_model

from holdfast.authoring.tool import GIVEN, POLICIES, Approval, Tool, Verify
from holdfast.authoring.values.arguments import Arguments, DataArguments
from holdfast.core.values.policies import AUTHORIZATION, EffectPolicy
from holdfast.errors import ToolFailed, UsageError
from holdfast.platform.address import networks
from holdfast.platform.http_exchange import Bounds, Request, exchange
from holdfast.tools.http_reply import answer
from holdfast.tools.url_template import UrlTemplate, form

if TYPE_CHECKING:
    from holdfast.tools.executor import ToolContext

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
Encoding = Literal["json", "form"]
KeyFormat = Literal["hex", "quoted", "uuid"]

DEFAULT_TIMEOUT_S: Final = 30.0
DEFAULT_RESPONSE_BYTES: Final = 1024 * 1024
GRACE_S: Final = 5.0
"""Seconds by which the executor's own deadline comes later: the exchange knows better what a time-out means."""

_POLICY_OF: Final[Mapping[str, EffectPolicy]] = {
    "GET": "read",
    "HEAD": "read",
    "PUT": "idempotent",
    "DELETE": "idempotent",
    "POST": "once",
    "PATCH": "once",
}
"""What a method promises (RFC 9110, section 9.2); a POST or PATCH promises nothing."""
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_NOT_FOUND: Final = frozenset({404, 410})
_CONTENT_TYPES: Final[Mapping[str, str]] = {"json": "application/json", "form": "application/x-www-form-urlencoded"}
_KEY_FORMATS: Final = ("hex", "quoted", "uuid")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")
_OWN_HEADERS: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "content-type", "expect", "te"}
)
"""Headers that the exchange sets itself; another value would say something untrue about it."""


@dataclass(frozen=True)
class Secret:
    """A secret in a header, by name: its value is asked for when the request is made, and is stored nowhere."""

    name: str
    prefix: str = ""


def secret(name: str, *, prefix: str = "") -> Secret:
    """Return a secret as the value of a header of an `http_tool`: `secret("API_TOKEN", prefix="Bearer ")`. It is read when the
    request is made, and is stored nowhere.

    Args:
        name: Name of the secret.
        prefix: Text before the value.
    """
    return Secret(name, prefix)


@dataclass(frozen=True)
class HttpLookup:
    """An HTTP tool's lookup, which finds out if a call of unknown outcome has happened."""

    url: str
    found: Callable[[dict[str, Any]], Any] | None = None
    headers: Mapping[str, str | Secret] | None = None


def http_lookup(
    url: str, *, found: Callable[[dict[str, Any]], Any] | None = None, headers: Mapping[str, str | Secret] | None = None
) -> HttpLookup:
    """Return the lookup of an `http_tool` with the policy `verify`: a GET that finds out if a call took effect.

    404 and 410 mean not found. Any other status outside 2xx decides nothing, and the lookup is made again. The tool's bounds
    hold.

    Args:
        url: URL of the lookup. It may have `{key}`, the effect's key as it was sent, and the tool's arguments as placeholders.
        found: Function of the response `{"status", "headers", "body"}` that returns the call's response, or None for not found.
            By default every 2xx is the response.
        headers: Headers; by default the tool's, if scheme, host and port are the same.
    """
    return HttpLookup(url, found, headers)


def http_tool(
    name: str,
    method: Method,
    url: str,
    *,
    parameters: type[BaseModel] | Mapping[str, Any] | None = None,
    query: Sequence[str] = (),
    encoding: Encoding | None = None,
    headers: Mapping[str, str | Secret] | None = None,
    effect: EffectPolicy | None = None,
    description: str | None = None,
    approval: Approval = False,
    verify: HttpLookup | Verify | None = None,
    settles_within_s: float | None = None,
    compensation: str | Tool | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    max_response_bytes: int = DEFAULT_RESPONSE_BYTES,
    accept_statuses: Collection[int] = (),
    allow_private: bool | Sequence[str] = False,
    key_header: str = "Idempotency-Key",
    key_format: KeyFormat = "hex",
    ca_file: str | Path | None = None,
    price_usd: float | str | Decimal = 0,
) -> Tool:
    """Return a tool that makes one HTTP request. Its response is `{"status": int, "headers": {…}, "body": …}`.

    `body` is parsed JSON, a text, or None; other content is refused. `headers` has a few that describe the answer
    (`http_reply.KEPT_HEADERS`), in lower case.

    Each argument goes where it is named: into its `{placeholder}` of path or query, or into the query if `query` lists it. Any
    other goes into the body, or into the query of a method without a body. `{key}` in the URL is the effect's key.

    A reply means:

    - 2xx and `accept_statuses`: the call took effect.
    - 408, 425, 429, and 503 with Retry-After: not now. It is retried under every policy, after Retry-After.
    - Other 4xx: it did not take effect, and is not retried. But 409 to an `idempotent` call is an unknown outcome, because the
      first attempt may still run.
    - Other 5xx, and a reply that is lost, late or too large: an unknown outcome, and the policy decides.
    - No connection: nothing was sent.

    At most 5 redirects are followed, only within one scheme, host and port. For POST, PUT, PATCH and DELETE only 307 and 308
    are. No proxy and nothing else of the environment is used.

    Args:
        name: Name of the tool, up to 64 letters, digits, `_` and `-`.
        method: HTTP method.
        url: URL, with placeholders for arguments.
        parameters: Pydantic model or JSON Schema of the arguments; by default the placeholders of `url`.
        query: Arguments that go into the query.
        encoding: Encoding of the body: `json` or `form`.
        headers: Headers, as texts or secrets.
        effect: Effect policy. By default `read` for GET and HEAD, `idempotent` for PUT and DELETE, `once` for POST and PATCH,
            `verify` with a lookup. Pass `idempotent` for a POST whose server honours the key.
        description: Description for the model; by default method and URL.
        approval: True to have a person approve each call, or a function of the arguments that picks the calls.
        verify: Lookup of the policy `verify`: an `http_lookup`, or a function as of `tool`.
        settles_within_s: Seconds after the call before which a lookup that finds nothing does not count.
        compensation: Tool that undoes the effect, or its name.
        timeout_s: Time limit in seconds for everything, from resolving the name to the last byte.
        max_response_bytes: Maximum size of the unpacked response in bytes.
        accept_statuses: Further statuses that mean success.
        allow_private: True to allow addresses that are not public, or a list of allowed networks. The checked address is the
            one connected to.
        key_header: Header that carries the effect's key, except for `read`.
        key_format: Format of the key: `hex` (64 digits), `quoted` (draft-ietf-httpapi-idempotency-key-header-07), or `uuid`
            (its first 128 bits).
        ca_file: PEM file with further trusted authorities.
        price_usd: Price of each call in dollars.

    Raises:
        UsageError: No request can be made of these options.
    """
    try:
        if not _NAME.fullmatch(name):
            raise UsageError("a name is up to 64 letters, digits, _ and -, as models take them")
        endpoint = _Endpoint(
            method,
            UrlTemplate(url),
            policy=_policy(method, effect, verify),
            query=tuple(query),
            encoding=_encoding(method, encoding),
            headers=_headers(headers or {}, key_header),
            key_header=key_header,
            key_format=_one_of("key_format", key_format, _KEY_FORMATS),
            bounds=_bounds(timeout_s, max_response_bytes, allow_private, ca_file, accept_statuses),
        )
        arguments = _arguments(name, parameters, endpoint)
        endpoint.check(arguments.schema)
        declared = frozenset(arguments.schema.get("properties", {}))
        look_up = _look_up(verify, endpoint, declared) if isinstance(verify, HttpLookup) else verify
        _check_settling(settles_within_s, verify)
    except UsageError as problem:
        raise UsageError(f"HTTP tool {name!r}: {problem.message}.") from None

    async def call(ctx: ToolContext, **values: Any) -> dict[str, Any]:
        return await endpoint.call(ctx, values)

    _define(call, name, sys._getframe(1))
    return Tool(
        call,
        name=name,
        description=description or f"{method} {url}",
        policy=endpoint.policy,
        approval=approval,
        verify=look_up,
        settles_within_s=settles_within_s,
        compensation=compensation,
        timeout_s=timeout_s + GRACE_S,
        price_usd=price_usd,
        secrets=(*endpoint.secrets, *_secrets_in(verify.headers if isinstance(verify, HttpLookup) else None)),
        arguments=arguments,
    )


@dataclass(frozen=True)
class _Endpoint:
    """The address of a tool's requests, and the rules that make them from its arguments."""

    method: str
    url: UrlTemplate
    policy: EffectPolicy
    query: tuple[str, ...]
    encoding: str
    headers: Mapping[str, str | Secret]
    key_header: str
    key_format: str
    bounds: Bounds

    def check(self, schema: Mapping[str, Any]) -> None:
        """Raises UsageError where a request could not be made of arguments that fit `schema`."""
        declared, required = frozenset(schema.get("properties", {})), frozenset(schema.get("required", ()))
        if taken := sorted(declared & GIVEN):
            raise UsageError(f"a parameter cannot be called {taken[0]!r}; Holdfast fills that in itself")
        if loose := sorted(self.url.names - required - {"key"}):
            raise UsageError(f"the placeholder {{{loose[0]}}} of the URL needs a required parameter of that name")
        if strange := sorted(set(self.query) - declared):
            raise UsageError(f"query names {strange[0]!r}, which is no parameter")
        if self.url.origin[0] == "http" and self.secrets and not self.bounds.private:
            raise UsageError(f"the secret {self.secrets[0]!r} would cross the network in the clear; use https://")

    @property
    def secrets(self) -> tuple[str, ...]:
        return _secrets_in(self.headers)

    async def call(self, ctx: ToolContext, values: Mapping[str, Any]) -> dict[str, Any]:
        request = self.request(ctx, values)
        return answer(request, await exchange(request, self.bounds, ctx.may_send), self.policy, self.bounds.accepted)

    async def find(self, ctx: ToolContext, values: Mapping[str, Any]) -> dict[str, Any] | None:
        """The response to a lookup; None where the server says that there is nothing, in whatever words."""
        request = self.request(ctx, values)
        reply = await exchange(request, self.bounds, ctx.may_send)
        return None if reply.status in _NOT_FOUND else answer(request, reply, self.policy, ())

    def request(self, ctx: ToolContext, values: Mapping[str, Any]) -> Request:
        """Raises ToolFailed for values that no request can be made of, MissingSecret."""
        rest = {name: value for name, value in values.items() if name not in self.url.names}
        in_query = {name: value for name, value in rest.items() if self.method not in _WITH_BODY or name in self.query}
        in_body = {name: value for name, value in rest.items() if name not in in_query}
        headers = {**ctx.trace_headers, **{name: _header_value(name, value, ctx) for name, value in self.headers.items()}}
        key = _key(ctx.key, self.key_format)
        if self.policy != "read":
            headers[self.key_header] = f'"{key}"' if self.key_format == "quoted" else key
        body = None
        if self.method in _WITH_BODY and in_body:
            body = form(in_body).encode() if self.encoding == "form" else msgspec.json.encode(in_body)
            headers["Content-Type"] = _CONTENT_TYPES[self.encoding]
        target = self.url.target({**values, "key": key}, in_query)
        return Request(self.method, self.url.origin, target, headers, body)


def _secrets_in(headers: Mapping[str, str | Secret] | None) -> tuple[str, ...]:
    return tuple(each.name for each in (headers or {}).values() if isinstance(each, Secret))


def _look_up(lookup: HttpLookup, endpoint: _Endpoint, names: Collection[str]) -> Verify:
    """The lookup as the function that the `verify` policy calls."""
    url = UrlTemplate(lookup.url)
    if strange := sorted(url.names - set(names) - {"key"}):
        raise UsageError(f"the placeholder {{{strange[0]}}} of the lookup's URL is no parameter")
    # What the tool says to its own server, a secret above all, is not for another.
    shared = endpoint.headers if url.origin == endpoint.url.origin else {}
    headers = _headers(shared if lookup.headers is None else lookup.headers, endpoint.key_header)
    asks = replace(endpoint, method="GET", url=url, policy="read", query=(), headers=headers)
    asks.check({"properties": {}, "required": list(url.names)})

    async def look_up(ctx: ToolContext, **values: Any) -> Any:
        response = await asks.find(ctx, {name: value for name, value in values.items() if name in url.names})
        return response if response is None or lookup.found is None else lookup.found(response)

    return look_up


def _arguments(name: str, parameters: type[BaseModel] | Mapping[str, Any] | None, endpoint: _Endpoint) -> Arguments:
    if isinstance(parameters, Mapping):
        from holdfast.authoring.values.json_schema import SchemaArguments  # noqa: PLC0415 - 30 ms that others need not pay

        return SchemaArguments(parameters)
    if isinstance(parameters, type) and issubclass(parameters, BaseModel):
        return DataArguments(parameters)
    if parameters is not None:
        raise UsageError("parameters is a Pydantic model or a JSON Schema")
    inside = {place.partition(".")[0] for place in endpoint.url.places if "." in place}
    fields: dict[str, Any] = {
        each: (dict[str, Any] if each in inside else str | int, ...) for each in sorted(endpoint.url.names - {"key"})
    }
    return DataArguments(create_model(f"{name}_arguments", __config__=ConfigDict(extra="forbid"), **fields))


def _policy(method: str, effect: str | None, verify: object) -> EffectPolicy:
    if method not in _POLICY_OF:
        raise UsageError(f"method={method!r} is none of {', '.join(_POLICY_OF)}")
    if effect is not None and effect not in POLICIES:
        raise UsageError(f"effect={effect!r} is none of {', '.join(POLICIES)}")
    policy = effect if effect is not None else "verify" if verify is not None else _POLICY_OF[method]
    if (policy == "verify") != (verify is not None):
        raise UsageError("effect='verify' and verify=<lookup> belong together")
    return cast(EffectPolicy, policy)


def _encoding(method: str, encoding: str | None) -> str:
    if encoding is not None and method not in _WITH_BODY:
        raise UsageError(f"encoding={encoding!r} is about a body, and {method} sends none")
    return _one_of("encoding", encoding or "json", tuple(_CONTENT_TYPES))


def _one_of(name: str, value: str, names: Sequence[str]) -> str:
    if value not in names:
        raise UsageError(f"{name}={value!r} is none of {', '.join(names)}")
    return value


def _headers(headers: Mapping[str, str | Secret], key_header: str) -> dict[str, str | Secret]:
    for name in (*headers, key_header):
        if not _HEADER_NAME.fullmatch(name):
            raise UsageError(f"{name!r} cannot name a header")
        if name.lower() in _OWN_HEADERS:
            raise UsageError(f"the header {name!r} is set by the request itself")
    if key_header.lower() in {name.lower() for name in headers}:
        raise UsageError(f"the header {key_header!r} carries the effect's key")
    for name, value in headers.items():
        if not _HEADER_VALUE.fullmatch(_visible(value)):
            raise UsageError(f"the header {name!r} is no line of visible ASCII, and no secret(NAME)")
    return {"User-Agent": "holdfast", "Accept": "application/json, text/*;q=0.5", **headers}


def _visible(value: object) -> str:
    """A header's value with something in place of its secret; of what can be no value, nothing."""
    if isinstance(value, Secret):
        return f"{value.prefix}x"
    return value if isinstance(value, str) else ""


def _header_value(name: str, value: str | Secret, ctx: ToolContext) -> str:
    """The header's value as it is sent."""
    if isinstance(value, str):
        return value
    text = f"{value.prefix}{ctx.secret(value.name)}"
    if not _HEADER_VALUE.fullmatch(text):
        raise ToolFailed(
            f"The secret {value.name!r} holds what cannot stand in the header {name}: a line break, or no ASCII."
            " Nothing was sent.",
            error_class=AUTHORIZATION,
        )
    return text


def _key(key: str, key_format: str) -> str:
    """The effect's key as services take it. The first 128 bits of a SHA-256 are as unlikely to meet as random ones."""
    return str(uuid.UUID(key[:32], version=4)) if key_format == "uuid" else key


def _accepted(statuses: Collection[int]) -> frozenset[int]:
    for status in statuses:
        if status not in range(400, 500):
            raise UsageError(f"accept_statuses has {status!r}: only 4xx can be answers; 2xx are, others never")
    return frozenset(statuses)


def _bounds(
    timeout_s: float,
    max_response_bytes: int,
    allow_private: bool | Sequence[str],
    ca_file: str | Path | None,
    accept_statuses: Collection[int],
) -> Bounds:
    if not 0 < timeout_s < math.inf:
        raise UsageError(f"timeout_s={timeout_s!r}: a call needs an end")
    if max_response_bytes < 1:
        raise UsageError(f"max_response_bytes={max_response_bytes!r}: an answer needs room")
    return Bounds(timeout_s, max_response_bytes, networks(allow_private), _authorities(ca_file), _accepted(accept_statuses))


def _authorities(ca_file: str | Path | None) -> str | None:
    """The file's full path. It is read now: one that cannot be must not be found out with an intent on record."""
    if ca_file is None:
        return None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(ca_file)
    except (OSError, ValueError) as problem:
        raise UsageError(f"ca_file={str(ca_file)!r} holds no certificates that can be read: {problem}") from None
    return str(Path(ca_file).resolve())


def _check_settling(settles_within_s: float | None, verify: object) -> None:
    if settles_within_s is None:
        return
    if verify is None:
        raise UsageError("settles_within_s is about a lookup, and there is none")
    if not 0 <= settles_within_s < math.inf:
        raise UsageError(f"settles_within_s={settles_within_s!r} is no time")


def _define(function: Callable[..., Any], name: str, frame: FrameType) -> None:
    """Have the tool found by its name where it was declared, as a function would be."""
    around = frame.f_code.co_qualname
    function.__module__ = frame.f_globals.get("__name__", "")
    function.__name__ = name
    function.__qualname__ = name if around == "<module>" else f"{around}.<locals>.{name}"
