"""Shared values: written by appends, in the commit that says so, and by who is no run.

Never here: what becomes of a write whose version is not the latest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.core.nouns.shared_values import SharedIndex, query_words, unpacked
from holdfast.core.values.ids import RunId
from holdfast.core.views.projection import SharedChange, SharedUse
from holdfast.errors import MissingExtra, SharedLockLost, SharedValueMoved, StoreError
from holdfast.ports import SharedFound
from holdfast.stores.nouns.shared_values import ValuesRead
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.context import StoreContext, sql
from holdfast.stores.row import astuple, expect_searchable, lock_lost, moved, shared_value_of

if TYPE_CHECKING:
    from holdfast.stores.postgres.append import Entry

Name = tuple[str, str, str]


class ValueWrites:
    """The values that one transaction writes, locked in their order until its end: one that is not there is no row to lock."""

    def __init__(self, db: Connection, sql: dict[str, str], versions: dict[Name, int], fences: dict[Name, int]) -> None:
        self._db = db
        self._sql = sql
        self._versions = versions
        self._fences = fences
        self.refused: dict[RunId, SharedValueMoved | SharedLockLost] = {}
        """What the appends would be told whose value has moved, or whose lock is over, if they are at their places."""

    @classmethod
    async def locked(
        cls, db: Connection, sql: dict[str, str], changes: Sequence[SharedChange], uses: Sequence[SharedUse] = ()
    ) -> ValueWrites:
        written = sorted({_name(change) for change in changes})
        beside = {(each.tenant, each.space, key) for each in changes for key in each.dropped}
        used = {(each.tenant, each.space, key) for each in uses for key in each.keys}
        names = sorted({*written, *beside, *used})
        if not names:
            return cls(db, sql, {}, {})
        await db.execute(sql["lock_shared_values"], ["\n".join(name) for name in names])
        if not written:
            return cls(db, sql, {}, {})
        found = await db.fetch(sql["latest_shared_values"], *zip(*written, strict=True))
        versions = {(tenant, space, key): version for tenant, space, key, version in found}
        return cls(db, sql, versions, await _held_locks(db, sql, changes))

    def is_next(self, changes: Sequence[SharedChange]) -> SharedChange | None:
        """The first of `changes` that is based on another version than the latest; None where each is the next."""
        versions = dict(self._versions)
        for change in changes:
            if change.base != versions.get(_name(change), 0):
                return change
            versions[_name(change)] = change.base + 1
        self._versions = versions
        return None

    def admit(self, new: Entry) -> bool:
        """Return True if no value that `new` writes has moved, and each lock that it needs is still held."""
        stale = self.is_next(new.changes.shared_values)
        if stale is not None:
            self.refused[new.run] = moved(stale)
            return False
        for change in new.changes.shared_values:
            if change.fence is not None and self._fences.get(_name(change)) != change.fence:
                self.refused[new.run] = lock_lost(change)
                return False
        return True

    async def write_waits(self, entries: Sequence[Entry]) -> None:
        """Write the values that the runs of the written appends wait for from now on."""
        waits = [(new.run, new.changes.shared_waits) for new in entries if new.changes.shared_waits is not None]
        if not waits:
            return
        await self._db.execute(self._sql["drop_shared_waits"], [run for run, _ in waits])
        new = [astuple(each) for _, rows in waits for each in rows]
        if new:
            await self._db.execute(self._sql["put_shared_waits"], *zip(*new, strict=True))

    async def write(self, changes: Sequence[SharedChange]) -> None:
        for change in changes:
            if change.keep:
                await self._db.execute(self._sql["put_shared_value"], *_name(change), change.base + 1, change.body)
            await self._db.execute(self._sql["prune_shared_value"], *_name(change), change.base + 1 - change.keep)
            await self._follow(change)

    async def _follow(self, change: SharedChange) -> None:
        """A value is found by what its latest version says, or not any more; and those go that it is in the place of."""
        space, index = (change.tenant, change.space), change.index
        gone = [*change.dropped, *([change.key] if index is None else [])]
        if gone:
            await self._db.execute(self._sql["drop_shared_entries"], *space, gone)
        if change.dropped:
            await self._db.execute(self._sql["drop_shared_values"], *space, change.dropped)
        if index is not None:
            entry = (index.words, index.model, unpacked(index.vector))
            await self._db.execute(self._sql["put_shared_entry"], *space, change.key, *entry)

    async def use(self, uses: Sequence[SharedUse]) -> None:
        for each in uses:
            await self._db.execute(self._sql["use_shared_entries"], each.tenant, each.space, each.keys, each.at_ms)


async def _held_locks(db: Connection, sql: dict[str, str], changes: Sequence[SharedChange]) -> dict[Name, int]:
    """Return the held locks of those under which something is to be written."""
    fences: dict[Name, int] = {}
    for name in {_name(change) for change in changes if change.fence is not None}:
        for _, fence, expires_at_ms, now_ms in await db.fetch(sql["shared_lock"], *name):
            if expires_at_ms > now_ms:
                fences[name] = fence
    return fences


def _name(change: SharedChange) -> Name:
    return change.tenant, change.space, change.key


class SharedValues(ValuesRead):
    """Keeps ports.SharedValues."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context.ground)
        self._db = context.connections
        self._sql = sql(context.connections.address)

    async def search(self, tenant: str, space: str, query: SharedIndex | None, limit: int) -> Sequence[SharedFound]:
        expect_searchable(self._sealing, query)
        found = await self._search(tenant, space, query, limit)
        return [SharedFound(key, shared_value_of(body, self._sealing), *more) for key, body, *more in found]

    async def _search(self, tenant: str, space: str, query: SharedIndex | None, limit: int) -> Sequence[Any]:
        if query is None:
            return await self._db.fetch(self._sql["list_shared_entries"], tenant, space, limit)
        if query.vector:
            statement = self._sql["search_shared_vectors"].replace("vectors.", f"{await self._vectors()}.")
            return await self._db.fetch(statement, tenant, space, unpacked(query.vector), query.model, limit)
        words = " | ".join(query_words(query.words))
        return await self._db.fetch(self._sql["search_shared_words"], tenant, space, words, limit) if words else []

    async def _vectors(self) -> str:
        """The schema of pgvector, which is made where it is not there. Raises MissingExtra."""
        schema: str | None = await self._db.value(self._sql["vector_schema"])
        if schema is None:
            with contextlib.suppress(StoreError):
                await self._db.execute(self._sql["make_vectors"])
            schema = await self._db.value(self._sql["vector_schema"])
        if schema is None:
            raise MissingExtra(
                "A search by meaning needs PostgreSQL's extension pgvector, which this database does not have, so it was not"
                " done. Have the server's packages brought it (`create extension vector`), or search by words.",
                extra="memory",
                module="vector",
            )
        return schema

    async def put(self, change: SharedChange) -> bool:
        async with self._db.writing() as db:
            values = await ValueWrites.locked(db, self._sql, [change])
            if values.is_next([change]) is not None:
                return False
            await values.write([self._sealing.seal_shared(change)])
        return True

    async def lock(self, tenant: str, space: str, key: str, holder: str, lease_ms: int) -> int | None:
        """In line with who writes the value."""
        async with self._db.writing() as db:
            await db.execute(self._sql["lock_shared_values"], ["\n".join((tenant, space, key))])
            fence: int | None = await db.fetchval(self._sql["take_shared_lock"], tenant, space, key, holder, lease_ms)
        return fence
