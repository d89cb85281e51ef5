"""Sessions of browsers: a cookie stands for a sign-in, from a token, the code that `holdfast dev` prints, or a provider.

A page of another origin can have a browser send a request, and its cookies where both are of one site; so what changes
something needs our own Origin, the cookie is for one site (`SameSite=Strict`), and no answer lets another origin read it.
Cookies know no ports, so each port has a name of its own for its cookie. Never here: who is known (service.access).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from fastapi import Request, Response

from holdfast.http.problem import Problem
from holdfast.http.request import origin_of
from holdfast.http.route import BASE
from holdfast.service.access.identity import hashed
from holdfast.service.access.sign_in import LIFE_S, SignedIn, SignIns

SAFE: Final = frozenset({"GET", "HEAD"})
_SITE: Final = "sec-fetch-site"
_OUR_SITE: Final = frozenset({"same-origin", "none"})
"""From which page a browser says that a request comes: from one of ours, or from none (an address that was typed)."""
_NOT_KEPT: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_PORT: Final = re.compile(r":(\d{1,5})$", re.ASCII)
_MAX_TOKEN: Final = 16 * 1024
SIGN_IN: Final = "/sign-in"
"""The console's page for signing in."""
_OF_CODE: Final = {
    "wrong_code": "This is not the code that was printed. Open the latest address that `holdfast dev` printed, or sign in with"
    " the token.",
    "used": "The code of this address was used. Restart `holdfast dev` for another, or sign in with the token.",
}
"""The errors of a printed code, for people."""


class TokenBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a sign-in."""

    token: str


class Place(NamedTuple):
    """The place of a port as browsers see it: whether TLS stands before it, and under which address, if that is declared."""

    is_tls: bool = False
    public_url: str | None = None

    def origins(self, request: Request) -> frozenset[str]:
        """Return the origins of our own pages."""
        here = f"{'https' if self.is_tls else request.url.scheme}://{request.headers.get('host', '')}"
        return frozenset({here} if self.public_url is None else {here, self.public_url})

    @property
    def is_secure(self) -> bool:
        """True if the cookie travels over TLS alone."""
        return self.is_tls or (self.public_url or "").startswith("https:")

    def cookie(self, request: Request) -> str:
        """Return the name of the cookie. Over TLS no other host of the site may set one of that name (`__Host-`)."""
        known = urlsplit(self.public_url or f"http://{request.headers.get('host', '')}").netloc
        found = _PORT.search(known)
        port = found[1] if found else "443" if self.is_secure else "80"
        return f"__Host-holdfast-{port}" if self.is_secure else f"holdfast-{port}"

    def set_cookie(self, name: str, value: str, life_s: int, same_site: str = "Strict") -> str:
        """Return the header that sets a cookie; none that a script could read."""
        secure = "; Secure" if self.is_secure else ""
        return f"{name}={value}; Max-Age={life_s}; Path=/; HttpOnly; SameSite={same_site}{secure}"


class Sessions:
    """The sessions of a port. `code` is a file, which exists until the code in it is used, even if the process restarts."""

    def __init__(
        self,
        sign_ins: SignIns,
        place: Place | None = None,
        code: Path | None = None,
        token: str | None = None,
        home: str = f"{BASE}/me",
    ) -> None:
        """The code stands for `token`, and leads to the page `home`."""
        self.sign_ins = sign_ins
        self.place = Place() if place is None else place
        self._code = code
        self._token = token
        self._home = home

    @property
    def takes_code(self) -> bool:
        """True if a printed code signs in here."""
        return self._code is not None

    @property
    def code_errors(self) -> Mapping[str, str]:
        """The errors to which a printed code can lead here."""
        return _OF_CODE if self.takes_code else {}

    def has_cookie(self, request: Request) -> bool:
        """True if a request comes with a cookie of this port."""
        return bool(self._secret(request))

    async def find(self, request: Request) -> SignedIn | None:
        """Return the sign-in that a request's cookie stands for.

        Raises Problem if another site's page sent the request, or if it would change something and lacks the page's own Origin.
        """
        found = await self.sign_ins.find(self._secret(request))
        if found is not None:
            self.expect_own_page(request)
        return found

    def expect_own_page(self, request: Request, *, is_browser: bool = True) -> None:
        """Raise Problem for a request that a page of another site has sent, and unless `is_browser` is False for one that would
        change something and does not say that a page of ours has sent it."""
        ours, origins = self.place.origins(request), request.headers.getlist("origin")
        needs = request.method not in SAFE and (is_browser or origins)
        if needs and not (len(origins) == 1 and origins[0] in ours):
            words = (
                f"What changes something from a browser needs the header Origin: {' or '.join(sorted(ours))}. Nothing was done."
            )
            raise Problem(HTTPStatus.FORBIDDEN, "wrong_origin", words)
        if request.headers.get(_SITE, "none") not in _OUR_SITE:
            words = "A page of another site had a browser send this. Nothing was done: ask with the token."
            raise Problem(HTTPStatus.FORBIDDEN, "wrong_origin", words)

    async def sign_in(self, request: Request, body: str, origin: str) -> tuple[SignedIn, str]:
        """Sign in with the token of a body: the sign-in, and the header that sets the cookie. Raises Problem, NotPermitted."""
        try:
            token = msgspec.json.decode(body, type=TokenBody).token.strip()
        except msgspec.MsgspecError:  # its own words could show the token
            token = ""
        if not 0 < len(token) <= _MAX_TOKEN:
            words = f'The body is {{"token": "TOKEN"}}, of 1 to {_MAX_TOKEN} characters. Nothing was done.'
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_input", words)
        made = await self.sign_ins.with_token(token, origin)
        if made is None:
            words = "This token is not known here, or is over. Nothing was done."
            raise Problem(HTTPStatus.UNAUTHORIZED, "unauthorized", words)
        await self.forget(request)
        return made[1], self.cookie(request, *made)

    async def sign_out(self, request: Request) -> str:
        """End the session of a request, and return the header that removes the cookie."""
        await self.forget(request)
        return self._set_cookie(request, "", 0)

    async def forget(self, request: Request) -> None:
        """End the session of a request, if it has one."""
        if secret := self._secret(request):
            await self.sign_ins.end(secret)

    async def handed_over(self, request: Request) -> tuple[SignedIn, Response]:
        """Exchange the printed code for a session. Raises Problem for a wrong or used code."""
        said = request.query_params.get("code", "")
        try:
            code = self._code.read_text().strip() if self._code is not None else ""
            if not code or hashed(said) != hashed(code):
                raise Problem(HTTPStatus.FORBIDDEN, "wrong_code", _OF_CODE["wrong_code"])
            assert self._code is not None
            self._code.unlink()  # removing it is using it
        except FileNotFoundError:
            raise Problem(HTTPStatus.GONE, "used", _OF_CODE["used"]) from None
        made = await self.sign_ins.with_token(self._token or "", origin_of(request))
        assert made is not None
        return made[1], self.leading_to(self._home, self.cookie(request, *made))

    def cookie(self, request: Request, secret: str, signed_in: SignedIn) -> str:
        """Return the header that sets the cookie of a sign-in."""
        sign_in = signed_in.sign_in
        return self._set_cookie(request, secret, min(LIFE_S, (sign_in.expires_at_ms - sign_in.began_at_ms) // 1000))

    def leading_to(self, path: str, *cookies: str) -> Response:
        """Return the answer that leads a browser to a page of ours, with cookies."""
        answer = Response(status_code=HTTPStatus.SEE_OTHER, headers={"Location": path, **_NOT_KEPT})
        for each in cookies:
            answer.headers.append("Set-Cookie", each)
        return answer

    def _secret(self, request: Request) -> str:
        return request.cookies.get(self.place.cookie(request), "")

    def _set_cookie(self, request: Request, secret: str, life_s: int) -> str:
        return self.place.set_cookie(self.place.cookie(request), secret, life_s)
