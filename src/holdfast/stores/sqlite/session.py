"""The leases of processes: taken, renewed, lost for ever.

A session is alive while its process holds the lock on its file and its lease is not over. The lock tells of a killed
process within milliseconds, the lease of one that is frozen. Leases are counted on the clock since boot, which all
processes of the machine share and which nobody sets.

Never here: what a dead session leaves behind is the engine's to mend.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import apsw
import msgspec

from holdfast.core.values.ids import SessionId
from holdfast.errors import StoreError
from holdfast.stores.sqlite.context import StoreContext, StorePort, boot_ms, rows, value
from holdfast.stores.sqlite.lock import LockFile, is_free
from holdfast.stores.sqlite.thread import Write

LEASE_S: Final = 10.0
"""Longer than a healthy process may stand still: a long collection of garbage, a slow disk, a stop in a debugger."""
RENEWALS: Final = 5
"""Renewals in one lease, so one every 2 s: four in a row may fail or be late before a process is taken for dead."""
_REMEMBERED_MS: Final = 7 * 24 * 3600 * 1000
"""How long a dead session that left nothing behind is remembered, so that one can ask what ran when."""
_FILE: Final = "session-"


class Lease:
    """This process's hold on a session of its own."""

    __slots__ = ("dead", "file", "renewed_ms")

    def __init__(self, file: LockFile, renewed_ms: int) -> None:
        self.file = file
        self.renewed_ms = renewed_ms
        self.dead = False


class Suspect(NamedTuple):
    """A session of another process that seems dead, and the statement that marks it so if that is still true."""

    session: SessionId
    statement: str


class Renewal(NamedTuple):
    """The time at which leases were extended, and their sessions: those not found dead."""

    at_ms: int
    living: set[SessionId]


class Renewer:
    """A thread that renews in time, however busy the event loop is. It asks and never waits for the answer."""

    def __init__(self, every_s: float, renew: Callable[[], None]) -> None:
        self._every_s = every_s
        self._renew = renew
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="holdfast-sqlite-renewer", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            self._renew()


class Sessions(StorePort):
    """Keeps ports.Sessions."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._folder = context.locks
        self._lease_ms = int(context.lease_s * 1000)
        self._leases: dict[SessionId, Lease] = {}
        self._renewer = Renewer(context.lease_s / RENEWALS, self._renew)
        self._renewal: Future[Renewal] | None = None

    async def open(self, session: SessionId, label: str, hashes: Sequence[str], described: bytes | None = None) -> None:
        file = await self._writer.ask(lambda db: self._take(db, session))
        opened_ms = self._clock.now_ms()
        what_runs = msgspec.json.encode(hashes).decode()

        def write(db: apsw.Connection) -> int:
            renewed_ms = boot_ms()
            row = (session, label, os.getpid(), what_runs, opened_ms, self._lease_ms, renewed_ms, described)
            rows(db, "forget_sessions", (opened_ms - _REMEMBERED_MS,))
            rows(db, "open_session", row)
            return renewed_ms

        try:
            renewed_ms = await self._writer.write(write)
        except BaseException:
            file.close()  # the file stays: should the row be there after all, it says that no process holds it
            raise
        self._leases[session] = Lease(file, renewed_ms)
        self._renewer.start()

    async def widen(self, session: SessionId, hashes: Sequence[str]) -> None:
        await self._tables.change("widen_session", session, list(hashes))

    async def describe(self, session: SessionId, described: bytes) -> None:
        await self._tables.change("describe_session", session, described)

    async def described(self) -> Sequence[bytes]:
        return [said for (said,) in await self._tables.ask("described")]

    async def lost(self, since_ms: int, limit: int) -> Sequence[tuple[bytes, int]]:
        return [(described, dead_ms) for described, dead_ms in await self._tables.ask("lost_sessions", since_ms, limit)]

    async def able(self, hashes: Sequence[str]) -> int:
        asked = (msgspec.json.encode(hashes).decode(),)
        return await self._reader.ask(lambda db: sum(not self._is_over(*each) for each in rows(db, "able_sessions", asked)))

    async def able_until_ms(self, hashes: Sequence[str]) -> int | None:
        asked = (msgspec.json.encode(hashes).decode(),)
        found: int | None = await self._reader.ask(lambda db: value(db, "able_until_ms", asked))
        return found

    async def labels(self, sessions: Collection[SessionId]) -> Mapping[SessionId, str]:
        return dict(await self._tables.ask("session_labels", list(sessions)))

    async def close(self, session: SessionId) -> None:
        lease = self._leases.pop(session, None)
        if lease is None:
            return
        end = {"session": session, "now_ms": self._clock.now_ms()}
        try:
            await self._writer.write(lambda db: rows(db, "close_session", end))
        except BaseException:
            lease.file.close()  # the free lock says that it is dead
            raise
        lease.file.remove()

    async def renew(self, session: SessionId) -> bool:
        if session not in self._leases:
            return False
        self._renewed([session], await self._writer.write(lambda db: self._extend(db, [session])))
        return self.alive(session)

    def alive(self, session: SessionId) -> bool:
        lease = self._leases.get(session)
        return lease is not None and not lease.dead and 0 <= boot_ms() - lease.renewed_ms < self._lease_ms

    def age_s(self, session: SessionId) -> float | None:
        lease = self._leases.get(session)
        return None if lease is None else max(0, boot_ms() - lease.renewed_ms) / 1000

    async def expire(self) -> frozenset[SessionId]:
        suspects, dead = await self._reader.ask(self._look)
        if suspects:
            await self._writer.write(lambda db: self._mark(db, suspects))
            await self._writer.ask(self._tidy)
            suspects, dead = await self._reader.ask(self._look)
        return dead

    async def end(self) -> None:
        """Close what is still open, and let the thread go."""
        self._renewer.stop()
        for session in list(self._leases):
            with contextlib.suppress(StoreError):
                await self.close(session)

    # --- In other threads ---------------------------------------------------------------------------------------------

    def _take(self, db: apsw.Connection, session: SessionId) -> LockFile:
        self._tidy(db)
        file = LockFile.take(self._file_of(session))
        if file is None:
            raise StoreError(f"Session {session} is open elsewhere; every session needs a name of its own.")
        return file

    def _tidy(self, db: apsw.Connection) -> None:
        """Remove the lock files of sessions that are dead, or never came to be."""
        kept = {self._file_of(session).name for session, *_ in rows(db, "unburied_sessions")}
        for path in self._folder.glob(f"{_FILE}*"):
            # One that is being opened right now has no row yet, but its lock is held.
            if path.name not in kept and (file := LockFile.take(path)) is not None:
                file.remove()

    def _look(self, db: apsw.Connection) -> tuple[list[Suspect], frozenset[SessionId]]:
        """Return the sessions that seem dead and are not marked so, and the dead ones that have left work in flight."""
        suspects = [Suspect(session, "expire_other_session") for (session,) in rows(db, "strangers_in_flight")]
        for session, lease_ms, renewed_ms in rows(db, "unburied_sessions"):
            if session in self._leases:
                continue  # no process expires its own session
            if is_free(self._file_of(session)):
                suspects.append(Suspect(session, "end_session"))
            elif not 0 <= boot_ms() - renewed_ms < lease_ms:
                suspects.append(Suspect(session, "expire_session"))
        return suspects, frozenset(session for session, _ in rows(db, "dead_in_flight"))

    def _is_over(self, session: SessionId, lease_ms: int, renewed_ms: int) -> bool:
        return is_free(self._file_of(session)) or not 0 <= boot_ms() - renewed_ms < lease_ms

    def _mark(self, db: apsw.Connection, suspects: Sequence[Suspect]) -> None:
        moment = {"now_ms": self._clock.now_ms(), "boot_ms": boot_ms()}
        for session, statement in suspects:
            rows(db, statement, {"session": session, **moment})

    def _renew(self) -> None:
        if not self._leases or (self._renewal is not None and not self._renewal.done()):
            return
        sessions = list(self._leases)
        job = Write(lambda db: self._extend(db, sessions))
        job.future.add_done_callback(lambda renewal: self._on_renewal(sessions, renewal))
        self._renewal = job.future
        with contextlib.suppress(StoreError):  # the store is closing
            self._writer.submit(job)

    def _on_renewal(self, sessions: Sequence[SessionId], renewal: Future[Renewal]) -> None:
        if renewal.exception() is None:
            self._renewed(sessions, renewal.result())
        # else not renewed; the next one may be

    def _extend(self, db: apsw.Connection, sessions: Sequence[SessionId]) -> Renewal:
        now_ms = boot_ms()
        return Renewal(now_ms, {name for name in sessions if value(db, "renew_session", (now_ms, name)) is not None})

    def _renewed(self, sessions: Sequence[SessionId], renewal: Renewal) -> None:
        now_ms, living = renewal
        for session in sessions:
            lease = self._leases.get(session)
            if lease is not None:
                lease.renewed_ms = now_ms
                lease.dead = session not in living

    def _file_of(self, session: SessionId) -> Path:
        return self._folder / f"{_FILE}{quote(session, safe='')}"
