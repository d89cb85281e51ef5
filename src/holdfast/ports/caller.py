"""The records about callers from outside: their keys, their sign-ins, their actions, and the replies that they got.

Never here: an implementation, what a key allows (core.values.access).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypedDict, Unpack

import msgspec

from holdfast.core.values.access import ANY, Grant, SignInWay
from holdfast.core.values.audit import Entry, Head, Link
from holdfast.ports.codec import OF_NONE


class ToDecide(msgspec.Struct, frozen=True):
    """The right of the caller named `by` to decide a gate that shows the content behind `shown_hash`."""

    gate: str
    shown_hash: str
    by: str


Opens: TypeAlias = tuple[str, str] | ToDecide
"""What a link is for: the run and the signal that it may send, or the gate that it may decide, once, and nothing else."""


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a service. What it was made of is nowhere: `hash` is the SHA-256 of it, in hexadecimal digits."""

    name: str
    hash: str
    tenant: str | None = None
    """Tenant for which it acts; None for all."""
    may: tuple[Grant, ...] = ("viewer",)
    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    workflows: tuple[str, ...] = ANY
    tools: tuple[str, ...] = ANY
    vouches: bool = True
    """Whether it says in which other roles those act for whom it speaks, as its maker could. Early versions let each key."""
    unoffered: bool = False
    """True if it may also use workflows that no process offers (core.values.access)."""
    made_by: str = ""
    client: str = ""
    """With whose token or key it was made. Early versions did not keep it."""
    maker: str | None = None
    """Person as whom it counts besides: the one who was shown it, or the key itself if a program without a person made it.
    Early versions did not keep it."""
    made_at_ms: int = 0
    expires_at_ms: int | None = None
    revoked_at_ms: int | None = None
    opens: Opens | None = None
    """Of a link only."""


class Keys(Protocol):
    """The keys of services, by their tenants and names. A name that the fleet's key has is no tenant's, so a name alone finds
    one key."""

    async def put(self, key: ApiKey, before: str | None) -> bool:
        """Keep a key in the place of its tenant's of its name whose hash is `before`; None: there must be none. False, and
        nothing is kept, where another stands there."""
        ...

    async def find(self, hash: str) -> ApiKey | None:  # noqa: A002 - what it is
        """The key of that hash."""
        ...

    async def named(self, name: str, tenant: str | None, limit: int) -> Sequence[ApiKey]:
        """Return the keys of a name: a tenant's own, or without a tenant that of the fleet or those of tenants."""
        ...

    async def listed(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[ApiKey]:
        """By name and tenant, those of a tenant or all; `after` are those of the last one before (of the fleet's: "")."""
        ...

    async def cursor_key(self) -> bytes:
        """The secret with which all processes of the store seal cursors."""
        ...


class SignIn(msgspec.Struct, frozen=True, kw_only=True):
    """The sign-in of a browser. The secret in its cookie is stored nowhere: `hash` is its SHA-256, in hexadecimal digits."""

    hash: str
    way: SignInWay
    owner: str
    """Caller, by the hash of a token or key, or by issuer and subject."""
    token_hash: str | None = None
    """Hash of the token or key that it stands for: the sign-in ends with that."""
    issuer: str | None = None
    """Issuer that has verified the person, and their claims, if no token or key is behind it."""
    claims: Mapping[str, Any] = {}
    name: str = ""
    """Name of the token, the key or the person."""
    tenant: str | None = None
    """Tenant for which the caller acts; None for all."""
    origin: str = ""
    """Address from which the browser signed in."""
    began_at_ms: int
    expires_at_ms: int

    @property
    def id(self) -> str:
        """Id of the session, by which people name it. It does not open the session."""
        return self.hash[:ID_DIGITS]


ID_DIGITS: Final = 16
"""Digits of the id of a session."""


class SignIns(Protocol):
    """The sign-ins of browsers. Those that have expired are removed in time."""

    async def add(self, sign_in: SignIn, most: int) -> None:
        """Keep one more, and end the oldest of the same caller beyond `most`."""
        ...

    async def find(self, hash: str) -> SignIn | None:  # noqa: A002 - what it is
        """Return the sign-in of that hash, unless it has expired."""
        ...

    async def listed(
        self,
        *,
        name: str | None = None,
        tenant: str | None = None,
        session: str | None = None,
        after: str | None = None,
        limit: int,
    ) -> Sequence[SignIn]:
        """Return those that have not expired, of that name, tenant and id, or of any: the last begun first, after that id."""
        ...

    async def end(self, hash: str) -> bool:  # noqa: A002 - what it is
        """Remove it. Returns False if it is not known."""
        ...

    async def end_of(self, name: str, tenant: str | None) -> int:
        """Remove those of that name: for that tenant, or of any. Returns their number."""
        ...


class AuditFilter(TypedDict, total=False):
    """The criteria by which links of the audit log are selected. A criterion that is missing or None matches any."""

    tenant: str | None
    """Only those of callers that act for this tenant."""
    name: str | None
    """Only those of this person or program: of that name, or with the token or key of that name."""
    actions: Sequence[str] | None
    """Only those of these commands."""
    about: str | None
    """Only those about a thing whose id or name begins with this."""
    since_ms: int | None
    until_ms: int | None
    after: int | None
    """Only those after this number."""
    before: int | None
    """Only those before this number."""
    newest_first: bool
    limit: int


class Audit(Protocol):
    """The audit log. Nothing in it changes, and nothing leaves it."""

    async def append(self, entry: Entry) -> Link:
        """Chain one more to the head, and note that it is the last, also while others do. Where the log does not end as the
        head says, or as this process has seen it, what is added follows nothing, and the break stays."""
        ...

    async def links(self, **filters: Unpack[AuditFilter]) -> Sequence[Link]:
        """Return the links that match, in their order."""
        ...

    async def head(self) -> Head | None:
        """Return the head: the last entry as its append noted it, number 0 if there was none yet. Return None if that note was
        removed."""
        ...


class Reply(NamedTuple):
    """The reply to a request, kept as its transport sent it."""

    status: int
    body: bytes
    headers: dict[str, str]


class PendingRequest(NamedTuple):
    """A request under an idempotency key. `digest` tells two requests apart; `reply` is None as long as nothing was
    answered."""

    digest: str
    begun_at_ms: int
    reply: Reply | None = None
    is_new: bool = False
    """True where it is begun now, for the first time in so long."""


class Replies(Protocol):
    """Answers under idempotency keys. `name` tells who asked what, where, under which key."""

    async def begin(self, name: str, digest: str, kept_ms: int, tenant: str = OF_NONE) -> PendingRequest:
        """Begin a request of that tenant; or the one of that name that was begun before, if it is no older than that."""
        ...

    async def finish(self, name: str, reply: Reply | None, tenant: str = OF_NONE) -> bool:
        """Keep the answer; None: nothing was done, and the key is free again, unless it has an answer. Returns False if the
        request is not known any more."""
        ...
