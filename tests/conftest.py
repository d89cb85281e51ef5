"""The servers that tests share: each is started when a test first asks for it, once in every process of the test run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.testing import pooler_server
from holdfast.testing.pooler_server import PoolerServer
from holdfast.testing.postgres_server import PostgresServer, installed
from holdfast.testing.redis_server import RedisServer

_NUMBERS = itertools.count(1)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores: a third of the time that a test takes it waits for a server, a process or a lease."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that many tests share; each takes a schema of its own in it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def oldest_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL of the oldest version that is installed."""
    if len(installed()) < 2:
        pytest.skip(f"only one PostgreSQL is installed here ({', '.join(map(str, installed()))})")
    with PostgresServer(version=min(installed())) as server:
        yield server


@pytest.fixture(scope="session")
def pooler(postgres: PostgresServer) -> Iterator[PoolerServer]:
    """A pgbouncer before the shared PostgreSQL, lending connections for a transaction at a time."""
    if pooler_server.installed() is None:
        pytest.skip("pgbouncer is not installed here (apt-get install pgbouncer)")
    with PoolerServer(postgres) as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """A Redis that many tests share, one after the other in this process; each finds it as the last one left it."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """The address of a new store: a schema that is not there yet."""
    with new_schema(postgres) as schema:
        yield f"{postgres.url}?schema={schema}"


@pytest.fixture
def oldest_database(oldest_postgres: PostgresServer) -> Iterator[str]:
    """The same on the oldest PostgreSQL."""
    with new_schema(oldest_postgres) as schema:
        yield f"{oldest_postgres.url}?schema={schema}"


@pytest.fixture
def pooled_database(postgres: PostgresServer, pooler: PoolerServer) -> Iterator[str]:
    """The same through a pooler."""
    with new_schema(postgres) as schema:
        yield f"{postgres.url_of('postgres', port=pooler.port)}?schema={schema}&pooler=transaction"


@contextmanager
def new_schema(server: PostgresServer) -> Iterator[str]:
    schema = f"test_{next(_NUMBERS)}"
    yield schema
    say(server, f"set client_min_messages = warning; drop schema if exists {schema} cascade")


def say(server: PostgresServer, statement: str) -> str:
    return server.run(
        "psql", "--quiet", "--no-align", "--tuples-only", f"--dbname={server.url}", f"--command={statement}"
    )


def everything_in(server: PostgresServer, schema: str) -> bytes:
    """Every row of every table of a schema as text, bytes as the characters they are."""
    tables = say(server, f"select tablename from pg_tables where schemaname = '{schema}'").split()
    rows = "; ".join(f"select each::text from {schema}.{table} each" for table in tables)
    return say(server, f"set bytea_output = escape; {rows}").encode()
