"""An identity provider (OpenID Connect Core 1.0) at which people sign in: by an authorization code with PKCE, for one client.

A person has what the rules declare for their roles, and nothing else. The provider's addresses and keys are read from it, and
read again in time. Never here: a cookie, a page, how long a sign-in counts.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, get_args
from urllib.parse import quote, urlencode

import httpx2
import jwt
import msgspec

from holdfast.core.values.access import GRANTS, Access, problem
from holdfast.core.values.actor import folded
from holdfast.errors import UsageError
from holdfast.platform.machine import new_secret
from holdfast.service.access.identity import Holder, read_words
from holdfast.service.access.signed_token import MAX_BYTES, OURS, IssuerKeys, fetch
from holdfast.settings import SignInRules, is_private

log = logging.getLogger("holdfast")

EVERYONE: Final = "*"
"""The name in the grants for every person who signs in, in any role."""
_FRESH_S: Final = 600.0
_TIMEOUT_S: Final = 5.0
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")

SignInError: TypeAlias = Literal["expired", "refused", "unreachable", "not_trusted", "not_permitted"]
WORDS: Final[Mapping[SignInError, str]] = {
    "expired": "This sign-in took too long, was used already, or began in another browser. Sign in again.",
    "refused": "The identity provider did not let you in. Sign in again, or ask its administrator.",
    "unreachable": "The identity provider cannot be reached. Try again in a minute.",
    "not_trusted": "The answer of the identity provider could not be verified. Sign in again, or ask this server's operator.",
    "not_permitted": "Your account has no access here. Ask the operator of this server.",
}
"""The errors of a sign-in at a provider, for people."""
assert WORDS.keys() == {*get_args(SignInError)}


class SignInFailed(Exception):
    """A sign-in that failed."""

    def __init__(self, code: SignInError) -> None:
        super().__init__(WORDS[code])
        self.code = code


class Attempt(msgspec.Struct, frozen=True):
    """A sign-in that has begun: its secrets, which only the browser keeps, and the page to which it leads."""

    state: str
    verifier: str
    nonce: str
    page: str

    @classmethod
    def begin(cls, page: str) -> Attempt:
        """Return a new one."""
        return cls(new_secret(), new_secret(), new_secret(), page)


class Provider:
    """The provider, and the client that this server is there."""

    def __init__(self, rules: SignInRules, public_url: str, secret: str | None) -> None:
        """`secret` is the client's; None for a public client. Raises UsageError for grants that do not exist."""
        for role, may in rules.grants.items():
            if (wrong := problem(may)) is not None:
                raise UsageError(f"holdfast.toml: [sign_in] has invalid grants of {role!r:.80}: {wrong}. Nothing was started.")
        self._rules = rules
        self._public_url = public_url
        self._secret = secret
        self._keys = IssuerKeys(rules.algorithms)
        self._addresses: Mapping[str, str] = {}
        self._read_s = float("-inf")
        self._reading = asyncio.Lock()

    @property
    def name(self) -> str:
        """Return the issuer's name."""
        return self._rules.issuer

    @property
    def title(self) -> str:
        """Return its name for people."""
        return self._rules.title

    @property
    def redirect_url(self) -> str:
        """Return the address to which it sends browsers back."""
        return f"{self._public_url}/api/v1/sign-in/oidc/callback"

    async def address(self, attempt: Attempt) -> str:
        """Return the address at which a person signs in. Raises SignInFailed."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._rules.client_id,
            "redirect_uri": self.redirect_url,
            "scope": " ".join(self._rules.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return _with_query((await self._read())["authorization_endpoint"], query)

    async def sign_out_address(self) -> str | None:
        """Return the address at which a browser signs out there too; None if the provider has none, or is away."""
        try:
            found = (await self._read()).get("end_session_endpoint")
        except SignInFailed:
            return None
        query = {"client_id": self._rules.client_id, "post_logout_redirect_uri": f"{self._public_url}/sign-in"}
        return None if found is None else _with_query(found, query)

    async def claims(self, attempt: Attempt, parameters: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the claims of the person, from the parameters with which the provider sent the browser back: those that the
        rules read. Raises SignInFailed."""
        if not hmac.compare_digest(parameters.get("state", "").encode(), attempt.state.encode()):
            raise SignInFailed("expired")
        if parameters.get("iss", self.name) != self.name:  # RFC 9207
            raise _not_trusted("another issuer answered")
        if "error" in parameters or not parameters.get("code"):
            raise SignInFailed("refused")
        addresses = await self._read()
        return await self._verified(await self._redeem(addresses["token_endpoint"], attempt, parameters["code"]), attempt)

    def holder_of(self, claims: Mapping[str, Any]) -> Holder:
        """Return the holder that the claims name. Raises ValueError for claims that name none, or that allow nothing."""
        rules = self._rules
        name = claims.get(rules.name_claim)
        if not isinstance(name, str) or not name.strip() or len(name) > 200 or folded(name).startswith(OURS):
            raise ValueError(f"{rules.name_claim} is no name")
        if rules.name_claim == "email" and claims.get("email_verified") is not True:
            raise ValueError("the e-mail address is not verified")
        tenant = rules.tenant if rules.tenant is not None else claims.get(rules.tenant_claim)
        if tenant is None and not rules.tenantless:
            raise ValueError("it is of no tenant")
        if tenant is not None and not (isinstance(tenant, str) and tenant.strip()):
            raise ValueError("its tenant is no name")
        roles, teams = read_words(claims.get(rules.roles_claim, [])), read_words(claims.get(rules.teams_claim, []))
        allowed = {grant for role in (EVERYONE, *roles) for grant in rules.grants.get(role, ())}
        if not allowed:
            raise ValueError("no role of theirs has a grant")
        access = Access(tuple(grant for grant in GRANTS if grant in allowed))
        return Holder(name, tenant=tenant, roles=roles, teams=teams, access=access, is_person=True)

    # --- What the provider answers --------------------------------------------------------------------------------------

    async def _read(self) -> Mapping[str, str]:
        """Return its addresses. While it is away those that were read before count."""
        loop = asyncio.get_running_loop()
        async with self._reading:
            if loop.time() - self._read_s > _FRESH_S:
                found = await fetch(f"{self.name.rstrip('/')}/.well-known/openid-configuration")
                if _is_description(found, self.name):
                    self._addresses, self._read_s = found, loop.time()
            if not self._addresses:
                log.warning("holdfast cannot read the description of the identity provider %s.", self.name)
                raise SignInFailed("unreachable")
            return self._addresses

    async def _redeem(self, address: str, attempt: Attempt, code: str) -> str:
        """Return the ID token for a code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_url,
            "code_verifier": attempt.verifier,
        }
        headers = {"Accept": "application/json"}
        if self._secret is None:
            form["client_id"] = self._rules.client_id
        else:  # RFC 6749, section 2.3.1
            pair = f"{quote(self._rules.client_id, safe='')}:{quote(self._secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        try:
            async with (
                asyncio.timeout(_TIMEOUT_S),
                httpx2.AsyncClient(follow_redirects=False, timeout=_TIMEOUT_S) as http,
                http.stream("POST", address, data=form, headers=headers) as answer,
            ):
                body = b""
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > 8 * MAX_BYTES:
                        raise _not_trusted("its answer is too long")
                status = answer.status_code
        except (httpx2.HTTPError, TimeoutError):
            raise SignInFailed("unreachable") from None
        said = _object(body)
        if status >= 500:
            raise SignInFailed("unreachable")
        if said.get("error") == "invalid_grant":
            raise SignInFailed("expired")
        token = said.get("id_token")
        if status != 200 or not isinstance(token, str) or len(token) > MAX_BYTES:
            raise _not_trusted(f"it answered a code with status {status}")
        return token

    async def _verified(self, token: str, attempt: Attempt) -> Mapping[str, Any]:
        """Return the claims of an ID token (OpenID Connect Core 1.0, section 3.1.3.7)."""
        rules = self._rules
        try:
            key = await self._keys.find(self._addresses["jwks_uri"], jwt.get_unverified_header(token).get("kid"))
            if key is None:
                raise _not_trusted("its key is not known")
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(rules.algorithms),
                audience=rules.client_id,
                issuer=rules.issuer,
                leeway=rules.leeway_s,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as wrong:
            raise _not_trusted(f"its token does not count: {type(wrong).__name__}") from None
        nonce, audience = claims.get("nonce"), claims["aud"]
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), attempt.nonce.encode()):
            raise _not_trusted("its token is of another sign-in")
        is_of_several = isinstance(audience, list) and len(audience) > 1
        if claims.get("azp", None if is_of_several else rules.client_id) != rules.client_id:
            raise _not_trusted("its token is for another client")
        kept = ("sub", "email_verified", rules.name_claim, rules.tenant_claim, rules.roles_claim, rules.teams_claim)
        return {name: claims[name] for name in kept if name in claims}


def _is_description(content: Any, issuer: str) -> bool:
    """True for the description of that issuer, with addresses whose answers cannot be changed on the way."""
    if not isinstance(content, dict) or content.get("issuer") != issuer:
        return False
    ends = [content.get(name) for name in _ENDPOINTS]
    ends += [content["end_session_endpoint"]] if "end_session_endpoint" in content else []
    return all(isinstance(each, str) and is_private(each) for each in ends)


def _with_query(address: str, query: Mapping[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _not_trusted(reason: str) -> SignInFailed:
    log.warning("holdfast did not trust the identity provider: %s.", reason)
    return SignInFailed("not_trusted")
