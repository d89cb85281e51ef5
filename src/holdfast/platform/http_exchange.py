"""One request over HTTP: connect to a checked address, send, follow where that is safe, read a bounded answer.

What is certain is read off the connection: nothing can have happened before the first byte of the request may have
left, and everything afterwards is unknown until a status has come. Each exchange has a connection of its own, because an
idle one may be dying, and then it is unknown if the request was read. No proxy, no cookies, nothing from the
environment. Never here: what a status means for an effect (http_reply).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from holdfast.core.values.policies import LONGEST_RETRY_AFTER_S, LOST, NETWORK, TIMEOUT
from holdfast.errors import OutcomeUnknown, ToolFailed
from holdfast.platform.address import PORTS, Network, resolve

if TYPE_CHECKING:
    import ssl

    import httpx2

MAX_REDIRECTS: Final = 5
ERROR_BYTES: Final = 16 * 1024
"""Of an answer that says no, this much is read: its words are for a person."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SAME_REQUEST: Final = frozenset({307, 308})
"""By these a server says that it has not acted and wants the same request elsewhere (RFC 9110, section 15.4)."""


class Bounds(NamedTuple):
    """The limits of an exchange. `timeout_s` is for all of it, from the name's resolution to the last byte.

    `accepted` are statuses outside 2xx whose bodies must be complete as well. With `redirects` 0 none is followed.
    """

    timeout_s: float
    max_response_bytes: int
    private: Sequence[Network] = ()
    ca_file: str | None = None
    accepted: Collection[int] = ()
    redirects: int = MAX_REDIRECTS


class Request(NamedTuple):
    """An HTTP request to send. `origin` is (scheme, host, port)."""

    method: str
    origin: tuple[str, str, int]
    target: str
    headers: Mapping[str, str]
    body: bytes | None = None

    @property
    def url(self) -> str:
        return f"{self.origin[0]}://{self.authority}{self.target}"

    @property
    def authority(self) -> str:
        scheme, host, port = self.origin
        name = f"[{host}]" if ":" in host else host
        return name if port == PORTS[scheme] else f"{name}:{port}"


class Reply(NamedTuple):
    """An HTTP response. `unreadable` says why `body` is empty although a body came."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
    unreadable: str | None = None


class _Progress:
    """The progress of one request."""

    def __init__(self, may_send: Callable[[], bool]) -> None:
        self._may_send = may_send
        self.left = False
        """A connection was there, and the request's first byte may be on its way."""
        self.refusal: Reply | None = None
        """A reply whose status says no: that stands, also when the time is up before its words have come."""

    def begin(self) -> None:
        """Another request: what became of the one before is known, for it was answered with a redirect."""
        self.left, self.refusal = False, None

    async def trace(self, event: str, _: Mapping[str, Any]) -> None:
        """Called by the HTTP client for each thing it does."""
        if not event.endswith("send_request_headers.started"):
            return
        if not self._may_send():
            raise ToolFailed("This process lost its lease while it connected. Nothing was sent.", error_class=LOST)
        self.left = True


class _TooLarge(Exception):
    """An answer larger than allowed."""


def _always() -> bool:
    return True


async def exchange(request: Request, bounds: Bounds, may_send: Callable[[], bool] = _always) -> Reply:
    """Send `request` and return the reply, whatever its status. `may_send` is asked right before the first byte leaves.

    Raises ToolFailed if nothing can have been sent, OutcomeUnknown if the reply was lost.
    """
    progress = _Progress(may_send)
    try:
        async with asyncio.timeout(bounds.timeout_s):
            return await _follow(request, bounds, progress)
    except TimeoutError:
        if progress.refusal is not None:
            return progress.refusal
        raise _loss(request, progress, f"no answer within {bounds.timeout_s:g} s", TIMEOUT) from None


async def _follow(request: Request, bounds: Bounds, progress: _Progress) -> Reply:
    _, host, port = request.origin
    addresses = await resolve(host, port, bounds.private)
    for _ in range(bounds.redirects + 1):
        progress.begin()
        reply = await _send(request, addresses, bounds, progress)
        onward = _onward(request, reply) if bounds.redirects else None
        if onward is None:
            return reply
        request = onward
    raise ToolFailed(
        f"{request.method} {request.url} was redirected more than {bounds.redirects} times. Nothing was done there.",
        error_class=NETWORK,
    )


def _onward(request: Request, reply: Reply) -> Request | None:
    """The request that a redirect asks for; None where it may not be followed: elsewhere, or where it may have acted."""
    safe = request.method in SAFE_METHODS
    if reply.status not in (_REDIRECTS if safe else _SAME_REQUEST) or "location" not in reply.headers:
        return None
    try:
        there = urlsplit(urljoin(request.url, reply.headers["location"]))
        origin = (there.scheme, there.hostname or "", there.port or PORTS.get(there.scheme, 0))
    except ValueError:
        return None
    if origin != request.origin or there.username is not None:
        return None
    return request._replace(target=(there.path or "/") + (f"?{there.query}" if there.query else ""))


async def _send(request: Request, addresses: Sequence[str], bounds: Bounds, progress: _Progress) -> Reply:
    """Send to the first address that can be connected to."""
    import httpx2  # noqa: PLC0415 - a command line that calls nothing must not pay for it

    for number, address in enumerate(addresses, 1):
        try:
            return await _send_once(request, address, bounds, progress, share=len(addresses))
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as problem:
            if number == len(addresses):
                raise _loss(request, progress, _reason_of(problem), NETWORK) from None
        except httpx2.TimeoutException as problem:
            raise _loss(request, progress, _reason_of(problem), TIMEOUT) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
            raise _loss(request, progress, _reason_of(problem), NETWORK) from None
    raise AssertionError("a name that was resolved has an address")


async def _send_once(request: Request, address: str, bounds: Bounds, progress: _Progress, *, share: int) -> Reply:
    import httpx2  # noqa: PLC0415 - see above

    transport = httpx2.AsyncHTTPTransport(
        verify=_tls(bounds.ca_file), trust_env=False, limits=httpx2.Limits(max_keepalive_connections=0)
    )
    timeout = httpx2.Timeout(bounds.timeout_s, connect=bounds.timeout_s / share)
    headers = {"Host": request.authority, "Accept-Encoding": "gzip", "Connection": "close", **request.headers}
    extensions: dict[str, Any] = {"trace": progress.trace}
    _, host, _ = request.origin
    if address != host:
        extensions["sni_hostname"] = host  # the certificate must be the name's, whichever address was checked
    there = request._replace(origin=(request.origin[0], address, request.origin[2]))
    async with (
        httpx2.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, timeout=timeout) as client,
        client.stream(request.method, there.url, headers=headers, content=request.body, extensions=extensions) as response,
    ):
        return await _read_reply(request, response, bounds, progress)


@cache
def _tls(ca_file: str | None) -> ssl.SSLContext:
    import httpx2  # noqa: PLC0415 - see above

    context = httpx2.create_ssl_context(trust_env=False)  # 25 ms to load what the machine trusts
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


async def _read_reply(request: Request, response: httpx2.Response, bounds: Bounds, progress: _Progress) -> Reply:
    """The reply with its body. Once the status says no, words that cannot be read change nothing about it."""
    import httpx2  # noqa: PLC0415 - see above

    good = response.is_success or response.status_code in bounds.accepted
    most = bounds.max_response_bytes if good else min(bounds.max_response_bytes, ERROR_BYTES)
    reply = Reply(response.status_code, response.headers, b"", request.url)
    if not good:
        progress.refusal = reply._replace(unreadable="it did not come in time")
    try:
        return reply._replace(body=await _collected(response.aiter_bytes(), most))
    except _TooLarge:
        return reply._replace(unreadable=f"it is larger than {most} bytes")
    except httpx2.DecodingError as problem:
        return reply._replace(unreadable=f"it cannot be unpacked: {problem}")
    except httpx2.TransportError as problem:
        if good:
            raise
        return reply._replace(unreadable=_reason_of(problem))


async def _collected(pieces: AsyncIterator[bytes], limit: int) -> bytes:
    """Everything, counted as it is unpacked: a small answer may unpack to gigabytes, of which one piece is held."""
    body = bytearray()
    async for piece in pieces:
        if len(body) + len(piece) > limit:
            raise _TooLarge
        body += piece
    return bytes(body)


def _loss(request: Request, progress: _Progress, reason: str, error_class: str) -> ToolFailed | OutcomeUnknown:
    where = f"{request.method} {request.authority}"
    if not progress.left:
        return ToolFailed(f"{where} could not be reached: {reason}. Nothing was sent.", error_class=error_class)
    return OutcomeUnknown(
        f"{where} was sent and its reply was lost: {reason}. It is unknown whether it happened.", error_class=error_class
    )


def _reason_of(problem: Exception) -> str:
    return str(problem).strip() or type(problem).__name__


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """A reply's Retry-After, in seconds or as a date (RFC 9110, section 10.2.3), read by the server's own clock."""
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}", text):
        return min(float(text), LONGEST_RETRY_AFTER_S)
    try:
        ahead = parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(ahead.total_seconds(), 0.0), LONGEST_RETRY_AFTER_S)
