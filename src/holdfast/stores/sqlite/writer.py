"""The thread that writes: what waits for the disk goes there together, in one transaction, one process at a time.

Never here: what is written. A job touches nothing but the database, for it may be done again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw

from holdfast.errors import StoreError, StoreFull, UnknownCommit, Unstorable
from holdfast.stores.sqlite.connection import Place, explain
from holdfast.stores.sqlite.database import open_database, put_away
from holdfast.stores.sqlite.lock import Presence
from holdfast.stores.sqlite.log_reach import LogReach
from holdfast.stores.sqlite.thread import Job, StoreThread, T, Work
from holdfast.stores.sqlite.turnstile import Turnstile


class Write(Job):
    """A job that changes the database."""

    __slots__ = ()


class Writer(StoreThread):
    """The one writing connection of this process."""

    place: Place
    _turnstile: Turnstile
    _presence: Presence
    _reach: LogReach

    def __init__(self, path: Path, wait_s: float) -> None:
        """`wait_s` bounds the wait for other processes."""
        self._wait_s = wait_s
        self._alone = asyncio.Lock()
        super().__init__("holdfast-sqlite-writer", path)

    async def write(self, work: Work[T]) -> T:
        """What `work` returns, once what it wrote is on the disk.

        Raises Unstorable where the fault is with what this job writes, UnknownCommit where nobody can know whether it
        was written, any other StoreError where nothing was.
        """
        found: T = await self._done(Write(work))
        return found

    @contextlib.asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Keep other processes from committing. One task at a time, so that they get their turns in between."""
        async with self._alone:
            held = contextlib.ExitStack()
            try:
                await self.ask(lambda db: held.enter_context(self._turnstile))
                yield
            finally:
                # Queued behind the entering, which may be under way even if nobody waits for it any more.
                with contextlib.suppress(StoreError):
                    self.submit(Job(lambda db: held.close()))

    # --- In the thread ------------------------------------------------------------------------------------------------

    def _connect(self) -> apsw.Connection:
        opened = open_database(self._path, self._wait_s)
        self._turnstile, self._presence, self._reach = opened.turnstile, opened.presence, opened.reach
        self.place = Place(self._path)
        return opened.db

    def _disconnect(self, db: apsw.Connection) -> None:
        # The last process to close takes the log in; this one does what it can.
        with contextlib.suppress(apsw.Error):
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        with contextlib.suppress(StoreError), self._turnstile:
            self._reach.note(db, now=True)
            put_away(db, self._path)
        db.close()
        self._turnstile.close()
        self._presence.close()

    def _do(self, db: apsw.Connection, jobs: list[Job]) -> None:
        super()._do(db, [job for job in jobs if not isinstance(job, Write)])
        writes = [job for job in jobs if isinstance(job, Write)]
        if writes:
            self._flush(db, writes)

    def _flush(self, db: apsw.Connection, jobs: list[Write]) -> None:
        """Commit `jobs` together; where one of them would spoil it for the others, each alone."""
        try:
            outcomes = self._commit(db, jobs)
        except Unstorable as problem:
            if len(jobs) == 1:
                jobs[0].future.set_exception(problem)
                return
            for job in jobs:
                self._flush(db, [job])
        except Exception as problem:  # noqa: BLE001 - everybody whose job it was is told
            failure = explain(problem, self._path, db)
            for job in jobs:
                job.future.set_exception(failure)
        else:
            for job, outcome in zip(jobs, outcomes, strict=True):
                job.future.set_result(outcome)

    def _commit(self, db: apsw.Connection, jobs: list[Write]) -> list[Any]:
        with self._turnstile:
            try:
                db.execute("begin immediate")
                outcomes = [self._work(db, job) for job in jobs]
            except Exception as problem:
                failure = explain(problem, self._path, db)
                _roll_back(db)
                raise failure from problem
            try:
                db.execute("commit")
            except apsw.Error as problem:
                failure = self._fate_of_commit(problem, db)
                _roll_back(db)
                raise failure from problem
            self._reach.note(db)
            self.place.check()
        return outcomes

    def _fate_of_commit(self, problem: apsw.Error, db: apsw.Connection) -> StoreError:
        failure = explain(problem, self._path, db)
        if isinstance(failure, StoreFull):
            return failure  # the commit is the last thing that is written, and it was not
        return UnknownCommit(
            f"{self._path}: the disk did not confirm a commit ({problem}); it may be there or not. Append it again"
            " under the same id, and look after that disk.",
            path=self._path,
        )


def _roll_back(db: apsw.Connection) -> None:
    if db.in_transaction:  # some errors have done so already
        with contextlib.suppress(apsw.Error):
            db.execute("rollback")
