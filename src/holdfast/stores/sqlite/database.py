"""Opening a store: what kind of file is there, and bringing it to this version's tables. And putting it away.

While a store is in use its header says that it has a write-ahead log; the last process to close it takes the log in and has the
header say that there is none. So a file that says it has one, with none beside it, is not whole: it was copied alone, or its
log was removed. (A flag in a table would need somebody to know that he is the last; SQLite's own lock knows that.)

Never here: what the tables mean. A crash between any two statements leaves a file that opens.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import apsw

from holdfast.errors import NotAStore, StoreBusy, StoreTooNew, StoreUnreadable, UsageError
from holdfast.platform import privacy
from holdfast.stores.sqlite.connection import connect, explain, keep_log
from holdfast.stores.sqlite.lock import Presence
from holdfast.stores.sqlite.log_reach import LogReach, Reach
from holdfast.stores.sqlite.write_lock import WriteLock
from holdfast.stores.statement import edited, is_of_no_release, migrations, was_edited, was_of_no_release

APPLICATION_ID: Final = 0x484C4446
"""`HLDF` in the header of every Holdfast database; `file` and SQLite's tools show it."""
MIGRATIONS: Final = migrations("sqlite")
LATEST: Final = MIGRATIONS[-1].version
_CHECKED: Final = 51
"""The migration with which stores begin to remember the texts; those before it are as 0.1.0 had them."""

_MADE: Final = "made"
"""A file beside the locks that says that the store has had its tables once."""
_TURNING: Final = "turning"
"""A file beside the locks while the header is being changed: a crash there leaves a header that says there is a log, and no
log, and nothing is missing."""


def resolve(path: Path | str) -> Path:
    """The file itself, behind all links: SQLite puts its log beside that one. Raises UsageError."""
    if str(path) in ("", ":memory:"):
        raise UsageError("A store must be a file: what is only in memory would not survive its process.")
    return Path(path).resolve()


def locks_of(path: Path) -> Path:
    """The folder of the store's lock files."""
    return path.with_name(f"{path.name}-locks")


class OpenStore(NamedTuple):
    """A store as its writer has it."""

    db: apsw.Connection
    turnstile: WriteLock
    presence: Presence
    reach: LogReach


def open_database(path: Path, wait_s: float) -> OpenStore:
    """A connection to the store at `path`, made if it is not there, and the way to its write lock.

    Raises NotAStore, StoreTooNew, StoreUnreadable, StoreFull, StoreBusy.
    """
    if not path.parent.is_dir():
        raise StoreUnreadable(f"There is no directory {path.parent}; make it first, or name another place.", path=path)
    if path.is_dir():
        raise StoreUnreadable(f"{path} is a directory; name a file in it, like {path / 'holdfast.db'}.", path=path)
    _expect_whole(path)
    reach = LogReach(log_of(path), locks_of(path))
    with contextlib.ExitStack() as undo:
        db, presence, is_there = None, None, path.exists()
        if locks_of(path).is_dir():
            presence = _presence(path, wait_s)
            undo.callback(presence.close)
        if is_there and log_of(path).exists():
            # A process has it open, or had it when it was killed. The log is theirs: a reader does not remove it.
            noted = reach.expect_begun(path) if presence is not None and presence.is_first else None
            db = connect(path, wait_s=wait_s)
            undo.callback(db.close)
            keep_log(db, True)
            if noted is not None:
                _expect_frames(db, path, reach, noted)
        elif is_there and not locks_of(path).is_dir():
            _expect_ours(path)  # before anything is made beside it; with the locks there a process may be just making it
        ready = db is not None and _is_ready(db, path)
        turnstile = _turnstile(path, wait_s)
        undo.callback(turnstile.close)
        if presence is None:
            presence = _presence(path, wait_s)
            undo.callback(presence.close)
        if db is None or not ready:
            with turnstile:  # where no other process puts it away, or gives it its log
                if db is None:
                    may_lack = path.exists() and not (log_of(path).exists() or (locks_of(path) / _TURNING).exists())
                    db = connect(path, like=turnstile.room, wait_s=wait_s)
                    undo.callback(db.close)
                    if may_lack:
                        _expect_no_log(db, path)
                _prepare(db, path)
        keep_log(db, True)
        with contextlib.suppress(OSError):
            os.close(privacy.open_file(locks_of(path) / _MADE))
        privacy.close(path, *(path.with_name(f"{path.name}-{kind}") for kind in ("wal", "shm")))
        presence.let_others_in()
        undo.pop_all()
        return OpenStore(db, turnstile, presence, reach)


def _presence(path: Path, wait_s: float) -> Presence:
    try:
        return Presence(locks_of(path), wait_s)
    except OSError as problem:
        raise explain(problem, locks_of(path)) from problem


def _expect_frames(db: apsw.Connection, path: Path, reach: LogReach, noted: Reach) -> None:
    """Raises StoreUnreadable for a log that is shorter than it was, which is left as it is."""
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    try:
        reach.expect_frames(db, path, noted)
    except apsw.Error as problem:
        raise explain(problem, path, db) from problem
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def _expect_whole(path: Path) -> None:
    """Raises StoreUnreadable where a store was and its file has been emptied, or taken away from its log: SQLite would
    begin a new one there, and throw the log away with what only the log still holds."""
    log = log_of(path)
    there = path.exists()
    if there and path.stat().st_size:
        return
    if log.exists() and log.stat().st_size:
        what = "is empty" if there else "is missing"
        raise StoreUnreadable(
            f"{path} {what}, but its log {log.name} is still there: the store was cut off from it. Nothing was touched."
            f" Restore both from a backup; to start with an empty store, remove {log.name} too.",
            path=path,
        )
    if there and (locks_of(path) / _MADE).exists():
        raise StoreUnreadable(
            f"{path} is empty, and it was a store: something has emptied the file. Nothing was touched. Restore it from a"
            " backup; to start with an empty store, remove it.",
            path=path,
        )


def log_of(path: Path) -> Path:
    """Return the path of the store's write-ahead log, which SQLite keeps."""
    return path.with_name(f"{path.name}-wal")


def _expect_ours(path: Path) -> None:
    """Raises NotAStore for the database of another program, without a lock and without making a file beside it."""
    try:
        with contextlib.closing(
            apsw.Connection(f"file:{quote(str(path))}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        ) as db:
            application_id = db.pragma("application_id")
            is_empty = db.execute("select 1 from sqlite_schema limit 1").get is None
    except apsw.Error as problem:
        raise explain(problem, path) from problem
    _check_application(path, application_id, is_empty)


def _check_application(path: Path, application_id: int, is_empty: bool) -> None:
    if application_id != APPLICATION_ID and (application_id or not is_empty):
        raise NotAStore(f"{path} is the database of another program, not a Holdfast store. It was not touched.", path=path)


def _expect_no_log(db: apsw.Connection, path: Path) -> None:
    """Raises StoreUnreadable where the header says that there is a log, of a store that a version made which takes that back
    when the store is put away, or of a file with nothing else in it: none was beside it."""
    try:
        if db.pragma("journal_mode") != "wal":
            return
        is_empty = db.execute("select 1 from sqlite_schema limit 1").get is None
        if not is_empty and not (db.pragma("application_id") == APPLICATION_ID and db.pragma("user_version") >= _CHECKED):
            return
    except apsw.Error as problem:
        raise explain(problem, path, db) from problem
    raise StoreUnreadable(
        f"{path} was in use, and its log {log_of(path).name} is not beside it: whatever was committed last is missing, which"
        " may be everything. Nothing was touched. If it is a copy, copy the -wal too, or better use `holdfast store backup`"
        " and take that. If another program than Holdfast (sqlite3, a browser of databases) was the last to have it open,"
        " it has taken the log in, and nothing is missing. `holdfast store accept` goes on with what is in the file.",
        path=path,
    )


def accept(path: Path, wait_s: float) -> None:
    """Believe that a file is whole whose log is missing. Raises StoreError, of one that is in use too."""
    if not path.exists():
        raise StoreUnreadable(f"There is no {path}.", path=path)
    with contextlib.closing(_turnstile(path, wait_s)) as turnstile, turnstile:
        is_away = put_away(connect(path, wait_s=0), path)
    if not is_away:
        raise StoreBusy(f"{path} is in use. Nothing was done: stop every process that uses it first.", path=path)


def put_away(db: apsw.Connection, path: Path) -> bool:
    """Take the log in and close, in the turnstile; False where others still have the store open, who keep the log."""
    turning = locks_of(path) / _TURNING
    with contextlib.suppress(OSError):
        os.close(privacy.open_file(turning))
    keep_log(db, False)
    db.set_busy_timeout(0)  # the process that is there stays
    try:
        is_away = bool(db.pragma("journal_mode", "delete") == "delete")
    except apsw.Error:
        is_away = False
    keep_log(db, not is_away)
    if is_away:
        LogReach(log_of(path), locks_of(path)).forget()
    db.close()
    with contextlib.suppress(OSError):
        turning.unlink(missing_ok=True)
    return is_away


def _is_ready(db: apsw.Connection, path: Path) -> bool:
    """Return True if the file can be used as it is. Raises NotAStore, StoreTooNew for a file that is not ours to prepare."""
    try:
        application_id, version = db.pragma("application_id"), db.pragma("user_version")
        empty = db.execute("select 1 from sqlite_schema limit 1").get is None
        mode = db.pragma("journal_mode")
        is_ours = application_id == APPLICATION_ID and version >= _CHECKED
        applied = dict(db.execute("select version, sha256 from migrations")) if is_ours else {}
    except apsw.BusyError:
        return False  # another process is just making it: looked at again in the turnstile
    except apsw.Error as problem:
        raise explain(problem, path, db) from problem
    _check_application(path, application_id, empty)
    if version > LATEST:
        raise StoreTooNew(
            f"{path} was written by a newer Holdfast (its tables are at version {version}, this one knows {LATEST})."
            " It was not touched: upgrade Holdfast to work with it.",
            path=path,
            found=version,
            known=LATEST,
        )
    if version and is_of_no_release(MIGRATIONS, version):
        raise StoreUnreadable(was_of_no_release(str(path), version), path=path)
    if (other := edited(MIGRATIONS, lambda each: applied.get(each.version))) is not None:
        raise StoreUnreadable(was_edited(str(path), other), path=path)
    return bool(version == LATEST and mode == "wal")  # a copy made by VACUUM INTO has another mode


def _turnstile(path: Path, wait_s: float) -> WriteLock:
    folder = locks_of(path)
    try:
        privacy.make_folder(folder)
        return WriteLock(folder, wait_s)
    except OSError as problem:
        raise explain(problem, folder) from problem


def _prepare(db: apsw.Connection, path: Path) -> None:
    """Give the file the migrations that it has not had, and then its log."""
    if _is_ready(db, path):
        return
    try:
        # In one transaction with the header's marks: either the tables and the version that says so, or neither. Before the
        # log is there, so that the file alone is a store from its first moment.
        db.execute("begin immediate")
        for migration in MIGRATIONS:
            if db.pragma("user_version") < migration.version:
                db.execute(migration.sql)
                _remember(db, migration.version)
                db.pragma("application_id", APPLICATION_ID)
                db.pragma("user_version", migration.version)
        db.execute("commit")
        turning = locks_of(path) / _TURNING
        os.close(privacy.open_file(turning))
        LogReach(log_of(path), locks_of(path)).forget()  # of a log that is away
        if db.pragma("journal_mode", "wal") != "wal":
            raise StoreUnreadable(f"{path} lies on a file system on which SQLite's write-ahead log does not work.")
        db.execute("select 1 from sqlite_schema limit 1").fetchall()  # only a look makes the log's file
        turning.unlink(missing_ok=True)
    except apsw.Error as problem:
        raise explain(problem, path, db) from problem


def _remember(db: apsw.Connection, version: int) -> None:
    """Write down the texts of the migrations up to this one."""
    if version >= _CHECKED:
        had = [(each.version, each.name, each.sha256) for each in MIGRATIONS if each.version <= version]
        db.executemany("insert or ignore into migrations (version, name, sha256) values (?, ?, ?)", had)
