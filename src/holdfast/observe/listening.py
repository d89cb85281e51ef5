"""A port on which an ASGI application is served, for as long as somebody wants it.

Never here: an application, who may reach it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import uvicorn

from holdfast.errors import UsageError

_LAST_WORDS_S: Final = 2
"""What those who are being answered get at the end; streams have no end of their own."""
_KEPT_S: Final = 30
"""How long a connection stays that says nothing: longer than proxies keep theirs would be for nothing."""
_MOST: Final = 4_000
"""Connections and requests at a time; who comes after them is told (503)."""


@contextlib.asynccontextmanager
async def listening(
    application: Any,
    host: str,
    port: int,
    *,
    named: str,
    certificate: Path | None = None,
    key: Path | None = None,
    behind_proxy: bool = False,
) -> AsyncIterator[int]:
    """Serve on `host` and `port` (0 takes a free one, which is told), with a certificate over TLS. Raises UsageError for one
    that is taken, or a certificate that cannot be used; `named` is the option that names another. Only `behind_proxy` it is
    believed what the other side says of whom it speaks for."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as problem:
        raise UsageError(f"Cannot listen on {host}:{port}: {problem.strerror}. Name another with {named}.") from None
    config = uvicorn.Config(
        application, log_config=None, access_log=False, lifespan="off", server_header=False, limit_concurrency=_MOST,
        timeout_keep_alive=_KEPT_S, timeout_graceful_shutdown=_LAST_WORDS_S, ssl_certfile=certificate, ssl_keyfile=key,
        ws="none", proxy_headers=behind_proxy, forwarded_allow_ips="*" if behind_proxy else None,
    )  # fmt: skip
    try:
        config.load()
    except OSError as problem:  # ssl.SSLError is one
        listener.close()
        raise UsageError(
            f"The certificate {certificate} and its key cannot be used: {problem}. Nothing was started."
        ) from None
    server = uvicorn.Server(config)
    # Signals are the command's own to hear: only the part that serves is run.
    serving = asyncio.create_task(server._serve([listener]), name=f"holdfast-port-{port}")
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)
        listener.close()
