"""The scheduler against books that a stranger keeps: whatever is said to it, in whatever order.

The books know what is placed and what there is, and nothing of lines, turns or shares.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.core.values.demand import Demand
from holdfast.scheduling.job import PATIENCE_S, Capacity, Job, Key, Placement
from holdfast.scheduling.placement import Scheduler

ABLE = ("g", "h")
LABELS = ("gpu", "eu")
SLOTS = ("places", "seats")
RATES = ("requests", "tokens")
WORKERS = ("a", "b", "c")
NEAR = 1e-6


class Rate:
    """What a provider counts: every amount that was let through, and when."""

    def __init__(self, limit: int, per_s: float, burst: int) -> None:
        self.limit, self.per_s, self.burst = limit, per_s, burst
        self.spent: list[tuple[float, int]] = []

    def check(self) -> None:
        """No window of time has more in it than the burst and what is refilled in it; the last may be larger than that."""
        for first, (begin_s, _) in enumerate(self.spent):
            total = 0
            for at_s, amount in self.spent[first:]:
                allowed = self.burst + (at_s - begin_s) * self.limit / self.per_s
                assert amount < 0 or total + min(amount, self.burst) <= allowed + NEAR, self.spent
                total += amount


demands = st.builds(
    Demand,
    labels=st.sets(st.sampled_from(LABELS), max_size=1).map(tuple),
    cpu_m=st.sampled_from([0, 0, 1000, 3000]),
    gpus=st.sampled_from([0, 0, 0, 1]),
    pools=st.dictionaries(st.sampled_from(SLOTS + RATES), st.sampled_from([1, 1, 2, 2, 3, 6]), max_size=3),
    priority=st.sampled_from([0, 0, 0, 1, 5]),
)
capacities = st.builds(
    Capacity,
    worker=st.sampled_from(WORKERS),
    able=st.sets(st.sampled_from(ABLE), min_size=1).map(frozenset),
    labels=st.sets(st.sampled_from(LABELS)).map(frozenset),
    tags=st.just(frozenset()),
    slots=st.integers(0, 4),
    cpu_m=st.sampled_from([2000, 4000]),
    memory_mb=st.just(0),
    gpus=st.integers(0, 1),
)


class Books(RuleBasedStateMachine):
    @initialize(strategy=st.sampled_from(["least_loaded", "best_fit"]), joining=capacities, limit=st.integers(1, 6))
    def begin(self, strategy: str, joining: Capacity, limit: int) -> None:
        self.scheduler = Scheduler(strategy)
        self.now_s = 0.0
        self.number = 0
        self.waiting: dict[Key, tuple[Job, float]] = {}
        self.placed: dict[Key, Placement] = {}
        self.ended: set[Key] = set()
        self.capacities: dict[str, Capacity] = {}
        self.slots: dict[str, int] = {}
        self.rates: dict[str, Rate] = {}
        self.charged: set[Key] = set()
        self.moved = True
        self.join(joining)
        self.join(Capacity("c", frozenset(ABLE), frozenset(LABELS), frozenset(), 4, 4000, 0, 1))
        self.set_slots("places", limit)
        self.set_slots("seats", 4)
        self.set_rate("requests", limit, 1.0, 3)
        self.set_rate("tokens", 6, 1.0, 5)

    # --- what is said -------------------------------------------------------------------------------------------------

    @rule(demand=demands, able=st.sampled_from(ABLE), tenant=st.sampled_from("xyz"), times=st.integers(1, 4))
    def submit(self, demand: Demand, able: str, tenant: str, times: int) -> None:
        for _ in range(times):
            self.number += 1
            job = Job((str(self.number),), able, tenant, demand)
            assert self.scheduler.submit(job, self.now_s)
            self.waiting[job.key] = (job, self.now_s)
        self.moved = True

    @precondition(lambda self: self.waiting or self.placed)
    @rule(data=st.data())
    def submit_again(self, data: st.DataObject) -> None:
        known = [job for job, _ in self.waiting.values()] + [each.job for each in self.placed.values()]
        assert self.scheduler.submit(data.draw(st.sampled_from(known)), self.now_s)

    @precondition(lambda self: self.placed)
    @rule(data=st.data(), used=st.integers(0, 6))
    def finish(self, data: st.DataObject, used: int) -> None:
        self.end(data.draw(st.sampled_from(sorted(self.placed))), used)

    def end(self, key: Key, used: int) -> None:
        placement = self.placed.pop(key)
        unused = {pool: max(0, amount - used) for pool, amount in placement.pools.items()}
        assert self.scheduler.finish(key, self.now_s, unused)
        assert not self.scheduler.finish(key, self.now_s, unused)
        for pool, amount in unused.items():
            if pool in self.rates and key not in self.charged and amount:
                self.rates[pool].spent.append((self.now_s, -amount))
        self.ended.add(key)
        self.moved = True

    @precondition(lambda self: self.waiting or self.placed)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted([*self.waiting, *self.placed])))
        assert self.scheduler.cancel(key)
        assert not self.scheduler.cancel(key)
        self.waiting.pop(key, None)
        self.placed.pop(key, None)
        self.ended.add(key)
        self.moved = True

    @rule(capacity=capacities)
    def join(self, capacity: Capacity) -> None:
        self.scheduler.join(capacity, self.now_s)
        self.capacities[capacity.worker] = capacity
        self.moved = True

    @rule(worker=st.sampled_from(WORKERS))
    def die(self, worker: str) -> None:
        lost = {job.key for job in self.scheduler.leave(worker)}
        assert lost == {key for key, each in self.placed.items() if each.worker == worker}
        for key in lost:
            job = self.placed.pop(key).job
            assert self.scheduler.submit(job, self.now_s)
            self.waiting[key] = (job, self.now_s)
        self.capacities.pop(worker, None)
        self.moved = True

    @rule(pool=st.sampled_from(SLOTS), limit=st.integers(0, 6))
    def set_slots(self, pool: str, limit: int) -> None:
        self.scheduler.set_pool(pool, "slots", limit, self.now_s)
        self.slots[pool] = limit
        self.moved = True

    @rule(
        pool=st.sampled_from(RATES), limit=st.integers(0, 6), per_s=st.sampled_from([0.7, 1.0, 60.0]), burst=st.integers(1, 5)
    )
    def set_rate(self, pool: str, limit: int, per_s: float, burst: int) -> None:
        self.scheduler.set_pool(pool, "rate", limit, self.now_s, per_s=per_s, burst=burst)
        self.rates[pool] = Rate(limit, per_s, burst)
        self.moved = True

    @rule(pool=st.sampled_from(SLOTS + RATES))
    def drop_pool(self, pool: str) -> None:
        self.scheduler.drop_pool(pool)
        self.slots.pop(pool, None)
        self.rates.pop(pool, None)
        self.moved = True

    @rule(demand=demands, worker=st.sampled_from(WORKERS), able=st.sampled_from(ABLE))
    def take_over(self, demand: Demand, worker: str, able: str) -> None:
        """A leader that is gone has placed it, with more than there may be."""
        self.number += 1
        job = Job((str(self.number),), able, "x", demand)
        self.scheduler.charge(job.key, job, worker)
        self.placed[job.key] = Placement(job, worker, dict(demand.pools))
        self.charged.add(job.key)
        self.moved = True

    @rule(later_s=st.sampled_from([0.0, 0.1, 0.5, 1.0, PATIENCE_S, 1000.0]))
    def wait(self, later_s: float) -> None:
        self.now_s += later_s

    @rule()
    def place(self) -> None:
        used = {name: self.taken_of_worker(name) for name in self.capacities}
        before = {pool: self.in_use(pool) for pool in self.slots}
        for placement in self.scheduler.place(self.now_s):
            job, _ = self.waiting.pop(placement.job.key)
            assert job == placement.job
            assert placement.pools == job.demand.pools
            self.placed[job.key] = placement
            self.charged.discard(job.key)
            self.spend(placement)
            capacity = self.capacities[placement.worker]
            assert job.able in capacity.able
            assert capacity.labels >= set(job.demand.labels)
        for name, capacity in self.capacities.items():
            taken = self.taken_of_worker(name)
            for what, total in enumerate((capacity.slots, capacity.cpu_m, capacity.gpus)):
                assert taken[what] <= max(total, used[name][what]), "more than the worker has"
        for pool, limit in self.slots.items():
            assert self.in_use(pool) <= max(limit, before[pool]), "more than the pool has"
        for rate in self.rates.values():
            rate.check()
        self.moved = False

    def spend(self, placement: Placement) -> None:
        for pool, amount in placement.pools.items():
            assert pool in self.slots or pool in self.rates
            if pool in self.rates:
                self.rates[pool].spent.append((self.now_s, amount))

    # --- what must be true --------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_lost_or_twice(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        assert sum(self.scheduler.waiting().values()) == len(self.waiting)
        for key in self.waiting:
            reason = self.scheduler.explain(key, self.now_s)
            assert reason is not None
            assert reason.waits_for != "nothing"
            assert 0 <= reason.place <= len(self.waiting)
        for key, placement in self.placed.items():
            assert self.scheduler.placed(key) == placement
        assert all(self.scheduler.explain(key, self.now_s) is None for key in self.ended)

    @invariant()
    def the_books_agree(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        usage = self.scheduler.pools()
        assert set(usage) == set(self.slots) | set(self.rates)
        for pool, limit in self.slots.items():
            assert (usage[pool].in_use, usage[pool].limit) == (self.in_use(pool), limit)
        workers = self.scheduler.workers()
        assert {name for name, each in workers.items() if each.in_use} == {each.worker for each in self.placed.values()}

    @invariant()
    def what_nobody_is_short_of_is_not_held_back(self) -> None:
        """Of those that could go at once, each shares something with another that could not, or with one that has waited
        for long."""
        if not hasattr(self, "scheduler") or self.moved:
            return
        jobs = [job for job, _ in self.waiting.values()]
        short = [job for job in jobs if not self.fits(job)]
        for job in jobs:
            if self.fits(job):
                reason = self.scheduler.explain(job.key, self.now_s)
                assert reason is not None
                assert any(self.in_the_way(other, job) for other in short) or any(
                    pool in self.rates for pool in job.demand.pools
                ), (job, reason)

    def in_the_way(self, other: Job, job: Job) -> bool:
        if set(other.demand.pools) & set(job.demand.pools):
            return True
        return self.now_s - self.waiting[other.key][1] >= PATIENCE_S and any(
            self.could_take(capacity, other) for capacity in self.capacities.values() if self.could_take(capacity, job)
        )

    def fits(self, job: Job) -> bool:
        """Whether it could go now if it were alone. Of rates the books do not know the level."""
        for pool, amount in job.demand.pools.items():
            if pool not in self.rates and self.in_use(pool) + amount > self.slots.get(pool, 0):
                return False
        return any(
            self.could_take(capacity, job) and all(part >= 0 for part in self.left(capacity, job))
            for capacity in self.capacities.values()
        )

    def could_take(self, capacity: Capacity, job: Job) -> bool:
        return (
            job.able in capacity.able
            and capacity.labels >= set(job.demand.labels)
            and (capacity.slots, capacity.cpu_m, capacity.gpus) >= (1, 0, 0)
            and capacity.cpu_m >= job.demand.cpu_m
            and capacity.gpus >= job.demand.gpus
        )

    def left(self, capacity: Capacity, job: Job) -> Iterator[int]:
        slots, cpu_m, gpus = self.taken_of_worker(capacity.worker)
        yield capacity.slots - slots - 1
        yield capacity.cpu_m - cpu_m - job.demand.cpu_m
        yield capacity.gpus - gpus - job.demand.gpus

    def in_use(self, pool: str) -> int:
        return sum(each.pools.get(pool, 0) for each in self.placed.values())

    def taken_of_worker(self, name: str) -> tuple[int, int, int]:
        jobs = [each.job.demand for each in self.placed.values() if each.worker == name]
        return len(jobs), sum(job.cpu_m for job in jobs), sum(job.gpus for job in jobs)

    def possible(self, job: Job) -> bool:
        return any(self.could_take(capacity, job) for capacity in self.capacities.values()) and all(
            amount <= self.slots.get(pool, 0) or (pool in self.rates and self.rates[pool].limit > 0)
            for pool, amount in job.demand.pools.items()
        )

    def teardown(self) -> None:
        """When nothing new comes and all that runs ends, everything that can ever go goes, and nothing is left taken."""
        if not hasattr(self, "scheduler"):
            return
        for _ in range(50 + 10 * len(self.waiting)):
            self.place()
            for key in sorted(self.placed):
                self.end(key, used=6)
            self.place()
            next_s = self.scheduler.next_s
            if not self.placed and next_s is not None:
                assert next_s > self.now_s, "a timer that is always due"
                self.now_s = next_s
            elif not self.placed:
                break
        left = [job for job, _ in self.waiting.values()]
        assert not [(job, self.scheduler.explain(job.key, self.now_s)) for job in left if self.possible(job)]
        for job in left:
            reason = self.scheduler.explain(job.key, self.now_s)
            assert reason is not None
            assert not reason.possible
        assert all(usage.in_use == 0 for name, usage in self.scheduler.pools().items() if name in self.slots)
        assert all(usage.in_use == 0 for usage in self.scheduler.workers().values())


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_a_reservation_that_blocks_another_is_found_behind_held_back_steps() -> None:
    """Two that have waited long keep what the other is short of; the one that goes first does not stand first in line."""
    books = Books()
    books.begin("least_loaded", Capacity("a", frozenset(ABLE), frozenset(), frozenset(), 0, 2000, 0, 0), 2)
    gpu, seat = ("gpu",), {"seats": 1}
    books.submit(Demand(pools={"places": 1, "seats": 1}), "g", "x", 4)
    books.submit(Demand(), "g", "x", 1)
    books.submit(Demand(gpu, pools={"places": 1, "seats": 1, "requests": 1}), "g", "x", 4)
    books.submit(Demand(gpu, pools={"requests": 1, "tokens": 1, "places": 1}), "g", "x", 1)
    books.submit(Demand(cpu_m=1000, gpus=1, pools=seat, priority=1), "g", "x", 2)
    books.submit(Demand(cpu_m=3000), "g", "y", 1)
    books.submit(Demand(gpu, cpu_m=3000, gpus=1), "h", "y", 1)
    books.submit(Demand(("eu",), cpu_m=1000, pools={"seats": 2, "requests": 3, "tokens": 6}), "h", "y", 1)
    books.wait(30.0)
    books.submit(Demand(), "g", "z", 3)
    books.teardown()


def test_a_first_reservation_wakes_when_the_pool_has_enough_for_it_alone() -> None:
    """The pool never has enough for both, and neither can go without what the other is short of."""
    books = Books()
    books.begin("least_loaded", Capacity("a", frozenset("g"), frozenset(), frozenset(), 0, 2000, 0, 0), 2)
    books.submit(Demand(pools={"places": 1, "tokens": 1}), "g", "x", 3)
    books.submit(Demand(), "g", "x", 1)
    books.submit(Demand(pools={"requests": 3, "seats": 1, "tokens": 6}), "g", "y", 2)
    books.submit(Demand(pools={"requests": 1, "tokens": 1, "places": 1}), "g", "x", 1)
    books.submit(Demand(pools={"places": 1, "seats": 1, "requests": 1}), "g", "x", 1)
    books.wait(30.0)
    books.teardown()
