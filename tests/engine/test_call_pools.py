"""Calls that take of pools: all of what they want or nothing, in turn, and never more than there is, in however many processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from holdfast.compose import open_store
from holdfast.core.capacity.lending import DeclaredPool
from holdfast.engine.capacity.call_pools import CallPools, Reservation
from holdfast.platform.machine import MachineClock, RandomIds
from holdfast.ports import Store

SOON_S = 20.0
CALLS = DeclaredPool("CALLS", "slots", 2, counts="requests", of="m")
TOKENS = DeclaredPool("TOKENS", "rate", 60_000, 60, 1_000, "tokens", "m")
SLOW = DeclaredPool("SLOW", "rate", 3_600, 3_600, 600, "tokens", "m")
OPEN = DeclaredPool("OPEN", "slots", 100)


class Process:
    """One process, as its calls see it."""

    def __init__(self, pools: CallPools) -> None:
        self.pools = pools
        self.most = self.now = 0

    async def reserve(self, amounts: dict[str, int], tenant: str = "t", priority: int = 0) -> Reservation:
        return await self.pools.reserve(amounts, _patiently, tenant=tenant, priority=priority)

    async def call(self, amounts: dict[str, int], used: dict[str, int], took_s: float = 0.0) -> None:
        reserved = await self.reserve(amounts)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(took_s)
        self.now -= 1
        reserved.settle(used)


async def _patiently(told: asyncio.Future[None]) -> None:
    await asyncio.wait([told])


@pytest.fixture
async def shared(store: str) -> AsyncIterator[Store]:
    opened = await open_store(store)
    for pool in (CALLS, TOKENS, SLOW, OPEN):
        await opened.lending.set_pool(pool)
    yield opened
    await opened.aclose()


@asynccontextmanager
async def process(shared: Store) -> AsyncIterator[Process]:
    session = RandomIds().session()
    await shared.sessions.open(session, "p", [])
    pools = CallPools(shared.lending, shared.sessions, MachineClock(), str(session), lambda: session, {})

    def broken(problem: BaseException) -> None:
        raise AssertionError(problem)

    pools.start(broken)
    try:
        async with asyncio.timeout(2 * SOON_S):
            yield Process(pools)
    finally:
        await pools.aclose()


async def until(met: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SOON_S):
        while not await met():
            await asyncio.sleep(0.01)


async def test_calls_take_of_what_counts_for_all_and_for_their_tenant(shared: Store) -> None:
    own, others = (msgspec.structs.replace(CALLS, name=f"CALLS@{tenant}") for tenant in ("acme", "other"))
    for pool in (own, others):
        await shared.lending.set_pool(pool)
    async with process(shared) as one:
        assert await one.pools.counted("acme") == [CALLS, own, SLOW, TOKENS]


async def test_two_processes_together_never_have_more_than_there_is(shared: Store) -> None:
    async with process(shared) as one, process(shared) as other:
        await asyncio.gather(*(each.call({"CALLS": 1}, {}, 0.02) for each in (one, other) for _ in range(8)))
        assert one.most <= 2
        assert other.most <= 2


async def test_who_cannot_have_all_takes_nothing(shared: Store) -> None:
    async with process(shared) as one:
        both = [await one.reserve({"CALLS": 1}) for _ in range(2)]
        waiting = asyncio.create_task(one.reserve({"CALLS": 1, "OPEN": 100}))
        await asyncio.sleep(0)
        (await one.reserve({"OPEN": 100})).settle({})
        both[0].settle({})
        (await waiting).settle({})


async def test_a_higher_priority_goes_first(shared: Store) -> None:
    went: list[int] = []

    async def call(one: Process, priority: int) -> None:
        reserved = await one.reserve({"CALLS": 2}, priority=priority)
        went.append(priority)
        reserved.settle({})

    async with process(shared) as one:
        first = await one.reserve({"CALLS": 2})
        calls = [asyncio.create_task(call(one, priority)) for priority in (0, 0, 5)]
        await asyncio.sleep(0)
        first.settle({})
        await asyncio.gather(*calls)
    assert went == [5, 0, 0]


@pytest.mark.parametrize("turns", range(4))
async def test_who_is_called_off_at_any_moment_keeps_nothing(shared: Store, turns: int) -> None:
    async with process(shared) as one:
        first = await one.reserve({"CALLS": 2})
        waiting = asyncio.create_task(one.reserve({"CALLS": 2}))
        await asyncio.sleep(0)
        first.settle({})
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        given = (await asyncio.gather(waiting, return_exceptions=True))[0]
        if isinstance(given, Reservation):
            given.settle({})
        (await one.reserve({"CALLS": 2})).settle({})


async def test_who_is_called_off_while_waiting_stands_in_no_line(shared: Store) -> None:
    async with process(shared) as one:
        first = await one.reserve({"CALLS": 2})
        waiting = asyncio.create_task(one.reserve({"CALLS": 2}))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        first.settle({})
        (await one.reserve({"CALLS": 2})).settle({})


async def test_a_calls_unused_reserve_goes_to_the_next_call_and_its_overuse_is_owed(shared: Store) -> None:
    async with process(shared) as one:
        for _ in range(20):  # 20,000 tokens are reserved of 1,000 a second, and 2,000 are used
            await one.call({"TOKENS": 1_000}, {"TOKENS": 100})
        began_s = asyncio.get_running_loop().time()
        await one.call({"TOKENS": 10}, {"TOKENS": 2_000})
        await one.call({"TOKENS": 10}, {"TOKENS": 10})
        assert asyncio.get_running_loop().time() - began_s > 0.9, "it was a thousand below empty, or more"


async def test_what_comes_back_after_its_share_is_gone_is_there_for_another_process(shared: Store) -> None:
    """Calls as large as the burst: only one process at a time can have the pool, and were what they do not use lost with
    their shares, each would wait ten minutes for the next."""
    async with process(shared) as one, process(shared) as other:
        calls = [each.call({"SLOW": 600}, {"SLOW": 1}, 0.1) for each in (one, other) for _ in range(3)]
        await asyncio.gather(*calls)


async def test_a_closed_pool_lets_no_call_in_anywhere_until_it_opens(shared: Store) -> None:
    async with process(shared) as one, process(shared) as other:
        for each in (one, other):
            await each.call({"CALLS": 1, "TOKENS": 10}, {})
        scheduler, heard = other.pools._pool_client._scheduler, asyncio.Event()
        close_pool = scheduler.close_pool

        def close(name: str, until_s: float) -> None:
            close_pool(name, until_s)
            heard.set()

        scheduler.close_pool = close  # type: ignore[method-assign]
        began_s = asyncio.get_running_loop().time()
        one.pools.close("CALLS", 3.0)
        await heard.wait()  # with its next visit
        went_s: list[float] = []

        async def call(process: Process) -> None:
            await process.call({"CALLS": 1}, {})
            went_s.append(asyncio.get_running_loop().time() - began_s)

        await asyncio.gather(call(one), call(other))
        assert min(went_s) >= 2.95
        await one.call({"TOKENS": 10}, {})


async def test_a_rate_that_was_closed_is_empty_when_it_opens(shared: Store) -> None:
    async with process(shared) as one:
        await one.call({"TOKENS": 10}, {})
        began_s = asyncio.get_running_loop().time()
        one.pools.close("TOKENS", 0.5)
        await one.call({"TOKENS": 500}, {})
        assert asyncio.get_running_loop().time() - began_s >= 0.95


async def test_what_a_process_has_is_given_back_when_it_makes_no_more_calls(shared: Store) -> None:
    async with process(shared) as one:
        await one.call({"CALLS": 1}, {})
        assert [share.granted for share in await shared.lending.pool_shares("CALLS")] == [2]

        async def is_back() -> bool:
            return not any(share.granted for share in await shared.lending.pool_shares("CALLS"))

        await until(is_back)
