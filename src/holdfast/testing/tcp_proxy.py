"""A network between a client and a server of a test, that can be slow, silent or cut at the worst moment.

It passes bytes on. Never here: what the bytes mean; a loss that no real network could cause.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import Final

from holdfast.testing.loopback_server import LOOPBACK, LoopbackServer

_CHUNK: Final = 65_536
_LOOK_S: Final = 0.005
_CONNECT_S: Final = 10.0


class _Link:
    """One connection through the proxy. `mute`: what the server says from now on is lost, and then the connection."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.mute = False
        self.tail = b""

    def cut(self) -> None:
        for end in (self.client, self.server):
            end.transport.abort()


class TcpProxy(LoopbackServer):
    """A context manager; between start and stop what connects to `port` is talking to `server_port`.

    `delay_s` holds up every chunk of bytes. While `silent`, nothing passes and nobody is told: the other end is there and
    says nothing, as when a cable is pulled; what was sent in the meantime arrives later. While `closed`, connections are
    refused as by a machine without the server.
    """

    def __init__(self, server_port: int) -> None:
        super().__init__()
        self.server_port = server_port
        self.delay_s = 0.0
        self.silent = False
        self.closed = False
        self._links: set[_Link] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()
        self._marker = b""
        self._losses = 0
        self.lost = 0
        """Replies that were lost, since the start."""

    def lose_reply_to(self, marker: bytes | str, times: int = 1) -> None:
        """The next `times` that a client sends `marker`, the server receives it and acts on it, and when it answers the
        connection is cut: the client never hears the answer."""
        with self._lock:
            self._marker = marker.encode() if isinstance(marker, str) else marker
            self._losses = times

    def cut(self) -> None:
        """Cut every connection there is."""
        assert self._loop is not None, "the proxy was not started"
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(_CONNECT_S)

    async def _cut(self) -> None:
        for link in list(self._links):
            link.cut()

    async def _open(self, listener: socket.socket) -> None:
        self._server = await asyncio.start_server(self._accept, sock=listener)

    async def _close(self) -> None:
        self._server.close()
        self.closed, self.silent = True, False
        await self._cut()
        if self._serving:
            await asyncio.wait(self._serving)

    def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(reader, client))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        try:
            if not await self._audible(client) or self.closed:
                raise ConnectionRefusedError
            async with asyncio.timeout(_CONNECT_S):
                answers, server = await asyncio.open_connection(LOOPBACK, self.server_port)
        except OSError:
            client.transport.abort()
            return
        link = _Link(client, server)
        self._links.add(link)
        passing = [
            asyncio.create_task(self._pass(link, reader, server, asks=True)),
            asyncio.create_task(self._pass(link, answers, client, asks=False)),
        ]
        await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        self._links.discard(link)
        link.cut()
        await asyncio.wait(passing)

    async def _pass(self, link: _Link, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, asks: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await source.read(_CHUNK):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if not await self._audible(target):
                    return
                if asks:
                    self._look_for_marker(link, chunk)
                elif link.mute:
                    self.lost += 1
                    return
                target.write(chunk)
                await target.drain()

    async def _audible(self, target: asyncio.StreamWriter) -> bool:
        """Wait for the silence to end; whether `target` is still there then."""
        while self.silent and not target.transport.is_closing():  # noqa: ASYNC110 - other threads end it
            await asyncio.sleep(_LOOK_S)
        return not target.transport.is_closing()

    def _look_for_marker(self, link: _Link, chunk: bytes) -> None:
        """A marker may lie across two chunks."""
        with self._lock:
            if not self._losses or link.mute:
                return
            seen = link.tail + chunk
            link.tail = seen[-len(self._marker) :]
            if self._marker in seen:
                self._losses -= 1
                link.mute = True
