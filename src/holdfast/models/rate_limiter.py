"""The pace of one step: its model calls stay within what was reserved for it of pools, whatever its code does.

Of a rate the step was lent an amount, and again as much in each of the pool's periods: a step that would go faster is slowed
down. A call's tokens are known when it has been answered, so they are charged then, and the next call waits until the rate has
refilled. Of slots, the amount is the number of calls on their way at once.

Never here: what a provider's pools lend to calls (quota), who got how much (scheduling).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

from holdfast.core.capacity.lending import DeclaredPool
from holdfast.ports import Clock, Usage


class _Part:
    """A step's share of one pool that counts something at a provider."""

    def __init__(self, pool: DeclaredPool, amount: int, now_s: float) -> None:
        self.pool = pool
        self.amount = amount
        self.used = 0
        self._left = float(amount)
        self._at_s = now_s
        self.places = asyncio.Semaphore(max(1, amount))

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until another call may leave."""
        if self.pool.kind != "rate":
            return 0.0
        self._refill(now_s)
        needed = 1.0 if self.pool.counts == "requests" else 0.0
        per_s = self.amount / self.pool.per_s
        return max(0.0, (min(needed, self.amount) - self._left) / per_s)

    def charge(self, amount: int, now_s: float) -> None:
        self._refill(now_s)
        self._left -= amount
        self.used += amount

    def _refill(self, now_s: float) -> None:
        self._left = min(self.amount, self._left + (now_s - self._at_s) * self.amount / max(1, self.pool.per_s))
        self._at_s = now_s


class RateLimiter:
    """A step's shares of pools, from which its model calls take."""

    def __init__(self, clock: Clock, parts: Iterable[tuple[DeclaredPool, int]]) -> None:
        self._clock = clock
        self._parts = [_Part(pool, amount, clock.monotonic_s()) for pool, amount in parts if pool.counts is not None]
        self.pools = frozenset(part.pool.name for part in self._parts)

    @asynccontextmanager
    async def call(self, names: Collection[str]) -> AsyncIterator[None]:
        """Inside, one call may be on its way to a model that has these names. Waits until it may leave."""
        parts = self._parts_of(names)
        async with AsyncExitStack() as places:
            for part in parts:
                if part.pool.kind == "slots":
                    await places.enter_async_context(part.places)
            while (wait_s := max((part.wait_s(self._clock.monotonic_s()) for part in parts), default=0.0)) > 0:
                await self._clock.sleep(wait_s)
            for part in parts:
                if part.pool.counts == "requests":
                    part.charge(1, self._clock.monotonic_s())
            yield

    def unsent(self, names: Collection[str]) -> None:
        """A call that had its turn has not left."""
        for part in self._parts_of(names):
            if part.pool.counts == "requests":
                part.charge(-1, self._clock.monotonic_s())

    def used(self, names: Collection[str], usage: Usage) -> None:
        """Charge the tokens of an answered call."""
        amounts = {
            "tokens": usage.input_tokens + usage.output_tokens,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
        }
        for part in self._parts_of(names):
            if part.pool.counts in amounts:
                part.charge(amounts[part.pool.counts], self._clock.monotonic_s())

    def uses(self) -> Iterator[tuple[str, int]]:
        """Return the amount that the step has taken of each pool so far."""
        return ((part.pool.name, part.used) for part in self._parts)

    def _parts_of(self, names: Collection[str]) -> list[_Part]:
        return [part for part in self._parts if part.pool.of in names]
