"""The base of all ports of the store.

Never here: a promise of the store.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from holdfast.core.views.sealing import PLAIN, Sealing
from holdfast.ports import BlobPlace
from holdfast.stores.nouns.tables import Step, Steps, StoreParts, T, Tables, columns
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.clock import StoreClock
from holdfast.stores.postgres.connection import Connection, Connections
from holdfast.stores.row import Row
from holdfast.stores.statement import conditions, statements

_SQL: Final = statements("postgres") | conditions("postgres")


@cache
def sql(address: Address) -> dict[str, str]:
    """The store's statements, for its schema."""
    return {name: address.localized(text) for name, text in _SQL.items()}


class PostgresTables(Tables):
    """The tables of one schema: asked on one connection, changed on one in a transaction, each step a round trip."""

    def __init__(self, connections: Connections, sql: dict[str, str]) -> None:
        self._db = connections
        self._sql = sql

    async def ask(self, statement: str, *bound: Any) -> Sequence[Row]:
        return await self._db.fetch(self._sql[statement], *bound)

    async def change(self, statement: str, *bound: Any) -> Sequence[Row]:
        return await self._db.execute(self._sql[statement], *bound)

    async def transact(self, steps: Callable[[], Steps[T]]) -> T:
        async with self._db.writing() as db:
            taken = steps()
            try:
                step = next(taken)
                while True:
                    step = taken.send(await self._answer(db, step))
            except StopIteration as over:
                found: T = over.value
                return found

    async def _answer(self, db: Connection, step: Step) -> Sequence[Row]:
        if step.is_many and not step.bound:
            return []
        bound = columns(step.bound) if step.is_many else step.bound
        found: Sequence[Row] = await db.fetch(self._sql[step.statement], *bound)
        return found

    def text(self, name: str) -> str:
        return self._sql[name]

    async def look(self, statement: str, bound: Sequence[Any]) -> Sequence[Row]:
        return await self._db.fetch(statement, *bound)


class StoreContext(NamedTuple):
    """The connections and the clock of one open store."""

    connections: Connections
    clock: StoreClock
    process: uuid.UUID
    """This process's name among those that commit."""
    snapshot: str
    """What was visible when the store was opened."""
    lease_s: float
    elsewhere: BlobPlace | None = None
    """Where archives go and are, besides the table."""
    audit_keys: tuple[bytes, ...] = ()
    """With what the audit log is signed, the newest first; empty: with nothing."""
    sealing: Sealing = PLAIN
    """How what users have stored is kept."""

    @property
    def ground(self) -> StoreParts:
        """The ground of the nouns."""
        tables = PostgresTables(self.connections, sql(self.connections.address))
        return StoreParts(tables, self.clock, self.sealing, self.audit_keys, self.elsewhere)


class StorePort:
    """Keeps one port of the store, on the context of the whole store."""

    def __init__(self, context: StoreContext) -> None:
        self._db = context.connections
        self._clock = context.clock
        self._sealing = context.sealing
        self._tables = context.ground.tables
        self._process = context.process
        self._sql = sql(context.connections.address)
