"""Jobs that want parts of the same pools while what is short is kept for others: in time each that can go goes."""

from __future__ import annotations

import heapq
import random
from typing import Literal

import pytest

from holdfast.core.values.demand import Demand
from holdfast.scheduling.job import PATIENCE_S, Capacity, Job, Key
from holdfast.scheduling.placement import Scheduler

POOLS = "ABCDE"
MAX_STEPS = 10_000


class Crowd:
    """Jobs of a few kinds that come and end at random; time passes only up to the next moment at which anything is due."""

    def __init__(self, seed: int, *pools: Literal["slots", "rate"]) -> None:
        self.chance = chance = random.Random(seed)
        self.scheduler = Scheduler(chance.choice(["least_loaded", "best_fit"]))
        for name in "abc":
            able = frozenset("gh"[: chance.randint(1, 2)])
            slots, cpu_m = chance.randint(1, 6), chance.choice([2000, 4000])
            self.scheduler.join(Capacity(name, able, frozenset(), frozenset(), slots, cpu_m), 0.0)
        self.limits = {name: self._declared(name, chance.choice(pools or ("slots", "rate"))) for name in POOLS}
        self.kinds = [self._kind() for _ in range(chance.randint(3, 10))]
        self.arrivals_s = sorted(chance.choice([0.0, chance.uniform(0, 60)]) for _ in range(chance.randint(10, 60)))
        self.longest_s = chance.choice([0.0, 1.0, 20.0, 60.0])

    def _declared(self, name: str, kind: str) -> int:
        limit = self.chance.randint(1, 6)
        if kind == "slots":
            self.scheduler.set_pool(name, "slots", limit, 0.0)
            return limit
        per_s, burst = self.chance.choice([0.7, 1.0, 10.0]), self.chance.randint(1, 5)
        self.scheduler.set_pool(name, "rate", limit, 0.0, per_s=per_s, burst=burst)
        return 6

    def _kind(self) -> tuple[str, str, Demand]:
        chance = self.chance
        pools: dict[str, int | None] = {
            name: chance.randint(1, self.limits[name]) for name in chance.sample(POOLS, chance.randint(0, 3))
        }
        demand = Demand(pools=pools, priority=chance.choice([0, 0, 0, 0, 1]), cpu_m=chance.choice([0, 0, 1000, 2000]))
        return chance.choice("gh"), chance.choice("xyz"), demand

    def stuck(self) -> list[Key]:
        """Jobs that could go, and wait though nothing is left that would have them looked at."""
        scheduler, now_s, come = self.scheduler, 0.0, 0
        ends: list[tuple[float, Key]] = []
        for _ in range(MAX_STEPS):
            while come < len(self.arrivals_s) and self.arrivals_s[come] <= now_s:
                able, tenant, demand = self.chance.choice(self.kinds)
                scheduler.submit(Job((str(come),), able, tenant, demand), now_s)
                come += 1
            for placed in scheduler.place(now_s):
                heapq.heappush(ends, (now_s + self.chance.uniform(0, self.longest_s), placed.job.key))
            next_s = scheduler.next_s
            assert next_s is None or next_s > now_s, "a timer that is always due"
            due_s = [*self.arrivals_s[come : come + 1], *(at_s for at_s, _ in ends[:1])]
            if next_s is not None:
                due_s.append(next_s)
            if not due_s:
                keys = [(str(number),) for number in range(come)]
                found = [(key, scheduler.explain(key, now_s)) for key in keys]
                return [key for key, reason in found if reason is not None and reason.possible]
            now_s = max(now_s, min(due_s))
            while ends and ends[0][0] <= now_s:
                scheduler.finish(heapq.heappop(ends)[1], now_s)
        raise AssertionError("it never comes to rest")


@pytest.mark.parametrize("part", range(4))
def test_no_waiter_waits_for_ever_for_what_is_kept_for_one_that_waits_for_it(part: int) -> None:
    assert [seed for seed in range(part, 160, 4) if Crowd(seed).stuck()] == []


def test_two_who_each_keep_what_the_other_lacks_go_one_after_the_other() -> None:
    """At the end A is kept for an x, which lacks B, and B for a z, which lacks A; and nothing is in use any more."""
    wants: dict[str, dict[str, int | None]] = {"x": {"A": 2, "B": 3}, "y": {"A": 1, "B": 2}, "z": {"A": 2, "B": 2, "C": 2}}
    scheduler, now_s = Scheduler(), 0.0
    scheduler.join(Capacity("w", frozenset("g"), frozenset(), frozenset(), 4), now_s)
    scheduler.set_pool("A", "slots", 2, now_s)
    scheduler.set_pool("B", "rate", 2, now_s, burst=3)
    scheduler.set_pool("C", "rate", 6, now_s, burst=5)
    waiting = 0
    for tenant in "zyzxzxyxzzzxxxyzyzzxxyxzxyyyz":
        waiting += scheduler.submit(Job((str(waiting),), "g", tenant, Demand(pools=wants[tenant])), now_s)
    while waiting:
        placed = scheduler.place(now_s)
        for each in placed:
            waiting -= scheduler.finish(each.job.key, now_s)
        if not placed:
            next_s = scheduler.next_s
            assert next_s is not None, f"{waiting} wait, and nothing would ever have them looked at"
            now_s = next_s
    assert now_s > PATIENCE_S
