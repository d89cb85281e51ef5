"""Stores on a shared PostgreSQL, a test's own while it runs: a schema each, emptied before it is lent again.

To make one takes ten times as long. What a test may leave behind ends here: every session with the server, also of a process
that was killed, and every row; a schema whose tables are not what they were, or that has grown, is dropped.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import asyncpg

from holdfast.stores.month import Month
from holdfast.stores.postgres import partition
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.connection import Connections
from holdfast.stores.postgres.schema import expect_ready
from holdfast.testing.postgres_server import PostgresServer
from tests.stores.story import BORN_MS

_NUMBERS = itertools.count(1)
_LARGEST: Final = 16 * 1024 * 1024
"""Bytes of a schema that is kept: rows that were deleted are still there to be passed over."""
_END_MS: Final = 1_000
_MAX_TURNS: Final = 20

_END_SESSIONS: Final = """
select count(pg_terminate_backend(pid, $1)) from pg_stat_activity
where backend_type = 'client backend' and pid <> pg_backend_pid()
"""
"""How many there were. (One that has just gone by itself is no backend any more, and is not ended: what it says is no guide.)"""
_LOOK: Final = """
select sum(pg_total_relation_size(oid)) filter (where relkind = 'r') as size, (
    select md5(string_agg(row, ' ' order by row)) from (
        select format('schema %s', xmin) as row from pg_namespace where oid = $1::regnamespace
        union all select format('function %s %s', oid, xmin) from pg_proc where pronamespace = $1::regnamespace
        union all select format('constraint %s %s', oid, xmin) from pg_constraint where connamespace = $1::regnamespace
        union all select format('table %s %s', oid, xmin) from pg_class where relnamespace = $1::regnamespace
        union all select format('column %s %s %s', attrelid, attnum, each.xmin)
            from pg_attribute each join pg_class on attrelid = pg_class.oid where relnamespace = $1::regnamespace
    ) rows) as form
from pg_class where relnamespace = $1::regnamespace
"""
"""How large a schema is, and what changes with every change of it but that of rows."""
_PARTS: Final = """
select oid::regclass::text as name, relkind from pg_class
where relnamespace = $1::regnamespace and relkind in ('r', 'p', 'S') and not relispartition
"""


class _Schema(NamedTuple):
    name: str
    form: str
    emptying: str
    """What leaves in it what is in a new store."""


class Schemas:
    """Those of one server."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._runner = asyncio.Runner()
        self._thread = ThreadPoolExecutor(1, "schemas")  # a test's own loop may be running
        self._db: Any = None
        self._free: list[_Schema] = []

    @contextmanager
    def lent(self) -> Iterator[str]:
        """The name of a schema that has an empty store."""
        schema = self._thread.submit(self._runner.run, self._lend()).result()
        yield schema.name
        self._free.append(schema)

    def close(self) -> None:
        self._thread.submit(self._runner.run, self._close()).result()
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()

    async def _close(self) -> None:
        if self._db is not None:
            await self._db.close()

    async def _lend(self) -> _Schema:
        if self._db is None:
            self._db = await asyncpg.connect(self._server.url, server_settings={"client_min_messages": "error"})
        turns = 0
        while await self._db.fetchval(_END_SESSIONS, _END_MS):
            turns += 1
            assert turns < _MAX_TURNS, "a session does not end"
        while self._free:
            schema = self._free.pop()
            found = await self._db.fetchrow(_LOOK, schema.name)
            if found["form"] == schema.form and found["size"] < _LARGEST:
                await self._db.execute(schema.emptying)
                return schema
            await self._db.execute(f"drop schema {schema.name} cascade")
        return await self._make()

    async def _make(self) -> _Schema:
        """A store as the first process makes it, with the months that its upkeep makes and that of the stories."""
        name = new_schema()
        address = Address.of(f"{self._server.url}?schema={name}")
        connections = await Connections.open(address)
        await expect_ready(connections)
        now = Month.at(int(time.time() * 1000))
        async with connections.acquire() as db, db.transaction():
            await partition.make(db, address, {Month.at(BORN_MS), now, now.next, now.next.next})
        await connections.close()
        emptying = []
        for part in await self._db.fetch(_PARTS, name):
            if part["relkind"] == b"S":
                emptying.append(f"select setval('{part['name']}', 1, false)")
                continue
            emptying.append(f"delete from {part['name']}")
            rows = await self._db.fetchval(f"select jsonb_agg(each) from {part['name']} each")
            if rows is not None:
                emptying.append(
                    f"insert into {part['name']} select * from jsonb_populate_recordset(null::{part['name']}, $rows${rows}$rows$)"
                )
        emptying = [
            "set session_replication_role = replica",
            *emptying,
            "reset session_replication_role",
        ]  # the audit log is kept
        return _Schema(name, (await self._db.fetchrow(_LOOK, name))["form"], ";".join(emptying))


def new_schema() -> str:
    """The name of one that is not there yet. It goes with its server: to drop it takes as long as many a test."""
    return f"test_{next(_NUMBERS)}"
