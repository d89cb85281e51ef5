"""Histories: appended, loaded, and cut short by snapshots, of which those of many runs are written together.

Never here: folding. What a history amounts to is core.evolve's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from asyncpg import exceptions as pg

from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import RunId, Seq
from holdfast.errors import HoldfastError, NotFound, OverLimit, StoreError, UnknownCommit, Unstorable
from holdfast.ports import Append, History, SnapshotRecord
from holdfast.stores.archive_store import ArchiveStore
from holdfast.stores.month import Month
from holdfast.stores.postgres.append import Entry, entry, fates_of, write, write_children, write_ledger, write_one
from holdfast.stores.postgres.connection import AGAIN, LOST, POISON, Connection, begin, durable, explain, transaction
from holdfast.stores.postgres.context import StoreContext, StorePort
from holdfast.stores.postgres.effect_key import Keys
from holdfast.stores.postgres.history import MAX_EVENTS, Histories, HistoryRequest, HistoryRows
from holdfast.stores.postgres.partition import make
from holdfast.stores.postgres.scope import ScopeBalances
from holdfast.stores.postgres.shared_value import ValueWrites
from holdfast.stores.row import fate_of, is_run, recorded, unstorable


class Snapshots(StorePort):
    """The snapshots of the log. Those that are kept at the same time are one statement."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._gathered: dict[RunId, SnapshotRecord] = {}
        self._next: asyncio.Task[None] | None = None
        """The writing that takes along what is gathered until it begins."""
        self._one_at_a_time = asyncio.Lock()

    async def keep(self, run: RunId, record: SnapshotRecord) -> None:
        self._gathered[run] = record
        if self._next is None:
            self._next = asyncio.create_task(self._write_gathered(), name="holdfast-snapshots")
        await asyncio.shield(self._next)

    async def _write_gathered(self) -> None:
        async with self._one_at_a_time:
            gathered, self._gathered, self._next = self._gathered, {}, None
            # In the order of their runs, so that two processes wait for each other's rows one way round only.
            rows = [
                (run, each.seq, each.fold_version, self._sealing.seal(each.tenant, each.state))
                for run, each in sorted(gathered.items())
            ]
            await self._db.execute(self._sql["put_snapshots"], *zip(*rows, strict=True))


Fates = dict[RunId, HoldfastError | None]

_MAX_AT_ONCE: Final = 10_000
"""Events in one answer of the database; they are read on until there are no more."""
_MAX_TRIES: Final = 5
"""Maximum number of tries of a flush that met another in the way. Each time another went on."""


class LockedRow:
    """A run's row, locked by a transaction that the next append to the run is a part of."""

    def __init__(self, db: Connection) -> None:
        self.db = db
        self.is_open = True


class Log(StorePort):
    """Keeps ports.Log."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._held: dict[RunId, LockedRow] = {}
        self._snapshots = Snapshots(context)
        self._histories = Histories(context)
        self._shelf = ArchiveStore(context.ground)
        # The holder of a run reads it through another connection: holders must not have them all.
        self._alone = asyncio.Semaphore(self._db.most // 2)

    async def append(self, appends: Sequence[Append]) -> Sequence[HoldfastError | None]:
        fates: Fates = {}
        entries: list[Entry] = []
        for append in appends:
            try:
                entries.append(entry(append, self._sealing))
            except StoreError as problem:
                fates[append.run] = problem
        alone = [new for new in entries if new.run in self._held]
        together = [new for new in entries if new.run not in self._held]
        fates |= await self._one_by_one([group for group in ([[new] for new in alone] + [together]) if group])
        return [fate_of(fates[append.run], self._sealing) for append in appends]

    async def _one_by_one(self, groups: Sequence[list[Entry]]) -> Fates:
        """Commit one group after the other. When one fails, those before it are written: so nothing is known of all."""
        fates: Fates = {}
        for group in groups:
            try:
                fates |= await self._commit(group)
            except StoreError as problem:
                if not fates or isinstance(problem, UnknownCommit):
                    raise
                raise UnknownCommit(f"Some of these appends were written and others were not: {problem}") from problem
        return fates

    async def _commit(self, entries: list[Entry]) -> Fates:
        """Commit `entries` together; where one of them spoils it for the others, or cannot have its run, each alone."""
        try:
            return await self._try(entries)
        except Unstorable as problem:
            if len(entries) == 1:
                return {entries[0].run: unstorable(entries[0].run, problem)}
        except pg.LockNotAvailableError as problem:
            if len(entries) == 1:
                return {entries[0].run: explain(problem, self._db.address)}
        return await self._one_by_one([[new] for new in entries])

    async def _try(self, entries: list[Entry]) -> Fates:
        """Raises Unstorable, StoreError if nothing was written, UnknownCommit if that is unknown; and passes on that another
        has had a run for too long."""
        address = self._db.address
        in_the_way: BaseException | None = None
        for _ in range(_MAX_TRIES):
            try:
                return await self._write(entries)
            except pg.CheckViolationError as problem:
                if problem.constraint_name is not None:
                    raise explain(problem, address) from problem
                await self._make_months(entries)  # the first runs of a month: no partition has room for them
            except pg.LockNotAvailableError:
                raise
            except AGAIN as problem:
                in_the_way = problem
            except (*POISON, pg.ReadOnlySQLTransactionError) as problem:
                raise explain(problem, address) from problem
            except LOST as problem:
                raise UnknownCommit(
                    f"The connection to {address.shown} was lost while events were being written ({problem or 'no answer'}):"
                    " it is unknown whether they were. The same events are sent again under the same id."
                ) from problem
            except pg.PostgresError as problem:
                raise explain(problem, address) from problem
        raise StoreError(
            f"Others were in the way of {len(entries)} appends {_MAX_TRIES} times; nothing was written."
        ) from in_the_way

    async def _write(self, entries: list[Entry]) -> Fates:
        """One transaction, or one statement that is its own. Errors pass as they are."""
        held = self._held.get(entries[0].run)
        if held is not None and held.is_open:
            held.is_open = False
            fates, now_ms = await self._write_all(held.db, entries)
            await durable(held.db, held.db.execute("commit"))
            self._clock.observe(now_ms)
            return fates
        async with self._connected() as db:
            if not self._db.address.pooled and all(new.is_plain for new in entries):
                fates_at_once = await self._write_at_once(db, entries)
                if fates_at_once is not None:
                    return fates_at_once
            async with transaction(db):
                fates, now_ms = await self._write_all(db, entries)
            self._clock.observe(now_ms)
            return fates

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """A connection to write through. Raises StoreError while there is none, and so nothing has left."""
        connecting = True
        try:
            async with self._db.acquire() as db:
                connecting = False
                yield db
        except LOST as problem:
            if connecting:
                raise explain(problem, self._db.address) from problem
            raise

    async def _write_at_once(self, db: Connection, entries: list[Entry]) -> Fates | None:
        """One statement, and so one round trip. An append that was left out by it is told why in a transaction after it.
        None, and nothing written, where there is a limit that one of them might pass."""
        if len(entries) == 1 and entries[0].is_simple:
            now_ms, is_written = await durable(db, write_one(db, self._sql, self._process, entries[0]))
            self._clock.observe(now_ms)
            if is_written:
                return {entries[0].run: None}
        now_ms, runs, is_free = await durable(db, write(db, self._sql, self._process, entries, charging=True))
        self._clock.observe(now_ms)
        if not is_free:
            return None
        fates: Fates = {RunId(run): None for run in runs}
        left = [new for new in entries if new.run not in runs]
        if not left:
            return fates
        try:
            async with transaction(db):
                return fates | await fates_of(db, self._sql, left)
        except pg.PostgresError as problem:
            raise UnknownCommit(
                f"{len(runs)} of {len(entries)} appends were written, and the reasons why the others were not could not be"
                f" read: {problem}"
            ) from problem

    async def _write_all(self, db: Connection, entries: list[Entry]) -> tuple[Fates, int]:
        """Write `entries` inside a transaction; what became of each, once it is committed, and the time.

        Runs are locked first, as everywhere, then what stands above them.
        """
        seqs = dict(await db.fetch(self._sql["lock_runs"], [new.run for new in entries]))
        here = [new for new in entries if seqs.get(new.run, 0) == new.expected]  # what others have moved since moves nothing
        keys = await Keys.locked(db, self._sql, entries)
        shared = await ValueWrites.locked(
            db,
            self._sql,
            [change for new in entries for change in new.changes.shared_values],
            [use for new in entries for use in new.changes.shared_uses],
        )
        balances = await ScopeBalances.locked(db, self._sql, entries)
        admitted = [new for new in here if keys.admit(new) and shared.admit(new) and await balances.admit(new)]
        now_ms, runs, _ = await write(db, self._sql, self._process, admitted, charging=False)
        fates: Fates = {RunId(run): None for run in runs}
        written = [new for new in admitted if new.run in runs]
        await write_ledger(db, self._sql, written)
        await keys.write(written)
        await shared.write_waits(written)
        await shared.write([change for new in written for change in new.changes.shared_values])
        await shared.use([use for new in written for use in new.changes.shared_uses])
        await balances.write(written)
        await write_children(db, self._sql, written)
        left = [new for new in entries if new.run not in runs]
        if left:
            fates |= await fates_of(db, self._sql, left, {**keys.conflicts, **shared.refused, **balances.refused})
            for new in left:
                if isinstance(refused := fates[new.run], OverLimit):
                    await balances.leave_waiter(new, refused)
        return fates, now_ms

    async def _make_months(self, entries: Sequence[Entry]) -> None:
        async with self._db.writing() as db:
            await make(db, self._db.address, {Month.of(new.run) for new in entries})

    async def load(self, run: RunId, fold_version: int) -> History:
        snapshot, events = None, []
        if is_run(run):
            read = await self._histories.read(HistoryRequest(run, None, fold_version))
            if read.snapshot is not None:
                seq, state = read.snapshot
                snapshot = SnapshotRecord(Seq(seq), fold_version, self._sealing.open(state))
            events = await self._events(run, snapshot.seq if snapshot is not None else 0, None, read)
        if snapshot is None and not events:
            raise NotFound(f"There is no run {run} in this store.", run=run)
        return History(snapshot, tuple(events))

    async def events(self, run: RunId, after: int = 0, limit: int | None = None) -> Sequence[Recorded]:
        if not is_run(run):
            return ()
        read = await self._histories.read(HistoryRequest(run, after)) if limit is None else None
        return tuple(await self._events(run, after, limit, read))

    async def _events(self, run: RunId, after: int, limit: int | None, read: HistoryRows | None) -> list[Recorded]:
        """Return the events after `after`. Some of them may have been `read` already."""
        found: list[Recorded] = []
        while limit is None or len(found) < limit:
            if read is not None:
                rows, most, read = read.events, MAX_EVENTS, None
            else:
                most = _MAX_AT_ONCE if limit is None else min(_MAX_AT_ONCE, limit - len(found))
                rows = await self._db.fetch(self._sql["events"], run, after + len(found), most)
            archived = await self._archived(run, after + len(found), most, rows)
            first = after + len(found) + 1
            found += [recorded(self._sealing, run, first + n, *row) for n, row in enumerate(archived or rows)]
            if len(rows) < most and not archived:
                break
        return found

    async def _archived(self, run: RunId, after: int, limit: int, rows: Sequence[Any]) -> Sequence[Any]:
        """Return the events after `after` from an archive, if the table's `rows` do not begin with the next one."""
        if rows and rows[0][0] == after + 1:
            return ()
        archive = await self._shelf.archive(run)
        return archive.rows(after, limit) if archive is not None else ()

    async def seqs(self, runs: Sequence[RunId], *, ended: bool = False) -> Mapping[RunId, Seq]:
        asked = [run for run in runs if is_run(run)]
        return {RunId(run): Seq(seq) for run, seq in await self._db.fetch(self._sql["seqs"], asked, ended)}

    def exclusive(self, run: RunId) -> AbstractAsyncContextManager[None]:
        return self._exclusive(run)

    @contextlib.asynccontextmanager
    async def _exclusive(self, run: RunId) -> AsyncIterator[None]:
        """Lock the run's row as the transaction's first write, and let the run's next append be the rest of it."""
        async with self._alone:
            try:
                async with self._db.acquire() as db:
                    await begin(db)
                    await db.execute(self._sql["lock_runs"], [run])
                    self._held[run] = held = LockedRow(db)
                    try:
                        yield
                    finally:
                        if self._held[run] is held:  # the row is free as soon as the append is committed
                            del self._held[run]
                        if held.is_open:
                            held.is_open = False
                            await db.execute("rollback")
            except (*LOST, pg.PostgresError) as problem:
                raise explain(problem, self._db.address) from problem

    async def snapshot(self, run: RunId, record: SnapshotRecord) -> None:
        await self._snapshots.keep(run, record)

    async def is_archived(self, run: RunId) -> bool:
        return bool(await self._db.fetch(self._sql["archive"], run))

    async def run_of_key(self, tenant: str, key: str) -> tuple[RunId, str] | None:
        """Return the run of a start key. A caller that finds its start done must find it as durable as a new one. So the key is
        locked, and the commit waited for."""
        async with self._db.writing() as db:
            found: list[Any] = await db.fetch(self._sql["run_of_key"], tenant, key)
        return (RunId(found[0][0]), self._sealing.open_hash(found[0][1])) if found else None
