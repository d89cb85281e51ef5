"""A copy of a store that is in use: one moment of it, whole, checked, and there at once or not at all.

Never here: large payloads that are kept elsewhere, restoring (the copy is a store).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import apsw

from holdfast import privacy
from holdfast.errors import StoreError, StoreUnreadable
from holdfast.stores.sqlite.connection import explain
from holdfast.stores.sqlite.database import APPLICATION_ID, LATEST


def back_up(db: apsw.Connection, file: Path) -> int:
    """Write what `db` shows now to `file`; its size in bytes. Processes that write are not held up: they write into the
    log, which grows meanwhile. Raises StoreError, also where something is there already."""
    part = file.with_name(f"{file.name}.part-{os.getpid()}")
    try:
        part.unlink(missing_ok=True)
        os.close(privacy.open_file(part))
        db.execute("vacuum into ?", (str(part),))
        _expect_sound(part, file)
        _sync(part)
        os.link(part, file)  # refuses where somebody else was first
        _sync(file.parent)
        return file.stat().st_size
    except FileExistsError:
        raise StoreUnreadable(
            f"{file} is there now, and a backup overwrites nothing. No backup was made.", path=file
        ) from None
    except apsw.Error as problem:
        raise explain(problem, part, db) from problem
    except OSError as problem:
        raise StoreUnreadable(
            f"{file} could not be written ({problem.strerror or problem}). No backup was made.", path=file
        ) from problem
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _expect_sound(part: Path, file: Path) -> None:
    """Read the whole copy again. Raises StoreError."""
    with contextlib.closing(apsw.Connection(str(part), flags=apsw.SQLITE_OPEN_READONLY)) as copy:
        marks = copy.pragma("application_id"), copy.pragma("user_version")
        found = copy.pragma("integrity_check")
    if found != "ok" or marks != (APPLICATION_ID, LATEST):
        raise StoreError(
            f"The copy for {file} did not read back as it was written ({found}; {marks}). No backup was made: look after"
            " that disk, and after the store's (`pragma integrity_check`).",
            path=file,
        )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
