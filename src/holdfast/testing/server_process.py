"""A third-party server run for a test or a trial: in a folder of its own, ended when its owner ends.

Never here: which server it is, or what is said to it.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

START_LIMIT_S: Final = 60.0
STOP_LIMIT_S: Final = 20.0
_LOOK_S: Final = 0.02
_LOG_LINES: Final = 20
_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG
_UNPRIVILEGED: Final = "nobody"

_libc = ctypes.CDLL(None, use_errno=True)


class Account:
    """The account that the server runs as: ourselves; but root's servers run as `nobody`, because PostgreSQL refuses root."""

    def __init__(self) -> None:
        self.uid = self.gid = None
        if os.geteuid() == 0:
            entry = pwd.getpwnam(_UNPRIVILEGED)
            self.uid, self.gid = entry.pw_uid, entry.pw_gid

    def give(self, path: Path) -> None:
        """Make `path` the account's own."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def run(self, command: Sequence[str | Path], timeout_s: float = START_LIMIT_S) -> subprocess.CompletedProcess[str]:
        """Run `command` to its end. Raises CalledProcessError, whose `stderr` says why."""
        words, how = self.to_start(command)
        return subprocess.run(words, check=True, capture_output=True, text=True, timeout=timeout_s, cwd="/", **how)

    def to_start(self, command: Sequence[str | Path], *, ends_with_us: bool = False) -> tuple[list[str], dict[str, Any]]:
        """Return the words, and what else `subprocess` is to be given, with which `command` runs as the account.

        Where there is `setpriv`, nothing is to be done between fork and exec: then the tables of this process's memory are not
        copied, which takes tens of milliseconds of a large one, and no handler of a library runs in half a process.
        """
        words, parent = [str(word) for word in command], os.getpid()
        if self.uid is None or (program := _setpriv()) is None:
            last = {"preexec_fn": _die_with(parent)} if ends_with_us else {}
            return words, {"user": self.uid, "group": self.gid, **last}
        becomes = [program, f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        if ends_with_us:
            return [*becomes, "--pdeathsig=KILL", "/bin/sh", "-c", _UNLESS_ORPHANED, str(parent), *words], {}
        return [*becomes, *words], {}

    def can_run(self, program: Path) -> bool:
        """Return True if the account can reach and execute `program`."""
        try:
            self.run([program, "--version"])
        except (OSError, subprocess.SubprocessError):
            return False
        return True


class ServerProcess:
    """One server, its folder and its log. It dies with the process that started it, however that dies."""

    def __init__(self, name: str, command: Sequence[str | Path], account: Account, folder: Path) -> None:
        self._name = name
        self._command = [str(word) for word in command]
        self._account = account
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self._name} was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, is_up: Callable[[], bool], *, environment: Mapping[str, str] | None = None) -> None:
        """Returns when `is_up`. Raises RuntimeError with the end of the log when the server ends or is late."""
        words, how = self._account.to_start(self._command, ends_with_us=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=None if environment is None else {**os.environ, **environment},
                **how,
            )
        late_s = time.monotonic() + START_LIMIT_S
        while not is_up():
            if not self.running or time.monotonic() > late_s:
                self.kill()
                raise RuntimeError(f"{self._name} did not start. The end of its log:\n{self.log_end()}")
            time.sleep(_LOOK_S)

    def stop(self, signal_: signal.Signals) -> None:
        """Ask it to end with the signal `signal_`, wait, and kill it should it not."""
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(signal_)
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def signal(self, signal_: signal.Signals) -> None:
        assert self._process is not None, f"{self._name} was not started"
        self._process.send_signal(signal_)

    def log_end(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-_LOG_LINES:])


def new_folder(account: Account) -> Path:
    """A folder of the account's own, with a name short enough for a unix socket in it."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
    account.give(folder)
    return folder


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """Return a loopback port that is free just now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


_UNLESS_ORPHANED: Final = 'test "$PPID" = "$0" && exec "$@"'
"""To a shell: become the server, unless who started it is gone already."""


@cache
def _setpriv() -> str | None:
    """Return the program that changes accounts and then becomes another; None where there is none that knows all of this."""
    program = shutil.which("setpriv")
    asked = [str(program), "--reuid=0", "--regid=0", "--clear-groups", "--pdeathsig=KILL", "/bin/true"]
    return program if program is not None and subprocess.run(asked, check=False, capture_output=True).returncode == 0 else None


def _die_with(parent: int) -> Callable[[], None]:
    """Return a function for a child to run before it becomes the server: it has the kernel end the child when the process
    `parent` is gone."""

    def prepare() -> None:
        _libc.prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # gone already
            os._exit(1)

    return prepare
