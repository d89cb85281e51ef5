"""The life cycle of a test kit's server: on the loopback interface only, in a thread with an event loop of its own.

A thread, because the server must answer while the test's own loop is blocked, and in tests that have none. Stopping
waits for no client: hung requests are what these servers are for. No protocol is spoken here.
"""

import argparse
import asyncio
import os
import signal
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.testing.script import RuleT, load_rules

LOOPBACK = "127.0.0.1"
START_LIMIT_S = 10.0
STOP_LIMIT_S = 5.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class LoopbackServer(ABC):
    """A context manager, `with` or `async with`; between start and stop `port` is the port it listens on."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        """As asked for; 0 asks for a free one, and becomes it when the server starts."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._thread: threading.Thread | None = None

    @abstractmethod
    async def _open(self, listener: socket.socket) -> None:
        """Serve connections of `listener` from now on; runs in the server's loop."""

    @abstractmethod
    async def _close(self) -> None:
        """Stop listening and drop every connection at once."""

    def start(self) -> None:
        """Returns when the server accepts connections. Raises OSError if the port is taken."""
        listener = socket.create_server((LOOPBACK, self.port), backlog=1024)
        # Inherited by each connection, where asyncio fails to set it: it looks at a field that an accepted socket lacks.
        # Without it a reply in two writes waits 40 ms for the client's acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = listener.getsockname()[1]
        listening: Future[None] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live(listener, listening)), name=f"{type(self).__name__}:{self.port}", daemon=True
        )
        self._thread.start()
        listening.result(START_LIMIT_S)

    def stop(self) -> None:
        """Drop every connection and end the thread. Stopping twice is stopping once."""
        if self._thread is None or self._loop is None:
            return
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_LIMIT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"{self._thread.name} did not stop within {STOP_LIMIT_S} s.")
        self._thread = None

    async def _live(self, listener: socket.socket, listening: "Future[None]") -> None:
        self._loop = asyncio.get_running_loop()
        with listener:
            try:
                await self._open(listener)
            except Exception as error:  # noqa: BLE001 -- whatever it is, it is raised where the server was started
                listening.set_exception(error)
                return
            listening.set_result(None)
            await self._stopping.wait()
            await self._close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def arguments(description: str) -> argparse.ArgumentParser:
    """The options every server has that is run as a process of its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, default=0, help="port on the loopback interface; 0 (the default) takes a free one")
    parser.add_argument("--port-file", type=Path, help="file to write the port to, once the server listens")
    parser.add_argument(
        "--journal",
        type=Path,
        default=Path(os.devnull),
        help="file to append a JSON line to for each call; by default no journal is kept",
    )
    parser.add_argument("--rules", type=Path, help='JSON file of rules to begin with, as {"rules": [RULE, ...]}')
    return parser


def rules_of(parser: argparse.ArgumentParser, file: Path | None, kind: type[RuleT]) -> tuple[RuleT, ...]:
    """Return the rules of a file that an option names. For one that holds none, say so and end."""
    try:
        return () if file is None else load_rules(file, kind)
    except (OSError, ValueError) as problem:
        parser.error(f'--rules: {problem}. The file is JSON, as {{"rules": [RULE, ...]}}; RULE has fields of {kind.__name__}.')


def serve_until_signalled(server: LoopbackServer, port_file: Path | None, announcement: Callable[[], str]) -> None:
    """Start, say where on stdout, and serve until SIGINT or SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # before any thread exists, so that only sigwait takes them
    with server:
        if port_file is not None:
            unfinished = port_file.with_name(f"{port_file.name}.{os.getpid()}")
            unfinished.write_text(f"{server.port}\n")
            unfinished.replace(port_file)  # a reader of the file sees the whole port
        sys.stdout.write(announcement() + "\n")
        sys.stdout.flush()
        signal.sigwait(STOP_SIGNALS)
