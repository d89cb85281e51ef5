"""A real HTTP server on the loopback interface that keeps a journal, does each effect once per key, and misbehaves as told.

What it did to its world is in `effects`; the journal says what it was asked. It speaks HTTP/1.1 by hand, because a
well-behaved framework cannot break off in the middle of a reply. Never here: a promise.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from holdfast.testing.loopback_server import LoopbackServer


class Asked(NamedTuple):
    """One request as it came in."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str | None:
        return self.headers.get("idempotency-key")


Behaviour = Callable[["Server", Asked, asyncio.StreamWriter], Awaitable[None]]


class Server(LoopbackServer):
    """`plan` says how the requests are answered in turn; afterwards each is done and answered well."""

    def __init__(self, *plan: Behaviour, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(port)
        self.plan = list(plan)
        self.tls = tls
        self.asked: list[Asked] = []
        self.effects: dict[str, Any] = {}
        """What was done, by key. A key that comes again is answered and changes nothing."""
        self.connections = 0
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def keys(self) -> set[str | None]:
        return {asked.key for asked in self.asked if asked.method != "GET"}

    async def _open(self, listener: socket.socket) -> None:
        self._server = await asyncio.start_server(self._serve, sock=listener, ssl=self.tls)

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            asked = await _read(reader)
            if asked is None:
                return
            self.asked.append(asked)
            behaviour = self.plan.pop(0) if self.plan else do
            await behaviour(self, asked, writer)
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.transport.abort() if writer.is_closing() else writer.close()

    def act(self, asked: Asked) -> Any:
        """Do what is asked, once per key."""
        if asked.method in ("GET", "HEAD"):
            return {"seen": asked.target}
        return self.effects.setdefault(asked.key or f"no key {len(self.effects)}", {"paid": len(self.effects) + 1})


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1") if not reader.at_eof() else ""
    if not head:
        return None
    line, *lines = head.split("\r\n")
    method, target, _ = line.split(" ")
    headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines if each)}
    return Asked(method, target, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


def raw(
    status: int, body: bytes = b"", *, kind: str | None = "application/json", length: int | None = None, **headers: str
) -> bytes:
    lines = [f"HTTP/1.1 {status} As-Told", f"Content-Length: {len(body) if length is None else length}"]
    if kind is not None:
        lines.append(f"Content-Type: {kind}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


# --- Behaviours -------------------------------------------------------------------------------------------------------


async def do(server: Server, asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(raw(200, json.dumps(server.act(asked)).encode()))
    await writer.drain()


def says(status: int, body: Any = None, **headers: str) -> Behaviour:
    """Answers so, and does nothing."""

    async def say(server: Server, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(raw(status, b"" if body is None else json.dumps(body).encode(), **headers))
        await writer.drain()

    return say


def sends(data: bytes) -> Behaviour:
    """Does what is asked and answers with these bytes."""

    async def send(server: Server, asked: Asked, writer: asyncio.StreamWriter) -> None:
        server.act(asked)
        writer.write(data)
        await writer.drain()

    return send


async def does_and_drops(server: Server, asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Does what is asked, and the reply is lost."""
    server.act(asked)
    writer.transport.abort()


async def drops(server: Server, asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Does nothing, and breaks off."""
    writer.transport.abort()


async def does_and_hangs(server: Server, asked: Asked, writer: asyncio.StreamWriter) -> None:
    server.act(asked)
    await asyncio.Event().wait()


async def does_and_breaks_off(server: Server, asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Half a reply."""
    body = json.dumps(server.act(asked)).encode()
    writer.write(raw(200, body, length=len(body) + 100))
    await writer.drain()


async def does_and_drips(server: Server, asked: Asked, writer: asyncio.StreamWriter) -> None:
    """A byte every 20 ms, without an end: each read is quick, the whole is not."""
    server.act(asked)
    writer.write(raw(200, length=1_000_000))
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


def bomb(size_bytes: int) -> Behaviour:
    """A small answer that unpacks to a large one."""
    packed = gzip.compress(b'"' + b"x" * size_bytes + b'"')
    assert len(packed) < size_bytes / 100
    return sends(raw(200, packed, Content_Encoding="gzip"))
