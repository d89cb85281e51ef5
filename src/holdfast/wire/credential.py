"""Who may speak on a port: a token that both sides know, and TLS. Where a server may listen without.

Never here: what is said.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc

from holdfast import privacy
from holdfast.errors import UsageError

HEADER: Final = "authorization"
_MOST_TOKEN: Final = 4096


class Identity(NamedTuple):
    """What a server shows and asks for. With `client_ca` it takes only clients whose certificate that authority signed."""

    token: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None


class Trust(NamedTuple):
    """What a client says and believes. With `ca` it speaks TLS, to servers whose certificate that authority signed."""

    token: str | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


def read_token(file: Path | None) -> str | None:
    """The token in a file, without the blanks around it. Raises UsageError where there is none."""
    if file is None:
        return None
    token = privacy.read_secret(file, "token").decode("ascii", "replace").strip()
    if not token or len(token) > _MOST_TOKEN or not token.isprintable() or not token.isascii():
        raise UsageError(f"{file} holds no token: one line of 1 to {_MOST_TOKEN} printable ASCII characters is needed.")
    return token


def _read(file: Path, what: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise UsageError(f"The {what} {file} cannot be read: {problem.strerror}. Nothing was started.") from None


def split(address: str) -> tuple[str, int]:
    """HOST:PORT as its parts; `[::1]:9000` too. Raises UsageError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"{address!r} is no address; write HOST:PORT, like 127.0.0.1:9090.")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def server_credentials(address: str, identity: Identity) -> Any:
    """What a server's port is made with, None for one without TLS.

    Raises UsageError for a port that others could reach and that has not both TLS and a token: whoever reaches it starts
    workflows, and is given the work of others.
    """
    host, _ = split(address)
    if (identity.certificate is None) != (identity.key is None):
        raise UsageError("A certificate needs its key: give both --tls-cert and --tls-key. Nothing was started.")
    if identity.client_ca is not None and identity.certificate is None:
        raise UsageError("Clients show certificates only over TLS: --client-ca needs --tls-cert and --tls-key.")
    if not is_loopback(host) and (identity.certificate is None or identity.token is None):
        missing = [] if identity.certificate is not None else ["--tls-cert and --tls-key"]
        missing += [] if identity.token is not None else ["--token-file"]
        raise UsageError(
            f"{host} can be reached from other machines, and whoever reaches the port may start workflows and is given"
            f" work: it needs TLS and a token. Add {' and '.join(missing)}, or listen on 127.0.0.1. Nothing was started."
        )
    if identity.certificate is None or identity.key is None:
        return None
    ca = _read(identity.client_ca, "authority") if identity.client_ca is not None else None
    pair = (privacy.read_secret(identity.key, "key"), _read(identity.certificate, "certificate"))
    return grpc.ssl_server_credentials([pair], root_certificates=ca, require_client_auth=ca is not None)


def channel(address: str, trust: Trust, options: Iterable[tuple[str, Any]]) -> Any:
    """A channel to the server at `address`. Raises UsageError for one to another machine without TLS: the token and all
    that is said could be read on the way."""
    host, _ = split(address)
    if trust.ca is None:
        if not is_loopback(host):
            raise UsageError(
                f"{host} is another machine, and without TLS everything said could be read on the way, the token too."
                " Name the authority of the server's certificate with --ca. Nothing was sent."
            )
        return grpc.aio.insecure_channel(address, options=tuple(options))
    key = privacy.read_secret(trust.key, "key") if trust.key is not None else None
    chain = _read(trust.certificate, "certificate") if trust.certificate is not None else None
    secure = grpc.ssl_channel_credentials(_read(trust.ca, "authority"), key, chain)
    return grpc.aio.secure_channel(address, secure, options=tuple(options))


def metadata(trust: Trust) -> tuple[tuple[str, str], ...]:
    """What a client sends with each call."""
    return () if trust.token is None else ((HEADER, f"Bearer {trust.token}"),)


def admits(identity: Identity, sent: Iterable[tuple[str, str | bytes]]) -> bool:
    """Whether the metadata `sent` has the token. How long it takes tells nothing about it."""
    if identity.token is None:
        return True
    said = next((value for name, value in sent if name == HEADER), "")
    given = said if isinstance(said, bytes) else said.encode("utf-8", "replace")
    return hmac.compare_digest(given, f"Bearer {identity.token}".encode())
