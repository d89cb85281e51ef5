"""The identities that a port accepts: tokens that both sides know, those that an issuer signed, keys of services, and the
permissions of each.

A client asks and decides, a worker is given work; no token that identifies its holder is both. Never here: a transport, TLS,
what is said.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

from holdfast.core.values.access import ANY, EVERYTHING, Access, Grant, problem
from holdfast.core.values.demand import SHELL
from holdfast.errors import NotPermitted, UsageError
from holdfast.platform import privacy
from holdfast.service.principal import Principal

log = logging.getLogger(__name__)

HEADER: Final = "authorization"
SCHEME: Final = "Bearer "
_MAX_TOKEN: Final = 4096
_MAX_WORDS: Final = 1_000
_FEWEST: Final = 16
"""Characters of a token that stands among others: 32 hexadecimal digits of chance are usual."""
EVERY: Final = "*"
KEY: Final = "hfk_"
"""How the keys of services begin, which the store knows."""


class Scope(NamedTuple):
    """The limits of a worker: the tenants whose jobs it does, and the tasks, labels and tags that it may register. None:
    any."""

    tenants: frozenset[str] | None = None
    tasks: frozenset[str] | None = None
    labels: frozenset[str] | None = None
    tags: frozenset[str] | None = None

    @property
    def has_shell(self) -> bool:
        """True if the worker may run the scripts of workflow files."""
        return self.tasks is None or SHELL in self.tasks


class Holder(NamedTuple):
    """The holder of a token or key: what it is called, whether it asks and decides as clients do, what it may do as a
    worker."""

    name: str
    asks: bool = True
    works: Scope | None = None
    tenant: str | None = None
    """Tenant for which it queries and decides; None for all."""
    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    access: Access = EVERYTHING
    is_person: bool = False
    """Whether it says who acts. Any other is a program, which may speak for people and says for whom."""
    maker: str | None = None
    """Who has made it, where it is a key."""
    vouches: bool = True
    """Whether a program says in which roles those act for whom it speaks; a key that a person has made acts in its own."""

    @property
    def share(self) -> tuple[str, str]:
        """As whom it shares what a server does at a time: a token of its tenant, or of the fleet."""
        return self.tenant or "", self.name

    def principal(
        self, name: str = "", roles: Sequence[str] = (), *, origin: str = "", trace_id: str | None = None, traceparent: str = ""
    ) -> Principal:
        """Return the principal: the holder, or the person of that name and those roles for whom it speaks. Raises NotPermitted
        if the holder may not act as that person."""
        if self.is_person and (name not in ("", self.name) or set(roles) - set(self.roles)):
            raise NotPermitted(
                f"This token is {self.name}'s own, in its own roles: it cannot act for another person. Nothing was done."
            )
        if not self.vouches and (others := sorted(set(roles) - set(self.roles))):
            raise NotPermitted(
                f"{self.name} does not act in the role {others[0]!r:.80}, and its maker could not say so. Nothing was done."
            )
        client = "" if self is ANYBODY else self.name
        acting = (
            self.roles if self.is_person and not roles else (*self.roles, *(each for each in roles if each not in self.roles))
        )
        return Principal(
            name or client or None,
            self.tenant,
            tuple(acting),
            client=client,
            trace_id=trace_id,
            teams=self.teams,
            access=self.access,
            origin=origin,
            is_person=self.is_person,
            maker=self.maker,
            vouches=self.vouches and not self.is_person,
            traceparent=traceparent,
        )


ANYBODY: Final = Holder("anybody", works=Scope())
"""The caller on a port without tokens, or with one shared token."""


class Issuer(Protocol):
    """An issuer of tokens, which finds the holders of those that it signed."""

    async def holder(self, token: str) -> Holder | None: ...


class KnownKeys(Issuer, Protocol):
    """The keys of a store, which are also found by their hash."""

    async def holder_of_hash(self, hashed: bytes) -> Holder | None: ...


class Verifier(Protocol):
    """An issuer that verifies people once: its claims name the holder, for as long as its rules say so."""

    @property
    def name(self) -> str: ...

    def holder_of(self, claims: Mapping[str, Any]) -> Holder:
        """Return the holder that verified claims name. Raises ValueError for claims that name none."""
        ...


class Signer(Issuer, Verifier, Protocol):
    """The same of tokens."""

    async def claims(self, token: str) -> Mapping[str, Any] | None:
        """Return the claims of a token that it signed and that counts now."""
        ...


class Failures(Protocol):
    """Notes callers that are refused."""

    async def note(self, origin: str, reason: str) -> None: ...


class Identity:
    """The callers that a port accepts: everyone, the holders of the one `token`, or callers known by name. Names come from
    `tokens`, by the SHA-256 of each, from tokens that an `issuer` signed, and from `keys` of the store."""

    def __init__(
        self,
        token: str | None = None,
        tokens: Mapping[bytes, Holder] | None = None,
        issuer: Signer | None = None,
        *,
        takes_keys: bool = False,
        has_provider: bool = False,
        is_development: bool = False,
    ) -> None:
        """`has_provider` says that people sign in at an identity provider. At `is_development` keys are accepted beside the one
        token, so that programs are tried with theirs."""
        self.token = token
        self.tokens = tokens
        self.issuer = issuer
        self._takes_keys = takes_keys
        self._accepts_keys = takes_keys or is_development
        self._has_provider = has_provider
        self.keys: KnownKeys | None = None
        """The keys of the store, as soon as that is open. They are accepted where keys are taken."""
        self.failures: Failures | None = None
        """Notes callers that are refused, as soon as there is a store."""

    @property
    def tells_apart(self) -> bool:
        """True if the port identifies its callers."""
        return self.tokens is not None or self.issuer is not None or self._takes_keys or self._has_provider

    @property
    def tells_tenants_apart(self) -> bool:
        """True if some worker is limited to certain tenants' jobs."""
        return any(each.works is not None and each.works.tenants is not None for each in (self.tokens or {}).values())

    def has_shells_of(self, tenant: str) -> bool:
        """Return True if scripts that a tenant submits run at workers of that tenant. Some worker must be for it, and none that
        runs scripts may be for every tenant."""
        shells = [each.works for each in (self.tokens or {}).values() if each.works is not None and each.works.has_shell]
        return all(each.tenants is not None for each in shells) and any(tenant in (each.tenants or ()) for each in shells)

    async def holder(self, authorization: str, origin: str = "") -> Holder | None:
        """Find who sends this, `Bearer TOKEN`, from the address `origin`; None for a token that is not known, which is noted. A
        token is looked up by its hash, so how long that takes tells nothing about any."""
        found = await self._holder(authorization)
        if found is None and self.failures is not None:
            await self.failures.note(origin, "a token that is not known" if authorization else "no token")
        return found

    @property
    def is_open(self) -> bool:
        """True if everyone is accepted, without any token."""
        return self.token is None and not self.tells_apart

    async def holder_of_hash(self, token: bytes) -> Holder | None:
        """Find the holder of a token or key by its hash; None if it is not known, or not any more."""
        found = self._tokens_by_hash.get(token)
        if found is not None or self.keys is None or not self._accepts_keys:
            return found
        return await self.keys.holder_of_hash(token)

    async def claims(self, token: str) -> Mapping[str, Any] | None:
        """Return the claims of a token that the issuer signed; None for any other."""
        return await self.issuer.claims(token) if self.issuer is not None and _is_signed(token) else None

    async def _holder(self, authorization: str) -> Holder | None:
        if self.is_open:
            return ANYBODY
        if authorization[: len(SCHEME)].lower() != SCHEME.lower():
            return None
        token = authorization[len(SCHEME) :]
        if token.startswith(KEY):
            return await self.keys.holder(token) if self._accepts_keys and self.keys is not None else None
        if self.issuer is not None and _is_signed(token):
            return await self.issuer.holder(token)
        return self._tokens_by_hash.get(hashed(token))

    @property
    def _tokens_by_hash(self) -> Mapping[bytes, Holder]:
        return {hashed(self.token): ANYBODY} if self.token is not None else self.tokens or {}


def _is_signed(token: str) -> bool:
    return token.count(".") == 2 and not token.startswith(KEY)


def read_token(file: Path | None) -> str | None:
    """The token in a file, without the blanks around it. Raises UsageError where there is none."""
    if file is None:
        return None
    token = privacy.read_secret(file, "token").decode("ascii", "replace").strip()
    if not _is_token(token):
        raise UsageError(f"{file} holds no token: one line of 1 to {_MAX_TOKEN} printable ASCII characters is needed.")
    return token


def _is_token(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= _MAX_TOKEN and text.isprintable() and text.isascii()


def hashed(token: str) -> bytes:
    """As which a token is kept and looked up."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def read_tokens(file: Path | None) -> dict[bytes, Holder] | None:
    """Read the tokens of a TOML file that no other account may read: `[clients.NAME]` with its `token` and, if it acts for one
    only, the `tenant`; and `[workers.NAME]` with its `token`, the `tenants` and `tasks` that it may get, and the `labels` and
    `tags` that it may have (`["*"]`: any). Raises UsageError for anything else, and if two have one token."""
    if file is None:
        return None
    try:
        said = tomllib.loads(privacy.read_secret(file, "tokens file").decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UsageError(f"The tokens file {file} is no TOML: {problem}. Nothing was started.") from None
    found: dict[bytes, Holder] = {}
    try:
        for token, holder in _holders(said):
            if found.setdefault(hashed(token), holder) is not holder:
                raise ValueError(f"{holder.name} and {found[hashed(token)].name} have the same token")
        if not found:
            raise ValueError("it has no tokens")
    except ValueError as problem:
        raise UsageError(
            f"The tokens file {file} cannot be used: {problem}. Nothing was started. docs/howto/workers.md has an example."
        ) from None
    return found


def _holders(claims: Mapping[str, Any]) -> Iterator[tuple[str, Holder]]:
    """Raises ValueError in words."""
    if strange := sorted(claims.keys() - {"clients", "workers"}):
        raise ValueError(f"it has [{strange[0]}], and may have [clients.NAME] and [workers.NAME]")
    for kind, fields in (("clients", _OF_CLIENTS), ("workers", Scope._fields)):
        for name, given in dict(claims.get(kind, {})).items():
            where = f"{kind}.{name}"
            if not isinstance(given, dict):
                raise ValueError(f"{where} is no table: [{where}], and below it token = ...")
            if strange := sorted(given.keys() - {"token", *fields}):
                raise ValueError(f"[{where}] has {strange[0]}, and may have {', '.join(('token', *fields))}")
            if not _is_token(given.get("token")) or len(given["token"]) < _FEWEST:
                raise ValueError(f"[{where}] needs a token of {_FEWEST} to {_MAX_TOKEN} printable ASCII characters")
            if kind == "workers":
                works = Scope(*(_names(where, each, given.get(each)) for each in fields))
                yield given["token"], Holder(where, asks=False, works=works)
            else:
                yield given["token"], _client(where, given)


_OF_CLIENTS: Final = ("tenant", "may", "roles", "teams", "workflows", "tools")


def _client(place: str, arguments: Mapping[str, Any]) -> Holder:
    """Raises ValueError in words."""
    try:
        words = {name: read_words(arguments[name]) for name in _OF_CLIENTS[1:] if name in arguments}
    except ValueError as wrong:
        raise ValueError(f"[{place}] is invalid: {wrong}") from None
    if "may" not in words:
        log.warning(
            "[%s] of the tokens file has no may, so it is a viewer and changes nothing; give it for example"
            ' may = ["operator"]. (Up to 0.1.0 it was an admin.)',
            place,
        )
    may = words.get("may", ("viewer",))
    if (wrong_ := problem(may)) is not None:
        raise ValueError(f"may of [{place}] is invalid: {wrong_}")
    workflows = words.get("workflows", ANY)
    access = Access(cast(tuple[Grant, ...], may), workflows, words.get("tools", ANY), "*" not in workflows)
    return Holder(
        place,
        tenant=_tenant(place, arguments.get("tenant")),
        roles=words.get("roles", ()),
        teams=words.get("teams", ()),
        access=access,
    )


def read_words(value: Any) -> tuple[str, ...]:
    """Return a list of words from a list or from one word. Raises ValueError."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or len(words) > _MAX_WORDS or not all(isinstance(each, str) and each for each in words):
        raise ValueError(f"{value!r:.80} is no list of names")
    return tuple(words)


def _tenant(place: str, value: Any) -> str | None:
    """Return the tenant that a client acts for. An empty name is a mistake: it would look like all tenants."""
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise ValueError(f"tenant of [{place}] is a name")
    return value


def _names(place: str, name: str, value: Any) -> frozenset[str] | None:
    """Of what is not said a worker has nothing; whose jobs it is given, and which, must be said."""
    if value is None and name in ("tenants", "tasks"):
        raise ValueError(f'[{place}] must say its {name} = [...], or ["*"] for any')
    names: Collection[Any] = [] if value is None else value
    if not isinstance(names, list) or not all(isinstance(each, str) and each for each in names):
        raise ValueError(f"{name} of [{place}] is a list of names")
    return None if EVERY in names else frozenset(names)


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
