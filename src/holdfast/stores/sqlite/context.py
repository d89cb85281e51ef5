"""The base of all ports of the store: its threads, its statements, and time, as it tells it and as its leases count it.

Never here: a promise of the store, waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from holdfast.core.views.sealing import PLAIN, Sealing
from holdfast.ports import BlobPlace
from holdfast.stores.nouns.tables import Step, Steps, StoreParts, T, Tables
from holdfast.stores.row import Row, encode
from holdfast.stores.sqlite.thread import CallerReads, Reader, ReaderOfTenant, Writer
from holdfast.stores.statement import conditions, for_sqlite, statements

SQL: Final = statements("sqlite") | conditions("sqlite")

Bound = Sequence[Any] | Mapping[str, Any]


def boot_ms() -> int:
    """Milliseconds since the machine was started, its sleep included. All processes of the machine read the same."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class StoreClock:
    """The store's time. The machine's clock is believed once, at the start; from then on only time that passes counts.

    So setting the machine's clock while a process runs neither fires a timer early nor holds one back; after a restart
    the new setting is believed, but never before the newest event that the store holds.
    """

    def __init__(self, newest_ms: int, machine_ms: Callable[[], int] | None = None) -> None:
        """`machine_ms`, where given, is believed at every reading: time as a test or a simulation owns it."""
        # From the newest event on, should it be ahead: a clock that stood still until then would fire no timer.
        self._offset_ms = max(time.time_ns() // 1_000_000, newest_ms) - boot_ms()
        self._machine_ms = machine_ms or self._since_start_ms
        self._latest_ms = newest_ms

    def now_ms(self) -> int:
        now = self._machine_ms()
        if now > self._latest_ms:
            self._latest_ms = now
        return self._latest_ms

    def _since_start_ms(self) -> int:
        return self._offset_ms + boot_ms()


class SqliteTables(Tables):
    """The tables of one file: asked in the thread that reads, changed in the one that writes, a transaction in one piece."""

    def __init__(self, writer: Writer, reader: Reader | ReaderOfTenant) -> None:
        self._writer = writer
        self._reader = reader

    async def ask(self, statement: str, *bound: Any) -> Sequence[Row]:
        return await self._reader.ask(lambda db: rows(db, statement, as_bound(bound)))

    async def transact(self, steps: Callable[[], Steps[T]]) -> T:
        return await self._writer.write(lambda db: _run_steps(db, steps()))

    def text(self, name: str) -> str:
        return SQL[name]

    async def look(self, statement: str, bound: Sequence[Any]) -> Sequence[Row]:
        asked = for_sqlite(statement)
        return await self._reader.ask(lambda db: db.execute(asked, as_bound(bound)).fetchall())


class StoreContext(NamedTuple):
    """The threads and the clock of one open store, and the folder of its lock files."""

    locks: Path
    writer: Writer
    reader: Reader | ReaderOfTenant
    asked: CallerReads
    clock: StoreClock
    data_version: int
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
        return StoreParts(SqliteTables(self.writer, self.reader), self.clock, self.sealing, self.audit_keys, self.elsewhere)


class StorePort:
    """Keeps one port of the store, on the context of the whole store."""

    def __init__(self, context: StoreContext) -> None:
        self._writer = context.writer
        self._reader = context.reader
        self._clock = context.clock
        self._sealing = context.sealing
        self._tables = context.ground.tables


def rows(db: apsw.Connection, statement: str, bound: Bound = ()) -> list[tuple[Any, ...]]:
    """All rows that the named statement answers with."""
    return db.execute(SQL[statement], bound).fetchall()


def value(db: apsw.Connection, statement: str, bound: Bound = ()) -> Any:
    """The one value that the named statement answers with, None for none."""
    return db.execute(SQL[statement], bound).get


def _run_steps(db: apsw.Connection, steps: Steps[T]) -> T:
    """Take the steps inside a transaction; return what they come to."""
    try:
        step = next(steps)
        while True:
            step = steps.send(_answer(db, step))
    except StopIteration as over:
        found: T = over.value
        return found


def _answer(db: apsw.Connection, step: Step) -> list[Row]:
    if step.is_lock:
        return []
    if step.is_many:
        return db.executemany(SQL[step.statement], step.bound).fetchall()
    return rows(db, step.statement, as_bound(step.bound))


def as_bound(values: Sequence[Any]) -> list[Any]:
    """A list of them goes to SQLite as JSON."""
    return [encode(each).decode() if isinstance(each, list) else each for each in values]
