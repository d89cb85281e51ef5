"""Keys of services and links: made, shown once, known by their hash, replaced, taken back at once.

Never here: where they are kept (ports.caller), who may make them beyond their own bounds (permission).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from holdfast.core.values.access import ANY, Access, problem
from holdfast.errors import Conflict, InvalidInput, NotFound, NotPermitted
from holdfast.platform.machine import new_secret
from holdfast.ports import ApiKey, Keys, Opens, Store, ToDecide
from holdfast.service.access.identity import KEY, Holder, hashed
from holdfast.service.declarations.command import Decide, MakeKey, Signal
from holdfast.service.principal import Principal
from holdfast.service.view import KeyRow, NewKeyRow, NewLinkRow, of_key

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}", re.ASCII)
LINK: Final = "hfl_"
"""How what opens a link begins."""
_MAX_LINK_S: Final = 90 * 86_400
_MAX_LIFE_S: Final = 10 * 365 * 86_400


def told_by(opens: Opens, claims: Mapping[str, Any]) -> Signal | Decide:
    """Return the command that a link sends for a request body; the link fixes its kind and its target. Raises InvalidInput."""
    kind: type[Signal | Decide] = Signal
    if isinstance(opens, ToDecide):
        kind, given = Decide, {"gate": opens.gate, "shown_hash": opens.shown_hash}
        if "decision" not in claims:
            raise InvalidInput("This link decides something: say the decision. Nothing was done.")
    else:
        given = {"run": opens[0], "name": opens[1]}
    free = [name for name in kind.__struct_fields__ if name not in (*given, "key")]
    if claims.keys() - {*free}:
        raise InvalidInput(f"This link takes {', '.join(free)} and nothing else. Nothing was done.")
    try:
        return msgspec.convert({**claims, **given}, kind)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"Invalid request: {problem}. Nothing was done.") from None


class ApiKeys:
    """The API keys of a store."""

    def __init__(self, store: Store) -> None:
        self._keys = store.keys
        self._clock = store.clock

    async def holder(self, token: str) -> Holder | None:
        """Return the holder of this key; None if it is unknown, expired, revoked or of a link. The store is asked each time."""
        return await self.holder_of_hash(hashed(token))

    async def holder_of_hash(self, hashed: bytes) -> Holder | None:
        """Return the same by the key's hash."""
        key = await self._keys.find(hashed.hex())
        if key is None or key.revoked_at_ms is not None or key.opens is not None:
            return None
        if key.expires_at_ms is not None and key.expires_at_ms <= self._clock.now_ms():
            return None
        access = Access(key.may, key.workflows, key.tools, key.unoffered)
        return Holder(
            f"keys.{key.name}",
            tenant=key.tenant,
            roles=key.roles,
            teams=key.teams,
            access=access,
            maker=key.maker,
            vouches=key.vouches,
        )

    async def make(self, principal: Principal, command: MakeKey) -> NewKeyRow:
        """A new key, with what it is shown once: `key`. It may no more than who makes it, in no other roles. Raises
        InvalidInput, NotPermitted, and Conflict where there is one of the name."""
        if _NAME.fullmatch(command.name) is None:
            raise InvalidInput(
                f"{command.name!r:.80} is not a name for a key. Use at most 64 of a-z, 0-9, _, . and -. Nothing was made."
            )
        if (wrong := problem(command.may)) is not None:
            raise InvalidInput(f"The grants of this key are invalid: {wrong}. Nothing was made.")
        if command.life_s is not None and not 0 < command.life_s <= _MAX_LIFE_S:
            raise InvalidInput(f"life_s is {command.life_s}; a key lives up to {_MAX_LIFE_S} seconds. Nothing was made.")
        unoffered = command.workflows != ANY and _holds_unoffered(principal)
        _expect_within(
            principal, Access(command.may, command.workflows, command.tools, unoffered), (*command.roles, *command.teams)
        )
        now_ms = self._clock.now_ms()
        token = KEY + new_secret()
        key = ApiKey(
            name=command.name,
            hash=hashed(token).hex(),
            tenant=principal.of_tenant(command.tenant),
            may=command.may,
            roles=command.roles,
            teams=command.teams,
            workflows=command.workflows,
            tools=command.tools,
            made_by=str(principal.claim),
            maker=_in_hand_of(principal) or f"keys.{command.name}",
            made_at_ms=now_ms,
            expires_at_ms=None if command.life_s is None else now_ms + command.life_s * 1000,
            vouches=principal.vouches,
            unoffered=unoffered,
        )
        if not await self._keys.put(key, None):
            raise Conflict(f"There is a key {command.name!r}, now or before: a name means one key for good. Nothing was made.")
        return {**of_key(key), "key": token}

    async def link(
        self, principal: Principal, tenant: str, opens: Opens, life_s: int, roles: tuple[str, ...] = ()
    ) -> NewLinkRow:
        """A new link, shown once: `link`. Raises InvalidInput."""
        if not 0 < life_s <= _MAX_LINK_S:
            raise InvalidInput(f"life_s is {life_s}; a link lives up to {_MAX_LINK_S} seconds. Nothing was made.")
        now_ms, token = self._clock.now_ms(), LINK + new_secret()
        key = ApiKey(
            name=f"link-{hashed(token).hex()[:16]}",
            hash=hashed(token).hex(),
            tenant=tenant,
            roles=roles,
            may=("reviewer",) if isinstance(opens, ToDecide) else ("operator",),
            made_by=str(principal.claim),
            client=principal.client,
            maker=_in_hand_of(principal),
            made_at_ms=now_ms,
            expires_at_ms=now_ms + life_s * 1000,
            opens=opens,
        )
        await self._keys.put(key, None)
        return {**of_key(key), "link": token}

    async def opened(self, token: str) -> ApiKey | None:
        """Return the link of this token; None if it is unknown or expired. A used or revoked link is returned, and its row says
        so."""
        key = await self._keys.find(hashed(token).hex()) if token.startswith(LINK) else None
        if key is None or key.opens is None or (key.expires_at_ms or 0) <= self._clock.now_ms():
            return None
        return key

    async def used(self, key: ApiKey) -> None:
        """It has done what it was for."""
        await self._keys.put(msgspec.structs.replace(key, revoked_at_ms=self._clock.now_ms()), key.hash)

    async def rotate(self, principal: Principal, name: str, tenant: str | None = None) -> NewKeyRow:
        """Make another secret under the same name; the one before is over at once. Its receiver may do as much. It no longer
        reaches code that no server offers, unless it is by `principal`. Raises NotFound, NotPermitted, Conflict,
        InvalidInput."""
        before = await self._named(principal, name, tenant)
        access = Access(before.may, before.workflows, before.tools, before.unoffered and _holds_unoffered(principal))
        _expect_within(principal, access, (*before.roles, *before.teams))
        if before.vouches and not principal.vouches and Access(before.may).allows("reviewer"):
            raise NotPermitted(
                f"{before.name} says in which roles others decide, and {principal.claim} acts in their own only. Nothing was"
                " made: a program rotates it, or a person with access to the store (`holdfast keys rotate`)."
            )
        token = KEY + new_secret()
        maker = _in_hand_of(principal) or f"keys.{before.name}"
        replaced = await self._replace(before, hash=hashed(token).hex(), maker=maker, unoffered=access.unoffered)
        return {**replaced, "key": token}

    async def revoke(self, principal: Principal, name: str, tenant: str | None = None) -> KeyRow:
        """Take it back, for good and at once: an admin any, others the links that they have made. Raises NotFound, Conflict,
        InvalidInput."""
        before = await self._named(principal, name, tenant)
        if not (principal.access.allows("admin") or _is_link_of(principal, before)):
            raise no_key(name)
        return await self._replace(before, revoked_at_ms=before.revoked_at_ms or self._clock.now_ms())

    async def _named(self, principal: Principal, name: str, tenant: str | None) -> ApiKey:
        key = await owned(self._keys, name, principal.of_tenant(tenant))
        if key is None:
            raise no_key(name)
        return key

    async def _replace(self, before: ApiKey, **changes: Any) -> KeyRow:
        key = msgspec.structs.replace(before, **changes)
        if before.revoked_at_ms is not None and key.hash != before.hash:
            raise Conflict(f"The key {key.name} was taken back, for good. Nothing was changed: make another.")
        if not await self._keys.put(key, before.hash):
            raise Conflict(
                f"The key {key.name} has just been changed by another request. Nothing was done: look, and try again."
            )
        return of_key(key)


def _expect_within(principal: Principal, access: Access, roles: Iterable[str]) -> None:
    """Raise NotPermitted for a key that allows more than is allowed to whom it is shown: grants, workflows, tools and roles."""
    if not principal.access._replace(unoffered=_holds_unoffered(principal)).holds(access):
        reached = ", ".join((*principal.access.may, *principal.access.workflows, *principal.access.tools))
        hidden = ", and code that no server offers" if access.unoffered and not _holds_unoffered(principal) else ""
        raise NotPermitted(
            f"{principal.claim} holds {reached:.400} and grants no more, and this key reaches more{hidden}. Nothing was made."
        )
    expect_roles(principal, roles)


def _holds_unoffered(principal: Principal) -> bool:
    """Return True if the caller may start code that no server offers: the operator of the fleet, and those that the operator
    has named for it."""
    return principal.tenant is None or principal.access.unoffered


def expect_roles(principal: Principal, roles: Iterable[str]) -> None:
    """Raise NotPermitted for roles and teams that the caller hands on and does not have."""
    if (other := principal.lacks(roles)) is not None:
        raise NotPermitted(
            f"{principal.claim} does not act in the role {other!r:.80}, and cannot hand it on. Nothing was made."
        )


def _in_hand_of(principal: Principal) -> str | None:
    """Return the person who holds a secret that `principal` is shown: a caller with a key or link counts as its maker. A
    program without a person is None."""
    is_program = not principal.is_person and principal.name == principal.client
    return principal.maker or (None if is_program else principal.name)


def _is_link_of(principal: Principal, key: ApiKey) -> bool:
    """Return True for a link that was made with the same token, even in another name; of a key, by its present holder."""
    if key.opens is None:
        return False
    if not key.client:
        return (key.made_by, key.maker) == (str(principal.claim), _in_hand_of(principal))
    return key.client == principal.client and principal.maker in (None, key.maker)


async def owned(keys: Keys, name: str, tenant: str | None) -> ApiKey | None:
    """Return the key of a name: a tenant's own; without a tenant the only one of that name. Raises InvalidInput where several
    tenants have one."""
    found = await keys.named(name, tenant, 2)
    if len(found) > 1:
        raise InvalidInput(f"Several tenants have a key {name!r:.80}: say whose you mean, with `tenant`. Nothing was done.")
    return found[0] if found else None


def no_key(name: str) -> NotFound:
    """Return the refusal for a key that is not there, or is hidden from the caller."""
    return NotFound(f"There is no key {name!r:.80}; `holdfast keys list` shows those that are.")
