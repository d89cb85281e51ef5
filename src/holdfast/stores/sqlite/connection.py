"""A connection to the database file, and what SQLite's errors mean for users of the store.

Never here: a thread, a table. Never opens the database file but through SQLite (see `lock`).
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from holdfast.errors import NotAStore, StoreBusy, StoreError, StoreFull, StoreGone, StoreUnreadable, Unstorable
from holdfast.stores.sqlite.lock import Patience

_CONTENT: Final = (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError, apsw.RangeError)
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_SETTINGS: Final = """
pragma synchronous = full;
pragma fullfsync = on;
pragma cache_size = -16000;
pragma journal_size_limit = 67108864;
pragma temp_store = memory;
"""
"""A commit is on the disk when it returns: `normal` may lose acknowledged commits when the power fails."""


class Place:
    """The place of the database file, and a check that it still is the file that was opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._identity = self._look()

    def check(self) -> None:
        """Raises StoreGone if the file was deleted, moved or replaced: what is written into it now is lost."""
        if self._look() != self._identity:
            raise StoreGone(
                f"{self.path} was deleted or replaced while it was in use, so nothing more is stored and no step goes"
                " on. Stop every process that uses it; move the file back with its -wal, or restore both from a backup,"
                " and start again: runs go on from what is in it.",
                path=self.path,
            )

    def _look(self) -> tuple[int, int] | None:
        try:
            there = os.stat(self.path)  # noqa: PTH116 - on the path of every commit
        except OSError:
            return None
        return there.st_dev, there.st_ino


def connect(path: Path, *, like: Path | None = None, wait_s: float) -> apsw.Connection:
    """A connection with everything set that a connection must set for itself; with `like`, to a file that is made if it
    is not there, with the mode and the owner of that one. Its log and its index get those of the file. Raises StoreError.
    """
    flags, name = apsw.SQLITE_OPEN_READWRITE, str(path)
    if like is not None:
        flags |= apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        name = f"file:{quote(str(path))}?modeof={quote(str(like))}"
    try:
        db = apsw.Connection(name, flags=flags)
    except apsw.Error as problem:
        raise explain(problem, path) from problem
    try:
        db.set_busy_handler(Patience(path, wait_s, lambda: "A program other than Holdfast"))
        db.execute(_SETTINGS)
        if db.readonly("main"):
            raise StoreUnreadable(
                f"{path} is read-only. Nothing was done. A store must be writable: give this user the right to write the"
                " file and its directory.",
                path=path,
            )
    except apsw.Error as problem:
        db.close()
        raise explain(problem, path) from problem
    except StoreError:
        db.close()
        raise
    return db


def keep_log(db: apsw.Connection, is_kept: bool) -> None:
    """Set whether the write-ahead log stays on the disk when this connection is the last to close. A store in use without a log
    beside it has lost it (see `database`)."""
    flag = ctypes.c_int(is_kept)
    db.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(flag))


def explain(problem: Exception, path: Path, db: apsw.Connection | None = None) -> StoreError:
    """Return the error that explains a problem and gives advice: Unstorable if only the content is at fault."""
    if isinstance(problem, StoreError):
        return problem
    found: StoreError
    if isinstance(problem, apsw.Error) and not isinstance(problem, _CONTENT):
        found = _of_sqlite(problem, path, db.system_errno if db is not None else 0)
    elif isinstance(problem, OSError):
        found = _unreadable(path, problem.strerror or problem)
    else:
        found = Unstorable(f"{type(problem).__name__}: {problem}")
    found.__cause__ = problem
    return found


def _of_sqlite(problem: apsw.Error, path: Path, system_errno: int) -> StoreError:
    if isinstance(problem, apsw.FullError) or (_is_of_writing(problem) and system_errno in _NO_ROOM):
        return StoreFull(
            f"There is no room left for {path}. Nothing was written, and what was written before is safe: free some"
            " space on its disk; work goes on from where it is.",
            path=path,
        )
    if isinstance(problem, apsw.NotADBError):
        return NotAStore(
            f"{path} is not a Holdfast store, not even a SQLite database. It was not touched. If it was a store once, its"
            " beginning has been overwritten: restore it from a backup.",
            path=path,
        )
    if isinstance(problem, apsw.BusyError | apsw.LockedError):
        return StoreBusy(
            f"A program other than Holdfast holds a lock on {path}: a database browser with an open transaction, or a"
            " backup? Nothing was written; close it and try again.",
            path=path,
            pid=None,
        )
    if isinstance(problem, apsw.CorruptError):
        return StoreUnreadable(
            f"{path} is damaged ({problem}): something other than Holdfast has cut it off or written into it. Nothing was"
            " done. Stop every process that uses it and restore it from a backup; without one, `sqlite3"
            f" {path.name} .recover` on a copy shows what can still be read.",
            path=path,
        )
    if isinstance(problem, apsw.CantOpenError | apsw.ReadOnlyError | apsw.PermissionsError | apsw.IOError):
        return _unreadable(path, problem)
    return StoreError(f"SQLite could not do its work on {path}: {problem}", path=path)


def _unreadable(path: Path, reason: object) -> StoreUnreadable:
    return StoreUnreadable(
        f"{path} cannot be opened or written ({reason}). Nothing was done. Check that it is a file on a disk that works, and"
        " that this user may write it and its directory.",
        path=path,
    )


def _is_of_writing(problem: apsw.Error) -> bool:
    return isinstance(problem, apsw.IOError) and getattr(problem, "extendedresult", 0) == apsw.SQLITE_IOERR_WRITE
