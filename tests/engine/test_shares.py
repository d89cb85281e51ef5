"""What a process has of pools: told when it changes, given back when others lack it, and never held beyond the lease."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from holdfast.compose import open_store
from holdfast.core.capacity.lending import DeclaredPool, Grant, Visit, Visitor
from holdfast.core.values.ids import SessionId
from holdfast.engine.capacity.shares import EVERY_S, Need, PoolShares
from holdfast.errors import StoreBusy
from holdfast.platform.machine import MachineClock, RandomIds
from holdfast.ports import Lending, Store
from holdfast.stores.postgres.connection import IDLE_S
from tests.engine.placer import LEASE_S
from tests.forks import AsyncFork

SLOTS = DeclaredPool("BROWSERS", "slots", 8)
RATE = DeclaredPool("RPS", "rate", 50, per_s=1, burst=10)
SOON_S = 8 * EVERY_S
"""Machines that are busy with other tests are slow."""


class Placer:
    """One process as its scheduler sees it: what it was told it has."""

    def __init__(self, store: Store, session: SessionId | None, name: str, outlives_s: float = 0.0) -> None:
        self.store = store
        self.session = session
        self.told: dict[str, list[Grant | None]] = {}
        self.shares = PoolShares(
            store.lending, store.sessions, MachineClock(), name, lambda: self.session, self._changed, outlives_s=outlives_s
        )

    def _changed(self, name: str, grant: Grant | None) -> None:
        self.told.setdefault(name, []).append(grant)

    def usable(self, name: str = "BROWSERS") -> int | None:
        """What it was told last."""
        grant = self.told[name][-1] if name in self.told else None
        return grant.usable if grant is not None else None

    def need(self, used: int, wanted: int, pool: str = "BROWSERS", least: int = 1) -> None:
        self.shares.need({pool: Need(used, wanted, least)})


@asynccontextmanager
async def placing(store: Store, name: str = "p") -> AsyncIterator[Placer]:
    session = RandomIds().session()
    await store.sessions.open(session, name, [])
    placer = Placer(store, session, name)
    placer.shares.start(lambda problem: None)
    try:
        yield placer
    finally:
        await placer.shares.aclose()


@pytest.fixture
async def opened(store: str) -> AsyncIterator[Callable[[], object]]:
    stores: list[Store] = []

    async def another() -> Store:
        stores.append(await open_store(store, lease_s=LEASE_S))
        return stores[-1]

    yield another
    for each in stores:
        await each.aclose()


async def until(met: Callable[[], bool], within_s: float = SOON_S) -> None:
    async with asyncio.timeout(within_s):
        while not met():
            await asyncio.sleep(0.005)


async def until_lent(store: Store, *granted: int) -> None:
    """Until the store has lent so much of the pool, by holder."""
    async with asyncio.timeout(SOON_S):
        while [share.granted for share in await store.lending.pool_shares("BROWSERS")] != list(granted):
            await asyncio.sleep(0.005)


class Broken:
    """Lending that fails, or takes its time, as long as told to; otherwise the one behind it."""

    def __init__(self, lending: Lending) -> None:
        self._lending = lending
        self.visits = self.lost = 0
        self.fails = False
        self.hangs = False
        self.loses_answers = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lending, name)

    async def lend(self, visitor: Visitor, visits: Sequence[Visit]) -> Sequence[Grant]:
        self.visits += 1
        if self.hangs:
            await asyncio.sleep(60)
        if self.fails:
            raise StoreBusy("Somebody has locked it.")
        grants = await self._lending.lend(visitor, visits)
        if self.loses_answers:
            self.lost += 1
            raise StoreBusy("The answer was lost.")
        return grants


def broken(store: Store) -> tuple[Store, Broken]:
    """The same store with lending that can be broken."""
    lending = Broken(store.lending)
    return msgspec.structs.replace(store, lending=lending), lending


async def test_who_is_alone_has_everything_at_once(opened) -> None:
    store = await opened()
    await store.lending.set_pool(SLOTS)
    async with placing(store) as a:
        a.need(0, 1)
        await until(lambda: a.usable() == 8)
        assert a.shares.usable("BROWSERS") == 8


async def test_two_share_and_neither_ever_has_what_the_other_has(opened) -> None:
    mine, theirs = await opened(), await opened()
    await mine.lending.set_pool(SLOTS)
    async with placing(mine, "a") as a, placing(theirs, "b") as b:
        a.need(8, 20)
        await until(lambda: a.usable() == 8)
        b.need(0, 20)
        await until(lambda: a.usable() == 4)
        assert not b.usable(), "what is in use is not taken"
        a.need(5, 20)
        await until(lambda: b.usable() == 3)
        a.need(4, 20)
        await until(lambda: b.usable() == 4)
        assert a.usable() == 4


async def test_what_is_no_longer_needed_is_given_back_and_no_person_is_asked_any_more(opened) -> None:
    store, lending = broken(await opened())
    await store.lending.set_pool(SLOTS)
    async with placing(store) as a:
        a.need(0, 3)
        await until(lambda: a.usable() == 8)
        a.need(0, 0)
        await until(lambda: a.usable() == 0)
        await until_lent(store, 0)
        visits = lending.visits
        await asyncio.sleep(2.2 * EVERY_S)
        assert lending.visits == visits


async def test_a_pool_that_is_made_smaller_is_noticed_within_two_seconds(opened) -> None:
    store = await opened()
    await store.lending.set_pool(SLOTS)
    async with placing(store) as a:
        a.need(2, 5)
        await until(lambda: a.usable() == 8)
        await store.lending.set_pool(DeclaredPool("BROWSERS", "slots", 3))
        await until(lambda: a.usable() == 3, 2 * EVERY_S)


async def test_a_missing_pool_is_reported_once_and_found_when_it_is_declared(opened) -> None:
    store = await opened()
    async with placing(store) as a:
        a.need(0, 1)
        await until(lambda: "BROWSERS" in a.told)
        await asyncio.sleep(1.5 * EVERY_S)
        assert a.told["BROWSERS"] == [None]
        await store.lending.set_pool(SLOTS)
        await until(lambda: a.usable() == 8)
        await store.lending.remove_pool("BROWSERS")
        await until(lambda: a.told["BROWSERS"][-1] is None)


async def test_what_a_rate_brings_along_is_reported_once(opened) -> None:
    store = await opened()
    await store.lending.set_pool(RATE)
    async with placing(store) as a:
        a.need(0, 100, "RPS")
        await until(lambda: a.usable("RPS") == 50)
        await asyncio.sleep(2.2 * EVERY_S)
        assert [grant.filled for grant in a.told["RPS"] if grant is not None] == [10]


async def test_a_job_that_exceeds_its_share_of_a_burst_waits_until_the_share_grows(opened) -> None:
    mine, theirs = await opened(), await opened()
    await mine.lending.set_pool(RATE)
    async with placing(mine, "a") as a, placing(theirs, "b") as b:
        a.need(0, 100, "RPS")
        b.need(0, 100, "RPS")
        await until(lambda: a.usable("RPS") == 25 and b.usable("RPS") == 25)
        a.need(0, 100, "RPS", least=8)
        await until(lambda: a.usable("RPS") == 0)
        await until(lambda: a.usable("RPS") == 40)
        assert b.usable("RPS") == 10


async def test_many_changes_make_few_visits(opened) -> None:
    store, lending = broken(await opened())
    await store.lending.set_pool(SLOTS)
    async with placing(store) as a:
        for n in range(200):
            a.need(n % 8, 100 + n)
            await asyncio.sleep(0.005)
        assert lending.visits <= 5


async def test_while_the_store_is_away_what_is_held_is_kept_until_the_lease_is_over(opened) -> None:
    store, lending = broken(await opened())
    await store.lending.set_pool(SLOTS)
    async with placing(store) as a:
        a.need(2, 5)
        await until(lambda: a.usable() == 8)
        lending.fails = True
        await asyncio.sleep(1.5 * EVERY_S)
        assert a.usable() == 8
        lending.fails, lending.hangs = False, True
        await asyncio.sleep(1.2 * EVERY_S)
        assert a.usable() == 8
        lease_is_over = True
        store.sessions.alive = lambda session: not lease_is_over
        await until(lambda: a.usable() == 0, EVERY_S)
        assert a.shares.usable("BROWSERS") == 0


async def test_a_lease_that_was_over_for_a_while_gets_what_the_store_lends_it_again(opened) -> None:
    store, _ = broken(await opened())
    await store.lending.set_pool(SLOTS)
    async with placing(store) as a:
        a.need(2, 5)
        await until(lambda: a.usable() == 8)
        store.sessions.alive = lambda session: False
        await until(lambda: a.usable() == 0)
        a.need(0, 0)
        del store.sessions.alive
        async with placing(await opened(), "b") as b:
            b.need(0, 1)
            await until(lambda: b.usable() == 8)


async def test_an_answer_that_was_lost_leaks_nothing(opened) -> None:
    store, lending = broken(await opened())
    await store.lending.set_pool(SLOTS)
    async with placing(store) as a, placing(await opened(), "b") as b:
        lending.loses_answers = True
        a.need(0, 5)
        await until(lambda: lending.lost > 0)
        a.need(0, 0)
        b.need(0, 5)
        await asyncio.sleep(0.3)
        assert not b.usable(), "the other may have heard"
        lending.loses_answers = False
        await until(lambda: b.usable() == 8)


async def test_a_dead_session_has_nothing_and_the_next_begins_again(opened) -> None:
    store = await opened()
    await store.lending.set_pool(SLOTS)
    async with placing(store) as a:
        a.need(0, 5)
        await until(lambda: a.usable() == 8)
        assert a.session is not None
        await store.sessions.close(a.session)
        await until(lambda: a.usable() == 0)
        a.session = RandomIds().session()
        await store.sessions.open(a.session, "p", [])
        await until(lambda: a.usable() == 8)


# --- Other processes --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def process(store: str, *words: str) -> AsyncIterator[AsyncFork]:
    """Another process that has been lent something."""
    started = await AsyncFork.start("tests.engine.placer", store, *words)
    try:
        assert (await asyncio.wait_for(started.stdout.readline(), 20)).endswith(b"holds 8\n")
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await asyncio.wait_for(started.wait(), 10)


async def test_what_a_killed_process_had_is_lent_to_others(opened, store: str) -> None:
    here = await opened()
    await here.lending.set_pool(SLOTS)
    async with process(store, "BROWSERS", "8") as other, placing(here) as a:
        a.need(0, 8)
        await asyncio.sleep(0.2)
        assert not a.usable()
        other.kill()
        await until(lambda: a.usable() == 8, LEASE_S + SOON_S)
        assert len(await here.lending.pool_shares("BROWSERS")) == 1


async def test_what_a_killed_leader_had_placed_goes_on_and_its_heir_takes_it_over(opened, store: str) -> None:
    here = await opened()
    await here.lending.set_pool(SLOTS)
    async with process(store, "BROWSERS", "8", "60") as other, placing(here, "elsewhere") as elsewhere:
        elsewhere.need(0, 8)
        other.kill()
        await asyncio.sleep(LEASE_S + 1.5 * EVERY_S)
        assert not elsewhere.usable(), "its jobs may still be running"
        async with placing(here, "lane") as heir:
            heir.need(6, 8)
            await until(lambda: bool(heir.usable()))
            shares = await here.lending.pool_shares("BROWSERS")
            assert [(share.holder, share.granted) for share in shares] == [("elsewhere", 0), ("lane", 8)]


async def test_an_heir_who_needs_nothing_keeps_nothing_of_what_it_inherits(opened) -> None:
    store = await opened()
    await store.lending.set_pool(SLOTS)
    names = RandomIds()
    first, second = names.session(), names.session()
    for session in (first, second):
        await store.sessions.open(session, "p", [])
    placer = Placer(store, first, "p", outlives_s=30.0)
    placer.need(1, 1)
    await placer.shares.visit()
    await store.sessions.close(first)
    placer.session = second
    placer.shares.need({})
    await placer.shares.visit()
    await until_lent(store, 8)
    await placer.shares.visit()
    await until_lent(store, 0)


async def test_a_frozen_process_holds_nothing_when_it_wakes_up(opened, store: str) -> None:
    here = await opened()
    await here.lending.set_pool(SLOTS)
    async with process(store, "BROWSERS", "8") as other, placing(here) as a:
        os.kill(other.pid, signal.SIGSTOP)
        a.need(0, 8)
        # Frozen in the middle of a visit it holds rows, until the database ends its transaction.
        await until(lambda: a.usable() == 8, LEASE_S + IDLE_S + SOON_S)
        os.kill(other.pid, signal.SIGCONT)
        assert other.stdout is not None
        assert (await asyncio.wait_for(other.stdout.readline(), 5)).endswith(b"holds 0\n")
        await asyncio.sleep(1.5 * EVERY_S)
        assert a.usable() == 8
