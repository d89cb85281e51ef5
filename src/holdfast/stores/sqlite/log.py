"""Histories: appended, loaded, and cut short by snapshots.

Never here: folding. What a history amounts to is core.evolve's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final

import apsw
import msgspec

from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import RunId, Seq
from holdfast.core.views.sealing import Sealing
from holdfast.errors import HoldfastError, NotFound, StoreError, Unstorable
from holdfast.ports import Append, History, SnapshotRecord
from holdfast.stores.archive_store import ArchiveStore
from holdfast.stores.row import fate_of, recorded, unstorable
from holdfast.stores.sqlite.append import commit
from holdfast.stores.sqlite.context import StoreContext, StorePort, rows, value
from holdfast.stores.sqlite.entry import Entry, entry

_MAX_AT_ONCE: Final = 1000
"""Events in one answer of the database, which must fit into a gigabyte; an event is less than 100 kB."""

_encode = msgspec.json.Encoder().encode
_decode_places = msgspec.json.Decoder(list[tuple[int, int, int, str | None]]).decode
_decode_seqs = msgspec.json.Decoder(dict[RunId, Seq]).decode


class Log(StorePort):
    """Keeps ports.Log."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._shelf = ArchiveStore(context.ground)

    async def append(self, appends: Sequence[Append]) -> Sequence[HoldfastError | None]:
        fates: list[HoldfastError | None] = [None] * len(appends)
        entries: dict[int, Entry] = {}
        for index, append in enumerate(appends):
            try:
                entries[index] = entry(append, self._sealing)
            except StoreError as problem:
                fates[index] = problem
        if entries:
            for index, fate in zip(entries, await self._commit(list(entries.values())), strict=True):
                fates[index] = fate_of(fate, self._sealing)
        return fates

    async def _commit(self, entries: list[Entry]) -> list[HoldfastError | None]:
        """Commit `entries` together; where one of them would spoil it for the others, each alone."""
        try:
            return await self._writer.write(lambda db: commit(db, entries))
        except Unstorable as problem:
            if len(entries) == 1:
                return [unstorable(entries[0].run, problem)]
        alone = await asyncio.gather(*(self._commit([single]) for single in entries))
        return [fate for (fate,) in alone]

    async def load(self, run: RunId, fold_version: int) -> History:
        def read(db: apsw.Connection) -> tuple[SnapshotRecord | None, list[Recorded]]:
            found = rows(db, "snapshot", (run, fold_version))
            snapshot = _snapshot(self._sealing, *found[0]) if found else None
            return snapshot, _events(db, self._sealing, run, snapshot.seq if snapshot is not None else 0, None)

        snapshot, events = await self._reader.ask(read)
        if _may_go_on(events):
            events += await self._events(run, (snapshot.seq if snapshot is not None else 0) + len(events), None)
        if snapshot is None and not events:
            raise NotFound(f"There is no run {run} in this store.", run=run)
        return History(snapshot, tuple(events))

    async def events(self, run: RunId, after: int = 0, limit: int | None = None) -> Sequence[Recorded]:
        return tuple(await self._events(run, after, limit))

    async def _events(self, run: RunId, after: int, limit: int | None) -> list[Recorded]:
        found: list[Recorded] = []
        while limit is None or len(found) < limit:
            last, left = after + len(found), None if limit is None else limit - len(found)
            events = await self._reader.ask(partial(_events, sealing=self._sealing, run=run, after=last, limit=left))
            more = events or await self._archived(run, last, left)
            found += more
            if not more or (events and not _may_go_on(events)):
                break
        return found

    async def _archived(self, run: RunId, after: int, limit: int | None) -> list[Recorded]:
        """Return the events after `after` from an archive, for a table that does not go on with the next one."""
        archive = await self._shelf.archive(run)
        lines = archive.rows(after, limit) if archive is not None else ()
        return [recorded(self._sealing, run, after + 1 + n, *line) for n, line in enumerate(lines)]

    async def seqs(self, runs: Sequence[RunId], *, ended: bool = False) -> Mapping[RunId, Seq]:
        asked = _encode(runs).decode()
        return _decode_seqs(await self._reader.ask(lambda db: value(db, "seqs", (asked, ended))))

    def exclusive(self, run: RunId) -> AbstractAsyncContextManager[None]:
        return self._writer.exclusive()

    async def snapshot(self, run: RunId, record: SnapshotRecord) -> None:
        row = (run, record.seq, record.fold_version, self._sealing.seal(record.tenant, record.state))
        await self._writer.write(lambda db: rows(db, "put_snapshot", row))

    async def is_archived(self, run: RunId) -> bool:
        return bool(await self._tables.ask("archive", run))

    async def run_of_key(self, tenant: str, key: str) -> tuple[RunId, str] | None:
        found = await self._reader.ask(lambda db: rows(db, "run_of_key", (tenant, key)))
        return (RunId(found[0][0]), self._sealing.open_hash(found[0][1])) if found else None


def _may_go_on(events: Sequence[Recorded]) -> bool:
    """Return True if more may follow these events from the table, in it or in an archive. Between two of its answers a run may
    leave the table."""
    return len(events) % _MAX_AT_ONCE == 0


def _snapshot(sealing: Sealing, seq: Seq, fold_version: int, state: bytes) -> SnapshotRecord:
    return SnapshotRecord(seq, fold_version, sealing.open(state))


def _events(db: apsw.Connection, sealing: Sealing, run: RunId, after: int, limit: int | None) -> list[Recorded]:
    """The events that the table holds from the one after `after` on. Raises CorruptHistory for a gap, or for an event that
    this version does not know."""
    found: list[Recorded] = []
    while limit is None or len(found) < limit:
        most = _MAX_AT_ONCE if limit is None else min(_MAX_AT_ONCE, limit - len(found))
        more = _next_events(db, sealing, run, after + len(found), most)
        found += more
        if len(more) < most:
            break
    return found


def _next_events(db: apsw.Connection, sealing: Sealing, run: RunId, after: int, most: int) -> list[Recorded]:
    places, payloads = value(db, "events", {"run": run, "after": after, "most": most})
    found: list[Recorded] = []
    start = 0
    decoded = _decode_places(places)
    if decoded and decoded[0][0] != after + 1 and rows(db, "archive", (run,)):
        return []  # what comes first is in the archive
    for seq, at_ms, size, trace_id in decoded:
        # Each event is decoded from bytes of its own: a payload that is kept must not keep the whole history with it.
        payload = payloads[start : start + size]
        found.append(recorded(sealing, run, after + 1 + len(found), seq, at_ms, payload, trace_id))
        start += size
    return found
