"""The gateway's port on the loopback interface: opened for the first program of this process, closed with its engine.

Never here: what a request means (application), whose calls a program makes (the attempt).
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from holdfast.gateway.variables import variables

if TYPE_CHECKING:
    from uvicorn.server import ServerState

    from holdfast.ports import ForwardedCalls

HOST: Final = "127.0.0.1"
_LAST_WORDS_S: Final = 1.0
_TOKEN: Final = "holdfast-"


class LoopbackGateway:
    """The gateway of one process. Keeps ports.ProgramGateway."""

    def __init__(self) -> None:
        self._calls: dict[str, ForwardedCalls] = {}
        """The attempts whose programs may call, by their tokens."""
        self._opening = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._make: Callable[[], Any] | None = None
        self._state: ServerState | None = None
        self._port = 0

    @asynccontextmanager
    async def open(self, calls: ForwardedCalls) -> AsyncIterator[Mapping[str, str | None]]:
        """Inside, a program may make `calls`. Yields the variables that lead it here."""
        async with self._opening:
            if self._server is None:
                await self._listen()
        token = f"{_TOKEN}{secrets.token_urlsafe(24)}"
        self._calls[token] = calls
        try:
            yield variables(HOST, self._port, token)
        finally:
            del self._calls[token]

    def calls_of(self, token: str) -> ForwardedCalls | None:
        """Return the calls that a token stands for; None for one that is unknown or revoked."""
        found = None
        for known, calls in self._calls.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                found = calls
        return found

    async def _listen(self) -> None:
        self._server = await asyncio.get_running_loop().create_server(self._connection, HOST, 0)
        self._port = self._server.sockets[0].getsockname()[1]

    def _connection(self) -> Any:
        """Return a new connection. The server is loaded for the first: most scripts of jobs call no model."""
        if self._make is None:
            from holdfast.gateway.connection import served

            self._make, self._state = served(self.calls_of)
        return self._make()

    async def aclose(self) -> None:
        """Close the port, and break off what is still being answered."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        if self._state is None:
            return
        for connection in [*self._state.connections]:
            connection.transport.abort()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=_LAST_WORDS_S)
