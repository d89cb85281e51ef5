"""Shared values: written by appends, in the commit that says so, and by who is no run.

Never here: what becomes of a write whose version is not the latest.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from holdfast.core.nouns.shared_values import SharedIndex
from holdfast.core.views.projection import SharedChange
from holdfast.errors import SharedLockLost, SharedValueMoved
from holdfast.ports import SharedFound
from holdfast.stores.nouns.shared_values import ValuesRead
from holdfast.stores.row import astuple, expect_searchable, lock_lost, moved, shared_value_of
from holdfast.stores.sqlite import shared_index
from holdfast.stores.sqlite.context import SQL, StoreContext, rows
from holdfast.stores.sqlite.entry import Entry


def stale(db: apsw.Connection, new: Entry) -> SharedValueMoved | SharedLockLost | None:
    """Why `new` may not write a value: it has another version than it is based on, or its lock is over."""
    written: dict[tuple[str, str, str], int] = {}
    for change in new.changes.shared_values:
        name = (change.tenant, change.space, change.key)
        if change.base != (written[name] if name in written else _latest(db, change)):
            return moved(change)
        if change.fence is not None and not _is_held(db, change, new.changes.run.updated_at_ms):
            return lock_lost(change)
        written[name] = change.base + 1
    return None


def write(db: apsw.Connection, changes: Sequence[SharedChange]) -> None:
    for change in changes:
        name = (change.tenant, change.space, change.key)
        if change.keep:
            rows(db, "put_shared_value", (*name, change.base + 1, change.body))
        rows(db, "prune_shared_value", (*name, change.base + 1 - change.keep))
        shared_index.follow(db, change)
        for key in change.dropped:
            rows(db, "drop_shared_value", (change.tenant, change.space, key))
            shared_index.drop(db, change.tenant, change.space, key)


def write_waits(db: apsw.Connection, new: Entry) -> None:
    if new.changes.shared_waits is not None:
        rows(db, "drop_shared_waits", (new.run,))
        db.executemany(SQL["put_shared_wait"], map(astuple, new.changes.shared_waits))


def _is_held(db: apsw.Connection, change: SharedChange, now_ms: int) -> bool:
    found = rows(db, "shared_lock", (change.tenant, change.space, change.key))
    return bool(found) and found[0][1] == change.fence and found[0][2] > now_ms


def _latest(db: apsw.Connection, change: SharedChange) -> int:
    found = rows(db, "shared_value", (change.tenant, change.space, change.key))
    return found[0][0] if found else 0


class SharedValues(ValuesRead):
    """Keeps ports.SharedValues."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context.ground)
        self._reader, self._writer = context.reader, context.writer

    async def search(self, tenant: str, space: str, query: SharedIndex | None, limit: int) -> Sequence[SharedFound]:
        expect_searchable(self._sealing, query)
        if query is not None and query.vector:
            vectors = shared_index.extension()
            found = await self._reader.ask(lambda db: shared_index.nearest(db, vectors, tenant, space, query, limit))
        elif query is not None:
            found = await self._reader.ask(lambda db: shared_index.by_words(db, tenant, space, query.words, limit))
        else:
            found = await self._reader.ask(lambda db: rows(db, "list_shared_entries", (tenant, space, limit)))
        return [SharedFound(key, shared_value_of(body, self._sealing), *more) for key, body, *more in found]

    async def put(self, change: SharedChange) -> bool:
        sealed = self._sealing.seal_shared(change)

        def put(db: apsw.Connection) -> bool:
            is_next = _latest(db, change) == change.base
            if is_next:
                write(db, [sealed])
            return is_next

        return await self._writer.write(put)

    async def lock(self, tenant: str, space: str, key: str, holder: str, lease_ms: int) -> int | None:
        asked = (tenant, space, key, holder, self._clock.now_ms(), lease_ms)
        found = await self._writer.write(lambda db: rows(db, "take_shared_lock", asked))
        return found[0][0] if found else None
