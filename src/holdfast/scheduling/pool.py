"""A pool as one scheduler has it: how much is there, who has it, and for whom it is reserved.

A queue whose next job is short of a pool stands in the pool's line. The first in line has the *reservation*: what is there
is reserved for it, and no queue behind it gets any before its job has what it wants. So a large request is not starved by
small ones. A queue that has waited long keeps its reservation when the pool has enough for it, until it has the rest of what
its job needs; what is there beyond that, others get.

A rate is a token bucket, reserved as one number: the moment at which it was or will be empty (the generic cell rate algorithm
of ATM, ITU-T I.371). An amount that is larger than the burst goes when the bucket is full and takes it below empty.

Never here: a choice between pools, a worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

from holdfast.scheduling.job import Key
from holdfast.scheduling.wait_queue import Queue, WaitQueue

_ROUNDING_S: Final = 1e-6
"""Floats of times are as exact as that; sums of them may be a little above what they mean."""

PoolQueue: TypeAlias = "Queue[Pool, Any, Any]"
"""One of which a pool knows what pools it wants of."""


class Pool:
    """A limited amount. Until it is declared (`kind` is None), no queue gets any."""

    __slots__ = (
        "_empty_at_s",
        "_taken",
        "_tried",
        "burst",
        "closed_until_s",
        "holders",
        "hopeless",
        "kind",
        "limit",
        "line",
        "name",
        "per_s",
        "queues",
        "reserved_for",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind: Literal["slots", "rate"] | None = None
        self.limit = 0
        self.per_s = 1.0
        self.burst = 0
        self.holders: dict[Key, int] = {}
        """Who has how much, the longest first; of a rate, whose jobs are placed."""
        self.line = WaitQueue()
        """Those that are short of it, but for the one that has the reservation."""
        self.reserved_for: PoolQueue | None = None
        self.hopeless: dict[PoolQueue, None] = {}
        """Those that want more of it than there can ever be."""
        self.queues = 0
        """How many queues want of it, in line or not."""
        self._taken = 0
        self._tried = False
        """There is enough for the reservation, whose queue waits for something else."""
        self._empty_at_s = 0.0
        self.closed_until_s = float("-inf")
        """Until then nobody gets any."""

    @property
    def in_use(self) -> int:
        return self._taken

    @property
    def tried(self) -> bool:
        """True if there is enough for the reservation, whose queue waits for something else."""
        return self._tried

    # --- how much ---------------------------------------------------------------------------------------------------

    def declare(
        self, kind: Literal["slots", "rate"], limit: int, per_s: float, burst: int, level: float | None, now_s: float
    ) -> None:
        """Set the pool's kind and limits. A pool that was a rate before keeps its level; a new rate is full unless `level` is
        given."""
        if level is None:
            level = self.level(now_s) if self.kind == "rate" else burst
        self.kind, self.limit, self.per_s, self.burst = kind, limit, per_s, burst
        if kind == "rate" and limit:
            is_closed = now_s < self.closed_until_s
            self._empty_at_s = max(now_s, self.closed_until_s) - self._refill_s(min(level, 0 if is_closed else burst))

    def close(self, until_s: float) -> None:
        """Give none out before `until_s`, when a rate is empty."""
        self.closed_until_s = max(self.closed_until_s, until_s)
        self._empty_at_s = max(self._empty_at_s, self.closed_until_s)

    def withdraw(self) -> None:
        self.kind = None

    def level(self, now_s: float) -> float:
        """Return the available amount: the free slots, or the refilled part of a rate. Below zero when overdrawn."""
        if self.kind == "rate":
            filled_s = max(now_s, self.closed_until_s) - self._empty_at_s
            return min(self.burst, filled_s * self.limit / self.per_s) if self.limit else 0.0
        return self.limit - self._taken

    def possible(self, amount: int) -> bool:
        """Return True if the pool can ever have this amount."""
        return self.limit > 0 if self.kind == "rate" else self.kind == "slots" and amount <= self.limit

    def take(self, key: Key, amount: int, now_s: float) -> None:
        self.hold(key, amount)
        if self.kind == "rate":
            self._empty_at_s = max(self._empty_at_s, now_s - self._refill_s(self.burst)) + self._refill_s(amount)

    def hold(self, key: Key, amount: int) -> None:
        """Count an amount that was granted elsewhere; a rate was spent there."""
        self.holders[key] = amount
        self._taken += amount

    def give_back(self, key: Key, unused: int) -> None:
        """All slots come back; of a rate, only what was not used."""
        self._taken -= self.holders.pop(key)
        if self.kind == "rate" and self.limit:
            self._empty_at_s -= self._refill_s(unused)

    def _refill_s(self, amount: float) -> float:
        return amount * self.per_s / self.limit

    def _need(self, amount: int) -> int:
        return min(amount, self.burst) if self.kind == "rate" else amount

    def _enough_at_s(self, need: int) -> float | None:
        """Return the time at which there is enough if nothing is given back; None if never."""
        if self.kind == "rate":
            at_s = max(self._empty_at_s + self._refill_s(need), self.closed_until_s)
            return at_s if need <= self.burst else None
        return self.closed_until_s if self._taken + need <= self.limit else None

    def _enough(self, need: int, now_s: float) -> bool:
        at_s = self._enough_at_s(need)
        return at_s is not None and at_s <= now_s + _ROUNDING_S

    # --- for whom ---------------------------------------------------------------------------------------------------

    def waiting(self) -> Iterator[PoolQueue]:
        """Yield the queues that may get some of it, the reservation first. (Behind each stands the rest of its class.)"""
        if self.reserved_for:
            yield self.reserved_for
        yield from self.line

    def refuses(self, queue: PoolQueue, now_s: float) -> bool:
        """Return True if `queue` has to wait for the pool: there is not enough, or it is reserved for another."""
        need = self._need(queue.wants[self])
        if not self._enough(need, now_s):
            return True
        owner = self._rival(queue)
        if owner is None or owner is queue:
            return False
        spared = self._enough(self._remainder_after(owner, need, now_s), now_s)
        return not spared and not _passes(queue, owner, now_s)

    def join(self, queue: PoolQueue) -> None:
        """From now on it waits for the pool, or has the reservation."""
        if not self.possible(queue.wants[self]):
            self.hopeless[queue] = None
            return
        self.line.add(queue)
        self._choose()

    def leave(self, queue: PoolQueue) -> None:
        if self.reserved_for is queue:
            self._reserve_for(None)
        elif queue in self.hopeless:
            del self.hopeless[queue]
        else:
            self.line.discard(queue)

    def may_be_reserved_for(self, queue: PoolQueue) -> bool:
        """Return True if the pool is reserved for the queue, or no other queue waits for it."""
        self._choose()
        return self.reserved_for is None or self.reserved_for is queue

    def is_short_for(self, queue: PoolQueue) -> bool:
        """Return True if `queue` had too little of the pool when it was last looked at. It waits for the pool or has the
        reservation."""
        return self.reserved_for is not queue or not self._tried

    def was_tried(self, short: bool) -> bool:
        """The queue that has the reservation was looked at and could not go. Whether those behind it may now be looked at."""
        self._tried = not short
        return self._tried

    def upcoming(self, now_s: float) -> PoolQueue | None:
        """The queue that has to be looked at, because what it waits for here is there."""
        self._choose()
        owner = self.reserved_for
        if owner is None or not self._enough(self._need(owner.wants[self]), now_s):
            return None
        if not self._tried:
            return owner
        second = self.line.first()
        if second and not self.refuses(second, now_s):
            return second
        return next((each for each in self._entangled(owner) if not self.refuses(each, now_s)), None)

    def upcoming_s(self, now_s: float) -> float | None:
        """Return the time at which `upcoming` changes by time alone: the pool refills, and lets those who have waited long
        pass. None if it does not."""
        owner = self.reserved_for
        if owner is None:
            return None
        reserved = self._need(owner.wants[self])
        if not self._enough(reserved, now_s):
            return self._enough_at_s(reserved)
        first = self.line.first()
        second = self._enough_at_s(self._remainder_after(owner, self._need(first.wants[self]), now_s)) if first else None
        times_s = [second, *(self._passes_at_s(each, owner) for each in self._entangled(owner))]
        return min((at_s for at_s in times_s if at_s is not None and at_s > now_s + _ROUNDING_S), default=None)

    def _passes_at_s(self, queue: PoolQueue, owner: PoolQueue) -> float | None:
        """Return the time at which `queue` can have the amount reserved for the owner; None if never. It goes before the owner,
        and has reserved what the owner needs."""
        at_s = self._enough_at_s(self._need(queue.wants[self]))
        return None if at_s is None else max(at_s, queue.aged_s, owner.aged_s)

    def _remainder_after(self, owner: PoolQueue, need: int, now_s: float) -> int:
        """Return the amount that must be there for another queue to have `need`, if it does not go before the owner."""
        reserved = self._need(owner.wants[self])
        return reserved + need if owner.aged(now_s) else max(reserved, need)

    def _entangled(self, owner: PoolQueue) -> Iterator[PoolQueue]:
        """The waiting queues that go before the owner of the reservation and have reserved a pool that the owner waits for, or
        one that such a queue waits for. Such a queue may stand behind others, which do not go before the owner."""
        for other in dict.fromkeys(pool.reserved_for for pool in chain(owner)) if self.line else ():
            if other is not None and other is not owner and self in other.lines and other.outranks(owner):
                yield other

    def _rival(self, queue: PoolQueue) -> PoolQueue | None:
        """The queue that has the reservation; where none has, the one that would get it if `queue` stood in line."""
        if self.reserved_for is None and self.line and self not in queue.lines:
            self.line.add(queue)
            first = self.line.first()
            self.line.discard(queue)
            if first is queue:
                return None
        self._choose()
        return self.reserved_for

    def _choose(self) -> None:
        """Reserve for the first in line, if nothing is reserved. Later a reservation gives way to a higher priority alone: were
        it to the turns of tenants, its queue might never have enough."""
        owner, first = self.reserved_for, self.line.first()
        if first is None:
            return
        if owner is None:
            self._reserve_for(first)
        elif first.priority != owner.priority and first.outranks(owner):
            self._reserve_for(first)
            self.line.add(owner)

    def _reserve_for(self, queue: PoolQueue | None) -> None:
        if self.reserved_for:
            del self.reserved_for.reservations[self]
        self.reserved_for, self._tried = queue, False
        if queue:
            self.line.discard(queue)
            queue.reservations[self] = None


def chain(queue: PoolQueue) -> Iterator[Pool]:
    """The pools that it waits for or has reserved, those of the queues that have reserved these, and so on."""
    seen, ahead = {queue}, [queue]
    while ahead:
        for pool in [thing for thing in ahead.pop().lines if isinstance(thing, Pool)]:
            yield pool
            if pool.reserved_for is not None and pool.reserved_for not in seen:
                seen.add(pool.reserved_for)
                ahead.append(pool.reserved_for)


def _passes(queue: PoolQueue, owner: PoolQueue, now_s: float) -> bool:
    """Return True if `queue` may take the amount that is reserved for the owner. Queues that have reserved several pools each
    must not wait for one another."""
    long_waits = bool(queue.reservations) and queue.aged(now_s) and owner.aged(now_s)
    return (queue.priority != owner.priority or long_waits) and queue.outranks(owner)
