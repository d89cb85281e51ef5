"""What every authority over provider pools promises (holdfast.ports), as tests of whole processes' worth of borrowers.

An authority takes part by giving `connect`; see test_pools_conformance. Two borrowers that come from the same `connect`
are two processes, as far as these tests can tell.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Sequence

import pytest

from holdfast.core.quota import Pool, Standing, Want
from holdfast.errors import PoolLineFull, UsageError
from holdfast.ports import Pools, Shares

Connect = Callable[..., Awaitable[Pools]]
"""A borrower of the authority, as a process of its own would have one; `ahead_s` is how far its clock is ahead."""

MANY = 60_000
"""A minute: a thousand a second."""
SLACK_S = 0.3
"""How long after its call a slot comes back in these tests."""
LEASE_S = 2.0
MOMENT_S = 0.15
"""Longer than any authority takes to tell what has happened already."""

_names = itertools.count(1)


def rate(per_min: int = MANY, *, burst_s: float = 1.0, name: str = "") -> Pool:
    return Pool(name or f"rate-{next(_names)}", "rate", per_min, burst_s, LEASE_S)


def slots(limit: int = 1) -> Pool:
    return Pool(f"slots-{next(_names)}", "slots", limit, lease_s=LEASE_S)


async def reserve(
    pools: Pools, *wants: Want | Pool, priority: int = 0, deadline_s: float = 1.0, within_s: float = 10.0
) -> Shares:
    asked = [want if isinstance(want, Want) else Want(want) for want in wants]
    return await asyncio.wait_for(pools.reserve(asked, deadline_s=deadline_s, priority=priority), within_s)


async def in_line(
    pools: Pools, *wants: Want | Pool, priority: int = 0, deadline_s: float = 1.0
) -> asyncio.Task[Shares]:
    """A reservation that has to wait, and has its place in line."""
    asked = [want if isinstance(want, Want) else Want(want) for want in wants]
    before = (await standing(pools, asked[0].pool)).waiting
    task = asyncio.create_task(pools.reserve(asked, deadline_s=deadline_s, priority=priority))
    async with asyncio.timeout(5):
        while (await standing(pools, asked[0].pool)).waiting == before:
            await asyncio.sleep(0.005)
    return task


async def standing(pools: Pools, pool: Pool) -> Standing:
    (found,) = await pools.show([pool])
    return found


def left(pool: Pool, found: Standing) -> float:
    """How much of a rate is left."""
    full_us = min(found.now_us - found.empty_at_us, int(pool.burst_s * 1e6))
    return full_us / 60e6 * pool.limit


async def drain(pools: Pools, pool: Pool, seconds: float) -> Shares:
    """Take all that a pool of a rate has, and what it refills in `seconds`."""
    return await reserve(pools, Want(pool, int(pool.limit / 60 * (pool.burst_s + seconds))))


class PoolsConformance:
    """Every test is a promise; `connect` and `ready` are the authority's."""

    # --- All or none --------------------------------------------------------------------------------------------------

    async def test_what_is_there_is_lent_at_once(self, connect: Connect) -> None:
        pools, tokens, places = await connect(), rate(6, burst_s=600), slots()
        await reserve(pools, Want(tokens, 55), places)
        assert (await standing(pools, places)).taken == 1
        assert left(tokens, await standing(pools, tokens)) < 60 - 55 + 2

    async def test_who_cannot_have_all_takes_nothing(self, connect: Connect) -> None:
        pools, tokens, places = await connect(), rate(60, burst_s=60), slots()
        mine = await reserve(pools, places)
        waiting = await in_line(pools, places, Want(tokens, 50))
        await asyncio.sleep(MOMENT_S)
        assert left(tokens, await standing(pools, tokens)) >= 59.5, "what it cannot use yet stays with the others"
        assert not waiting.done()
        pools.give_back(mine, {})
        await asyncio.wait_for(waiting, 2)
        assert left(tokens, await standing(pools, tokens)) < 15

    async def test_a_pool_is_lent_to_its_limit_and_not_beyond(self, connect: Connect) -> None:
        one, two, places = await connect(), await connect(), slots(3)
        tasks = [asyncio.create_task(reserve(pools, places)) for pools in (one, two) for _ in range(4)]
        await asyncio.sleep(MOMENT_S * 3)
        assert sum(task.done() for task in tasks) == 3
        for task in tasks:
            task.cancel()

    async def test_a_call_that_is_larger_than_a_burst_goes_when_the_pool_is_full(self, connect: Connect) -> None:
        pools, tokens = await connect(), rate(burst_s=0.2)
        began = time.monotonic()
        await reserve(pools, Want(tokens, 500))
        await reserve(pools, Want(tokens, 10))
        assert time.monotonic() - began >= 0.3, "and is paid for afterwards"

    async def test_what_cannot_be_wanted_is_refused(self, connect: Connect) -> None:
        pools, tokens, places = await connect(), rate(), slots()
        for wants in ([Want(places, 2)], [Want(tokens, -1)], [Want(tokens, 1), Want(tokens, 1)]):
            with pytest.raises(UsageError):
                await pools.reserve(wants, deadline_s=1)
        with pytest.raises(UsageError, match="lease_s"):
            await pools.reserve([Want(places)], deadline_s=LEASE_S)

    # --- Who goes first -----------------------------------------------------------------------------------------------

    async def test_first_come_is_first_served_across_processes(self, connect: Connect) -> None:
        processes, places = [await connect() for _ in range(3)], slots()
        first = await reserve(processes[0], places)
        order: list[int] = []
        waiting = [await in_line(processes[number % 3], places) for number in range(7)]
        for number, task in enumerate(waiting):
            task.add_done_callback(lambda _, number=number: order.append(number))
        held, by = first, processes[0]
        for number in range(7):
            by.give_back(held, {})
            held, by = await asyncio.wait_for(waiting[number], 2), processes[number % 3]
        assert order == list(range(7))

    async def test_a_higher_priority_goes_first(self, connect: Connect) -> None:
        one, two, places = await connect(), await connect(), slots()
        held = await reserve(one, places)
        low = await in_line(one, places, priority=-1)
        normal = await in_line(two, places)
        high = await in_line(two, places, priority=5)
        by = one
        for task, process in ((high, two), (normal, two), (low, one)):
            assert not task.done()
            by.give_back(held, {})
            held, by = await asyncio.wait_for(task, 2), process

    async def test_a_large_call_is_not_starved_by_small_ones(self, connect: Connect) -> None:
        one, two, tokens, requests = await connect(), await connect(), rate(MANY // 3, burst_s=3), rate()
        await drain(one, tokens, 0.3)
        large = await in_line(one, Want(tokens, 800), requests)
        small = [await in_line(two, Want(tokens, 1), requests) for _ in range(5)]
        await asyncio.wait_for(large, 8)
        assert left(tokens, await standing(two, tokens)) < 800
        await asyncio.wait_for(asyncio.gather(*small), 8)

    async def test_a_small_call_does_not_pass_a_large_one(self, connect: Connect) -> None:
        one, two, tokens = await connect(), await connect(), rate(6_000, burst_s=10)
        await drain(one, tokens, 0)
        large = await in_line(one, Want(tokens, 60), rate())
        small = asyncio.create_task(reserve(two, Want(tokens, 1)))
        await asyncio.sleep(0.3)
        assert not large.done()
        assert not small.done()
        await asyncio.wait([large, small], timeout=3)
        assert large.done()

    async def test_a_closed_model_does_not_close_the_others_of_its_provider(self, connect: Connect) -> None:
        pools, provider, opus, haiku = await connect(), rate(), rate(), rate()
        pools.close(opus, 60)
        stopped = await in_line(pools, opus, provider)
        await reserve(pools, haiku, provider, within_s=1)
        assert not stopped.done()
        stopped.cancel()

    # --- What comes back ----------------------------------------------------------------------------------------------

    async def test_a_slot_that_is_given_back_is_lent_at_once_to_another_process(self, connect: Connect) -> None:
        one, two, places = await connect(), await connect(), slots()
        took_s = []
        for _ in range(5):
            held = await reserve(one, places)
            waiting = await in_line(two, places)
            began = time.monotonic()
            one.give_back(held, {})
            two.give_back(await asyncio.wait_for(waiting, 2), {})
            took_s.append(time.monotonic() - began)
        assert min(took_s) < MOMENT_S + 0.1

    async def test_tokens_that_were_not_used_come_back(self, connect: Connect) -> None:
        pools, tokens = await connect(), rate(600, burst_s=60)
        held = await reserve(pools, Want(tokens, 600))
        waiting = await in_line(pools, Want(tokens, 500))
        pools.give_back(held, {tokens.name: 90})
        await asyncio.wait_for(waiting, 2)
        assert left(tokens, await standing(pools, tokens)) < 10 + 20

    async def test_what_comes_back_above_a_burst_is_not_lost_while_somebody_waits(self, connect: Connect) -> None:
        pools, tokens = await connect(), rate(60, burst_s=2)
        held = await reserve(pools, Want(tokens, 2), deadline_s=9)
        await asyncio.sleep(2.0)
        waiting = [asyncio.create_task(pools.reserve([Want(tokens, 1)], deadline_s=1)) for _ in range(4)]
        await asyncio.sleep(0)
        pools.give_back(held, {tokens.name: 0})
        await asyncio.wait_for(asyncio.gather(*waiting), 1.5)  # the fourth would wait for two seconds

    async def test_tokens_beyond_what_was_lent_are_charged(self, connect: Connect) -> None:
        pools, tokens = await connect(), rate(burst_s=0.2)
        began = time.monotonic()
        held = await reserve(pools, Want(tokens, 100))
        pools.give_back(held, {tokens.name: 700})
        await asyncio.sleep(MOMENT_S)
        await reserve(pools, Want(tokens, 100))
        assert time.monotonic() - began >= 0.6

    async def test_what_is_given_back_twice_comes_back_once(self, connect: Connect) -> None:
        pools, tokens, places = await connect(), rate(600, burst_s=60), slots(2)
        held = await reserve(pools, Want(tokens, 300), places)
        await reserve(pools, Want(tokens, 300), places)
        for _ in range(3):
            pools.give_back(held, {tokens.name: 200})
            await asyncio.sleep(MOMENT_S)
        assert (await standing(pools, places)).taken == 1
        assert left(tokens, await standing(pools, tokens)) < 100 + 20

    async def test_a_slot_that_nobody_gives_back_comes_back_at_its_deadline(self, connect: Connect) -> None:
        one, two, places = await connect(), await connect(), slots()
        began = time.monotonic()
        await reserve(one, places, deadline_s=0.6)
        await reserve(two, places, within_s=5)
        assert 0.6 <= time.monotonic() - began < LEASE_S

    # --- Closing ------------------------------------------------------------------------------------------------------

    async def test_nobody_is_lent_anything_of_a_closed_pool_until_it_opens(self, connect: Connect) -> None:
        one, two, requests = await connect(), await connect(), rate()
        await reserve(two, requests)
        began = time.monotonic()
        one.close(requests, 0.7)
        await asyncio.sleep(MOMENT_S)
        await reserve(two, requests)
        assert time.monotonic() - began >= 0.7

    async def test_a_shorter_closing_does_not_open_a_pool(self, connect: Connect) -> None:
        pools, requests = await connect(), rate()
        began = time.monotonic()
        pools.close(requests, 1.0)
        pools.close(requests, 0.1)
        await reserve(pools, requests)
        assert time.monotonic() - began >= 1.0

    # --- Waiting ------------------------------------------------------------------------------------------------------

    async def test_who_is_called_off_leaves_nothing_behind(self, connect: Connect) -> None:
        one, two, places, tokens = await connect(), await connect(), slots(), rate(60, burst_s=60)
        held = await reserve(one, places)
        waiting = [await in_line(process, places, Want(tokens, 60)) for process in (one, two)]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.sleep(MOMENT_S)
        assert (await standing(one, places)).waiting == 0
        one.give_back(held, {})
        await reserve(two, places, Want(tokens, 60), within_s=1)

    async def test_who_is_called_off_at_any_moment_keeps_nothing(self, connect: Connect) -> None:
        pools, places, chance = await connect(), slots(2), random.Random(7)
        for _ in range(40):
            task = asyncio.create_task(reserve(pools, places))
            await asyncio.sleep(chance.random() * 0.004)
            task.cancel()
            for shares in await asyncio.gather(task, return_exceptions=True):
                if isinstance(shares, Shares):
                    pools.give_back(shares, {})
        await asyncio.sleep(MOMENT_S)
        found = await standing(pools, places)
        assert (found.taken, found.waiting) == (0, 0)

    async def test_a_line_has_an_end(self, connect: Connect, short_lines: int) -> None:
        pools, places = await connect(), slots()
        await reserve(pools, places)
        waiting = [await in_line(pools, places) for _ in range(short_lines)]
        with pytest.raises(PoolLineFull, match="try again later"):
            await reserve(pools, places)
        for task in waiting:
            task.cancel()

    async def test_a_process_whose_clock_is_an_hour_off_waits_no_longer_and_no_shorter(self, connect: Connect) -> None:
        ahead, right, requests = await connect(ahead_s=3600.0), await connect(), rate(600, burst_s=0.1)
        began = time.monotonic()
        for pools in (ahead, right) * 3:
            await reserve(pools, requests, within_s=3)
        assert time.monotonic() - began >= 0.5
        assert (await standing(right, requests)).closed_until_us <= (await standing(right, requests)).now_us

    # --- The limit ----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("seed", [1, 2])
    async def test_a_rate_is_kept_over_every_window_and_used_up(self, connect: Connect, seed: int) -> None:
        chance, tokens, places = random.Random(seed), rate(burst_s=0.2), slots(20)
        spent: list[tuple[float, int]] = []
        ends = time.monotonic() + 3

        async def call(pools: Pools) -> None:
            while time.monotonic() < ends:
                amount = chance.randint(1, 90)
                shares = await reserve(pools, Want(tokens, amount), places)
                used = chance.choice((amount, amount, amount // 2))
                spent.append((time.monotonic(), used))
                await asyncio.sleep(chance.random() * 0.05)
                pools.give_back(shares, {tokens.name: used})

        stood_still_s = 0.0

        async def watch() -> None:
            """What was lent while this process or the authority stood still is noted all at once when it goes on."""
            nonlocal stood_still_s
            while True:
                began_s = time.monotonic()
                await standing(processes[0], places)
                await asyncio.sleep(0.01)
                stood_still_s = max(stood_still_s, time.monotonic() - began_s - 0.01)

        processes = [await connect() for _ in range(3)]
        watching = asyncio.create_task(watch())
        await asyncio.gather(*(call(pools) for pools in processes for _ in range(8)))
        watching.cancel()
        assert most_in_a_window(spent, per_s=1000) <= 200 + 90 + 1000 * (MOMENT_S + stood_still_s)
        used, took = sum(amount for _, amount in spent), spent[-1][0] - spent[0][0]
        assert used / (took * 1000) > 0.93


def most_in_a_window(spent: Sequence[tuple[float, int]], per_s: float) -> float:
    """The most by which any window's use was above its refill: what a bucket would have needed to hold."""
    worst = level = 0.0
    last_s = spent[0][0]
    for at_s, amount in spent:
        level = max(0.0, level - (at_s - last_s) * per_s) + amount
        worst, last_s = max(worst, level), at_s
    return worst
