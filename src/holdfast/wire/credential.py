"""Who may speak on a port: tokens that both sides know, what each of them allows, and TLS. Where a server may listen without.

A client asks and decides, a worker is given work; no token that is told apart is both. Never here: what is said.
"""

from __future__ import annotations

import hashlib
import ipaddress
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc

from holdfast import privacy
from holdfast.errors import UsageError

HEADER: Final = "authorization"
_SCHEME: Final = b"Bearer "
_MOST_TOKEN: Final = 4096
_FEWEST: Final = 16
"""Characters of a token that stands among others: 32 hexadecimal digits of chance are usual."""
EVERY: Final = "*"


class Scope(NamedTuple):
    """What a worker may be given and say of itself: tenants whose jobs it does, its tasks, labels and tags. None: any."""

    tenants: frozenset[str] | None = None
    tasks: frozenset[str] | None = None
    labels: frozenset[str] | None = None
    tags: frozenset[str] | None = None


class Holder(NamedTuple):
    """The holder of a token: what it is called, whether it asks and decides as clients do, what it may do as a worker."""

    name: str
    asks: bool = True
    works: Scope | None = None
    tenant: str | None = None
    """For whom it asks and decides; None for everybody."""


ANYBODY: Final = Holder("anybody", works=Scope())
"""Who speaks on a port without tokens, or has the one token that everybody has."""


class Identity(NamedTuple):
    """What a server shows and asks for: nothing, one `token` of everybody, or `tokens` that are told apart, by the SHA-256 of
    each. With `client_ca` it takes only clients whose certificate that authority signed."""

    token: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    tokens: Mapping[bytes, Holder] | None = None

    @property
    def tells_tenants_apart(self) -> bool:
        """Whether some worker may not be given every tenant's jobs."""
        return any(each.works is not None and each.works.tenants is not None for each in (self.tokens or {}).values())

    def holder(self, sent: Iterable[tuple[str, str | bytes]]) -> Holder | None:
        """Who sends this metadata; None for a token that nobody has. A token is looked up by its hash, so how long that takes
        tells nothing about any."""
        if self.token is None and self.tokens is None:
            return ANYBODY
        said = next((value for name, value in sent if name == HEADER), "")
        given = said if isinstance(said, bytes) else said.encode("utf-8", "replace")
        known = {_hash(self.token): ANYBODY} if self.token is not None else self.tokens or {}
        return known.get(hashlib.sha256(given.removeprefix(_SCHEME)).digest()) if given.startswith(_SCHEME) else None


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
    if not _is_token(token):
        raise UsageError(f"{file} holds no token: one line of 1 to {_MOST_TOKEN} printable ASCII characters is needed.")
    return token


def _is_token(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= _MOST_TOKEN and text.isprintable() and text.isascii()


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def read_tokens(file: Path | None) -> dict[bytes, Holder] | None:
    """The tokens of a TOML file, of which nobody else may read: `[clients.NAME]` with its `token` and, where it acts for one
    only, the `tenant`, and `[workers.NAME]` with its `token`, the `tenants` and `tasks` that it may be given, and the
    `labels` and `tags` that it may have (`["*"]`: any). Raises UsageError where it says anything else, or where two have one
    token."""
    if file is None:
        return None
    try:
        said = tomllib.loads(privacy.read_secret(file, "tokens file").decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UsageError(f"The tokens file {file} is no TOML: {problem}. Nothing was started.") from None
    found: dict[bytes, Holder] = {}
    try:
        for token, holder in _holders(said):
            if found.setdefault(_hash(token), holder) is not holder:
                raise ValueError(f"{holder.name} and {found[_hash(token)].name} have the same token")
        if not found:
            raise ValueError("it names nobody")
    except ValueError as problem:
        raise UsageError(
            f"The tokens file {file} cannot be used: {problem}. Nothing was started. docs/howto/workers.md has an example."
        ) from None
    return found


def _holders(said: Mapping[str, Any]) -> Iterator[tuple[str, Holder]]:
    """Raises ValueError in words."""
    if strange := sorted(said.keys() - {"clients", "workers"}):
        raise ValueError(f"it has [{strange[0]}], and may have [clients.NAME] and [workers.NAME]")
    for kind, fields in (("clients", ("tenant",)), ("workers", Scope._fields)):
        for name, given in dict(said.get(kind, {})).items():
            where = f"{kind}.{name}"
            if not isinstance(given, dict):
                raise ValueError(f"{where} is no table: [{where}], and below it token = ...")
            if strange := sorted(given.keys() - {"token", *fields}):
                raise ValueError(f"[{where}] has {strange[0]}, and may have {', '.join(('token', *fields))}")
            if not _is_token(given.get("token")) or len(given["token"]) < _FEWEST:
                raise ValueError(f"[{where}] needs a token of {_FEWEST} to {_MOST_TOKEN} printable ASCII characters")
            if kind == "workers":
                works = Scope(*(_names(where, each, given.get(each)) for each in fields))
                yield given["token"], Holder(where, asks=False, works=works)
            else:
                yield given["token"], Holder(where, tenant=_tenant(where, given.get("tenant")))


def _tenant(where: str, given: Any) -> str | None:
    """For whom a client acts. An empty name is a mistake: it would look like everybody."""
    if given is not None and not (isinstance(given, str) and given.strip()):
        raise ValueError(f"tenant of [{where}] is a name")
    return given


def _names(where: str, what: str, given: Any) -> frozenset[str] | None:
    """Of what is not said a worker has nothing; whose jobs it is given, and which, must be said."""
    if given is None and what in ("tenants", "tasks"):
        raise ValueError(f'[{where}] must say its {what} = [...], or ["*"] for any')
    names: Collection[Any] = [] if given is None else given
    if not isinstance(names, list) or not all(isinstance(each, str) and each for each in names):
        raise ValueError(f"{what} of [{where}] is a list of names")
    return None if EVERY in names else frozenset(names)


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
    if identity.token is not None and identity.tokens is not None:
        raise UsageError(
            "--token-file is one token of everybody, --tokens are several: give one of them. Nothing was started."
        )
    if not is_loopback(host) and (identity.certificate is None or identity.tokens is None):
        missing = [] if identity.certificate is not None else ["--tls-cert and --tls-key"]
        missing += [] if identity.tokens is not None else ["--tokens"]
        one = "" if identity.token is None else " With the one of --token-file every worker could do what clients may."
        raise UsageError(
            f"{host} can be reached from other machines, and whoever reaches the port may start workflows and is given"
            f" work: it needs TLS, and tokens of clients and workers.{one} Add {' and '.join(missing)}, or listen on"
            " 127.0.0.1. Nothing was started."
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
    return () if trust.token is None else ((HEADER, f"{_SCHEME.decode()}{trust.token}"),)
