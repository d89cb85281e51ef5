"""The operations of an administrator on the store as a whole: its state, a copy of it, its months.

Opening the file brings its tables up to date. A copy is one moment of a store in use: whole, checked, and there at once or not
at all. Never here: a run's affairs, large payloads that are kept elsewhere, restoring (a copy is a store).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

import apsw

from holdfast.core.values.ids import SessionId
from holdfast.core.views.projection import RunRow
from holdfast.core.views.sealing import PLAIN, Sealing
from holdfast.errors import StoreError, StoreUnreadable, UsageError
from holdfast.platform import privacy
from holdfast.ports import BlobPlace, LeaseCondition, MonthStatus, RemovedData, SessionStatus, StoreCondition, StoreStatus
from holdfast.ports.administration import MAX_MONTH_READ
from holdfast.stores.canary import Canary, expect_at_rest, sealed_of, without_keys
from holdfast.stores.month import Month, state
from holdfast.stores.sqlite.connection import explain
from holdfast.stores.sqlite.context import SQL, StorePort, boot_ms, rows, value
from holdfast.stores.sqlite.database import APPLICATION_ID, LATEST
from holdfast.stores.sqlite.retention import SqliteRetention
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.statement import indexes

_MAX_MONTHS: Final = 1200


class SqliteAdministration(StorePort):
    """Keeps ports.Administration as far as one file can."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store.context)
        self._store = store

    @classmethod
    async def connect(cls, path: Path, elsewhere: BlobPlace | None = None, sealing: Sealing = PLAIN) -> Self:
        """`elsewhere` is where archives go instead of the table. What is sealed is archived and backed up as it
        stands, so no key is asked for. Raises what SqliteStore.connect raises."""
        return cls(await SqliteStore.connect(path, elsewhere=elsewhere, sealing=sealing, expects_keys=False))

    async def aclose(self) -> None:
        await self._store.aclose()

    async def standing(self) -> StoreStatus:
        path, now_ms = self._store.context.writer.place.path, self._clock.now_ms()
        return await self._reader.ask(lambda db: _standing(db, path, now_ms))

    async def condition(self, *, thorough: bool = False) -> StoreCondition:
        path, now_ms = self._store.context.writer.place.path, self._clock.now_ms()
        return await self._reader.ask(lambda db: _condition(db, path, now_ms, thorough))

    async def migrate(self, part: str | None) -> Sequence[str]:
        return ()  # done when it was opened

    async def guard(self, read_role: str, work_roles: Sequence[str]) -> Sequence[str]:
        raise UsageError(
            "This store is a SQLite file, and each user who can open the file sees all of it. Rows can be guarded in a"
            " PostgreSQL database only. Nothing was done."
        )

    async def forget_keys(self) -> int:
        expect_at_rest(await self.standing())

        def forget(db: apsw.Connection) -> int:
            found = [Canary(sealed, bool(encrypts)) for sealed, encrypts in rows(db, "canaries")]
            if sealed_of(found):
                rows(db, "add_canary", without_keys(found))
            return len(rows(db, "forget_canaries"))

        return await self._writer.write(forget)

    async def back_up(self, file: str) -> int:
        if not file.strip():
            raise UsageError("Name the file that the backup is to be. Nothing was done.")
        to = await asyncio.to_thread(_free, file)
        return await self._writer.ask(lambda db: back_up(db, to))  # the other refuses even this

    async def archive(self, month: str) -> RemovedData:
        return await SqliteRetention(self._store.context).archive(Month.parse(month))

    async def prune(self, before: str) -> RemovedData:
        return await SqliteRetention(self._store.context).prune(Month.parse(before))


def _free(file: str) -> Path:
    """A place for a backup. Raises UsageError where something is."""
    to = Path(file).absolute()
    if to.exists() or to.is_symlink():
        raise UsageError(f"{to} is there already, and a backup overwrites nothing. Nothing was done: name another file.")
    return to


def _standing(db: apsw.Connection, path: Path, now_ms: int) -> StoreStatus:
    sessions = [SessionStatus(SessionId(name), label, at_ms, None) for name, label, at_ms in rows(db, "living_sessions")]
    ((blobs, blob_bytes),) = rows(db, "blobs_kept")
    oldest: list[tuple[Any, ...]] = db.execute(f"{SQL['runs']} where ended_at_ms is null order by id limit 1").fetchall()
    return StoreStatus(
        str(path),
        LATEST,
        LATEST,
        (),
        now_ms,
        tuple(_months(db)),
        tuple(sessions),
        blobs,
        blob_bytes,
        RunRow(*oldest[0]) if oldest else None,
    )


def _condition(db: apsw.Connection, path: Path, now_ms: int, thorough: bool) -> StoreCondition:
    page, log = db.pragma("page_size"), path.with_name(f"{path.name}-wal")
    leases = [
        LeaseCondition(label, renewed_ms + lease_ms - boot_ms(), None) for label, lease_ms, renewed_ms in rows(db, "leases")
    ]
    here = {name for (name,) in rows(db, "index_names")}
    found = db.pragma("quick_check") if thorough else "ok"
    return StoreCondition(
        str(path),
        LATEST,
        LATEST,
        (),
        now_ms,
        tuple(leases),
        tuple(sorted(indexes("sqlite") - here)),
        page * db.pragma("page_count"),
        page * db.pragma("freelist_count"),
        log.stat().st_size if log.exists() else 0,
        str(path.parent),
        None if found == "ok" else str(found),
    )


def _months(db: apsw.Connection) -> Iterator[MonthStatus]:
    after = ""
    for _ in range(_MAX_MONTHS):
        run = value(db, "first_run_from", (after,))
        if run is None:
            return
        month = Month.of(run)
        yield _month(db, month)
        after = month.next.first


def _month(db: apsw.Connection, month: Month) -> MonthStatus:
    ((runs, unended, events, read, archived, pruned, archive_bytes, is_in_tables),) = rows(
        db, "month", (month.first, month.next.first, MAX_MONTH_READ)
    )
    found = state(runs, archived, pruned, is_in_tables=is_in_tables)
    return MonthStatus(str(month), found, runs, unended, events, None if is_in_tables else archive_bytes, read < runs)


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
        os.link(part, file)  # refuses where another was first
        _sync(file.parent)
        return file.stat().st_size
    except FileExistsError:
        raise StoreUnreadable(f"{file} is there now, and a backup overwrites nothing. No backup was made.", path=file) from None
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
