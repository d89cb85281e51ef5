"""Where a server is, and who asks it: an address, a token, a name.

Never here: what is asked.
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
"""Longer than anybody is kept waiting (`Prefer: wait=30`), and than a stream says nothing."""


class Server(NamedTuple):
    """The server at `address`, `https://HOST:PORT`, asked with a `token`."""

    address: str
    token: str | None = None
    ca: Path | None = None
    """The authority that signed its certificate, where that is none that everybody knows."""
    insecure: bool = False

    def __repr__(self) -> str:
        return f"Server({self.address!r})"

    def options(self) -> dict[str, Any]:
        """How an HTTP client of it is made. Raises UsageError for what is no address, and for another machine without TLS:
        the token and all that is said could be read on the way."""
        try:
            parts = urlsplit(self.address)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            host, parts = "", urlsplit("")
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or "@" in parts.netloc:
            raise UsageError("The address of a server is https://HOST:PORT, without a user or a password. Nothing was sent.")
        near = is_loopback(host)
        if parts.scheme == "http" and not near and not self.insecure:
            raise UsageError(
                f"{host} is another machine, and over http:// everything said could be read on the way, the token too."
                " Ask it at https://, or say insecure=True where the way is guarded otherwise. Nothing was sent."
            )
        return {
            "base_url": f"{self.address.rstrip('/').removesuffix(BASE)}{BASE}",
            "headers": {} if self.token is None else {HEADER: f"{SCHEME}{_in_header(self.token.strip(), 'token')}"},
            "verify": _trusting(self.ca) if self.ca is not None else _nobody() if parts.scheme == "http" else True,
            "timeout": httpx2.Timeout(_READ_S, connect=_CONNECT_S),
            "trust_env": not near,  # no proxy stands between two processes of one machine
        }

    def unreachable(self, problem: httpx2.TransportError) -> Unreachable:
        """What is said of a connection that was not made, or broke."""
        sent = not isinstance(problem, httpx2.ConnectError | httpx2.ConnectTimeout)
        done = "Whether it was done, only a look tells" if sent else "Nothing was done"
        return Unreachable(f"{self.address} cannot be reached: {problem or type(problem).__name__}. {done}.")


def acting(by: str | None, roles: Sequence[str], traceparent: str | None) -> dict[str, str | bytes]:
    """The headers that say who acts, in which roles and which trace. Raises UsageError for what no header can say."""
    said = {"Holdfast-As": by or "", "Holdfast-Roles": ",".join(roles), trace.HEADER: traceparent or ""}
    return {name: _in_header(value, "name").encode("latin-1") for name, value in said.items() if value}


def _in_header(value: str, what: str) -> str:
    """Raises UsageError, without the value, which may be a secret."""
    if not value.isprintable() or any(each > "\xff" for each in value):
        raise UsageError(f"The {what} holds a character that no HTTP header can say. Nothing was sent.")
    return value


def _nobody() -> ssl.SSLContext:
    """Return what trusts no authority, for a connection without TLS: to load those of the machine takes 20 ms."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _trusting(ca: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as problem:
        raise UsageError(f"The authority {ca} cannot be read: {problem.strerror}. Nothing was sent.") from None
