"""The needs for pools of a process that places steps, reported to the lender; and the loans, reported to its scheduler.

A pool that was wanted a moment ago will be wanted again: its share is kept for a while, so that a job does not wait for a share
each time. Amounts that a step does not declare are estimated from what steps of its kind have taken.

Never here: how a pool is divided (core.capacity.lending), which step gets a part of a share (scheduling), a visit (shares).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

import msgspec

from holdfast.core.capacity.estimates import Kind, Use, first_guess
from holdfast.core.capacity.lending import DeclaredPool, Grant, own_pools
from holdfast.core.values.ids import SessionId, node_of, root_of
from holdfast.engine.capacity.learning import ObservationBuffer
from holdfast.engine.capacity.shares import Need, PoolShares
from holdfast.errors import StoreError
from holdfast.platform.log_ids import outside
from holdfast.ports import Clock, Lending, PlacedStep, Sessions
from holdfast.scheduling.job import Key
from holdfast.scheduling.placement import Scheduler

log = logging.getLogger("holdfast")

KEEP_S: Final = 5.0
"""How long what was lent of a pool is kept after it was wanted last."""
_TELL_S: Final = 0.005
_KNOWN_S: Final = 5.0
"""How long what the store said of pools and estimates is believed."""


class PoolClient:
    """Pools, as one scheduler has its part of them."""

    def __init__(
        self,
        lending: Lending,
        sessions: Sessions,
        clock: Clock,
        holder: str,
        session: Callable[[], SessionId | None],
        scheduler: Scheduler,
        *,
        outlives_s: float = 0.0,
    ) -> None:
        """Take the arguments of `PoolShares`."""
        self.on_more: Callable[[], None] = lambda: None
        """Called when more can be placed than before."""
        self._lending = lending
        self._clock = clock
        self._scheduler = scheduler
        self._shares = PoolShares(lending, sessions, clock, holder, session, self._changed, outlives_s=outlives_s)
        self.borrows = True
        """Whether what is placed here is placed against shares of its own; not where a leader places."""
        self._wanted_s: dict[str, float] = {}
        """When each pool was wanted last."""
        self._needs: dict[str, Need] = {}
        """What was said last."""
        self._telling: asyncio.TimerHandle | None = None
        self._estimates: dict[Kind, int] = {}
        self._pools: dict[str, DeclaredPool] = {}
        self._known_s: dict[str, float] = {}
        """When the estimates of a workflow were read."""
        self._pools_known_s = -_KNOWN_S
        self._reading = asyncio.Lock()
        self._asking: dict[str, dict[tuple[str, str], tuple[PlacedStep, Callable[[PlacedStep], None]]]] = {}
        """The steps of each workflow that wait while the store is asked: however many they are, it is asked once."""
        self._learning = ObservationBuffer(clock, lending.learn)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self, broken: Callable[[BaseException], None]) -> None:
        """`broken` is called about a fault of ours, after which no step that asks for a pool could be placed any more."""
        self._shares.start(broken)

    async def aclose(self, *, gives_back: bool = False) -> None:
        """Learn what is still to be learned, and keep no more shares. It `gives_back` at once what it has where nothing that
        it has placed goes on without it."""
        self._closed = True
        if self._telling is not None:
            self._telling.cancel()
        await self._shares.aclose()
        if gives_back:
            await self._shares.give_back()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._learning.aclose()

    # --- Shares -------------------------------------------------------------------------------------------------------

    def tell_soon(self, after_s: float = _TELL_S) -> None:
        """Something has ended or waits: say soon what is needed now."""
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        if self._telling is not None:
            if self._telling.when() <= loop.time() + after_s:
                return
            self._telling.cancel()
        self._telling = loop.call_later(after_s, self._tell)

    def lose(self) -> None:
        """The session is dead: nothing is held of any pool."""
        self._shares.lose()

    def placed(self) -> None:
        """Something has been placed: say at once what is in use, before anything of it could be given back."""
        if self.borrows:
            for name, used in self._scheduler.used().items():
                known = self._needs.get(name, Need())
                self._needs[name] = msgspec.structs.replace(known, used=used, wanted=max(used, known.wanted))
            self._shares.need(dict(self._needs))
        self.tell_soon()

    def _tell(self) -> None:
        self._telling = None
        now_s = self._clock.monotonic_s()
        most = {name: pool.limit for name, pool in self._pools.items() if pool.kind == "slots"}
        said = self._scheduler.needs(now_s, most) if self.borrows else {}
        needs = {
            name: Need(each.used, each.used + each.waits, each.next, each.owes, each.beside, watched=True)
            for name, each in said.items()
        }
        self._wanted_s |= dict.fromkeys(needs, now_s)
        self._wanted_s = {name: at_s for name, at_s in self._wanted_s.items() if now_s - at_s < KEEP_S}
        kept = {name: Need(wanted=1) for name in self._wanted_s if name not in needs}
        self._needs = kept | needs
        self._shares.need(dict(self._needs))
        if kept or any(need.owes for need in needs.values()):
            self.tell_soon(KEEP_S / 2)  # what is kept is given back some time, and what is owed comes in by itself

    def close(self, name: str, for_s: float) -> None:
        """Close the pool of a provider that takes no more for so long: no step is let in here from now on, nor soon
        anywhere."""
        until_s = self._clock.monotonic_s() + for_s
        self._scheduler.close_pool(name, until_s)
        self._shares.close(name, until_s)

    def settle(self, key: Key, unused: Mapping[str, int]) -> None:
        """A job has ended, and has not used so much of rates (below zero: has used so much more). What was let out against a
        share that is gone by now comes back to the store."""
        now_s = self._clock.monotonic_s()
        self._scheduler.finish(key, now_s, unused)
        for name, amount in unused.items():
            if amount > 0 and not self._shares.usable(name):
                self._shares.return_unused(name, amount)
        self.tell_soon()

    def _changed(self, name: str, grant: Grant | None) -> int:
        """Return the amount of a pool that is usable now, after it has changed; drop what no longer fits of a rate."""
        now_s = self._clock.monotonic_s()
        if grant is None:
            self._pools.pop(name, None)
            self._scheduler.drop_pool(name)
            return 0
        pool, usable, left = grant.pool, grant.usable, 0
        self._pools[name] = pool
        if pool.kind == "slots":
            self._scheduler.set_pool(name, "slots", usable, now_s)
        else:
            # What is new of it comes with what is in it, and of what is gone only as much is left as the rest can hold.
            level, burst = self._scheduler.level(name, now_s) + grant.filled, pool.burst_of(usable)
            left = max(0, int(level) - max(0, burst))
            self._scheduler.set_pool(
                name, "rate", usable, now_s, per_s=pool.per_s, burst=max(1, burst), level=min(burst, level)
            )
        if grant.closed_ms:
            self._scheduler.close_pool(name, now_s + grant.closed_ms / 1000)
        self.on_more()
        return left

    def may_have(self, step: PlacedStep, since_s: float) -> bool:
        """True if a step that has waited since then may ever get what it wants. Others give back what they have now; and
        without an answer of the store since then, it may exist."""
        return all(self._may_be(name, amount or 1, since_s) for name, amount in step.demand.pools.items())

    def _may_be(self, name: str, amount: int, since_s: float) -> bool:
        pool = self._pools.get(name)
        if pool is None:
            return not self._shares.has_heard(name, since_s)
        return pool.kind == "rate" or amount <= pool.limit

    # --- Amounts ------------------------------------------------------------------------------------------------------

    def resolve_amounts(self, step: PlacedStep, again: Callable[[PlacedStep], None]) -> PlacedStep | None:
        """`step` with all its amounts, of its tenant's own pools where there are any. None where the store is to be asked
        first; then `again` gets the step."""
        if not step.demand.pools:
            return step
        known_s = self._known_s.get(step.workflow, -_KNOWN_S) if None in step.demand.pools.values() else self._pools_known_s
        if self._clock.monotonic_s() - known_s >= _KNOWN_S:
            asking = self._asking.get(step.workflow)
            if asking is None:
                asking = self._asking[step.workflow] = {}
                self._begin(self._read(step.workflow))
            asking[step.run, step.step] = (step, again)
            return None
        node = root_of(node_of(step.step))
        amounts = {
            name: amount if amount is not None else self._guess((step.workflow, node, name))
            for name, amount in own_pools(step.demand.pools, step.tenant, self._pools).items()
        }
        return msgspec.structs.replace(step, demand=msgspec.structs.replace(step.demand, pools=amounts))

    @property
    def is_asking(self) -> bool:
        """True if steps wait while the store is asked about them."""
        return bool(self._asking)

    def _guess(self, kind: Kind) -> int:
        pool = self._pools.get(kind[2])
        guess = self._estimates.get(kind) or (1 if pool is None else first_guess(pool))
        if pool is None:
            return max(1, guess)
        return max(1, min(guess, pool.burst if pool.kind == "rate" else pool.limit))

    async def _read(self, workflow: str) -> None:
        try:
            await self.read(workflow)
        except StoreError as problem:
            log.info("holdfast cannot ask what steps of %s take of pools, and asks again: %s", workflow, problem)
            return  # they stand in line in the store, and are found again
        finally:
            asking = self._asking.pop(workflow)
        for step, again in asking.values():
            again(step)

    async def read(self, workflow: str) -> Mapping[str, DeclaredPool]:
        """All pools, as of a few seconds ago at most, and what steps of a workflow take of them. Raises StoreError."""
        now_s = self._clock.monotonic_s()
        if now_s - self._known_s.get(workflow, -_KNOWN_S) >= _KNOWN_S:
            estimates = await self._lending.estimates(workflow=workflow)
            self._pools_known_s = -_KNOWN_S  # both together: a guess needs the pool, too
            await self.declared()
            self._estimates |= {each.kind: each.amount for each in estimates}
            self._known_s[workflow] = now_s
        return await self.declared()

    async def declared(self) -> Mapping[str, DeclaredPool]:
        """All pools, as of a few seconds ago at most; however many ask, the store is asked once. Raises StoreError."""
        async with self._reading:
            now_s = self._clock.monotonic_s()
            if now_s - self._pools_known_s >= _KNOWN_S:
                pools = {pool.name: pool for pool in await self._lending.pools()}
                # A visit may have overtaken this answer. It tells of a change once, and so must not be overwritten.
                self._pools = {**pools, **self._shares.declared()}
                self._pools_known_s = now_s
        return self._pools

    def learn(self, uses: Iterable[Use]) -> None:
        """Steps have taken so much; it is written soon."""
        self._learning.take(uses)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="holdfast-pool-client", context=outside())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
