"""How many jobs a second the scheduler places, and what that depends on.

    python bench/placement.py [--waiting 1000 10000 100000] [--placements 20000] [--scarce pools|workers] [--strategy …]

100 workers of two kinds, with 8 workflows; 25 models, each with a pool of tokens (a rate) and one of calls at once (slots);
20 tenants, two priorities, an amount of tokens of its own for each job. So many jobs wait all the time: whenever one ends,
what that makes room for is placed, and each that was placed is followed by another. A placement is measured with all that
belongs to it, the end of a job and the arrival of the next. Time is the processor's, of one core.

Beside it, in the same run: a bare heap with as many entries (push one, pop one, for each placement), which is what any
scheduler with an order must do at least; and a scan of everybody who waits, which is what one does at first. Prints one
JSON line for each number that waits.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import time
from collections.abc import Sequence

from holdfast.core.values.demand import Demand
from holdfast.scheduling.job import Capacity, Job, Strategy
from holdfast.scheduling.placement import Scheduler

WORKERS, MODELS, WORKFLOWS, TENANTS = 100, 25, 8, 20
SLOTS = {"pools": 16, "workers": 8}
"""Of each worker: more than the pools let through, or less."""
CALLS_AT_ONCE = 40
TOKENS_PER_S = 100_000
ROUND_S = 0.001
SCANNED = 20
"""Placements of the scan: it takes long."""


class Load:
    """Jobs and workers like those of a fleet, the same in every run."""

    def __init__(self, scarce: str) -> None:
        self._chance = random.Random(7)
        self._number = 0
        able = frozenset(f"workflow-{number}" for number in range(WORKFLOWS))
        regions = (frozenset({"eu"}), frozenset({"us"}))
        self.capacities = [
            Capacity(f"worker-{number}", able, regions[number % 2], frozenset(), SLOTS[scarce], 16_000, 64_000, 0)
            for number in range(WORKERS)
        ]

    def job(self) -> Job:
        chance, model = self._chance, self._chance.randrange(MODELS)
        self._number += 1
        demand = Demand(
            labels=("eu",) if chance.random() < 0.5 else (),
            cpu_m=500,
            memory_mb=1000,
            pools={f"tokens-{model}": chance.randrange(1, 4000), f"calls-{model}": 1},
            priority=1 if chance.random() < 0.25 else 0,
        )
        able = f"workflow-{chance.randrange(WORKFLOWS)}"
        return Job((f"run-{self._number}", "step"), able, f"tenant-{chance.randrange(TENANTS)}", demand)

    def ends(self, running: list[Job]) -> Job:
        place = self._chance.randrange(len(running))
        running[place], running[-1] = running[-1], running[place]
        return running.pop()


def place(scarce: str, strategy: Strategy, waiting: int, placements: int) -> dict[str, float]:
    load, scheduler, now_s = Load(scarce), Scheduler(strategy), 0.0
    for capacity in load.capacities:
        scheduler.join(capacity, now_s)
    for model in range(MODELS):
        scheduler.set_pool(f"tokens-{model}", "rate", TOKENS_PER_S, now_s)
        scheduler.set_pool(f"calls-{model}", "slots", CALLS_AT_ONCE, now_s)
    running: list[Job] = []
    while sum(scheduler.waiting().values()) < waiting:
        for _ in range(waiting - sum(scheduler.waiting().values())):
            scheduler.submit(load.job(), now_s)
        running += [each.job for each in scheduler.place(now_s)]
    took_s: list[float] = []
    placed, began_s = 0, time.process_time()
    while placed < placements:
        now_s += ROUND_S
        before_s = time.process_time()
        scheduler.finish(load.ends(running).key, now_s)
        found = scheduler.place(now_s)
        took_s.append(time.process_time() - before_s)
        running += [each.job for each in found]
        placed += len(found)
        for _ in found:
            scheduler.submit(load.job(), now_s)
    elapsed_s = time.process_time() - began_s
    took_s.sort()
    return {
        "placements_per_s": round(placed / elapsed_s),
        "decision_p50_us": round(took_s[len(took_s) // 2] * 1e6),
        "decision_p99_us": round(took_s[int(len(took_s) * 0.99)] * 1e6),
    }


def bare_heap(waiting: int, placements: int) -> int:
    """Placements a second of a heap alone."""
    chance = random.Random(7)
    heap = [(chance.randrange(2), float(number), number) for number in range(waiting)]
    heapq.heapify(heap)
    began_s = time.process_time()
    for number in range(placements):
        heapq.heappush(heap, (chance.randrange(2), float(waiting + number), number))
        heapq.heappop(heap)
    return round(placements / (time.process_time() - began_s))


def scan(scarce: str, waiting: int) -> int:
    """Placements a second of whoever looks at everybody in order until one fits."""
    load = Load(scarce)
    free = {f"calls-{model}": CALLS_AT_ONCE for model in range(MODELS)}
    slots = {capacity.worker: capacity.slots for capacity in load.capacities}
    line = [load.job() for _ in range(waiting)]
    line.sort(key=lambda job: -job.demand.priority)
    running: list[tuple[Job, str]] = []

    def fits(job: Job) -> str | None:
        if any(free.get(pool, amount) < amount for pool, amount in job.demand.pools.items() if amount):
            return None
        able = (each.worker for each in load.capacities if each.labels >= set(job.demand.labels) and slots[each.worker])
        return max(able, key=lambda name: slots[name], default=None)

    def move(sign: int, job: Job, worker: str) -> None:
        slots[worker] -= sign
        free.update({pool: free[pool] - sign for pool in job.demand.pools if pool in free})

    def fill() -> int:
        placed = 0
        while found := next(((job, worker) for job in line if (worker := fits(job))), None):
            line.remove(found[0])
            move(1, *found)
            running.append(found)
            line.append(load.job())
            placed += 1
        return placed

    fill()
    placed, began_s = 0, time.process_time()
    while placed < SCANNED:
        move(-1, *running.pop(0))
        placed += fill()
    return round(placed / (time.process_time() - began_s))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waiting", type=int, nargs="+", default=[1_000, 10_000, 99_000])
    parser.add_argument("--placements", type=int, default=20_000)
    parser.add_argument("--scarce", choices=tuple(SLOTS), default="pools")
    parser.add_argument("--strategy", choices=("least_loaded", "best_fit"), default="least_loaded")
    asked = parser.parse_args(arguments)
    for waiting in asked.waiting:
        figures = {
            "waiting": waiting,
            "scarce": asked.scarce,
            "strategy": asked.strategy,
            **place(asked.scarce, asked.strategy, waiting, asked.placements),
            "bare_heap_per_s": bare_heap(waiting, asked.placements),
            "scan_per_s": scan(asked.scarce, waiting),
        }
        print(json.dumps(figures), flush=True)  # noqa: T201 - the lines are what it is for


if __name__ == "__main__":
    main()
