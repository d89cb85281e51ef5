"""A browser at `holdfast dev`: an address with a code gives it a cookie, once; with that it is asked as with the token.

A page of another origin can have a browser send a request, and its cookies where both are of one site; so what changes
something needs our own Origin, the cookie is for one site (`SameSite=Strict`), and no answer lets another origin read it.
Never here: a port that others reach. Cookies know no ports, so every server on this machine's loopback is given them.
"""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Final

from fastapi import Request, Response

from holdfast.http.problem import Problem
from holdfast.http.route import BASE
from holdfast.service.access.identity import hashed

_SAFE: Final = frozenset({"GET", "HEAD"})
_SITE: Final = "sec-fetch-site"
_OUR_SITE: Final = frozenset({"same-origin", "none"})
"""From which page a browser says that a request comes: from one of ours, or from none (an address that was typed)."""
_NOT_KEPT: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


class Browser:
    """The one session of a port on loopback. `code` is a file, which exists until the code in it is used, even if the process
    restarts."""

    def __init__(self, session: str, code: Path) -> None:
        self._session = session
        self._code = code

    def handed_over(self, request: Request) -> Response:
        """Exchange the printed code for the session cookie. Raises Problem for a wrong or used code."""
        said = request.query_params.get("code", "")
        try:
            code = self._code.read_text().strip()
            if not code or hashed(said) != hashed(code):
                raise Problem(HTTPStatus.FORBIDDEN, "wrong_code", "This is not the code that was printed. Nothing was done.")
            self._code.unlink()  # removing it is using it
        except FileNotFoundError:
            words = "The code of this address was used. Restart `holdfast dev` for another, or send the token."
            raise Problem(HTTPStatus.GONE, "used", words) from None
        cookie = f"{_name(request)}={self._session}; HttpOnly; SameSite=Strict; Path=/"
        return Response(status_code=HTTPStatus.SEE_OTHER, headers={"Location": f"{BASE}/me", "Set-Cookie": cookie, **_NOT_KEPT})

    def knows(self, request: Request) -> bool:
        """Return True if a request comes from the browser that has the cookie.

        Raises Problem if another site's page sent the request, or if it would change something and lacks the page's own Origin.
        """
        if hashed(request.cookies.get(_name(request), "")) != hashed(self._session):
            return False
        ours = f"{request.url.scheme}://{request.headers.get('host', '')}"
        if request.method not in _SAFE and request.headers.getlist("origin") != [ours]:
            words = f"What changes something and comes with a cookie needs the header Origin: {ours}. Nothing was done."
            raise Problem(HTTPStatus.FORBIDDEN, "wrong_origin", words)
        if request.headers.get(_SITE, "none") not in _OUR_SITE:
            words = "A page of another site had this sent with the cookie. Nothing was done: ask with the token."
            raise Problem(HTTPStatus.FORBIDDEN, "wrong_origin", words)
        return True


def _name(request: Request) -> str:
    return f"holdfast-{request.url.port}"
