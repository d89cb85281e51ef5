"""A port on which an ASGI application is served, for as long as it is needed.

Never here: an application, who may reach it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import uvicorn

from holdfast.errors import UsageError
from holdfast.observe.connection import BoundedConnection, Connections, Head
from holdfast.settings import PortBounds

_LAST_WORDS_S: Final = 2
"""Time in which requests are answered at the end; then their connections are cut."""
_KEPT_S: Final = 30
"""How long a connection stays that says nothing: longer than proxies keep theirs would be for nothing."""
_BACKLOG: Final = 2_048
"""Connections that the system keeps until they are taken."""
_HEADERS: Final = [("X-Content-Type-Options", "nosniff")]
"""Of every answer: a browser takes it for what it says it is."""


@contextlib.asynccontextmanager
async def listening(
    application: Any,
    host: str,
    port: int,
    *,
    name: str,
    certificate: Path | None = None,
    key: Path | None = None,
    proxies: int = 0,
    bounds: PortBounds | None = None,
) -> AsyncIterator[int]:
    """Serve on `host` and `port` (0 takes a free one, which is reported), with a certificate over TLS. Raises UsageError for
    one that is taken, or a certificate that cannot be used; `name` is the option that names another. That many `proxies` in a
    row are trusted to name the address that they speak for."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as problem:
        raise UsageError(f"Cannot listen on {host}:{port}: {problem.strerror}. Name another with {name}.") from None
    connections = Connections(bounds or PortBounds(), proxies=proxies)
    config = uvicorn.Config(
        Head(application, proxies),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        headers=_HEADERS,
        timeout_keep_alive=_KEPT_S,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        ws="none",
        proxy_headers=False,
    )
    try:
        config.load()
    except OSError as problem:  # ssl.SSLError is one
        listener.close()
        raise UsageError(f"The certificate {certificate} and its key cannot be used: {problem}. Nothing was started.") from None
    server = _Server(config, connections)
    # Signals are the command's own to hear: only the part that serves is run.
    serving = asyncio.create_task(server._serve([listener]), name=f"holdfast-port-{port}")
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        for end in (server.cut, serving.cancel):
            await asyncio.wait([serving], timeout=_LAST_WORDS_S)
            end()
        await asyncio.gather(serving, return_exceptions=True)
        listener.close()


class _Server(uvicorn.Server):
    """A server of bounded connections. The handshake of TLS has the time of a request's head, and not a minute."""

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        config, loop, ssl = self.config, asyncio.get_running_loop(), self.config.ssl
        made = partial(BoundedConnection, self._connections, config=config, server_state=self.server_state, app_state={})
        handshake_s = None if ssl is None else self._connections.bounds.head_s
        self.servers = [
            await loop.create_server(made, sock=each, ssl=ssl, backlog=_BACKLOG, ssl_handshake_timeout=handshake_s)
            for each in sockets or ()
        ]
        self.started = True

    def cut(self) -> None:
        """Break off what is still being answered. The server would do that with a traceback of each request."""
        for connection in [*self.server_state.connections]:
            connection.transport.abort()
        for task in [*self.server_state.tasks]:
            task.cancel()
