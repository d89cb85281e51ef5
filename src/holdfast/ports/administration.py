"""The operations of an administrator on a store as a whole.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from holdfast.core.values.ids import RunId, SessionId
from holdfast.core.views.projection import RunRow

MAX_MONTH_READ: Final = 20_000
"""Runs at each end of a month whose events are read: a look at a large store takes no longer."""


class MonthStatus(msgspec.Struct, frozen=True):
    """The runs that were started in a month of UTC (`2026-09`), and where their histories are.

    `state`: open (in the tables), archived, pruned (removed for good), or partly archived, where an archiving was interrupted
    or something was written after it. `stored_bytes` is their size on the disk, None if unknown. Of more than 2 *
    `MAX_MONTH_READ` runs `events` is an estimate.
    """

    month: str
    state: str
    runs: int
    unended: int
    events: int
    stored_bytes: int | None
    is_estimate: bool = False


class SessionStatus(msgspec.Struct, frozen=True):
    """A process that holds a lease. `version` is that of the tables that its code knows, None where all know the same."""

    session: SessionId
    label: str
    opened_at_ms: int
    version: int | None


class StoreStatus(msgspec.Struct, frozen=True):
    """The state of a store. `version` is the version of its tables, 0 if there are none yet. `pending` are the migrations that
    it has not had. Fields that need tables keep their defaults while there are no tables that this version can read."""

    store: str
    version: int
    known: int
    pending: tuple[str, ...]
    now_ms: int
    months: tuple[MonthStatus, ...] = ()
    sessions: tuple[SessionStatus, ...] = ()
    blobs: int = 0
    blob_bytes: int = 0
    oldest_unended: RunRow | None = None


class TableCondition(msgspec.Struct, frozen=True):
    """The rows of a table by the database's own estimate: those that count, and those that only take room."""

    table: str
    live_rows: int
    dead_rows: int


class OldTransaction(msgspec.Struct, frozen=True):
    """A transaction that has been open for long. It keeps dead rows, and where it writes, it holds back the tail."""

    process: str
    age_ms: int
    writes: bool


class LeaseCondition(msgspec.Struct, frozen=True):
    """The lease of a process that is not known to be dead. `left_ms` is negative where it is over. `version` as in
    SessionStatus."""

    label: str
    left_ms: int
    version: int | None


class StoreCondition(msgspec.Struct, frozen=True):
    """The condition of a store's database. Fields that a database does not have keep their defaults, and so do those that need
    tables where this version cannot read them."""

    store: str
    version: int
    known: int
    pending: tuple[str, ...]
    now_ms: int
    """Time of the database."""
    leases: tuple[LeaseCondition, ...] = ()
    missing_indexes: tuple[str, ...] = ()
    """Indexes that migrations made and that are gone, or that the database does not use, as they are invalid."""
    size_bytes: int = 0
    free_bytes: int = 0
    """Bytes in the file that hold nothing."""
    log_bytes: int = 0
    """Size of the write-ahead log."""
    folder: str | None = None
    """Folder of the file, whose disk must have room."""
    fault: str | None = None
    """The damage that a check of the file found; None without damage or check."""
    tables: tuple[TableCondition, ...] = ()
    transactions: tuple[OldTransaction, ...] = ()


class Holder(msgspec.Struct, frozen=True):
    """A run that keeps its month from being archived. `why`: unended, money (held or in doubt), call (in flight), effect (of
    unknown outcome), told (it ended so lately that a tail may not have sent it; SQLite's)."""

    run: RunId
    tenant: str
    workflow: str
    status: str
    started_at_ms: int
    why: str


class RemovedData(msgspec.Struct, frozen=True):
    """The result of archiving or removing runs. `stored_bytes` is the size of the archives or blobs."""

    runs: int
    events: int
    stored_bytes: int


class Administration(Protocol):
    """The operations of an administrator on a store as a whole. You can repeat each operation after an interruption at any
    point."""

    async def standing(self) -> StoreStatus: ...

    async def condition(self, *, thorough: bool = False) -> StoreCondition:
        """Return the condition of the database. `thorough`: check the whole file, which reads all of it."""
        ...

    async def migrate(self, part: str | None) -> Sequence[str]:
        """Apply the migrations that the store has not had: those of `before` the deployment, of `after` it, or both; their
        names. Raises Conflict, with nothing of it done, where `after` would break processes that still run."""
        ...

    async def guard(self, read_role: str, work_roles: Sequence[str]) -> Sequence[str]:
        """Have the database itself show `read_role` the rows of one tenant at a time, and all of them to those that work: the
        caller, the owner of the tables, and `work_roles`. Return all who work. Raises UsageError if a role cannot be used so,
        and if the store is no server's."""
        ...

    async def forget_keys(self) -> int:
        """Forget with which keys the store was encrypted, for good: the next process that opens it with a key file says which
        they are. How many were known. What they have sealed stays as it is. Raises Conflict while a process has a lease."""
        ...

    async def archive(self, month: str) -> RemovedData:
        """Take the histories of a month that is over out of the tables, into blobs; they are read from there. Raises MonthHeld
        if runs of it may still go on, UsageError if the month is not over, StoreBusy if another process is in the way."""
        ...

    async def prune(self, before: str) -> RemovedData:
        """Remove for good the archives of all months before that one, with their blobs. Raises MonthHeld where one of them
        has not been archived, or not left the tables."""
        ...

    async def back_up(self, file: str) -> int:
        """Copy the store as it is now to a file that is not there yet, while it is in use; its size in bytes. Large payloads
        that are kept elsewhere are not in it. Raises UsageError where the store is a server's, which has programs for it."""
        ...

    async def aclose(self) -> None: ...
