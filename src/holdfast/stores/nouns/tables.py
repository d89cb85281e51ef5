"""The tables of a store, as its nouns ask and change them: by the names of statements, alike on every database.

Never here: a noun, the ways of a database.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from holdfast.core.views.sealing import PLAIN, Sealing
from holdfast.ports import BlobPlace, StoreClock
from holdfast.stores.row import Row

T = TypeVar("T")

UNBOUNDED: Final = 2**63 - 1
"""As many rows as there are."""


class Step(NamedTuple):
    """One statement of a transaction."""

    statement: str
    bound: Sequence[Any]
    is_lock: bool = False
    is_many: bool = False


Steps: TypeAlias = Generator[Step, Sequence[Row], T]
"""A transaction: each step is sent the rows that its statement answers with. It may be begun again from its first step, so
it touches nothing but the tables; and it raises nothing."""


def do(statement: str, *bound: Any) -> Step:
    """The same statement on every database."""
    return Step(statement, bound)


def many(statement: str, rows: Iterable[Sequence[Any]]) -> Step:
    """One statement for many rows. PostgreSQL is given their columns; SQLite does it for one after another."""
    return Step(statement, list(rows), is_many=True)


def lock(statement: str, *bound: Any) -> Step:
    """Keep out who else writes the same. SQLite has one writer at a time, and no such statement."""
    return Step(statement, bound, is_lock=True)


def columns(rows: Iterable[Sequence[Any]], width: int = 0) -> list[list[Any]]:
    """Rows as one list for each of their columns; `width` says of how many where there may be no rows."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


class Tables(ABC):
    """The tables of one store. Raises StoreError."""

    @abstractmethod
    async def ask(self, statement: str, *bound: Any) -> Sequence[Row]:
        """The rows that a statement answers with. It changes nothing."""

    @abstractmethod
    async def transact(self, steps: Callable[[], Steps[T]]) -> T:
        """Return what the steps come to, durable when this returns: all of them, or none."""

    @abstractmethod
    def text(self, name: str) -> str:
        """The named statement or condition."""

    @abstractmethod
    async def look(self, statement: str, bound: Sequence[Any]) -> Sequence[Row]:
        """The rows of a statement in PostgreSQL's words."""

    async def change(self, statement: str, *bound: Any) -> Sequence[Row]:
        """The rows that one statement answers with, in a transaction of its own."""

        def steps() -> Steps[Sequence[Row]]:
            return (yield do(statement, *bound))

        return await self.transact(steps)


class StoreParts(NamedTuple):
    """The ground on which the nouns of one open store stand."""

    tables: Tables
    clock: StoreClock
    sealing: Sealing = PLAIN
    """How what users have stored is kept."""
    audit_keys: tuple[bytes, ...] = ()
    """With what the audit log is signed, the newest first; empty: with nothing."""
    elsewhere: BlobPlace | None = None
    """Where archives go and are, besides the table."""


class Noun:
    """Keeps one port of the store."""

    def __init__(self, ground: StoreParts) -> None:
        self._tables = ground.tables
        self._clock = ground.clock
        self._sealing = ground.sealing
