"""Connections to the database: a bounded number, taken and given back; for whom what they show is read; and what an error of
the database means.

Never here: a statement of the store's.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Final, TypeAlias, TypeVar

import asyncpg
from asyncpg import exceptions as pg

from holdfast.core.values.scopes import in_scopes
from holdfast.errors import StoreBusy, StoreError, StoreFull, StoreUnreadable, UnknownCommit, Unstorable, UsageError
from holdfast.platform.fair_share import FairShare
from holdfast.stores.postgres.address import Address
from holdfast.stores.reading import MAX_WAITING, READ_S, READS, too_long

Connection: TypeAlias = Any
"""An asyncpg connection, as its pool lends it."""

T = TypeVar("T")

MAX_CONNECTIONS: Final = 8
"""Of one process: two carry appends, the others read. A hundred processes need a pooler in front of the database."""
FEWEST_CONNECTIONS: Final = 2
"""The holder of a run alone has one, and reads through another."""
CONNECT_S: Final = 10.0
"""For all servers of a URL together: one that is silent does not use up the time of the next."""
ANSWER_S: Final = 30.0
"""How long the database may take for one statement. Ours take milliseconds; what takes this long is lost."""
LOCK_S: Final = 5.0
"""How long a statement waits for a row that another transaction holds. They hold it for milliseconds."""
IDLE_S: Final = 15.0
"""How long a transaction of ours may say nothing before the database ends it: its process may be cut off, and would
hold its rows for as long as the network keeps silent, which may be hours."""
_ENDED_S: Final = 5.0
"""What the database gets to end such a read by itself."""
_PATIENCE_S: Final = 30.0
_MAX_KEPT: Final = 2
"""Connections that are kept from the pool while they are idle: one for flushes, one for looks into the store."""
_KEPT_S: Final = 5.0
"""For how long at least: one that is idle for long may be cut off unnoticed."""
_WAITS: Final = {"lock_timeout": int(LOCK_S * 1000), "idle_in_transaction_session_timeout": int(IDLE_S * 1000)}
_GIVEN_BACK: Final = (pg.InterfaceError, pg.InternalClientError)
"""What a lost connection says to everything: it has gone back to the pool by itself."""
BEGIN: Final = "; ".join(["begin", *(f"set local {name} = {value_ms}" for name, value_ms in _WAITS.items())])
_STANDBY_WAIT: Final = "SyncRepWaitForLSN"
"""The server's own name of the place where a commit waits for its standbys. A warning's text may be in any language."""

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

POISON: Final = (pg.DataError, pg.IntegrityConstraintViolationError, pg.ProgramLimitExceededError, UnicodeError, OverflowError)
"""What was to be stored is at fault, not the database."""

AGAIN: Final = (pg.DeadlockDetectedError, pg.SerializationError, pg.LockNotAvailableError)
"""Nothing was written, because another was in the way; the same again may pass."""


def explain(problem: BaseException, address: Address) -> StoreError:
    """Return the error that explains `problem` to users of the store."""
    if isinstance(problem, StoreError):
        return problem
    where = f"the PostgreSQL store at {address.shown}"
    said = str(problem) or type(problem).__name__
    return _is_mendable(problem, where, said, address) or _is_temporary(problem, where, said)


def _is_mendable(problem: BaseException, location: str, message: str, address: Address) -> StoreError | None:
    """Return the error for a problem that lasts until its cause is changed; None for all others."""
    match problem:
        case pg.InvalidPasswordError() | pg.InvalidAuthorizationSpecificationError():
            return StoreUnreadable(f"{location} refuses the user: {message}. Check the name and password in the store's URL.")
        case pg.InvalidCatalogNameError():
            return StoreUnreadable(f"{location}: {message}. Create the database first (createdb), or name another.")
        case pg.InsufficientPrivilegeError():
            return StoreUnreadable(
                f"{location}: {message}. The user needs rights on the schema {address.schema}; for its tables to be made, the"
                " right to create them (or let another user run `holdfast store migrate`)."
            )
        case pg.UndefinedTableError() | pg.UndefinedColumnError() | pg.UndefinedFunctionError():
            return StoreUnreadable(f"{location}: {message}. Its tables are not this version's: run `holdfast store migrate`.")
        case pg.ReadOnlySQLTransactionError() | pg.TargetServerAttributeNotMatched():
            return StoreUnreadable(
                f"{location} takes no writes: the server that was reached is a standby, or its database is read-only. Nothing"
                " was written. After a failover the store's URL must lead to the new primary; it may name all servers."
            )
        case _ if isinstance(problem, POISON):
            return Unstorable(f"This cannot be stored: {message}. Nothing of it was written.")  # callers see it: no address
        case _:
            return None


def _is_temporary(problem: BaseException, location: str, message: str) -> StoreError:
    """Return the error for a problem that may be over at the next try."""
    match problem:
        case pg.DiskFullError():
            return StoreFull(f"{location} has no room left on its disk: {message}. Nothing was written.")
        case pg.TooManyConnectionsError():
            return StoreBusy(
                f"{location} takes no more connections: {message}. Each process uses up to {MAX_CONNECTIONS}; raise"
                " max_connections, or put a pooler in front of it.",
                passes=True,
            )
        case _ if isinstance(problem, AGAIN):
            return StoreBusy(f"{location}: others were in the way for too long ({message}). Nothing was written.")
        case TimeoutError():
            return StoreBusy(f"{location} did not answer within {ANSWER_S:.0f} s.", passes=True)
        case _ if isinstance(problem, LOST):
            return StoreUnreadable(f"{location} cannot be reached: {message}. Is the server running?", passes=True)
        case _:
            return StoreError(f"{location}: {message}")


class Connections:
    """The connections of one process. Taking one waits for its turn, for a bounded time."""

    def __init__(self, address: Address, pool: Any, limit: int) -> None:
        self.address = address
        self.most = limit
        self.reads = FairShare(max(1, limit - FEWEST_CONNECTIONS), READS, waiting=MAX_WAITING)
        """Of those that are made to answer somebody: what is written has connections of its own."""
        self._pool = pool
        self._closed = False
        self._most_kept = min(_MAX_KEPT, limit - FEWEST_CONNECTIONS)
        self._kept: list[tuple[Connection, float]] = []
        """Connections that nobody uses, the latest last, and since when."""
        self._waiting = 0
        """Those who are being lent one by the pool: none is kept from them."""
        self._parting: asyncio.TimerHandle | asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, address: Address, limit: int = MAX_CONNECTIONS) -> Connections:
        """Raises UsageError for a URL that cannot be used, StoreError when the database cannot be reached."""
        if limit < FEWEST_CONNECTIONS:
            raise UsageError(f"connections={limit}: a store needs at least {FEWEST_CONNECTIONS}. Nothing was opened.")
        try:
            pool = await asyncpg.create_pool(
                connect=lambda _, **of_pool: connect(address, **of_pool), min_size=0, max_size=limit, reset=_nothing
            )
        except (*LOST, pg.PostgresError, ValueError) as problem:
            raise explain(problem, address) from problem
        return cls(address, pool, limit)

    async def close(self) -> None:
        """Waits for what is under way. May be called again."""
        if self._closed:
            return
        self._closed = True
        if self._parting is not None:
            self._parting.cancel()
        await self._part()
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._pool.close()
        except (*LOST, pg.PostgresError):
            self._pool.terminate()

    @contextlib.asynccontextmanager
    async def acquire(self) -> AsyncIterator[Connection]:
        """A connection for as long as it is needed; errors pass as they are. It may be kept for the next for a while: to give
        it back and to take it again is more turns of the loop than a small statement itself."""
        db = await self._take()
        try:
            yield db
        except LOST:
            await self._discard(db)
            raise
        finally:
            if not self._keep(db):
                await self._give_back(db)

    def _keep(self, db: Connection) -> bool:
        """Keep the connection if it can be used again. Return True if it is kept."""
        if self._closed or self._waiting or len(self._kept) >= self._most_kept or not _is_sound(db):
            return False
        loop = asyncio.get_running_loop()
        self._kept.append((db, loop.time()))
        if self._parting is None:
            self._parting = loop.call_later(_KEPT_S, self._part_soon)
        return True

    def _part_soon(self) -> None:
        self._parting = asyncio.get_running_loop().create_task(self._part_with_idle())

    async def _part_with_idle(self) -> None:
        loop = asyncio.get_running_loop()
        await self._part(unused_since_s=loop.time() - _KEPT_S)
        self._parting = loop.call_later(_KEPT_S, self._part_soon) if self._kept else None

    async def _part(self, unused_since_s: float = math.inf) -> None:
        """Give back what is kept, and was last used before that."""
        parted = [db for db, used_s in self._kept if used_s <= unused_since_s]
        self._kept = [(db, used_s) for db, used_s in self._kept if used_s > unused_since_s]
        for db in parted:
            await self._give_back(db)

    async def _take(self) -> Connection:
        if self._closed:
            raise StoreError("The store is closed.")
        while self._kept:
            kept, _ = self._kept.pop()
            if _is_sound(kept):
                return kept
            await self._give_back(kept)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=_PATIENCE_S)
        except pg.InterfaceError as problem:
            raise StoreError("The store is closed.") from problem
        finally:
            self._waiting -= 1

    async def _discard(self, db: Connection) -> None:
        """To ask the database to stop what it does would mean to wait for its answer, and the other connections most likely
        lead to the same server."""
        with contextlib.suppress(*_GIVEN_BACK):
            db.terminate()
            for kept, _ in self._kept:
                kept.terminate()
        await self._part()
        await self._pool.expire_connections()

    async def _give_back(self, db: Connection) -> None:
        """Close a connection that was left in the middle of something: its next reply is unpredictable."""
        with contextlib.suppress(*_GIVEN_BACK):
            if db.is_in_transaction():
                db.terminate()
            await asyncio.shield(self._pool.release(db))

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[Connection]:
        """A connection for one question, or several that must be answered from one moment's rows behind a pooler."""
        try:
            async with self.acquire() as db:
                if not self.address.pooled:
                    yield db
                    return
                async with transaction(db):
                    yield db
        except (*LOST, pg.PostgresError) as problem:
            raise explain(problem, self.address) from problem

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[Connection]:
        """A transaction, committed at the end. Raises StoreError; a caller that cannot know whether it was committed must
        be able to do the same again."""
        try:
            async with self.acquire() as db, transaction(db):
                yield db
        except (*LOST, pg.PostgresError) as problem:
            raise explain(problem, self.address) from problem

    def of_tenant(self, tenant: str | None) -> Connections:
        """Return the same connections for the queries of a tenant, or of a caller for all (None): nothing is written on them,
        and if a role for that exists, only the tenant's rows are seen."""
        return TenantConnections(self, self.address.read_role if tenant is not None else None, tenant or "")

    async def fetch(self, statement: str, *bound: Any) -> list[Any]:
        """The rows of one question."""
        async with self.reading() as db:
            found: list[Any] = await db.fetch(statement, *bound)
            return found

    async def value(self, statement: str, *bound: Any) -> Any:
        async with self.reading() as db:
            return await db.fetchval(statement, *bound)

    async def execute(self, statement: str, *bound: Any) -> list[Any]:
        """The rows of one statement that changes something, durable when it returns: as `writing`, in one round trip. Behind a
        pooler only a transaction has bounds for its waits."""
        if self.address.pooled:
            async with self.writing() as db:
                return await db.fetch(statement, *bound)  # type: ignore[no-any-return]
        try:
            async with self.acquire() as db:
                return await durable(db, db.fetch(statement, *bound))
        except (*LOST, pg.PostgresError) as problem:
            raise explain(problem, self.address) from problem


class TenantConnections(Connections):
    """The connections of a process, for reads that a tenant asks for: of these it has its share, and each has its time. If a
    role reads the rows of a tenant, each is a transaction in that role. Both end with it, so nothing is left on a connection
    that goes back, or that a pooler lends to another."""

    def __init__(self, connections: Connections, role: str | None, tenant: str) -> None:
        self.address, self.most, self.reads = connections.address, connections.most, connections.reads
        self._whole = connections
        self._tenant = tenant
        self._begin = self._transaction(role, tenant) if role is not None or self.address.pooled else None

    def _transaction(self, role: str | None, tenant: str) -> str:
        """Return the statements that begin a transaction. The database ends its later statements after READ_S. With a role it
        sees the rows of a tenant only."""
        time = f"set local statement_timeout = {int(READ_S * 1000)}"
        if role is None:
            return f"{BEGIN}; {time}"
        settings = {"holdfast.tenant": tenant, "holdfast.tenant_in_scopes": in_scopes(tenant)}
        # As hexadecimal digits, so that no name of a tenant is ever a part of a statement.
        return "; ".join(
            [
                BEGIN,
                "set transaction read only",
                f"set local role {role}",
                time,
                *(
                    f"select set_config('{name}', convert_from(decode('{value.encode().hex()}', 'hex'), 'UTF8'), true)"
                    for name, value in settings.items()
                ),
            ]
        )

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[Connection]:
        # A connection that is left within a transaction is thrown away, and its statement goes on: there the database ends it.
        late = asyncio.timeout(READ_S if self._begin is None else READ_S + _ENDED_S)
        try:
            async with self.reads.turn((self._tenant,), READ_S), late, self._whole.acquire() as db:
                if self._begin is None:
                    yield db
                else:
                    async with transaction(db, self._begin):
                        try:
                            yield db
                        except pg.QueryCanceledError:
                            raise too_long(READ_S) from None
        except (*LOST, pg.PostgresError) as problem:
            if late.expired():
                raise too_long(READ_S) from None
            raise explain(problem, self.address) from problem

    def acquire(self) -> Any:
        raise StoreError("What is read for one tenant writes nothing. Nothing was written.")

    writing = acquire

    async def close(self) -> None:
        """They are closed as a whole."""


def _is_sound(db: Connection) -> bool:
    """Return True if the next statement on it is the first of its transaction."""
    try:
        return not (db.is_closed() or db.is_in_transaction())
    except _GIVEN_BACK:
        return False


@contextlib.asynccontextmanager
async def transaction(db: Connection, words: str | None = None) -> AsyncIterator[None]:
    """Open a transaction that neither waits for others for long, nor keeps them waiting. Raises UnknownCommit as `durable`
    does; errors pass as they are."""
    await begin(db, words)
    try:
        yield
    except LOST:
        raise
    except Exception:
        await db.execute("rollback")
        raise
    await durable(db, db.execute("commit"))


async def begin(db: Connection, words: str | None = None) -> None:
    """Begin a transaction. One that is called off meanwhile may begin all the same, and the next statements on the connection
    would be within it: so it is thrown away."""
    try:
        await db.execute(BEGIN if words is None else words)
    except asyncio.CancelledError:
        with contextlib.suppress(*_GIVEN_BACK):
            db.terminate()
        raise


async def durable(db: Connection, committing: Awaitable[T]) -> T:
    """Return the result of `committing`, which commits something on `db`.

    Raises UnknownCommit if the wait for a synchronous standby was cancelled. The database then reports the commit as done, and
    warns that a failover may undo it.
    """
    unsure: list[str] = []

    def log_notice(_: Connection, warning: Any) -> None:
        if warning.server_source_function == _STANDBY_WAIT:
            unsure.append(warning.message)

    db.add_log_listener(log_notice)
    try:
        answer = await committing
    finally:
        with contextlib.suppress(*_GIVEN_BACK):
            db.remove_log_listener(log_notice)
    if unsure:
        raise UnknownCommit(
            f"It was committed and may not outlive a failover: {unsure[0]}. It is sent again under the same id."
        )
    return answer


async def connect(address: Address, *, within_s: float = CONNECT_S, **of_pool: Any) -> Connection:
    """A connection to the first server that will do, each being given its share of the time. Errors pass as they are."""
    problem: BaseException | None = None
    for dsn in address.dsns:
        try:
            return await asyncpg.connect(dsn, timeout=within_s / len(address.dsns), **_options_of(address), **of_pool)
        except (*LOST, pg.TooManyConnectionsError) as refused:
            if problem is None or not isinstance(refused, pg.TargetServerAttributeNotMatched):
                problem = refused
    assert problem is not None
    raise problem


def _options_of(address: Address) -> dict[str, Any]:
    how: dict[str, Any] = {"command_timeout": ANSWER_S}
    if address.pooled:
        # A prepared statement lives in a server connection, and the next transaction may be lent another one.
        how["statement_cache_size"] = 0
    else:
        # Compiling to machine code costs more than any of our statements.
        how["server_settings"] = {
            "application_name": "holdfast",
            "jit": "off",
            "plan_cache_mode": "force_generic_plan",
            **{name: str(value_ms) for name, value_ms in _WAITS.items()},
        }
    return how


async def _nothing(db: Connection) -> None:
    """Nothing is ever set on a connection, so nothing has to be reset: that would cost a round trip each time."""
