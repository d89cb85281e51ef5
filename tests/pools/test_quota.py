"""The rules of quotas, and that Redis' script spells the same rules."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from importlib import resources

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis

from holdfast.core.quota import (
    MOST_WAITING,
    SECOND_US,
    Answer,
    Closing,
    Letter,
    Level,
    Pool,
    Refund,
    Return,
    Ticket,
    Want,
    claim,
    claims,
    cost_us,
    serve,
)
from holdfast.pools.book import Book
from holdfast.testing.redis_server import RedisServer

START_US = 1_700_000_000 * SECOND_US

amounts = st.integers(1, 500)
gaps_us = st.integers(0, 3 * SECOND_US)


@given(
    st.integers(1, 10_000), st.floats(0.1, 10), st.lists(st.tuples(gaps_us, amounts, st.integers(0, 500)), max_size=40)
)
def test_no_window_lends_more_than_a_burst_and_its_refill(
    per_min: int, burst_s: float, asked: Sequence[tuple[int, int, int]]
) -> None:
    pool = Pool("p", "rate", per_min, burst_s)
    now_us, level, lent = START_US, Level.full(), list[tuple[int, int]]()
    for gap_us, amount, unused in asked:
        now_us += gap_us
        level = Level(level.empty_at_us, level.closed_until_us)
        wanted = claim(Want(pool, amount))
        now_us += max(0, level.wait_us(wanted, now_us))
        assert level.wait_us(wanted, now_us) <= 0, "whoever comes when he was told is served"
        level.take(wanted, now_us)
        kept = max(0, amount - unused)
        level.refund(Refund("p", wanted.cost_us - cost_us(pool, kept), wanted.burst_us), now_us)
        lent.append((now_us, kept))
    largest = max((amount for _, amount in lent), default=0)
    for first, last in itertools.combinations(range(len(lent)), 2):
        used = sum(amount for _, amount in lent[first : last + 1])
        window_us = lent[last][0] - lent[first][0] + burst_s * SECOND_US
        assert used <= window_us * per_min / (60 * SECOND_US) + largest


def test_a_call_waits_exactly_until_there_is_enough() -> None:
    pool, level = Pool("p", "rate", 60, 10.0), Level(START_US, 0)
    assert level.wait_us(claim(Want(pool, 3)), START_US) == 3 * SECOND_US
    assert Level(START_US, 0).wait_us(claim(Want(pool, 100)), START_US) == 10 * SECOND_US, "more than it can hold"


def test_those_behind_somebody_who_is_short_of_a_pool_do_not_take_it() -> None:
    wide, narrow = Pool("wide", "rate", 60, 100.0), Pool("narrow", "slots", 1)
    levels = {"wide": Level(START_US - 10 * SECOND_US, 0), "narrow": Level(0, 0, taken=1, next_free_us=START_US + 5)}

    def ticket(id_: str, *wants: Want) -> Ticket:
        return Ticket(id_, 0, START_US, SECOND_US, claims(wants))

    large, small, other = ticket("1", Want(wide, 20)), ticket("2", Want(wide, 1)), ticket("3", Want(narrow))
    turn = serve(levels, [[large, small], [other]], START_US)
    assert turn.granted == []
    assert (turn.next, turn.again_us) == (other, 5)


# --- The other spelling -----------------------------------------------------------------------------------------------


class HandClock:
    """A clock that the test moves."""

    now_us = START_US

    def monotonic_s(self) -> float:
        raise AssertionError("a book asks for whole microseconds here")

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")


class HandBook(Book):
    """A book whose time is the test's, to the microsecond."""

    at_us = START_US

    def _now_us(self) -> int:
        return self.at_us


class Script:
    """The script of Redis at a time of the test's."""

    def __init__(self, server: Redis, prefix: str) -> None:
        text = resources.files("holdfast.pools").joinpath("visit.lua").read_text()
        told = text.replace("redis.call('TIME')", "{0, tonumber(ARGV[5])}")
        assert told != text
        self._script, self._prefix = server.register_script(told), prefix

    def visit(self, letter: Letter, at_us: int) -> Answer:
        said = [msgspec.msgpack.encode(letter), 3600 * SECOND_US, MOST_WAITING, 0, at_us]
        return msgspec.msgpack.decode(self._script(keys=[self._prefix], args=said), type=Answer)


POOLS = (
    Pool("a", "rate", 600, 2.0, 1.0),
    Pool("b", "rate", 60_000, 0.5, 1.0),
    Pool("s", "slots", 2, lease_s=9.0),
    Pool("t", "slots", 1, lease_s=9.0),
)


def letters(chance: random.Random) -> Sequence[tuple[int, Letter]]:
    """What three processes say, and when, with repeats as after lost answers."""
    numbers, said, tickets = itertools.count(1), list[tuple[int, Letter]](), list[Ticket]()
    at_us = START_US
    for _ in range(60):
        at_us += chance.choice((0, 1_000, 50_000, 400_000, 3_000_000))
        joins = []
        for _ in range(chance.randint(0, 3)):
            pools = chance.sample(POOLS, chance.randint(1, 3))
            wants = [Want(pool, 1 if pool.kind == "slots" else chance.randint(1, 90)) for pool in pools]
            lent_us = chance.randint(1, 4 * SECOND_US)
            joins.append(Ticket(f"t{next(numbers):04}", chance.choice((0, 0, 0, 1, -1)), 0, lent_us, claims(wants)))
        tickets += joins
        over = chance.sample(tickets, min(len(tickets), chance.randint(0, 2)))
        returns = [
            Return(
                ticket.id,
                tuple(Refund(c.pool, chance.randint(-9, 9) * 1_000, c.burst_us) for c in ticket.claims if not c.slots),
            )
            for ticket in over
        ]
        leaves = [ticket.id for ticket in tickets if chance.random() < 0.02]
        closed = [Closing(chance.choice(POOLS).name, 500_000, SECOND_US)] if chance.random() < 0.05 else []
        heard = [ticket.id for ticket in tickets if chance.random() < 0.5]
        letter = Letter(
            chance.choice("xyz"), True, tuple(joins), tuple(leaves), tuple(returns), tuple(closed), tuple(heard)
        )
        said += [(at_us, letter)] * chance.choice((1, 1, 1, 2))
    return said


@pytest.fixture(scope="module")
def server(redis: RedisServer) -> Redis:
    return Redis.from_url(redis.url)


_prefixes = itertools.count(1)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9))
async def test_the_script_of_redis_decides_as_the_rules_do(server: Redis, seed: int) -> None:
    prefix = f"{{spelling-{next(_prefixes)}}}:"
    book, script = HandBook(HandClock()), Script(server, prefix)
    for pool in POOLS:
        server.hset(f"{prefix}records", pool.name, msgspec.msgpack.encode((0, 0)))
    for at_us, letter in letters(random.Random(seed)):
        book.at_us = at_us
        expected, found = await book.visit(letter), script.visit(letter, at_us)
        assert set(found.granted) == set(expected.granted)
        assert (found.known, found.now_us, found.refused, found.again_us) == (
            expected.known, expected.now_us, expected.refused, expected.again_us,
        )  # fmt: skip
