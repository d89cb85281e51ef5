"""What a person may ask of the store as a whole: how it stands.

There is one file: whoever opens it brings its tables up to date, and no month can be taken out of it.
Never here: a run's affairs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import apsw

from holdfast.core.ids import SessionId
from holdfast.core.projection import RunRow
from holdfast.errors import UsageError
from holdfast.ports import Freed, MonthStanding, SessionStanding, StoreStanding
from holdfast.stores.sqlite.backup import back_up
from holdfast.stores.sqlite.database import LATEST
from holdfast.stores.sqlite.room import SQL, Room, rows
from holdfast.stores.sqlite.store import SqliteStore


class SqliteAdministration(Room):
    """Keeps ports.Administration as far as one file can."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store.ground)
        self._store = store

    @classmethod
    async def connect(cls, path: Path) -> Self:
        """Raises what SqliteStore.connect raises."""
        return cls(await SqliteStore.connect(path))

    async def aclose(self) -> None:
        await self._store.aclose()

    async def standing(self) -> StoreStanding:
        path, now_ms = self._store.ground.writer.place.path, self._clock.now_ms()
        return await self._reader.ask(lambda db: _standing(db, path, now_ms))

    async def migrate(self, part: str | None) -> Sequence[str]:
        return ()  # done when it was opened

    async def back_up(self, file: str) -> int:
        if not file.strip():
            raise UsageError("Name the file that the backup is to be. Nothing was done.")
        to = await asyncio.to_thread(_free, file)
        return await self._writer.ask(lambda db: back_up(db, to))  # the other refuses even this

    async def archive(self, month: str) -> Freed:
        raise UsageError(_NO_MONTHS)

    async def prune(self, before: str) -> Freed:
        raise UsageError(_NO_MONTHS)


_NO_MONTHS = (
    "This store is a SQLite file, which keeps all runs for ever: no month can be taken out of it. Nothing was done. When it"
    " has grown too large, let its runs end, keep the file as the archive, and begin another; or use a PostgreSQL store."
)


def _free(file: str) -> Path:
    """A place for a backup. Raises UsageError where something is."""
    to = Path(file).absolute()
    if to.exists() or to.is_symlink():
        raise UsageError(
            f"{to} is there already, and a backup overwrites nothing. Nothing was done: name another file."
        )
    return to


def _standing(db: apsw.Connection, path: Path, now_ms: int) -> StoreStanding:
    months = [MonthStanding(month, "open", *counts) for month, *counts in rows(db, "months")]
    sessions = [
        SessionStanding(SessionId(name), label, at_ms, None) for name, label, at_ms in rows(db, "living_sessions")
    ]
    ((blobs, blob_bytes),) = rows(db, "blobs_kept")
    oldest: list[tuple[Any, ...]] = db.execute(
        f"{SQL['runs']} where ended_at_ms is null order by id limit 1"
    ).fetchall()
    return StoreStanding(
        str(path), LATEST, LATEST, (), now_ms, tuple(months), tuple(sessions), blobs, blob_bytes,
        RunRow(*oldest[0]) if oldest else None,
    )  # fmt: skip
