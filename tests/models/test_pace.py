"""The pace of one step: what was reserved for it bounds its model calls, at once and over time."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.capacity.lending import DeclaredPool
from holdfast.models.rate_limiter import RateLimiter
from holdfast.ports import Usage

RPS = DeclaredPool("RPS", "rate", 50, per_s=1, burst=10, counts="requests", of="openai")
TPM = DeclaredPool("TPM", "rate", 6000, per_s=60, burst=600, counts="tokens", of="openai")
AT_ONCE = DeclaredPool("AT_ONCE", "slots", 9, counts="requests", of="openai")
NAMES = ("gpt-x", "openai")


class Time:
    """A clock that moves by sleeping alone."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        await asyncio.sleep(0)


async def times_of(pace: RateLimiter, clock: Time, calls: int, used: Usage | None = None) -> list[float]:
    found = []
    for _ in range(calls):
        async with pace.call(NAMES):
            found.append(round(clock.now_s - 100, 6))
        if used is not None:
            pace.used(NAMES, used)
    return found


async def test_requests_beyond_what_was_reserved_wait_for_the_next_periods() -> None:
    clock = Time()
    assert await times_of(RateLimiter(clock, [(RPS, 2)]), clock, 6) == [0, 0, 0.5, 1.0, 1.5, 2.0]


async def test_tokens_are_charged_when_they_are_known_and_then_made_good() -> None:
    clock = Time()
    pace = RateLimiter(clock, [(TPM, 600)])
    assert await times_of(pace, clock, 3, Usage(500, 400)) == [0, 30, 120]
    assert dict(pace.uses()) == {"TPM": 2700}


async def test_slots_are_calls_on_their_way_at_once() -> None:
    pace = RateLimiter(Time(), [(AT_ONCE, 2)])
    now = most = 0

    async def call() -> None:
        nonlocal now, most
        async with pace.call(NAMES):
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

    await asyncio.gather(*(call() for _ in range(7)))
    assert most == 2


@pytest.mark.parametrize("names", [("claude", "anthropic"), ()])
async def test_calls_of_others_are_not_slowed_down(names: tuple[str, ...]) -> None:
    clock = Time()
    pace = RateLimiter(clock, [(RPS, 1), (DeclaredPool("PLAIN", "slots", 1), 1)])
    for _ in range(5):
        async with pace.call(names):
            pass
    assert clock.now_s == 100.0
    assert dict(pace.uses()) == {"RPS": 0}
