"""Access to ports in holdfast.toml: signed tokens, an identity provider for browsers, and the load that ports take.

Never here: a token, a key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, Field, model_validator

from holdfast.settings.secrets import NameOfSecret
from holdfast.settings.table import TABLE, is_private

_ASYMMETRIC: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_SYMMETRIC: Final = ("HS256", "HS384", "HS512")


class SignedTokenRules(BaseModel):
    """`[identity]` in holdfast.toml: signed tokens (JWT) of people: their issuer, and the meaning of their claims."""

    model_config = TABLE

    issuer: str = Field(min_length=1)
    """Issuer of the tokens: the claim `iss`."""
    audience: str = Field(min_length=1)
    """Audience of the tokens: the claim `aud` names it."""
    jwks_url: str | None = None
    """Address of the issuer's keys (RFC 7517)."""
    key_file: Path | None = None
    """File with the one key instead: PEM, or for an HS algorithm the secret, readable only by its owner."""
    algorithms: tuple[str, ...] = ("RS256",)
    """Accepted algorithms, whatever a token names."""
    leeway_s: float = Field(default=30.0, ge=0, le=300)
    """Maximum difference of the issuer's clock, in seconds."""
    tenant_claim: str = "tenant"
    """Claim that names the tenant."""
    tenantless: bool = False
    """True to let a token without that claim act for all tenants; otherwise it is refused."""
    roles_claim: str = "roles"
    """Claim that lists the roles in which the person decides."""
    teams_claim: str = "teams"
    """Claim that lists the person's teams."""
    grants_claim: str = "holdfast"
    """Claim that lists the grants: viewer, operator, reviewer, author, admin."""
    grants: tuple[str, ...] = ("viewer",)
    """Grants of tokens without that claim."""

    @model_validator(mode="after")
    def _has_one_kind_of_key(self) -> SignedTokenRules:
        if (self.jwks_url is None) == (self.key_file is None):
            raise ValueError("say either jwks_url or key_file")
        if self.jwks_url is not None and not is_private(self.jwks_url):
            raise ValueError("jwks_url must be https: anyone who could change its response could sign tokens")
        known = _ASYMMETRIC if self.jwks_url is not None else (*_ASYMMETRIC, *_SYMMETRIC)
        if not self.algorithms or (wrong := next((each for each in self.algorithms if each not in known), None)):
            raise ValueError(
                f"algorithms are of {', '.join(known)}; {wrong!r} is none here" if self.algorithms else "say algorithms"
            )
        if self.key_file is not None and len({each[:2] for each in self.algorithms}) > 1:
            raise ValueError("the algorithms of one key are of one kind")
        return self


class SignInRules(BaseModel):
    """`[sign_in]` in holdfast.toml: identity provider (OpenID Connect) at which people sign in with a browser, and what its
    claims allow them. It needs `public_url`."""

    model_config = TABLE

    issuer: str
    """Address of the provider: the claim `iss`."""
    client_id: str = Field(min_length=1)
    """Id of this server as a client of the provider. Register the redirect address
    `PUBLIC_URL/api/v1/sign-in/oidc/callback`."""
    secret: NameOfSecret = "HOLDFAST_SIGN_IN_SECRET"
    """Name of the secret with the client's secret. Without such a secret it is a public client."""
    title: str = Field(default="Single sign-on", min_length=1, max_length=60)
    """Name of the provider on the page for signing in."""
    scopes: tuple[str, ...] = ("openid", "profile")
    """Scopes to ask for."""
    algorithms: tuple[str, ...] = ("RS256",)
    """Accepted algorithms, whatever a token names."""
    leeway_s: float = Field(default=30.0, ge=0, le=300)
    """Maximum difference of the provider's clock, in seconds."""
    name_claim: str = "sub"
    """Claim that names the person. An `email` must be verified."""
    tenant: str | None = Field(default=None, min_length=1)
    """Tenant of all people. By default the tenant claim names it."""
    tenant_claim: str = "tenant"
    """Claim that names the tenant."""
    tenantless: bool = False
    """True to let a person without that claim act for all tenants; otherwise they have no access."""
    roles_claim: str = "roles"
    """Claim that lists the person's roles."""
    teams_claim: str = "teams"
    """Claim that lists the person's teams."""
    grants: dict[str, tuple[str, ...]] = {}
    """Grants of each role; of the role `*`, everyone's. A person without a grant has no access."""

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if not is_private(self.issuer):
            raise ValueError("issuer must be https: anyone who could change its response could sign in")
        if not self.algorithms or not {*self.algorithms} <= {*_ASYMMETRIC}:
            raise ValueError(f"algorithms are of {', '.join(_ASYMMETRIC)}")
        if "openid" not in self.scopes:
            raise ValueError("scopes need openid")
        return self


class PortBounds(BaseModel):
    """`[bounds]` in holdfast.toml: the load that the ports of a process take at a time, for all callers together. One address
    or tenant may use at most half of the free capacity, one token half of its tenant's. So new callers find room, and a
    single caller gets a half or a quarter of each figure here."""

    model_config = TABLE

    connections: int = Field(default=4_000, ge=4)
    """Open connections to an HTTP port, and calls to a gRPC port; never more than half of the files that the process may open.
    Connections of proxies (`--behind-proxy`) are counted together only."""
    requests: int = Field(default=400, ge=4)
    """Requests and gRPC calls that are answered at a time."""
    waiting: int = Field(default=4_000, ge=4)
    """Requests and calls that wait for their turn."""
    wait_s: float = Field(default=5.0, gt=0, le=60, allow_inf_nan=False)
    """Longest wait for a turn, in seconds."""
    reading: int = Field(default=64, ge=4)
    """Bodies and messages, up to 4 MiB each, that are read at a time, or are over 64 KiB and being answered."""
    streams: int = Field(default=4_000, ge=4)
    """Open streams."""
    requests_per_s: int = Field(default=1_000, ge=1)
    """Requests of one token in a second; a tenant has twice as many."""
    burst: int = Field(default=2_000, ge=1)
    """Requests of one token at once after a pause; a tenant has twice as many."""
    head_s: float = Field(default=10.0, gt=0, le=300, allow_inf_nan=False)
    """Seconds for the head of a request, and for a worker's first message."""
    body_s: float = Field(default=30.0, gt=0, le=300, allow_inf_nan=False)
    """Seconds for a body or message, and for a client to read what it was sent."""
