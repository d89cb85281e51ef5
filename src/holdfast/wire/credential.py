"""The certificates and tokens that a gRPC port and its clients exchange, and the addresses where a server may listen without.

Never here: whose a token is (service.access), what is said.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc

from holdfast.errors import UsageError
from holdfast.platform import privacy
from holdfast.service.access.identity import HEADER, SCHEME, Holder, Identity, is_loopback, split


class Tls(NamedTuple):
    """A server's certificate and key. With `client_ca` it accepts only clients whose certificate that authority signed."""

    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None


NO_TLS: Final = Tls()


class Trust(NamedTuple):
    """A client's token and certificates.

    Args:
        token: The token that the server knows.
        ca: Certificate of the authority that signed the server's. With it the connection uses TLS.
        certificate: Certificate of the client.
        key: Key of the client's certificate.
    """

    token: str | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


async def holder(identity: Identity, pairs: Iterable[tuple[str, str | bytes]], origin: str = "") -> Holder | None:
    """Find who sends this metadata from that address; None for a token that is not known."""
    several = [value for name, value in pairs if name == HEADER]
    said = several[0] if len(several) == 1 else ""  # of two it is unknown which is meant
    return await identity.holder(said if isinstance(said, str) else said.decode("utf-8", "surrogateescape"), origin)


def _read(file: Path, name: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise UsageError(f"The {name} {file} cannot be read: {problem.strerror}. Nothing was started.") from None


def server_credentials(address: str, identity: Identity, tls: Tls) -> Any:
    """Return the credentials of a server's port; None for one without TLS.

    Raises UsageError for a port that others could reach and that lacks TLS or a token: everyone who reaches it can start
    workflows, and receives the work of others.
    """
    host, _ = split(address)
    if (tls.certificate is None) != (tls.key is None):
        raise UsageError("A certificate needs its key: give both --tls-cert and --tls-key. Nothing was started.")
    if tls.client_ca is not None and tls.certificate is None:
        raise UsageError("Clients show certificates only over TLS: --client-ca needs --tls-cert and --tls-key.")
    if identity.token is not None and identity.tokens is not None:
        raise UsageError("--token-file is one token for all, --tokens are several: give one of them. Nothing was started.")
    if not is_loopback(host) and (tls.certificate is None or identity.tokens is None):
        missing = [] if tls.certificate is not None else ["--tls-cert and --tls-key"]
        missing += [] if identity.tokens is not None else ["--tokens"]
        one = "" if identity.token is None else " With the one of --token-file every worker could do what clients may."
        raise UsageError(
            f"{host} can be reached from other machines, and everyone who reaches the port may start workflows and receives"
            f" work: it needs TLS, and tokens of clients and workers.{one} Add {' and '.join(missing)}, or listen on"
            " 127.0.0.1. Nothing was started."
        )
    if tls.certificate is None or tls.key is None:
        return None
    ca = _read(tls.client_ca, "authority") if tls.client_ca is not None else None
    pair = (privacy.read_secret(tls.key, "key"), _read(tls.certificate, "certificate"))
    return grpc.ssl_server_credentials([pair], root_certificates=ca, require_client_auth=ca is not None)


def channel(address: str, trust: Trust, options: Iterable[tuple[str, Any]]) -> Any:
    """A channel to the server at `address`. Raises UsageError for one to another machine without TLS: the token and all
    that is said could be read on the way."""
    host, _ = split(address)
    if trust.ca is None:
        if not is_loopback(host):
            raise UsageError(
                f"{host} is another machine, and without TLS all messages could be read on the way, the token too."
                " Name the authority of the server's certificate with --ca. Nothing was sent."
            )
        return grpc.aio.insecure_channel(address, options=tuple(options))
    key = privacy.read_secret(trust.key, "key") if trust.key is not None else None
    chain = _read(trust.certificate, "certificate") if trust.certificate is not None else None
    secure = grpc.ssl_channel_credentials(_read(trust.ca, "authority"), key, chain)
    return grpc.aio.secure_channel(address, secure, options=tuple(options))


def metadata(trust: Trust) -> tuple[tuple[str, str], ...]:
    """Return the metadata that a client sends with each call."""
    return () if trust.token is None else ((HEADER, f"{SCHEME}{trust.token}"),)
