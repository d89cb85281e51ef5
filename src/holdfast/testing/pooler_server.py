"""A real pgbouncer for a test or a trial: it lends a few connections of a PostgreSQL server, for one transaction each.

Never here: a pooler of our own, which would forgive what the real one does not.
"""

from __future__ import annotations

import shutil
import signal
import socket
from types import TracebackType
from typing import Final, Self

from holdfast.testing.postgres_server import SUPERUSER, PostgresServer
from holdfast.testing.server_process import Account, ServerProcess, free_port, new_folder, remove_folder

_PROGRAM: Final = "pgbouncer"
_LENT: Final = 12
"""Server connections: fewer than the stores of a test ask for, so that each gets another one each time."""


def installed() -> str | None:
    """Return the path of pgbouncer; None if it is not installed."""
    return shutil.which(_PROGRAM) or shutil.which(_PROGRAM, path="/usr/sbin:/usr/local/sbin")


class PoolerServer:
    """A context manager; between start and stop `port` leads to the databases of `server`."""

    def __init__(self, server: PostgresServer) -> None:
        self._account = Account()
        self._folder = new_folder(self._account)
        self.port = free_port()
        program = installed()
        assert program is not None, f"{_PROGRAM} is not installed"
        users, settings = self._folder / "users.txt", self._folder / "pgbouncer.ini"
        users.write_text(f'"{SUPERUSER}" ""\n')
        settings.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {users}\npool_mode = transaction\n"
            f"default_pool_size = {_LENT}\nserver_round_robin = 1\nmax_client_conn = 200\n"
        )
        self._process = ServerProcess(_PROGRAM, [program, settings], self._account, self._folder)

    def _is_up(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
                return True
        except OSError:
            return False

    def __enter__(self) -> Self:
        self._process.start(self._is_up)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.stop(signal.SIGINT)
        remove_folder(self._folder)
