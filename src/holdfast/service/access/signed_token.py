"""Signed tokens (JWT, RFC 7519) of people, from an issuer that is trusted: who their holder is, for how long, by which claims.

The algorithms are those that are pinned, never the one that a token names; of its header only `kid` is read, which chooses
among the keys that the issuer shows at the address that is pinned or that a file holds. Never here: what a holder may do.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx2
import jwt

from holdfast.core.values.access import ANY, Access, problem
from holdfast.core.values.actor import HOOK, folded
from holdfast.errors import UsageError
from holdfast.platform import privacy
from holdfast.service.access.identity import Holder, read_words
from holdfast.settings import SignedTokenRules

MAX_BYTES: Final = 16 * 1024
"""Of a token: proxies take no longer headers."""
_MAX_SET_BYTES: Final = 1024 * 1024
_MAX_KEYS: Final = 100
_FETCHED_S: Final = 5.0
_FRESH_S: Final = 600.0
"""How long the issuer's keys are believed without another look: one that it takes back is refused after that."""
_AGAIN_S: Final = 30.0
"""How often they are looked at for a token with an unknown key at most: such tokens cost nothing to make."""
OURS: Final = ("clients.", "workers.", "keys.", HOOK)
"""Prefixes of the names of tokens and keys that this server knows itself; no other caller has such a name."""


class SignedTokens:
    """The rules and the known keys of the issuer."""

    def __init__(self, rules: SignedTokenRules) -> None:
        """Raises UsageError for a key file that cannot be used."""
        self._rules = rules
        self._keys = IssuerKeys(rules.algorithms)
        claims = rules.tenant_claim, rules.roles_claim, rules.teams_claim, rules.grants_claim
        self._read: Final = ("sub", "exp", "workflows", "tools", *claims)
        """The claims that count; no other is kept."""
        self._own_key = None if rules.key_file is None else _key_of(rules)

    @property
    def name(self) -> str:
        """Return the issuer's name."""
        return self._rules.issuer

    async def holder(self, token: str) -> Holder | None:
        """Return the holder of this token. None if the token is not the issuer's, has expired, is not valid yet, or has another
        audience."""
        claims = await self.claims(token)
        try:
            return None if claims is None else self.holder_of(claims)
        except (ValueError, TypeError):
            return None

    async def claims(self, token: str) -> Mapping[str, Any] | None:
        """Return the claims of a token that counts now."""
        rules = self._rules
        if len(token) > MAX_BYTES:
            return None
        try:
            key = await self._key(jwt.get_unverified_header(token).get("kid"))
            if key is None:
                return None
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(rules.algorithms),
                audience=rules.audience,
                issuer=rules.issuer,
                leeway=rules.leeway_s,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
            return {name: claims[name] for name in self._read if name in claims}
        except (jwt.PyJWTError, ValueError, TypeError):
            return None

    def holder_of(self, claims: Mapping[str, Any]) -> Holder:
        """Return the holder that the claims name. Raises ValueError for claims that name none, or more than is allowed."""
        rules, name = self._rules, claims["sub"]
        if not isinstance(name, str) or not name.strip() or len(name) > 200 or folded(name).startswith(OURS):
            raise ValueError("sub is no name")
        tenant = claims.get(rules.tenant_claim)
        if tenant is None and not rules.tenantless:
            raise ValueError("it is of no tenant")
        if tenant is not None and not (isinstance(tenant, str) and tenant.strip()):
            raise ValueError("its tenant is no name")
        may = read_words(claims.get(rules.grants_claim, list(rules.grants)))
        if problem(may) is not None:
            raise ValueError(problem(may))
        workflows, tools = (read_words(claims.get(name, list(ANY))) for name in ("workflows", "tools"))
        access = Access(may, workflows, tools, "*" not in workflows)  # type: ignore[arg-type]
        roles, teams = read_words(claims.get(rules.roles_claim, [])), read_words(claims.get(rules.teams_claim, []))
        return Holder(name, tenant=tenant, roles=roles, teams=teams, access=access, is_person=True)

    async def _key(self, kid: Any) -> Any:
        if kid is not None and not isinstance(kid, str):
            return None
        url = self._rules.jwks_url
        return self._own_key if url is None else await self._keys.find(url, kid)


class IssuerKeys:
    """The keys that an issuer shows at an address."""

    def __init__(self, algorithms: Sequence[str]) -> None:
        self._algorithms = algorithms
        self._keys: Mapping[str | None, Any] = {}
        self._read_s = self._tried_s = float("-inf")
        self._looking = asyncio.Lock()

    async def find(self, url: str, kid: str | None) -> Any:
        """Return the key that a token names; where one key is known and the token names none, that one. None if there is
        none."""
        await self._look(url, kid)
        return self._keys.get(kid) if kid is not None else next(iter(self._keys.values())) if len(self._keys) == 1 else None

    async def _look(self, url: str, kid: str | None) -> None:
        """Know the issuer's keys. Where they cannot be read those known before count until they are too old."""
        now_s = asyncio.get_running_loop().time()
        is_old = now_s - self._read_s > _FRESH_S
        if (is_old or kid not in self._keys) and now_s - self._tried_s > _AGAIN_S:
            async with self._looking:
                if now_s - self._tried_s > _AGAIN_S:
                    self._tried_s = now_s
                    found = _keys_of(await fetch(url), self._algorithms)
                    if found is not None:
                        self._keys, self._read_s = found, now_s
        if now_s - self._read_s > 2 * _FRESH_S:
            self._keys = {}


async def fetch(url: str) -> Any:
    """Return the JSON at an address; None where it does not answer with any."""
    body = b""
    try:
        async with (
            asyncio.timeout(_FETCHED_S),
            httpx2.AsyncClient(follow_redirects=False, timeout=_FETCHED_S) as http,
            http.stream("GET", url) as answer,
        ):
            if answer.status_code != 200:
                return None
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > _MAX_SET_BYTES:
                    return None
        return json.loads(body)
    except (httpx2.HTTPError, TimeoutError, ValueError):
        return None


def _keys_of(content: Any, algorithms: Sequence[str]) -> Mapping[str | None, Any] | None:
    """Return the keys of a set, by their names; None for what is no set of keys."""
    if not isinstance(content, dict) or not isinstance(content.get("keys"), list):
        return None
    found: dict[str | None, Any] = {}
    for each in content["keys"][:_MAX_KEYS]:
        if not isinstance(each, dict) or each.get("use", "sig") != "sig" or each.get("kty") == "oct":
            continue  # a secret that is shown to all is none
        try:
            key = jwt.PyJWK(each)
        except jwt.PyJWTError:
            continue  # of a kind that is not known here
        if key.algorithm_name in algorithms and _weakness(key.algorithm_name, key.key) is None:
            found[each.get("kid")] = key
    return found


def _key_of(rules: SignedTokenRules) -> Any:
    file, secret = rules.key_file, rules.algorithms[0].startswith("HS")
    assert file is not None
    try:
        raw = privacy.read_secret(file, "key of signed tokens") if secret else file.read_bytes()
        key = jwt.get_algorithm_by_name(rules.algorithms[0]).prepare_key(raw.strip() if secret else raw)
        if (weak := next(filter(None, (_weakness(each, key) for each in rules.algorithms)), None)) is not None:
            raise ValueError(weak)
        return key
    except (OSError, ValueError, TypeError, jwt.PyJWTError) as wrong:
        raise UsageError(f"The key file {file} of [identity] cannot be used: {wrong}. Nothing was started.") from None


def _weakness(algorithm: str, key: Any) -> str | None:
    """Return why a key is too short for an algorithm (RFC 7518, 3.2 and 3.3); None for one that is not."""
    weak: str | None = jwt.get_algorithm_by_name(algorithm).check_key_length(key)
    return weak
