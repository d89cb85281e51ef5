"""A server's address, the token for it, and the headers that say who acts.

Never here: a command or query.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx2

from holdfast.core.values import trace
from holdfast.errors import Unreachable, UsageError
from holdfast.http.route import BASE
from holdfast.service.access.identity import HEADER, SCHEME, is_loopback

_CONNECT_S: Final = 5.0
_READ_S: Final = 60.0
"""Longer than a request waits (`Prefer: wait=30`), and than a stream is silent."""


class Server(NamedTuple):
    """The server at `address`, `https://HOST:PORT` and a `token` for it."""

    address: str
    token: str | None = None
    ca: Path | None = None
    """File with the authority that signed its certificate, if that is not a public one."""
    insecure: bool = False

    def __repr__(self) -> str:
        return f"Server({self.address!r})"

    def options(self) -> dict[str, Any]:
        """Return the options of an HTTP client for it. Raises UsageError for a wrong address, and for another machine without
        TLS, because the token and all data could be read on the way."""
        try:
            parts = urlsplit(self.address)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            host, parts = "", urlsplit("")
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or "@" in parts.netloc:
            raise UsageError(
                "Write the address of the server as https://HOST:PORT, without a user or password. Nothing was sent."
            )
        near = is_loopback(host)
        if parts.scheme == "http" and not near and not self.insecure:
            raise UsageError(
                f"{host} is another machine: over http:// the token and all data could be read on the way. Nothing was sent."
                " Use https://, or pass insecure=True if the network is protected otherwise."
            )
        return {
            "base_url": f"{self.address.rstrip('/').removesuffix(BASE)}{BASE}",
            "headers": {} if self.token is None else {HEADER: f"{SCHEME}{_in_header(self.token.strip(), 'token')}"},
            "verify": _trusting(self.ca) if self.ca is not None else _without_authorities() if parts.scheme == "http" else True,
            "timeout": httpx2.Timeout(_READ_S, connect=_CONNECT_S),
            "trust_env": not near,  # no proxy stands between two processes of one machine
        }

    def unreachable(self, problem: httpx2.TransportError) -> Unreachable:
        """Return the error of a connection that was not made, or broke."""
        sent = not isinstance(problem, httpx2.ConnectError | httpx2.ConnectTimeout)
        done = "It is unknown whether the request was carried out" if sent else "Nothing was done"
        return Unreachable(f"{self.address} cannot be reached: {problem or type(problem).__name__}. {done}.")


def acting(by: str | None, roles: Sequence[str], traceparent: str | None) -> dict[str, str | bytes]:
    """Return the headers with who acts, in which roles and in which trace. Raises UsageError for other characters than a header
    takes."""
    headers = {"Holdfast-As": by or "", "Holdfast-Roles": ",".join(roles), trace.HEADER: traceparent or ""}
    return {name: _in_header(value, "name").encode("latin-1") for name, value in headers.items() if value}


def _in_header(value: str, name: str) -> str:
    """Raises UsageError, without the value, which may be a secret."""
    if not value.isprintable() or any(each > "\xff" for each in value):
        raise UsageError(f"The {name} has a character that an HTTP header does not take. Nothing was sent.")
    return value


def _without_authorities() -> ssl.SSLContext:
    """Return a context without authorities, for a connection without TLS: loading those of the machine takes 20 ms."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _trusting(ca: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as problem:
        raise UsageError(f"Could not read the authority {ca}: {problem.strerror}. Nothing was sent.") from None
