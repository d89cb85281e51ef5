"""The server at `/mcp` of an HTTP port (streamable HTTP): each request is a caller's own, and nothing is kept between two.

What it stands on takes half a second to load, so the first request loads it, in a thread. Never here: who a caller is, how
many may ask at once (http).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from holdfast.service.declarations import query
from holdfast.service.declarations.declaration import Command, Query
from holdfast.service.declarations.query import Page, View
from holdfast.service.principal import Principal
from holdfast.service.service import Service

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_CALLER: Final = "holdfast.caller"
"""Key of a request's scope with its caller."""


class AgentPort:
    """Answers agents at one address of a port, each with the permissions of its token."""

    def __init__(self) -> None:
        self._manager: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._running: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Answer inside."""
        try:
            yield
        finally:
            if self._running is not None:
                self._running.cancel()
                await asyncio.wait([self._running])

    def answer(self, service: Service, principal: Principal, body: str, over: Callable[[], None]) -> Response:
        """Return the answer to a request with that body, of a caller who is known. Calls `over` when it has been sent."""
        return _Relayed(self.manager, ServiceCaller(service, principal), body.encode(), over)

    async def manager(self) -> StreamableHTTPSessionManager:
        """Return the protocol's own application, which the first request starts."""
        if self._manager is None:
            self._manager = asyncio.get_running_loop().create_future()
            self._running = asyncio.create_task(self._run(self._manager), name="holdfast-agents")
        return await asyncio.shield(self._manager)

    async def _run(self, ready: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        try:
            manager = await asyncio.to_thread(_created)
            async with manager.run():
                ready.set_result(manager)
                await asyncio.Event().wait()  # until it is cancelled
        except Exception as problem:  # noqa: BLE001 - each request that waits for it gets it
            ready.set_exception(problem)


def _created() -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415 - it takes half a second

    from holdfast.mcp.server import server  # noqa: PLC0415 - as above

    return StreamableHTTPSessionManager(server(_caller_of, decides_alone=True), json_response=True, stateless=True)


class ServiceCaller:
    """A caller of the service of this process."""

    def __init__(self, service: Service, principal: Principal) -> None:
        self._service = service
        self._who = principal

    async def query(self, query: Query) -> Page:
        return await self._service.query(self._who, query)

    async def execute(self, command: Command) -> View | None:
        return await self._service.stands(self._who, command)

    async def settled(self, run: str) -> View:
        """Wait for a run that the caller may see. Raises NotPermitted, NotFound."""
        await self._service.expect(self._who, query.Run(run))
        await self._service.control.run(run).settled()
        return (await self.query(query.Run(run))).rows[0]


def _caller_of(context: Any) -> ServiceCaller:
    found: ServiceCaller = context.request.scope[_CALLER]
    return found


class _Relayed(Response):
    """An answer that the protocol's own application sends. The body was read before: in the caller's turn."""

    def __init__(self, manager: Any, caller: ServiceCaller, body: bytes, over: Callable[[], None]) -> None:
        super().__init__()
        self._manager = manager
        self._caller = caller
        self._body = body
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_read = False

        async def read() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": self._body, "more_body": False}

        try:
            manager = await self._manager()
            await manager.handle_request({**scope, _CALLER: self._caller}, read, send)
        finally:
            self._over()
