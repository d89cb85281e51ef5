"""Files that exist only to be locked, a bounded wait for such a lock, and the one that says that a process has the store open.

A lock falls with the process that holds it, however it dies. Never here: the right to write (turnstile); a lock on the
database file. Closing any descriptor of it in a process that is connected to it drops the locks of SQLite itself; it is never
opened but by SQLite.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from holdfast.platform import privacy

_open: Final[set[int]] = set()


def _forget() -> None:
    """In a forked child: let go of what is its parent's. A lock falls with the last process that has its file open."""
    for fd in _open:
        os.close(fd)
    _open.clear()


os.register_at_fork(after_in_child=_forget)


class LockFile:
    """An open lock file. `flock` belongs to this opening of it: even the same process is kept out by another."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path) -> None:
        """Make the file if it is missing. Raises OSError."""
        self.path = path
        self._fd = privacy.open_file(path)
        _open.add(self._fd)

    @classmethod
    def take(cls, path: Path) -> Self | None:
        """Return the file at `path`, locked; None while another holds it."""
        while True:
            file = cls(path)
            if not file.lock():
                file.close()
                return None
            if file._in_place():
                return file
            file.close()  # its holder before us removed it as we came

    def lock(self) -> bool:
        """Lock it now, or report that another has it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def share(self) -> bool:
        """Lock it together with others who share it, or report that another has it alone. A former sole holder may wait a
        moment for the present one."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def remove(self) -> None:
        """Remove the file, which must be locked, and let go of it."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        _open.discard(self._fd)
        os.close(self._fd)

    def write_pid(self) -> None:
        """Say in the file who holds it, if the disk has room for that."""
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, b"%-10d\n" % os.getpid(), 0)

    def read_pid(self) -> int | None:
        """Return the process id of the last holder, or None if the file does not have it."""
        text = os.pread(self._fd, 32, 0).strip()
        return int(text) if text.isdigit() else None

    def _in_place(self) -> bool:
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._fd))


def is_free(path: Path) -> bool:
    """Return True if the lock file at `path` exists and no process holds it. A file that is gone counts as not free."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Shared, so that two who ask at once both hear the truth.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(fd)


log = logging.getLogger("holdfast")

_PAUSES_S: Final = ((0.02, 0.000_25), (1.0, 0.001), (float("inf"), 0.005))
"""How long to pause between two tries, by how long the wait has lasted: a commit takes a millisecond or a few."""
_SAID_AFTER_S: Final = 1.0


class Patience:
    """One wait after another, each of at most `wait_s`; `holder` says who it is that has the lock."""

    def __init__(self, path: Path, wait_s: float, holder: Callable[[], str]) -> None:
        self._path = path
        self._wait_s = wait_s
        self._holder = holder
        self._began_s = 0.0
        self._said = False

    def __call__(self, tried: int) -> bool:
        """Pause before another try; False when the wait is over. `tried`: how often this was asked in this wait."""
        now_s = time.monotonic()
        if not tried:
            self._began_s, self._said = now_s, False
        waited_s = now_s - self._began_s
        if waited_s >= self._wait_s:
            return False
        if waited_s >= _SAID_AFTER_S and not self._said:
            self._said = True
            log.warning("%s holds the lock of %s; waiting for it, for at most %g s.", self._holder(), self._path, self._wait_s)
        time.sleep(next(pause_s for until_s, pause_s in _PAUSES_S if waited_s < until_s))
        return True


class Presence:
    """This process's; it ends with it, however that dies."""

    def __init__(self, folder: Path, wait_s: float) -> None:
        """Waits for a first process that has not let others in yet. Raises OSError where the lock file cannot be made."""
        self._wait_s = wait_s
        self._file = LockFile(folder / "present")
        self.is_first = self._file.lock()
        if not self.is_first:
            self._share()

    def let_others_in(self) -> None:
        if self.is_first:
            self._share()

    def close(self) -> None:
        self._file.close()

    def _share(self) -> None:
        patience = Patience(self._file.path, self._wait_s, lambda: "A process that opens the store")
        for tried in itertools.count():
            if self._file.share() or not patience(tried):
                return
