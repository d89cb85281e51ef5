"""Reading beside the writer: a thread for the engine's own reads, and one for those that callers ask for, in turns of their
tenants, each in its time.

Never here: a statement, a write; a connection that reads refuses it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final, TypeVar

import apsw

from holdfast.errors import StoreError
from holdfast.platform.fair_share import FairShare
from holdfast.stores.reading import MOST_WAITING, READ_S, READS, too_long
from holdfast.stores.sqlite.connection import Place, connect, keep_log
from holdfast.stores.sqlite.thread import Job, StoreThread, Work


class Reader(StoreThread):
    """Reads what is committed. Every job fetches all its rows: a cursor left open would read the past for ever."""

    def __init__(self, place: Place, wait_s: float) -> None:
        self._place = place
        self._wait_s = wait_s
        super().__init__("holdfast-sqlite-reader", place.path)

    def _connect(self) -> apsw.Connection:
        db = connect(self._path, wait_s=self._wait_s)
        db.execute("pragma query_only = on")
        keep_log(db, True)
        return db

    def _work(self, db: apsw.Connection, job: Job) -> Any:
        self._place.check()
        return job.work(db)


T = TypeVar("T")

_MOST: Final = 3
"""Reads that are on their way to the thread: one tenant has two at most, and a newcomer's is the next but one."""
_LOOK_EVERY: Final = 50_000
"""Steps of SQLite between two looks at the time: some milliseconds."""


class AskedReads:
    """Those of one store. The thread and its connection are made when somebody asks."""

    def __init__(self, place: Place, wait_s: float) -> None:
        self._place = place
        self._wait_s = wait_s
        self._reader: Reader | None = None
        self.shares = FairShare(_MOST, READS, waiting=MOST_WAITING)
        self._is_closed = False

    async def ask(self, tenant: str, work: Work[T]) -> T:
        """Return what `work` does, in the turn of a tenant. Raises TooMuch where its turn does not come, or it takes too
        long; a caller that leaves ends it."""
        asked = _Asked(work, READ_S)
        async with self.shares.turn((tenant,), READ_S):
            if self._is_closed:
                raise StoreError("The store is closed.")
            self._reader = self._reader or Reader(self._place, self._wait_s)
            try:
                found: T = await self._reader.ask(asked.done)
            except asyncio.CancelledError:
                asked.is_over = True
                raise
        if asked.is_over:
            raise too_long(READ_S)
        return found

    async def close(self) -> None:
        """Finish what is asked, and let go of the connection."""
        self._is_closed = True
        if self._reader is not None:
            await self._reader.close()


class ReaderOfTenant:
    """The reader as a tenant has it, or who acts for all (`""`)."""

    def __init__(self, asked: AskedReads, tenant: str) -> None:
        self._asked = asked
        self._tenant = tenant

    async def ask(self, work: Work[T]) -> T:
        return await self._asked.ask(self._tenant, work)

    async def close(self) -> None:
        """It is closed as a whole."""


class _Asked:
    """A read, and whether it is to end."""

    def __init__(self, work: Work[Any], most_s: float) -> None:
        self._work = work
        self._most_s = most_s
        self.is_over = False

    def done(self, db: apsw.Connection) -> Any:
        """What the read comes to; nothing where it was ended."""
        until_s = time.monotonic() + self._most_s

        def is_over() -> bool:
            self.is_over = self.is_over or time.monotonic() > until_s
            return self.is_over

        db.set_progress_handler(is_over, _LOOK_EVERY)
        try:
            return None if self.is_over else self._work(db)
        except apsw.InterruptError:
            return None
        finally:
            db.set_progress_handler(None)
