"""Connections to the database: a bounded number, taken and given back; and what an error of the database means.

Never here: a statement of the store's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, TypeAlias

import asyncpg
from asyncpg import exceptions as pg

from holdfast.errors import StoreBusy, StoreError, StoreFull, StoreUnreadable, Unstorable
from holdfast.stores.postgres.address import Address

Connection: TypeAlias = Any
"""An asyncpg connection, as its pool lends it."""

MOST_CONNECTIONS: Final = 8
"""Of one process: two carry appends, the others read. A hundred processes need a pooler in front of the database."""
CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
"""How long the database may take for one statement. Ours take milliseconds; what takes this long is lost."""
_PATIENCE_S: Final = 30.0

LOST: Final = (
    pg.PostgresConnectionError,
    pg.AdminShutdownError,
    pg.CrashShutdownError,
    pg.CannotConnectNowError,
    pg.IdleInTransactionSessionTimeoutError,
    pg.InternalClientError,
    pg.InterfaceError,
    pg.ReadOnlySQLTransactionError,
    pg.QueryCanceledError,
    ConnectionError,
    TimeoutError,
    OSError,
)
"""The connection is gone, or leads to a server that is going, starting, or a standby now: another may do better."""

POISON: Final = (
    pg.DataError,
    pg.IntegrityConstraintViolationError,
    pg.ProgramLimitExceededError,
    UnicodeError,
    OverflowError,
)
"""What was to be stored is at fault, not the database."""

AGAIN: Final = (pg.DeadlockDetectedError, pg.SerializationError, pg.LockNotAvailableError)
"""Nothing was written, because somebody else was in the way; the same again may pass."""


def explain(problem: BaseException, address: Address) -> StoreError:
    """What `problem` means to whoever uses the store."""
    where = f"the PostgreSQL store at {address.shown}"
    said = str(problem) or type(problem).__name__
    match problem:
        case StoreError():
            return problem
        case pg.InvalidPasswordError() | pg.InvalidAuthorizationSpecificationError():
            return StoreUnreadable(f"{where} refuses the user: {said}. Check the name and password in the store's URL.")
        case pg.InvalidCatalogNameError():
            return StoreUnreadable(f"{where}: {said}. Create the database first (createdb), or name another.")
        case pg.InsufficientPrivilegeError():
            return StoreUnreadable(
                f"{where}: {said}. The user needs rights on the schema {address.schema}; for its tables to be made, the"
                " right to create them (or let another user run `holdfast store migrate`)."
            )
        case pg.UndefinedTableError() | pg.UndefinedColumnError() | pg.UndefinedFunctionError():
            return StoreUnreadable(f"{where}: {said}. Its tables are not this version's: run `holdfast store migrate`.")
        case pg.DiskFullError():
            return StoreFull(f"{where} has no room left on its disk: {said}. Nothing was written.")
        case pg.TooManyConnectionsError():
            return StoreBusy(
                f"{where} takes no more connections: {said}. Each process uses up to {MOST_CONNECTIONS}; raise"
                " max_connections, or put a pooler in front of it."
            )
        case TimeoutError():
            return StoreBusy(f"{where} did not answer within {ANSWER_S:.0f} s. It is tried again.")
        case _ if isinstance(problem, POISON):
            return Unstorable(f"This cannot be stored in {where}: {said}. Nothing of it was written.")
        case _ if isinstance(problem, LOST):
            return StoreUnreadable(f"{where} cannot be reached: {said}. Is the server running? It is tried again.")
        case _:
            return StoreError(f"{where}: {said}")


class Connections:
    """The connections of one process. Taking one waits for its turn, for a bounded time."""

    def __init__(self, address: Address, pool: Any) -> None:
        self.address = address
        self._pool = pool
        self._closed = False

    @classmethod
    async def open(cls, address: Address, most: int = MOST_CONNECTIONS) -> Connections:
        """Raises UsageError for a URL that cannot be used, StoreError when the database cannot be reached."""
        try:
            pool = await asyncpg.create_pool(**_how(address), min_size=0, max_size=most, reset=_nothing)
        except (*LOST, pg.PostgresError, ValueError) as problem:
            raise explain(problem, address) from problem
        return cls(address, pool)

    async def close(self) -> None:
        """Waits for what is under way. May be called again."""
        if self._closed:
            return
        self._closed = True
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._pool.close()
        except (*LOST, pg.PostgresError):
            self._pool.terminate()

    @contextlib.asynccontextmanager
    async def taken(self) -> AsyncIterator[Connection]:
        """A connection for as long as it is needed; errors pass as they are."""
        if self._closed:
            raise StoreError("The store is closed.")
        try:
            db = await self._pool.acquire(timeout=_PATIENCE_S)
        except pg.InterfaceError as problem:
            raise StoreError("The store is closed.") from problem
        try:
            yield db
        finally:
            await self._give_back(db)

    async def _give_back(self, db: Connection) -> None:
        """A connection that was left in the middle of something is thrown away: nobody knows what it would do next."""
        with contextlib.suppress(pg.InterfaceError):  # the pool has taken it back by itself: it was lost
            if not db.is_closed() and db.is_in_transaction():
                db.terminate()
        await asyncio.shield(self._pool.release(db))

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[Connection]:
        """A connection for one question, or several that must be answered from one moment's rows behind a pooler."""
        try:
            async with self.taken() as db:
                if not self.address.pooled:
                    yield db
                    return
                async with db.transaction(readonly=True):
                    yield db
        except (*LOST, pg.PostgresError) as problem:
            raise explain(problem, self.address) from problem

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[Connection]:
        """A transaction, committed at the end. Raises StoreError; whoever cannot know whether it was committed must
        be able to do the same again."""
        try:
            async with self.taken() as db, db.transaction():
                yield db
        except (*LOST, pg.PostgresError) as problem:
            raise explain(problem, self.address) from problem

    async def fetch(self, statement: str, *bound: Any) -> list[Any]:
        """The rows of one question."""
        async with self.reading() as db:
            found: list[Any] = await db.fetch(statement, *bound)
            return found

    async def value(self, statement: str, *bound: Any) -> Any:
        async with self.reading() as db:
            return await db.fetchval(statement, *bound)

    async def execute(self, statement: str, *bound: Any) -> None:
        """One statement, durable when it returns."""
        async with self.writing() as db:
            await db.execute(statement, *bound)


async def connect(address: Address) -> Connection:
    """A connection beside the others, whose errors pass as they are."""
    return await asyncpg.connect(**_how(address))


def _how(address: Address) -> dict[str, Any]:
    how: dict[str, Any] = {"dsn": address.dsn, "timeout": CONNECT_S, "command_timeout": ANSWER_S}
    if address.pooled:
        # A prepared statement lives in a server connection, and the next transaction may be lent another one.
        how["statement_cache_size"] = 0
    else:
        # Compiling to machine code costs more than any of our statements.
        how["server_settings"] = {"application_name": "holdfast", "jit": "off", "plan_cache_mode": "force_generic_plan"}
    return how


async def _nothing(db: Connection) -> None:
    """Nothing is ever set on a connection, so nothing has to be reset: that would cost a round trip each time."""
