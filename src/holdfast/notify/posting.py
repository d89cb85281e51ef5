"""One POST to a configured address, and the meaning of its answer for a notification.

Only 2xx is success. A redirect is a failure and is never followed: it would carry the message to another place. Never here: a
message's form, a signature, a second try.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.core.values.policies import DENIED
from holdfast.errors import OutcomeUnknown, ToolFailed, UsageError
from holdfast.platform.address import Url, networks, parse_url
from holdfast.platform.http_exchange import Bounds, Reply, Request, exchange, retry_after_s
from holdfast.platform.quiet_requests import quiet_requests
from holdfast.ports.channel import MAX_BODY_BYTES, Refused, Retry, SendResult, Sent

TIMEOUT_S: Final = 15.0
"""Time for the whole exchange, as Standard Webhooks advises (15 to 30 s)."""
_ANSWER_BYTES: Final = 16 * 1024
"""Of an answer more is not read: its words do not matter."""
_GONE: Final = 410
_SLOW_DOWN: Final = frozenset({429, 502, 504})
_SLOW_DOWN_S: Final = 60.0
"""Pause where a busy receiver names none."""


class Address:
    """The address of a receiver."""

    def __init__(self, url: str, *, allow_private: bool | Sequence[str] = False, ca_file: str | None = None) -> None:
        """Raises UsageError for an address that messages may not go to. http is for allowed private networks only."""
        self.url: Url = parse_url(url)
        allowed = networks(allow_private)
        if self.url.origin[0] != "https" and not allowed:
            raise UsageError("the address must begin with https://: messages would cross the network in the clear")
        self._bounds = Bounds(TIMEOUT_S, _ANSWER_BYTES, allowed, ca_file, redirects=0)

    @property
    def host(self) -> str:
        """Return the host, for people: what follows in the URL may be secret."""
        return self.url.origin[1]

    async def post(self, body: bytes, headers: Mapping[str, str]) -> SendResult:
        """Send a body once."""
        return (await self.exchange(body, headers))[0]

    async def exchange(self, body: bytes, headers: Mapping[str, str]) -> tuple[SendResult, Reply | None]:
        """Send a body once; return what became of it, and the answer if there was one."""
        if len(body) > MAX_BODY_BYTES:
            return Refused(f"The message has {len(body)} bytes, and receivers take {MAX_BODY_BYTES}. Nothing was sent."), None
        own = {"User-Agent": "holdfast", "Content-Type": "application/json"}
        request = Request("POST", self.url.origin, self.url.target, {**own, **headers}, body)
        try:
            with quiet_requests():
                reply = await exchange(request, self._bounds)
        except ToolFailed as failed:
            # A name that is at a private address is one by mistake or on purpose: another try changes neither.
            return (Refused if getattr(failed, "error_class", "") == DENIED else Retry)(failed.message), None
        except OutcomeUnknown as lost:
            return Retry(lost.message), None
        return result_of(self.host, reply), reply


def result_of(host: str, reply: Reply) -> SendResult:
    """Return what an answer means."""
    status = reply.status
    said = f"{host} answered HTTP {status}"
    if 200 <= status < 300:
        return Sent()
    if status == _GONE:
        return Refused(f"{said}: it takes no more messages at this address.", disable=True)
    if 300 <= status < 400:
        return Retry(f"{said}, a redirect, which is never followed: declare the final address.")
    pause_s = retry_after_s(reply.headers)
    if pause_s is None and status in _SLOW_DOWN:
        pause_s = _SLOW_DOWN_S
    return Retry(f"{said}.", after_s=pause_s)
