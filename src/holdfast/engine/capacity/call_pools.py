"""Lets calls in against this process's shares of pools, each to all that it takes of them or to none.

A call is a job like a step that is placed (scheduling): those that wait stand in the same lines, by tenant, priority and age,
and what has been lent to this process is all that they can have. What a call has reserved and not used comes back when it
says so.

Never here: how much a call takes (models), how a pool is divided (core.capacity.lending), a slot of the process (executor).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from holdfast.core.capacity.lending import DeclaredPool
from holdfast.core.values.demand import Demand
from holdfast.core.values.ids import SessionId
from holdfast.engine.capacity.pool_client import PoolClient
from holdfast.errors import PoolLineFull
from holdfast.ports import Clock, Lending, Sessions, WaitingCall
from holdfast.scheduling.job import Capacity, Job, Key
from holdfast.scheduling.placement import MAX_JOBS, Scheduler

log = logging.getLogger("holdfast")

OUTLIVES_S: Final = 30.0
"""How long a dead process's share of slots stays taken. Its connections end with it; a provider that is still at one of its
calls after so long, behind a network that is gone, is not waited for."""

MAX_SHOWN: Final = 50
"""Waiting calls that a process describes. A description is written once a second while it changes."""

_CALL: Final = "call"
_PROCESS: Final = Capacity(_CALL, frozenset({_CALL}), frozenset(), frozenset(), slots=2 * MAX_JOBS)
"""Every call can be made here, as far as pools allow it."""


Wait = Callable[[asyncio.Future[None]], Awaitable[None]]
"""Waits for what it is given, without cancelling it."""


class Reservation:
    """A call's reservation of its pools. Keeps ports.Reservation."""

    def __init__(self, pools: CallPools, key: Key, amounts: Mapping[str, int], waited_s: float) -> None:
        self.amounts = amounts
        self.waited_s = waited_s
        self._pools = pools
        self._key = key
        self._is_settled = False

    def settle(self, used: Mapping[str, int]) -> None:
        if not self._is_settled:
            self._is_settled = True
            self._pools.settle(self._key, {name: self.amounts[name] - amount for name, amount in used.items()})


class CallPools:
    """The calls of one process that wait for pools or have of them."""

    def __init__(
        self,
        lending: Lending,
        sessions: Sessions,
        clock: Clock,
        holder: str,
        session: Callable[[], SessionId | None],
        weights: Mapping[str, float],
    ) -> None:
        """`holder` names this process to those who share the pools with it; `weights` are the turns of tenants."""
        self._clock = clock
        self._scheduler = Scheduler()
        self._scheduler.join(_PROCESS, clock.monotonic_s())
        for tenant, weight in weights.items():
            self._scheduler.set_weight(tenant, weight)
        self._pool_client = PoolClient(lending, sessions, clock, holder, session, self._scheduler, outlives_s=OUTLIVES_S)
        self._pool_client.on_more = self._place_soon
        self._numbers = itertools.count(1)
        self._waiting: dict[Key, asyncio.Future[None]] = {}
        self._calls: dict[asyncio.Future[None], WaitingCall] = {}
        """The calls that were described, in that order."""
        self._placing: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._broken: Callable[[BaseException], None] = lambda problem: None

    def start(self, broken: Callable[[BaseException], None]) -> None:
        """`broken` is called about a fault of ours, after which no call that takes of a pool could leave any more."""
        self._broken = broken
        self._pool_client.start(broken)

    async def aclose(self) -> None:
        for handle in (self._placing, self._timer):
            if handle is not None:
                handle.cancel()
        for waiter in self._waiting.values():
            waiter.cancel()
        await self._pool_client.aclose(gives_back=True)

    def lose(self) -> None:
        """The session is dead: nothing is held of any pool."""
        self._pool_client.lose()

    async def counted(self, tenant: str) -> Sequence[DeclaredPool]:
        """Return the pools that count something of providers' models, shared ones and the tenant's, as of a few seconds ago at
        most. Raises StoreError."""
        pools = (await self._pool_client.declared()).values()
        return [pool for pool in pools if pool.counts is not None and pool.tenant in (None, tenant)]

    async def reserve(self, amounts: Mapping[str, int], wait: Wait, *, tenant: str, priority: int = 0) -> Reservation:
        """Return a reservation of all of `amounts` as soon as it is possible, waiting with `wait`. A caller that stops waiting
        leaves nothing behind. Raises PoolLineFull if too many wait already."""
        since_s = self._clock.monotonic_s()
        key = (_CALL, str(next(self._numbers)))
        if not self._scheduler.submit(Job(key, _CALL, tenant, Demand(pools=dict(amounts), priority=priority)), since_s):
            raise PoolLineFull(
                f"Too many calls of this process wait for {', '.join(sorted(amounts))} already. This one was not made; try"
                " again later."
            )
        self._waiting[key] = waiter = asyncio.get_running_loop().create_future()
        self._place()
        try:
            if not waiter.done():
                await wait(waiter)
        except BaseException:
            if self._waiting.pop(key, None) is not None:
                self._scheduler.cancel(key)
                self._pool_client.tell_soon()
            else:
                self.settle(key, amounts)  # it was let in at the same moment
            raise
        finally:
            self._calls.pop(waiter, None)
        return Reservation(self, key, amounts, self._clock.monotonic_s() - since_s)

    def settle(self, key: Key, unused: Mapping[str, int]) -> None:
        """A call is over; `unused` of rates comes back, and all its slots."""
        self._pool_client.settle(key, unused)
        self._place_soon()

    def refills(self) -> dict[str, float]:
        """Return the time at which each rate that calls wait for has refilled enough for the next."""
        return self._scheduler.refills() if self._waiting else {}

    def describe(self, waiter: asyncio.Future[None], call: WaitingCall) -> None:
        """Describe the call behind a wait, for those who ask what waits."""
        if not waiter.done():
            self._calls[waiter] = call

    def waiting(self) -> tuple[tuple[WaitingCall, ...], dict[str, int]]:
        """Return the described calls that have waited longest, and how many wait for each pool."""
        waits = [call for waiter, call in self._calls.items() if not waiter.done()]
        counts: dict[str, int] = {}
        for call in waits:
            for name in call.amounts:
                counts[name] = counts.get(name, 0) + 1
        return tuple(waits[:MAX_SHOWN]), counts

    def close(self, pool: str, for_s: float) -> None:
        """The provider behind the pool takes no more for so long."""
        self._pool_client.close(pool, for_s)
        self._place_soon()

    def _place_soon(self) -> None:
        """Something has become free, or will at another time: see who can go, after this turn of the loop."""
        if self._placing is None and self._waiting:
            self._placing = asyncio.get_running_loop().call_soon(self._place_all)

    def _place_all(self) -> None:
        self._placing = None
        try:
            self._place()
        except Exception as problem:
            log.exception("holdfast can no longer let calls in against pools")
            self._broken(problem)
            raise

    def _place(self) -> None:
        now_s = self._clock.monotonic_s()
        placed = self._scheduler.place(now_s)
        if placed:
            self._pool_client.placed()
        for each in placed:
            if not (waiter := self._waiting.pop(each.job.key)).done():  # or the waiter has just been called off
                waiter.set_result(None)
        self._pool_client.tell_soon()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_s = self._scheduler.next_s
        if next_s is not None and self._waiting:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, next_s - now_s), self._place_soon)
