"""The servers that tests share: each is started when a test first asks for it, once in every process of the test run."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from holdfast.testing.postgres_server import FAST, PostgresServer
from holdfast.testing.redis_server import RedisServer

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that many tests share; each takes a database of its own from it."""
    with PostgresServer(settings=FAST) as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """A Redis that many tests share, one after the other in this process; each finds it as the last one left it."""
    with RedisServer() as server:
        yield server


@pytest.fixture
async def database(postgres: PostgresServer) -> AsyncIterator[str]:
    """The address of a new, empty database."""
    name = f"test_{next(_NUMBERS)}"
    await _say(postgres, f"create database {name}")
    yield postgres.url_of(name)
    await _say(postgres, f"drop database {name} with (force)")


async def _say(server: PostgresServer, statement: str) -> None:
    connection = await asyncpg.connect(server.url)
    try:
        await asyncio.wait_for(connection.execute(statement), 60)
    finally:
        await connection.close()
