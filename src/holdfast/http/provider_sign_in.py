"""Signing in at an identity provider, with a browser: it is sent there with a state that only its cookie knows, and comes back.

The cookie of the state is `SameSite=Lax`: a browser that comes from the provider's site brings no strict one. An error is a
code that the page of the sign-in explains; nothing of a request is repeated. Never here: the protocol's tokens.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import msgspec
from fastapi import Request, Response

from holdfast.http.request import origin_of
from holdfast.http.route import BASE
from holdfast.http.session import SIGN_IN, Sessions
from holdfast.service.access.provider import WORDS, Attempt, Provider, SignInError, SignInFailed
from holdfast.service.access.sign_in import SignedIn
from holdfast.service.view import SignInRow, of_ways

START: Final = "/"
_PATH: Final = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]{0,999}", re.ASCII)
"""A path of this server: no other host follows two slashes, and no browser takes a sign in it for a slash."""
_MAX_S: Final = 600
"""Time that a person has at the provider."""


def own_path(text: str) -> str:
    """Return a path of a page of ours; for anything else the first page."""
    return text if _PATH.fullmatch(text) and not text.startswith(f"{BASE}/") else START


class ProviderSignIn:
    """The way of a browser to the provider and back."""

    def __init__(self, sessions: Sessions, provider: Provider) -> None:
        self.sessions = sessions
        self.provider = provider

    async def begin(self, request: Request) -> Response:
        """Send a browser to the provider; `next` is the page to which it comes afterwards."""
        attempt = Attempt.begin(own_path(request.query_params.get("next", "")))
        try:
            address = await self.provider.address(attempt)
        except SignInFailed as failed:
            return self.failed(request, failed.code)
        sealed = urlsafe_b64encode(msgspec.json.encode(attempt)).decode().rstrip("=")
        return self.sessions.leading_to(address, self._cookie(request, sealed, _MAX_S))

    async def end(self, request: Request) -> tuple[SignedIn | None, Response]:
        """Sign in a browser that the provider has sent back: the sign-in, if it has come to one, and the answer."""
        try:
            attempt = self._attempt(request)
            claims = await self.provider.claims(attempt, request.query_params)
            secret, signed_in = await self.sessions.sign_ins.at_provider(self.provider, claims, origin_of(request))
        except SignInFailed as failed:
            return None, self.failed(request, failed.code)
        except (ValueError, TypeError):
            return None, self.failed(request, "not_permitted")
        await self.sessions.forget(request)
        cookies = self.sessions.cookie(request, secret, signed_in), self._cookie(request, "", 0)
        return signed_in, self.sessions.leading_to(own_path(attempt.page), *cookies)

    def ways(self, *, signed_in: bool) -> SignInRow:
        """Return the ways to sign in, and the errors of this one."""
        return of_ways(is_open=False, signed_in=signed_in, provider=self.provider.title, errors=WORDS)

    def failed(self, request: Request, code: SignInError) -> Response:
        """Lead a browser to the page of the sign-in, with the code of what went wrong."""
        return self.sessions.leading_to(f"{SIGN_IN}?error={code}", self._cookie(request, "", 0))

    def _attempt(self, request: Request) -> Attempt:
        text = request.cookies.get(self._name(request), "")
        try:
            return msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Attempt)
        except ValueError:  # msgspec.MsgspecError is one
            raise SignInFailed("expired") from None

    def _name(self, request: Request) -> str:
        return f"{self.sessions.place.cookie(request)}-sign-in"

    def _cookie(self, request: Request, value: str, life_s: int) -> str:
        return self.sessions.place.set_cookie(self._name(request), value, life_s, same_site="Lax")
