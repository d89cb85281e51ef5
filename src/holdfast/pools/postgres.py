"""The authority over provider pools in PostgreSQL: a visit is one short transaction on all rows of its pools.

The rows are locked in the order of their names, and the database's time is asked for after the lock. Nothing outlives
the transaction on the connection, so it works behind a pgbouncer in transaction mode. Nobody can be called: whoever
waits comes by ten times a second. Never here: a rule (core.quota), who waits (borrower), a query's text (sql).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Final

import asyncpg
import msgspec

from holdfast.core.quota import (
    MOST_WAITING,
    SECOND_US,
    Answer,
    Grant,
    Letter,
    Level,
    Standing,
    Ticket,
    Turn,
    serve,
    unused,
)
from holdfast.errors import PoolsAway, UsageError

SILENCE_S: Final = 10.0
"""How long a waiting process may be silent before its places in line are given up."""

_GREETINGS: Final = 4
"""How often in that time a visitor greets; a visit that changes nothing else need not write."""
_MOST_HEADS: Final = 64
_ANSWER_S: Final = 10.0

_FOLDER: Final = resources.files("holdfast.pools").joinpath("sql")
_NAME: Final = re.compile(r"^-- name: *(\w+)$", re.MULTILINE)


def _statements() -> Mapping[str, str]:
    pieces = _NAME.split(_FOLDER.joinpath("queries.sql").read_text())
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


class PostgresAuthority:
    """Keeps the PoolAuthority port. Nothing is sent before the first visit, which makes the tables where there are none."""

    poll_s = 0.1

    def __init__(self, *dsns: str, schema: str = "holdfast") -> None:
        """`dsns` lead to one server each; the first that takes writes is the authority."""
        self._dsns = dsns
        self._tables = _FOLDER.joinpath("tables.sql").read_text().replace("holdfast.", f"{schema}.")
        self._tables = self._tables.replace("schema if not exists holdfast", f"schema if not exists {schema}")
        self._sql = {name: sql.replace("holdfast.", f"{schema}.") for name, sql in _statements().items()}
        self._schema = schema
        self._connection: asyncpg.Connection | None = None
        self._prepared = False
        self._busy = asyncio.Lock()

    def call(self, holder: str, ring: Callable[[], None]) -> None:
        """Nobody is called: who waits comes by."""

    async def visit(self, letter: Letter) -> Answer:
        async with self._busy:
            answer: Answer = await self._safely(lambda connection: self._visit(connection, letter))
            return answer

    async def show(self, pools: Sequence[str]) -> Sequence[Standing]:
        async with self._busy:
            rows = await self._safely(lambda connection: connection.fetch(self._sql["standings"], pools))
        found = {row["pool"]: Standing(*row.values()) for row in rows}
        return [found.get(pool) or Standing(pool, 0, 0, 0, 0, 0) for pool in pools]

    async def aclose(self) -> None:
        if self._connection is not None:
            self._connection.terminate()

    # --- The connection ----------------------------------------------------------------------------------------------

    async def _safely(self, ask: Callable[[asyncpg.Connection], Any]) -> Any:
        """What `ask` returns. After an error the connection is given up, and with it its transaction."""
        try:
            connection = await self._connected()
            return await ask(connection)
        except asyncpg.InvalidPasswordError as problem:
            raise UsageError(f"PostgreSQL does not let Holdfast in to its provider pools: {problem}.") from None
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as problem:
            self._drop()
            what = f"{type(problem).__name__}: {problem}"
            raise PoolsAway(f"The provider pools in PostgreSQL cannot be reached ({what}).") from problem
        except BaseException:
            self._drop()  # cancelled in the middle of a transaction
            raise

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection, self._prepared = None, False

    async def _connected(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connect()
        if not self._prepared:
            if await self._connection.fetchval("select to_regclass($1)", f"{self._schema}.pool_shares") is None:
                await self._connection.execute(self._tables)
            self._prepared = True
        return self._connection

    async def _connect(self) -> asyncpg.Connection:
        """Raises what the last server says where none will do."""
        *others, last = self._dsns
        for dsn in others:
            with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
                return await _connected_to(dsn)
        return await _connected_to(last)

    # --- A visit -----------------------------------------------------------------------------------------------------

    async def _visit(self, connection: asyncpg.Connection, letter: Letter) -> Answer:
        await connection.execute(self._sql["begin"])
        visit = _Visit(connection, self._sql, letter)
        await visit.lock()
        known = await visit.arrive()
        await visit.take_back()
        visit.close()
        refused = await visit.join()
        again_us = await visit.serve()
        granted = await visit.granted()
        await connection.execute("commit")
        return Answer(known, visit.now_us, granted, refused, again_us)


async def _connected_to(dsn: str) -> asyncpg.Connection:
    # Behind a pgbouncer a prepared statement may be another connection's.
    return await asyncpg.connect(dsn, timeout=_ANSWER_S, command_timeout=_ANSWER_S, statement_cache_size=0)


class _Visit:
    """One transaction: the pools as they were found, and as they will be left."""

    def __init__(self, connection: asyncpg.Connection, sql: Mapping[str, str], letter: Letter) -> None:
        self._connection = connection
        self._sql = sql
        self._letter = letter
        self._levels: dict[str, Level] = {}
        self._found: dict[str, tuple[int, int]] = {}
        self.now_us = 0

    async def lock(self) -> None:
        named = {claim.pool for ticket in self._letter.joins for claim in ticket.claims}
        named |= {closing.pool for closing in self._letter.closings}
        if named:
            await self._say("add_pools", sorted(named))
        for pool, empty_at_us, closed_until_us in await self._ask("lock_pools"):
            self._found[pool] = (empty_at_us, closed_until_us)
            self._levels[pool] = Level(empty_at_us, closed_until_us)

    async def arrive(self) -> bool:
        """Note that the visitor lives, and who does not; whether the visitor was known."""
        ((self.now_us, seen_until_us),) = await self._ask("arrive", self._letter.holder)
        silence_us = int(SILENCE_S * SECOND_US)
        if seen_until_us is None or seen_until_us < self.now_us + silence_us - silence_us // _GREETINGS:
            await self._say("greet", self._letter.holder, self.now_us + silence_us)
        await self._say("bury", self.now_us, self._letter.holder)
        await self._say("lapse", self.now_us)
        return self._letter.whole or seen_until_us is not None

    async def take_back(self) -> None:
        returned = {each.ticket: each for each in self._letter.returns}
        left = [ticket for ticket in self._letter.leaves if ticket not in returned]
        if left:
            await self._say("leave", left)
        if returned or left:
            for ticket, content in await self._ask("take_back", [*returned, *left]):
                lent = msgspec.msgpack.decode(content, type=Ticket)
                for refund in (returned.get(ticket) or unused(ticket, lent.claims)).refunds:
                    if refund.pool in self._levels:
                        self._levels[refund.pool].refund(refund, self.now_us)
        if self._letter.heard:
            await self._say("hear", self._letter.heard)

    def close(self) -> None:
        for closing in self._letter.closings:
            self._levels[closing.pool].close(closing.for_us, self.now_us)

    async def join(self) -> tuple[str, ...]:
        """Give the new tickets their places; those that found their line full."""
        left = set(self._letter.leaves)
        joins = [ticket for ticket in self._letter.joins if ticket.id not in left]
        if not joins:
            return ()
        lines = ["\n".join(ticket.line) for ticket in joins]
        lengths = dict(await self._ask("lengths", list(set(lines))))
        places: list[tuple[str, str, int, int, bytes]] = []
        refused = []
        for number, (ticket, line) in enumerate(zip(joins, lines, strict=True)):
            lengths[line] = lengths.get(line, 0) + 1
            if lengths[line] > MOST_WAITING:
                refused.append(ticket.id)
                continue
            joined_us = ticket.joined_us or self.now_us + number
            content = msgspec.msgpack.encode(msgspec.structs.replace(ticket, joined_us=joined_us))
            places.append((ticket.id, line, ticket.priority, joined_us, content))
        await self._say("join", self._letter.holder, *_columns(places, 5))
        return tuple(refused)

    async def serve(self) -> int:
        heads = await self._ask("heads", _MOST_HEADS)
        for pool, taken, next_free_us in await self._ask("slots"):
            if pool in self._levels:
                self._levels[pool].taken, self._levels[pool].next_free_us = taken, next_free_us
        holders: dict[str, str] = {}
        lines: dict[tuple[str, ...], list[Ticket]] = {}
        for holder, _, content in heads:
            ticket = msgspec.msgpack.decode(content, type=Ticket)
            holders[ticket.id] = holder
            lines.setdefault(ticket.line, []).append(ticket)
        turn = serve(self._levels, lines.values(), self.now_us)
        if turn.granted:
            await self._lend(turn, holders)
        changed = [(pool, *record) for pool, record in self._changed()]
        if changed:
            await self._say("keep", *_columns(changed, 3))
        gone = {ticket.id for ticket in turn.granted}
        if any(len(line) == _MOST_HEADS and gone.issuperset(each.id for each in line) for line in lines.values()):
            return 0  # there are more behind them
        return turn.again_us

    async def granted(self) -> tuple[Grant, ...]:
        rows = await self._ask("granted", self._letter.holder)
        return tuple(Grant(ticket, until_us - self.now_us) for ticket, until_us in rows)

    async def _lend(self, turn: Turn, holders: Mapping[str, str]) -> None:
        await self._say("leave", [ticket.id for ticket in turn.granted])
        shares = [
            (
                ticket.id, holders[ticket.id], self.now_us + ticket.deadline_us,
                json.dumps([claim.pool for claim in ticket.claims if claim.slots]), msgspec.msgpack.encode(ticket),
            )
            for ticket in turn.granted
        ]  # fmt: skip
        await self._say("lend", *_columns(shares, 5))

    def _changed(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for pool, level in self._levels.items():
            record = (level.empty_at_us, level.closed_until_us)
            if record != self._found[pool]:
                yield pool, record

    async def _ask(self, name: str, *values: Any) -> list[Any]:
        rows: list[Any] = await self._connection.fetch(self._sql[name], *values)
        return rows

    async def _say(self, name: str, *values: Any) -> None:
        await self._connection.execute(self._sql[name], *values)


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [[row[column] for row in rows] for column in range(width)]
