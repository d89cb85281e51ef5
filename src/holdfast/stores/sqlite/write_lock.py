"""The fair way to SQLite's write lock, for all processes of a store.

Two locks in a row: a process in the turnstile is the next into the room, and one that leaves the room must queue at
the turnstile again. SQLite's own busy handler lets a busy writer keep others out for the better part of a second; here
each gets through after the one commit before it.

Only fairness and a bounded wait are here. Nothing is safe because of it: SQLite's own lock is, and a deleted lock file
costs no more than the order.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Self

from holdfast.errors import StoreBusy
from holdfast.stores.sqlite.lock import LockFile, Patience


class WriteLock:
    """`with turnstile:` holds the room; inside, it may be entered again. For one thread."""

    def __init__(self, folder: Path, wait_s: float) -> None:
        """Raises OSError where the lock files cannot be made."""
        self._wait_s = wait_s
        self._turnstile = LockFile(folder / "turnstile")
        self._room = LockFile(folder / "writer")
        self._depth = 0

    def __enter__(self) -> Self:
        """Raises StoreBusy, naming the process in the room, when the wait is over."""
        if not self._depth:
            self._enter()
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._room.unlock()

    @property
    def room(self) -> Path:
        """The file that a writer locks."""
        return self._room.path

    def close(self) -> None:
        self._turnstile.close()
        self._room.close()

    def _enter(self) -> None:
        if not self._turnstile.lock():
            self._wait_for(self._turnstile)
        try:
            if not self._room.lock():
                self._wait_for(self._room)
        finally:
            self._turnstile.unlock()
        self._room.write_pid()

    def _wait_for(self, lock: LockFile) -> None:
        # flock itself can wait, but not for a while only.
        patience = Patience(lock.path, self._wait_s, lambda: f"Process {self._room.read_pid() or 'unknown'}")
        for tried in itertools.count():
            if not patience(tried):
                break
            if lock.lock():
                return
        pid = self._room.read_pid()
        raise StoreBusy(
            f"Process {pid or 'unknown'} has held the store's write lock for {self._wait_s:g} seconds. Nothing was"
            f" written. It may be stopped or hang: let it go on (kill -CONT {pid or 'PID'}) or end it, and try again.",
            pid=pid,
        )
