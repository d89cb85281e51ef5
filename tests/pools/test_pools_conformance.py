"""The three authorities over provider pools keep the same promises."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable

import pytest
from redis.asyncio import Redis

from holdfast.machine import MachineClock
from holdfast.pools import book
from holdfast.pools import postgres as in_postgres
from holdfast.pools import redis as in_redis
from holdfast.pools.book import Book
from holdfast.pools.borrower import Borrower
from holdfast.pools.redis import RedisAuthority
from holdfast.ports import PoolAuthority, Pools
from holdfast.testing.redis_server import RedisServer
from tests.pools.conformance import SLACK_S, Connect, PoolsConformance
from tests.pools.victim import authority as at

_prefixes = itertools.count(1)


class ShiftedClock(MachineClock):
    """A clock that is wrong by a fixed time."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead_s = ahead_s

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self._ahead_s


class Shared(Book):
    """The book of one process, as several borrowers in it share it."""

    async def aclose(self) -> None:
        """It ends with the test."""


class OpenRedis(RedisAuthority):
    """Redis after its first lease: its pools have records. What happens without one is tested in test_redis."""

    async def visit(self, letter):  # type: ignore[no-untyped-def]
        for claim in (claim for ticket in letter.joins for claim in ticket.claims):
            await self._redis.hsetnx(f"{self._prefix}records", claim.pool, b"\x92\x00\x00")
        for closing in letter.closings:
            await self._redis.hsetnx(f"{self._prefix}records", closing.pool, b"\x92\x00\x00")
        return await super().visit(letter)


@pytest.fixture
async def connect(authority: Callable[[], PoolAuthority]) -> AsyncIterator[Connect]:
    opened: list[Pools] = []

    async def one_more(ahead_s: float = 0.0) -> Pools:
        borrower = Borrower(authority(), ShiftedClock(ahead_s), f"holder-{len(opened)}", slack_s=SLACK_S)
        opened.append(borrower)
        return borrower

    yield one_more
    for borrower in opened:
        await borrower.aclose()


@pytest.fixture
def short_lines(monkeypatch: pytest.MonkeyPatch) -> int:
    """Lines that are full with three."""
    for module in (book, in_redis, in_postgres):
        monkeypatch.setattr(module, "MOST_WAITING", 3)
    return 3


class TestInTheProcess(PoolsConformance):
    @pytest.fixture
    def authority(self) -> Callable[[], PoolAuthority]:
        shared = Shared(MachineClock())
        return lambda: shared


class TestInRedis(PoolsConformance):
    @pytest.fixture
    def authority(self, redis: RedisServer) -> Callable[[], PoolAuthority]:
        prefix = f"{{test-{next(_prefixes)}}}:"
        return lambda: OpenRedis(Redis.from_url(redis.url), prefix)


class TestInPostgres(PoolsConformance):
    @pytest.fixture
    def authority(self, database: str) -> Callable[[], PoolAuthority]:
        return lambda: at(database)
