"""The leases of processes: taken, renewed, lost for ever; and whose session leads a lane.

A session is alive until its lease is over by the database's clock. This process counts its own from before it asked for
the renewal, on a clock that counts sleep, so it always believes itself dead before anybody else does.

Never here: what a dead session leaves behind is the engine's to mend.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from asyncpg import exceptions as pg

from holdfast.core.values.ids import SessionId
from holdfast.errors import StoreError, UnknownCommit
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.clock import boot_ms
from holdfast.stores.postgres.connection import LOST, Connection, connect, explain, transaction
from holdfast.stores.postgres.context import StoreContext, StorePort, sql
from holdfast.stores.postgres.schema import LATEST

LEASE_S: Final = 10.0
"""Longer than a healthy process may stand still: a long collection of garbage, a failover of the database, a stop in a
debugger."""
RENEWALS: Final = 5
"""Renewals in one lease, so one every 2 s: four in a row may fail or be late before a process is taken for dead."""
_PATIENCE: Final = 0.4
"""How much of a lease one renewal may take, connecting included, so that a second one still comes in time."""
_REMEMBERED_MS: Final = 7 * 24 * 3600 * 1000
"""How long a dead session that left nothing behind is remembered, so that one can ask what ran when."""


class Lease:
    """This process's hold on a session of its own."""

    __slots__ = ("dead", "renewed_boot_ms")

    def __init__(self, renewed_boot_ms: int) -> None:
        self.renewed_boot_ms = renewed_boot_ms
        self.dead = False


class Renewer:
    """A thread with a loop and a connection of its own, that renews in time however busy the process is."""

    def __init__(self, address: Address, lease_s: float, leases: dict[SessionId, Lease]) -> None:
        self._address = address
        self._every_s = lease_s / RENEWALS
        self._patience_s = lease_s * _PATIENCE
        self._leases = leases
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="holdfast-postgres-renewer", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ask it to end; it may still be in the middle of a renewal."""
        self._over.set()

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            db = runner.run(self._renew(None))  # connecting takes time that is short when a renewal is due
            while not self._over.wait(self._every_s):
                db = runner.run(self._renew(db))
            if db is not None:
                db.terminate()

    async def _renew(self, db: Connection | None) -> Connection | None:
        """Extend the leases; the connection for the next time, None if it was lost. A renewal that fails is made up
        for by the next, or not: then the lease is over, and `alive` says so."""
        sessions = [session for session, lease in list(self._leases.items()) if not lease.dead]
        if not sessions:
            return db
        try:
            async with asyncio.timeout(self._patience_s):
                if db is None or db.is_closed():
                    db = await connect(self._address, within_s=self._patience_s)
                renewed(self._leases, sessions, boot_ms(), await extend(db, self._address, sessions))
                return db
        except (*LOST, pg.PostgresError, UnknownCommit):
            if db is not None:
                db.terminate()
            return None


async def extend(db: Connection, address: Address, sessions: Sequence[SessionId]) -> set[str]:
    """Extend the leases of `sessions`, except of those that were found dead; return the others."""
    async with transaction(db):
        rows: list[Any] = await db.fetch(sql(address)["renew_sessions"], list(sessions))
    return {row["session"] for row in rows}


def renewed(leases: dict[SessionId, Lease], sessions: Sequence[SessionId], asked_boot_ms: int, living: set[str]) -> None:
    for session in sessions:
        lease = leases.get(session)
        if lease is None:
            continue
        if session in living:
            lease.renewed_boot_ms = max(lease.renewed_boot_ms, asked_boot_ms)
        else:
            lease.dead = True


class Sessions(StorePort):
    """Keeps ports.Sessions."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._lease_ms = int(context.lease_s * 1000)
        self._leases: dict[SessionId, Lease] = {}
        self._renewer = Renewer(self._db.address, context.lease_s, self._leases)

    async def open(self, session: SessionId, label: str, hashes: Sequence[str], described: bytes | None = None) -> None:
        asked_boot_ms = boot_ms()
        try:
            async with self._db.acquire() as db, transaction(db):
                await db.execute(self._sql["forget_sessions"], _REMEMBERED_MS)
                await db.execute(self._sql["open_session"], session, label, LATEST, list(hashes), self._lease_ms, described)
        except pg.UniqueViolationError as problem:
            raise StoreError(f"Session {session} was opened before; every session needs a name of its own.") from problem
        except (*LOST, pg.PostgresError) as problem:
            raise explain(problem, self._db.address) from problem
        self._leases[session] = Lease(asked_boot_ms)
        self._renewer.start()

    async def widen(self, session: SessionId, hashes: Sequence[str]) -> None:
        await self._db.execute(self._sql["widen_session"], session, list(hashes))

    async def describe(self, session: SessionId, described: bytes) -> None:
        await self._db.execute(self._sql["describe_session"], session, described)

    async def described(self) -> Sequence[bytes]:
        return [bytes(said) for (said,) in await self._db.fetch(self._sql["described"])]

    async def lost(self, since_ms: int, limit: int) -> Sequence[tuple[bytes, int]]:
        found = await self._db.fetch(self._sql["lost_sessions"], since_ms, limit)
        return [(bytes(described), dead_ms) for described, dead_ms in found]

    async def able(self, hashes: Sequence[str]) -> int:
        found: int = await self._db.value(self._sql["able"], list(hashes))
        return found

    async def able_until_ms(self, hashes: Sequence[str]) -> int | None:
        found: int | None = await self._db.value(self._sql["able_until_ms"], list(hashes))
        return found

    async def labels(self, sessions: Collection[SessionId]) -> Mapping[SessionId, str]:
        return {SessionId(row[0]): row[1] for row in await self._db.fetch(self._sql["session_labels"], list(sessions))}

    async def close(self, session: SessionId) -> None:
        if self._leases.pop(session, None) is not None:
            await self._db.execute(self._sql["end_session"], session)

    async def renew(self, session: SessionId) -> bool:
        if session not in self._leases:
            return False
        asked_boot_ms = boot_ms()
        async with self._db.writing() as db:
            living = await extend(db, self._db.address, [session])
        renewed(self._leases, [session], asked_boot_ms, living)
        return self.alive(session)

    def alive(self, session: SessionId) -> bool:
        lease = self._leases.get(session)
        return lease is not None and not lease.dead and boot_ms() - lease.renewed_boot_ms < self._lease_ms

    def age_s(self, session: SessionId) -> float | None:
        lease = self._leases.get(session)
        return None if lease is None else max(0, boot_ms() - lease.renewed_boot_ms) / 1000

    async def expire(self) -> frozenset[SessionId]:
        dead, more = (await self._db.fetch(self._sql["dead_in_flight"], list(self._leases)))[0]
        if more:
            async with self._db.writing() as db:
                await db.execute(self._sql["expire_sessions"], list(self._leases))
                await db.execute(self._sql["expire_other_sessions"])
            dead, _ = (await self._db.fetch(self._sql["dead_in_flight"], list(self._leases)))[0]
        return frozenset(SessionId(session) for session in dead)

    async def end(self) -> None:
        """Close what is still open, and let the thread go."""
        self._renewer.stop()
        for session in list(self._leases):
            with contextlib.suppress(StoreError):  # found dead by others when its lease is over
                await self.close(session)


class Leadership(StorePort):
    """Keeps ports.Leadership: a lane is a row that names a session, and is free when that session is dead."""

    async def lead(self, lane: str, session: SessionId) -> bool:
        async with self._db.writing() as db:
            await db.execute(self._sql["expire_leader"], lane)
            return await db.fetchval(self._sql["lead"], lane, session) is not None

    async def is_led(self, lane: str) -> bool:
        led: bool = await self._db.value(self._sql["is_led"], lane)
        return led

    async def unended_hashes(self) -> Sequence[str]:
        return [row[0] for row in await self._db.fetch(self._sql["unended_hashes"])]
