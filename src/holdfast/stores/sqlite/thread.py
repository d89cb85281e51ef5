"""A thread with a connection of its own that does one job after another, for callers who await it.

Never here: SQL, a transaction. A thread knows jobs and nothing about them.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

import apsw

from holdfast.errors import StoreError
from holdfast.stores.sqlite.connection import explain

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]

MOST_QUEUED: Final = 1000
"""Jobs that may wait for a thread; a caller that brings more waits too. A job may carry a blob: this bounds memory."""
MOST_TOGETHER: Final = 64
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
        # Daemonic: a store that nobody closed must not keep its process alive.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def ready(self) -> None:
        """Wait for the connection. Raises StoreError if there will be none."""
        await self.ask(lambda db: None)

    async def ask(self, work: Work[T]) -> T:
        """What `work` returns, or raises, in this thread."""
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
        while self._queue.qsize() >= MOST_QUEUED:  # noqa: ASYNC110 - the other side is a thread
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
        except Exception as problem:  # noqa: BLE001 - the caller is told; nobody waits for a thread that is gone
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
        while len(jobs) < MOST_TOGETHER:
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
        """Turn away everybody, now and from now on."""
        with self._entrance:
            self._closed = problem
            while not self._queue.empty():
                job = self._queue.get()
                if job is not None and job.future.set_running_or_notify_cancel():
                    job.future.set_exception(problem)
