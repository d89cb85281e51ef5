"""The checks of a request's head before an application sees it: the length of its body, and the address that it comes from.

Never here: who asks, and what for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_FORWARDED: Final = b"x-forwarded-for"
_CLOSE: Final = {"Connection": "close"}
_TWO_LENGTHS: Final = "A request says its length once: leave out Content-Length or Transfer-Encoding. Nothing was done.\n"
_NO_ADDRESS: Final = (
    "X-Forwarded-For names no address where the first proxy of this server puts one. Nothing was done: have the proxies add the"
    " address that they are called from, and count them with --proxies.\n"
)


class Head:
    """An application that is sent what has one length, and comes from an address that is one."""

    def __init__(self, app: ASGIApp, proxies: int) -> None:
        """`proxies` stand in a row before the port: each adds the address that it is called from at the end of X-Forwarded-For,
        so whatever a client says stands further left. 0: none is believed."""
        self._app = app
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None
        if scope["type"] == "http":
            headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
            if {b"content-length", b"transfer-encoding"} <= {name for name, _ in headers}:
                refusal = _TWO_LENGTHS
            elif self._proxies and (address := self._forwarded(headers)) is not None:
                if not address:
                    refusal = _NO_ADDRESS
                scope = {**scope, "client": (address, 0)}
        await (self._app if refusal is None else PlainTextResponse(refusal, 400, _CLOSE))(scope, receive, send)

    def _forwarded(self, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        """Return for which address the proxies speak; None where the request came past them, "" where it is none."""
        named = b",".join(value for name, value in headers if name == _FORWARDED).decode("latin-1").split(",")
        if len(named) < self._proxies or named == [""]:
            return None
        return _address(named[-self._proxies].strip())


def _address(text: str) -> str:
    """Return an address without its port; "" for what is none."""
    found = _WITH_PORT.fullmatch(text)
    try:
        return str(ip_address(text if found is None else found[1] or found[2]))
    except ValueError:
        return ""


_WITH_PORT: Final = re.compile(r"\[([0-9A-Fa-f:.]{1,45})\](?::\d{1,5})?|([0-9.]{7,15}):\d{1,5}")
"""An address as proxies write it beside a port: `[::1]:80`, `10.0.0.1:80`."""
