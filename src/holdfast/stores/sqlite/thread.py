"""The threads of a SQLite file, each with a connection of its own, which does one job after another for callers who await it.

One writes: what waits for the disk goes there together, in one transaction, one process at a time. One reads for the engine,
and one what callers ask for, in turns of their tenants, each in its time.

Never here: a statement, what is written. A job that writes touches nothing but the database, for it may be done again.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

import apsw

from holdfast.errors import StoreError, StoreFull, UnknownCommit, Unstorable
from holdfast.platform.fair_share import FairShare
from holdfast.stores.reading import MAX_WAITING, READ_S, READS, too_long
from holdfast.stores.sqlite.connection import Place, connect, explain, keep_log
from holdfast.stores.sqlite.database import open_database, put_away
from holdfast.stores.sqlite.lock import Presence
from holdfast.stores.sqlite.log_reach import LogReach
from holdfast.stores.sqlite.write_lock import WriteLock

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]

MAX_QUEUED: Final = 1000
"""Jobs that may wait for a thread; a caller that brings more waits too. A job may carry a blob: this bounds memory."""
MAX_TOGETHER: Final = 64
"""Jobs that a thread takes up at once."""
_FULL_PAUSE_S: Final = 0.01


class Job:
    """Something to be done in a thread, and the future that tells what came of it."""

    __slots__ = ("future", "work")

    def __init__(self, work: Work[Any]) -> None:
        self.work = work
        self.future: Future[Any] = Future()


class StoreThread(ABC):
    """One thread, one connection; jobs are done in the order in which they came."""

    def __init__(self, name: str, path: Path) -> None:
        """The thread connects first; `ready` tells if it could not."""
        self._path = path
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._entrance = threading.Lock()
        self._closed: StoreError | None = None
        self._stopped: Future[None] = Future()
        self._stopped.set_running_or_notify_cancel()  # who gives up waiting for the end does not call the end off
        # Daemonic: a store that was not closed must not keep its process alive.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def ready(self) -> None:
        """Wait for the connection. Raises StoreError if there will be none."""
        await self.ask(lambda db: None)

    async def ask(self, work: Work[T]) -> T:
        """Return or raise the outcome of `work` in this thread."""
        found: T = await self._done(Job(work))
        return found

    async def close(self) -> None:
        """Do what is queued, then let go of the connection and end the thread."""
        with self._entrance:
            if self._closed is None:
                self._closed = StoreError("The store is closed.")
                self._queue.put(None)
        await asyncio.wrap_future(self._stopped)
        self._thread.join()

    def submit(self, job: Job) -> None:
        """Queue `job`, from any thread. Raises StoreError when the thread has ended."""
        with self._entrance:
            if self._closed is not None:
                raise self._closed.with_traceback(None)
            self._queue.put(job)

    async def _done(self, job: Job) -> Any:
        while self._queue.qsize() >= MAX_QUEUED:  # noqa: ASYNC110 - the other side is a thread
            await asyncio.sleep(_FULL_PAUSE_S)
        self.submit(job)
        return await asyncio.wrap_future(job.future)

    # --- In the thread ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _connect(self) -> apsw.Connection:
        """Open the connection. Raises StoreError."""

    def _disconnect(self, db: apsw.Connection) -> None:
        db.close()

    def _work(self, db: apsw.Connection, job: Job) -> Any:
        return job.work(db)

    def _do(self, db: apsw.Connection, jobs: list[Job]) -> None:
        for job in jobs:
            try:
                job.future.set_result(self._work(db, job))
            except Exception as problem:  # noqa: BLE001 - it belongs to the caller that brought the job
                job.future.set_exception(explain(problem, self._path, db))

    def _run(self) -> None:
        try:
            db = self._connect()
        except Exception as problem:  # noqa: BLE001 - the caller gets it; none waits for a thread that is gone
            self._refuse(explain(problem, self._path))
        else:
            while jobs := self._take():
                self._do(db, [job for job in jobs if job.future.set_running_or_notify_cancel()])
            self._disconnect(db)
        finally:
            self._stopped.set_result(None)

    def _take(self) -> list[Job]:
        """The next jobs; none when the thread is to end."""
        first = self._queue.get()
        if first is None:
            return []
        jobs = [first]
        while len(jobs) < MAX_TOGETHER:
            try:
                job = self._queue.get_nowait()
            except Empty:
                break
            if job is None:
                self._queue.put(None)  # the last one: found again when these are done
                break
            jobs.append(job)
        return jobs

    def _refuse(self, problem: StoreError) -> None:
        """Refuse all jobs, now and from now on."""
        with self._entrance:
            self._closed = problem
            while not self._queue.empty():
                job = self._queue.get()
                if job is not None and job.future.set_running_or_notify_cancel():
                    job.future.set_exception(problem)


class Write(Job):
    """A job that changes the database."""

    __slots__ = ()


class Writer(StoreThread):
    """The one writing connection of this process."""

    place: Place
    _turnstile: WriteLock
    _presence: Presence
    _reach: LogReach

    def __init__(self, path: Path, wait_s: float) -> None:
        """`wait_s` bounds the wait for other processes."""
        self._wait_s = wait_s
        self._alone = asyncio.Lock()
        super().__init__("holdfast-sqlite-writer", path)

    async def write(self, work: Work[T]) -> T:
        """Return the result of `work`, once its changes are on the disk.

        Raises Unstorable if the fault is in what this job writes, UnknownCommit if it is unknown whether that was written. Any
        other StoreError means that nothing was.
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
                # Queued behind the entering, which may be under way even if no caller waits for it any more.
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
        except Exception as problem:  # noqa: BLE001 - each sender of a job gets it
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


_MOST: Final = 3
"""Reads that are on their way to the thread: one tenant has two at most, and a newcomer's is the next but one."""
_LOOK_EVERY: Final = 50_000
"""Steps of SQLite between two looks at the time: some milliseconds."""


class CallerReads:
    """The reads of one store that callers ask for. The thread and its connection are made at the first request."""

    def __init__(self, place: Place, wait_s: float) -> None:
        self._place = place
        self._wait_s = wait_s
        self._reader: Reader | None = None
        self.shares = FairShare(_MOST, READS, waiting=MAX_WAITING)
        self._is_closed = False

    async def ask(self, tenant: str, work: Work[T]) -> T:
        """Return what `work` does, in the turn of a tenant. Raises TooMuch where its turn does not come, or it takes too
        long; a caller that leaves ends it."""
        asked = _PendingRead(work, READ_S)
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

    def __init__(self, reads: CallerReads, tenant: str) -> None:
        self._asked = reads
        self._tenant = tenant

    async def ask(self, work: Work[T]) -> T:
        return await self._asked.ask(self._tenant, work)

    async def close(self) -> None:
        """It is closed as a whole."""


class _PendingRead:
    """A read, and whether it is to end."""

    def __init__(self, work: Work[Any], most_s: float) -> None:
        self._work = work
        self._most_s = most_s
        self.is_over = False

    def done(self, db: apsw.Connection) -> Any:
        """Return the result of the read, or None if it was ended."""
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
