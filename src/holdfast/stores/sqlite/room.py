"""What all rooms of the store stand on.

Never here: a promise of the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from holdfast.ports import BlobPlace
from holdfast.stores.sqlite.clock import StoreClock
from holdfast.stores.sqlite.reader import Reader
from holdfast.stores.sqlite.writer import Writer
from holdfast.stores.statement import statements

SQL: Final = statements("sqlite")

Bound = Sequence[Any] | Mapping[str, Any]


class Ground(NamedTuple):
    """The desks and the clock of one open store, and the folder of its lock files."""

    locks: Path
    writer: Writer
    reader: Reader
    clock: StoreClock
    data_version: int
    lease_s: float
    elsewhere: BlobPlace | None = None
    """Where archives go and are, besides the table."""


class Room:
    """What keeps a port of the store."""

    def __init__(self, ground: Ground) -> None:
        self._writer = ground.writer
        self._reader = ground.reader
        self._clock = ground.clock


def rows(db: apsw.Connection, statement: str, bound: Bound = ()) -> list[tuple[Any, ...]]:
    """All rows that the named statement answers with."""
    return db.execute(SQL[statement], bound).fetchall()


def value(db: apsw.Connection, statement: str, bound: Bound = ()) -> Any:
    """The one value that the named statement answers with, None for none."""
    return db.execute(SQL[statement], bound).get
