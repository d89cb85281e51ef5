"""The next messages are found with few reads, however many wait: the databases themselves tell how many rows they read."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple, Protocol

import apsw
import asyncpg
import pytest

from holdfast.stores import statement

NOW_MS = 10**9
LIMIT, OF_ADDRESS = 16, 8
MATES, LOOKED_AT = 99, 1_000
FEW = 4_000
"""Rows of deliveries, and of those looked at beside them, that may be read to find the next ones."""
_STEPS_A_ROW = 15
"""The fewest instructions of SQLite's machine for a row that is read."""

FILL = """
with recursive n(i) as (select 0 union all select i + 1 from n where i < {count} - 1)
insert into deliveries (
    id, tenant, run, line, place, occasion, rule, channel, address, bundle, state, attempts, created_at_ms, due_at_ms,
    claimed_until_ms, message
) select 'msg_' || (10000000 + (i * 7919) % {count}), 'acme', 'run' || (i / {line}), 'run' || (i / {line}) || '/ops', i % {line},
    'run_failed', 'all', 'ops', {address}, {bundle}, {state}, 0, i, i, 0, {message}
from n"""
KNOW = (
    "insert into channels (channel, address, sent, failed, dead)"
    " select distinct channel, address, 0, 0, 0 from deliveries where true on conflict do nothing"
)


class Backlog(NamedTuple):
    """What waits, as SQL of the number `i` of a row; what is looked for, and how many are found."""

    line: int = 1
    address: str = "''"
    bundle: str = "''"
    state: str = "'waiting'"
    full: tuple[str, ...] = ()
    heads: int | None = OF_ADDRESS
    mates: int | None = None


BACKLOGS = {
    "a message of each run": Backlog(),
    "a hundred messages of each run": Backlog(line=100),
    "no room at the only address": Backlog(full=("",), heads=0),
    "a slow address": Backlog(address="case when i % 1000 = 999 then '' else 'https://slow' end", full=("https://slow",)),
    "one run with a long past": Backlog(line=10**9, state="case when i < {count} - 10 then 'sent' else 'waiting' end", heads=1),
    "one bundle": Backlog(bundle="'b'", mates=MATES),
    "a bundle that other messages keep waiting": Backlog(
        line=2, bundle="case when i % 2 = 1 then 'b' else '' end", heads=OF_ADDRESS, mates=0
    ),
}


class Database(Protocol):
    """A store, as it can be asked by hand."""

    async def fill(self, backlog: Backlog, count: int) -> None: ...

    async def read(self, name: str, *bound: Any) -> tuple[int, int]:
        """The rows of an answer, and about how many were read for it."""
        ...


class OfSqlite:
    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    async def fill(self, backlog: Backlog, count: int) -> None:
        self._db.execute(filling(backlog, count, "zeroblob(300)"))
        self._db.execute(KNOW)

    async def read(self, name: str, *bound: Any) -> tuple[int, int]:
        steps = 0

        def count() -> bool:
            nonlocal steps
            steps += 1
            return False

        asked = tuple(json.dumps(each) if isinstance(each, list) else each for each in bound)
        self._db.set_progress_handler(count, _STEPS_A_ROW)
        try:
            return len(list(self._db.execute(statement.statements("sqlite")[name], asked))), steps
        finally:
            self._db.set_progress_handler(None)


class OfPostgres:
    def __init__(self, db: asyncpg.Connection, schema: str) -> None:
        self._db, self._schema = db, schema

    async def fill(self, backlog: Backlog, count: int) -> None:
        await self._db.execute(filling(backlog, count, "'\\x00'::bytea"))
        await self._db.execute(KNOW)
        await self._db.execute("analyze deliveries; analyze channels")

    async def read(self, name: str, *bound: Any) -> tuple[int, int]:
        asked = statement.statements("postgres")[name].replace("holdfast.", f"{self._schema}.")
        found = await self._db.fetch(asked, *bound)
        plan = json.loads(await self._db.fetchval(f"explain (analyze, format json) {asked}", *bound))[0]["Plan"]
        return len(found), sum(read_by(each) for each in nodes(plan))


def read_by(node: dict[str, Any]) -> int:
    """The rows that one node of a plan has read from a table."""
    if "Relation Name" not in node:
        return 0
    seen = node["Actual Rows"] + sum(value for name, value in node.items() if name.startswith("Rows Removed by"))
    return int(seen * node["Actual Loops"])


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def filling(backlog: Backlog, count: int, message: str) -> str:
    said = {"address": backlog.address, "bundle": backlog.bundle, "state": backlog.state.format(count=count)}
    return FILL.format(count=count, line=backlog.line, message=message, **said)


@pytest.fixture
async def waiting(store: str) -> AsyncIterator[Database]:
    if store.startswith("sqlite"):
        with contextlib.closing(apsw.Connection(store.removeprefix("sqlite:///"))) as db:
            db.pragma("synchronous", "off")
            yield OfSqlite(db)
        return
    address, _, schema = store.partition("?schema=")
    found = await asyncpg.connect(address, server_settings={"search_path": schema})
    try:
        yield OfPostgres(found, schema)
    finally:
        await found.close()


async def few_are_read(waiting: Database, name: str, count: int) -> None:
    backlog = BACKLOGS[name]
    await waiting.fill(backlog, count)
    found, read = await waiting.read("delivery_heads", "ops", NOW_MS, [*backlog.full], LIMIT, OF_ADDRESS)
    assert (found, read < FEW) == (backlog.heads, True), f"{read} rows of {count} were read for {found} heads"
    if backlog.mates is not None:
        found, read = await waiting.read("delivery_mates", "b", "msg_", MATES, LOOKED_AT)
        assert (found, read < FEW) == (backlog.mates, True), f"{read} rows of {count} were read for {found} mates"
    _, read = await waiting.read("lost_before", "run0/ops", count, "", "")
    assert read < FEW


@pytest.mark.parametrize("name", ["a slow address", "a bundle that other messages keep waiting"])
async def test_the_next_messages_are_found_with_few_reads(waiting: Database, name: str) -> None:
    await few_are_read(waiting, name, 10_000)


@pytest.mark.long
@pytest.mark.parametrize("name", BACKLOGS)
async def test_the_next_messages_of_100_000_are_found_with_few_reads(waiting: Database, name: str) -> None:
    await few_are_read(waiting, name, 100_000)
