"""What all ports of the store stand on.

Never here: a promise of the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from holdfast.core.views.sealing import PLAIN, Sealing
from holdfast.ports import BlobPlace
from holdfast.stores.sqlite.asked import AskedReads, ReaderOfTenant
from holdfast.stores.sqlite.clock import StoreClock
from holdfast.stores.sqlite.reader import Reader
from holdfast.stores.sqlite.writer import Writer
from holdfast.stores.statement import statements

SQL: Final = statements("sqlite")

Bound = Sequence[Any] | Mapping[str, Any]


class StoreContext(NamedTuple):
    """The threads and the clock of one open store, and the folder of its lock files."""

    locks: Path
    writer: Writer
    reader: Reader | ReaderOfTenant
    asked: AskedReads
    clock: StoreClock
    data_version: int
    lease_s: float
    elsewhere: BlobPlace | None = None
    """Where archives go and are, besides the table."""
    audit_keys: tuple[bytes, ...] = ()
    """With what the audit log is signed, the newest first; empty: with nothing."""
    sealing: Sealing = PLAIN
    """How what users have stored is kept."""


class StorePort:
    """Keeps one port of the store, on the context of the whole store."""

    def __init__(self, context: StoreContext) -> None:
        self._writer = context.writer
        self._reader = context.reader
        self._clock = context.clock
        self._sealing = context.sealing


def rows(db: apsw.Connection, statement: str, bound: Bound = ()) -> list[tuple[Any, ...]]:
    """All rows that the named statement answers with."""
    return db.execute(SQL[statement], bound).fetchall()


def value(db: apsw.Connection, statement: str, bound: Bound = ()) -> Any:
    """The one value that the named statement answers with, None for none."""
    return db.execute(SQL[statement], bound).get
