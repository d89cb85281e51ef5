"""An HTTP server for the test kit: uvicorn's protocol without its server, which polls, takes the process's signals and waits
for its clients. No path is served here."""

import asyncio
import socket
from abc import abstractmethod

from starlette.applications import Starlette
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from holdfast.testing.loopback_server import LoopbackServer

MAX_CONNECTIONS = 4096
KEEP_ALIVE_S = 600  # an idle connection that closes under a client would be an unwanted fault
MOMENT_S = 1.0  # longer than a closed connection takes to be noticed


class HttpServer(LoopbackServer):
    """Serves one application on the loopback interface."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self._listening: asyncio.Server | None = None
        self._connections = ServerState()

    @abstractmethod
    def _application(self) -> Starlette:
        """Return the application to serve."""

    async def _open(self, listener: socket.socket) -> None:
        config = Config(
            self._application(),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=None,
            access_log=False,
            date_header=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        config.load()
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: H11Protocol(config, self._connections, app_state={}), sock=listener
        )

    async def _close(self) -> None:
        if self._listening:
            self._listening.close()
        for connection in list(self._connections.connections):
            connection.transport.abort()
        if self._connections.tasks:  # each now learns that its client is gone, which is all that any of them waits for
            await asyncio.wait(self._connections.tasks, timeout=MOMENT_S)

    def drop(self, client: tuple[str, int]) -> None:
        """Close the client's connection, after what was already sent."""
        for connection in list(self._connections.connections):
            if connection.transport.get_extra_info("peername") == client:
                connection.transport.close()
