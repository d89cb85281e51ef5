"""Sign-ins of browsers: begun with a token or key, or with the claims of a person whom an identity provider has verified.

A sign-in is a row of the store, so each server of a fleet knows it, a restart keeps it, and it ends at once: with a sign-out,
and with the token or key behind it. It holds no grants: they are those of the token, or of the claims, at each request.
Never here: a cookie, a page, the protocol of a provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from holdfast.core.values.access import SignInWay
from holdfast.errors import NotPermitted
from holdfast.platform.machine import new_secret
from holdfast.ports import SignIn, Store
from holdfast.service.access.identity import SCHEME, Holder, Identity, Verifier, hashed

LIFE_S: Final = 12 * 3_600
"""A sign-in lives so long, however much it is used."""
MOST: Final = 100
"""Sign-ins of one caller; one more ends the oldest."""


class SignedIn(NamedTuple):
    """A sign-in, and the caller for whom it stands now."""

    sign_in: SignIn
    holder: Holder


class SignIns:
    """The sign-ins at a port."""

    def __init__(self, store: Store, identity: Identity, provider: Verifier | None = None) -> None:
        """`provider` names the people who sign in there."""
        self._store = store
        self._identity = identity
        self._signers: dict[SignInWay, Verifier | None] = {"token": identity.issuer, "oidc": provider}

    async def with_token(self, token: str, origin: str = "") -> tuple[str, SignedIn] | None:
        """Sign in with a token or key, from the address `origin`: the secret of the cookie, and the sign-in. None for a token
        that is not known, which is noted. Raises NotPermitted for a worker's."""
        holder = await self._identity.holder(f"{SCHEME}{token}", origin)
        if holder is None:
            return None
        if not holder.asks:
            raise NotPermitted(f"The token {holder.name!r} is a worker's: it asks and decides nothing. Nothing was done.")
        claims = await self._identity.claims(token)
        if claims is not None:
            assert self._identity.issuer is not None
            return await self._with_claims("token", self._identity.issuer, claims, holder, origin)
        owner = hashed(token).hex()
        return await self._add("token", owner, holder, LIFE_S, token_hash=owner, origin=origin)

    async def at_provider(self, provider: Verifier, claims: Mapping[str, Any], origin: str = "") -> tuple[str, SignedIn]:
        """Sign in a person by verified claims. Raises ValueError for claims that allow nothing here."""
        return await self._with_claims("oidc", provider, claims, provider.holder_of(claims), origin, is_lasting=True)

    async def find(self, secret: str) -> SignedIn | None:
        """Return the sign-in of a cookie; None if it is unknown, over, or its caller is no longer known."""
        sign_in = await self._store.sign_ins.find(hashed(secret).hex()) if secret else None
        if sign_in is None:
            return None
        if sign_in.token_hash is not None:
            holder = await self._identity.holder_of_hash(bytes.fromhex(sign_in.token_hash))
        else:
            holder = self._named(sign_in)
        return None if holder is None or not holder.asks else SignedIn(sign_in, holder)

    async def end(self, secret: str) -> bool:
        """Sign out. Returns False for a cookie that is not known."""
        return await self._store.sign_ins.end(hashed(secret).hex())

    def _named(self, sign_in: SignIn) -> Holder | None:
        """Return the person of the claims, by the rules of now: a changed rule counts at once."""
        signer = self._signers[sign_in.way]
        if signer is None or signer.name != sign_in.issuer:
            return None
        try:
            return signer.holder_of(sign_in.claims)
        except (ValueError, TypeError):
            return None

    async def _with_claims(
        self,
        way: SignInWay,
        signer: Verifier,
        claims: Mapping[str, Any],
        holder: Holder,
        origin: str,
        *,
        is_lasting: bool = False,
    ) -> tuple[str, SignedIn]:
        """Sign in by claims; unless `is_lasting`, no longer than the token that had them."""
        left_s = LIFE_S if is_lasting else int(claims["exp"]) - self._store.clock.now_ms() // 1000
        owner = hashed(f"{signer.name} {claims['sub']}").hex()
        life_s = min(LIFE_S, left_s)
        return await self._add(way, owner, holder, life_s, issuer=signer.name, claims=claims, origin=origin)

    async def _add(self, way: SignInWay, owner: str, holder: Holder, life_s: int, **proof: Any) -> tuple[str, SignedIn]:
        secret, now_ms = new_secret(), self._store.clock.now_ms()
        sign_in = SignIn(
            hash=hashed(secret).hex(),
            way=way,
            owner=owner,
            name=holder.name,
            tenant=holder.tenant,
            began_at_ms=now_ms,
            expires_at_ms=now_ms + life_s * 1000,
            **proof,
        )
        await self._store.sign_ins.add(sign_in, MOST)
        return secret, SignedIn(sign_in, holder)
