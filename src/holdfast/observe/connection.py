"""A connection to an HTTP port, and the head of a request, bounded before any application sees them: how many connections there
are, by address, how long a client may be silent where the server waits for it, how long a body is, from which address it comes.

Never here: who asks, what for, and how often (service.turn).
"""

from __future__ import annotations

import asyncio
import re
import resource
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final, cast

import h11
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.platform.fair_share import FairShare, Holder
from holdfast.settings import PortBounds

_FULL: Final = b"503 Service Unavailable", b"Too many connections are open from this address, or in all. Try again.\n"
_LATE: Final = b"408 Request Timeout", b"The request was not there in time. Nothing was done.\n"

_FORWARDED: Final = b"x-forwarded-for"
_CLOSE: Final = {"Connection": "close"}
_TWO_LENGTHS: Final = "A request says its length once: leave out Content-Length or Transfer-Encoding. Nothing was done.\n"
_NO_ADDRESS: Final = (
    "X-Forwarded-For names no address where the first proxy of this server puts one. Nothing was done: have the proxies add the"
    " address that they are called from, and count them with --proxies.\n"
)


class Connections:
    """The connections of one port."""

    def __init__(self, bounds: PortBounds, *, proxies: int) -> None:
        """Take the port's limits. The connections of a proxy stand for many addresses, so they count only towards the total."""
        self.bounds = bounds
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._share = FairShare(min(bounds.connections, max(4, files // 2)), "connections are open")
        self._proxies = proxies

    def take(self, address: str) -> Holder | None:
        """Count a connection from an address; None where there is no room for it."""
        holder = () if self._proxies else (address,)
        return holder if self._share.take(holder) else None

    def give_back(self, holder: Holder) -> None:
        """Count it no more."""
        self._share.give_back(holder)


class BoundedConnection(H11Protocol):
    """A connection that ends where its client keeps the server waiting: with the head of a request, with the rest of a body
    after its answer, or with reading what it was sent."""

    def __init__(self, connections: Connections, **of_port: Any) -> None:
        super().__init__(**of_port)
        self._all = connections
        self._holder: Holder | None = None
        self._late: asyncio.TimerHandle | None = None
        """Ends the connection unless what is waited for comes before."""
        self._unread: asyncio.TimerHandle | None = None
        self._has_asked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))  # uvloop's is none of asyncio's classes
        self._holder = self._all.take(self.client[0] if self.client is not None else "")
        if self._holder is None:
            self._end(*_FULL)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._late, self._unread):
            if timer is not None:
                timer.cancel()
        if self._holder is not None:
            self._all.give_back(self._holder)
            self._holder = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self._all.bounds.body_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _wait(self) -> None:
        """Give the client its time where the server waits for it, and take that back where it does not."""
        state, is_late = self.conn.their_state, False
        if state is h11.IDLE:
            is_late = not self._has_asked or bool(self.conn.trailing_data[0])
        else:
            self._has_asked = True
            if state is h11.SEND_BODY:
                is_late = self.cycle.response_complete
        if is_late and self._late is None:
            self._late = self.loop.call_later(self._all.bounds.head_s, self._end, *_LATE)
        elif not is_late and self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self, status: bytes, words: bytes) -> None:
        """End the connection, with an answer where none was begun."""
        if self.conn.our_state is h11.IDLE and not self.transport.is_closing():
            self.transport.write(
                b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
                % (status, len(words), words)
            )
        self.transport.close()


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
        # Only a port that stops cancels a request (listening.cut): its connection is gone, so there is nothing to say.
        with suppress(asyncio.CancelledError):
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
