"""Requests of programs over HTTP: who asks, what for, and the answer as it is recorded or as it comes.

Any address that is no call of a model is not found, at once: clients look for features that way. Never here: the meaning of a
body (models.forwarded), what a call costs, whether it is made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from holdfast.errors import HoldfastError, NotFound, Unauthorized
from holdfast.models.forwarded.answers import ErrorAnswer, answer_to
from holdfast.models.forwarded.requests import MAX_BODY_BYTES, format_at, read
from holdfast.ports import ForwardedCalls, ForwardedReply, ForwardedRequest

_UPGRADE: Final = 426
"""After this answer Codex goes on with POST; after others it tries again."""
_KEY_HEADERS: Final = ("x-api-key", "x-goog-api-key")
_BEARER: Final = "bearer "
_log = logging.getLogger(__name__)

_EVENTS: Final = "text/event-stream; charset=utf-8"
_BOUGHT: Final = "holdfast-max-tokens"
"""Of an answer: the maximum of output that was bought, where it is not the program's own."""


class Application:
    """The gateway as an ASGI application."""

    def __init__(self, calls_of: Callable[[str], ForwardedCalls | None]) -> None:
        """`calls_of` returns the calls that a token stands for."""
        self._calls_of = calls_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path: str = scope["path"]
        format_ = format_at(path) if scope["method"] == "POST" else None
        if "upgrade" in headers:
            await answer.whole(_UPGRADE, {"content-type": "text/plain"}, b"The gateway takes no WebSocket: use POST.")
            return
        try:
            if format_ is None:
                raise NotFound(f"The gateway of Holdfast has no {scope['method']} {path}.")
            body = await _body(receive)
            calls = self._calls_of(_token(headers))
            if calls is None:
                raise Unauthorized(
                    "This key is not valid at the gateway of Holdfast, or its run or block has ended here. Nothing was called."
                )
            asked = f"{path}?{scope['query_string'].decode('latin-1')}"
            await _forward(calls, read(asked, headers, body), answer, receive)
        except HoldfastError as problem:
            await answer.refuse(answer_to(problem, format_, headers))
        except Exception as problem:  # noqa: BLE001 - a fault of ours, which the log has
            _log.exception("the gateway could not answer a program")
            await answer.refuse(answer_to(problem, format_, headers))


class _Answer:
    """An answer on its way to a program. Keeps ports.ReplyWriter."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()  # as long as a reply, which is bounded
        self._writing: asyncio.Task[None] | None = None

    def begin(self, max_tokens: int | None) -> None:
        self._writing = asyncio.create_task(self._write(max_tokens), name="holdfast-reply")

    def tell(self, piece: str) -> None:
        self._pieces.put_nowait(piece)

    async def _write(self, max_tokens: int | None) -> None:
        await self._begin(200, {"content-type": _EVENTS, **_bought(max_tokens)})
        while (piece := await self._pieces.get()) is not None:
            await self._send({"type": "http.response.body", "body": piece.encode(), "more_body": True})

    async def end(self, reply: ForwardedReply, gone: asyncio.Future[Message]) -> bool:
        """Send the rest of an answer. Return False if its program has `gone` before."""
        if self._writing is None:
            is_there = not gone.done()
            headers = {"content-type": reply.content_type, **_bought(reply.max_tokens)}
            await self.whole(200, headers, "".join(reply.pieces).encode())
            return is_there
        self._pieces.put_nowait(None)
        await self._writing
        is_there = not gone.done()
        await self._send({"type": "http.response.body", "body": b""})
        return is_there

    async def refuse(self, refusal: ErrorAnswer) -> None:
        """Send an error. An answer that has begun is cut off: its program takes it for a broken connection."""
        if self._writing is not None:
            self._writing.cancel()
            return
        await self.whole(refusal.status, refusal.headers, refusal.body)

    async def whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send an answer that has not begun."""
        await self._begin(status, {**headers, "content-length": str(len(body))})
        await self._send({"type": "http.response.body", "body": body})

    async def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})


def _bought(max_tokens: int | None) -> dict[str, str]:
    return {} if max_tokens is None else {_BOUGHT: str(max_tokens)}


def _token(headers: Mapping[str, str]) -> str:
    given = headers.get("authorization", "")
    if given.lower().startswith(_BEARER):
        return given[len(_BEARER) :].strip()
    return next((headers[name] for name in _KEY_HEADERS if name in headers), "")


async def _body(receive: Receive) -> bytes:
    """Return a request's body, or the beginning of one that is too large."""
    body = bytearray()
    more = True
    while more and len(body) <= MAX_BODY_BYTES:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


async def _forward(calls: ForwardedCalls, request: ForwardedRequest, answer: _Answer, receive: Receive) -> None:
    """Answer a request with the reply to it. A program that goes before it has all of the reply may ask for it again."""
    call = asyncio.ensure_future(calls.forward(request, answer))
    gone = asyncio.ensure_future(receive())  # the body was read: the next message is that the program has gone
    try:
        await asyncio.wait((call, gone), return_when=asyncio.FIRST_COMPLETED)
        if call.done() and not await answer.end(call.result(), gone):
            calls.undelivered(request)
    finally:
        for each in (call, gone):
            each.cancel()
        await asyncio.gather(call, gone, return_exceptions=True)
