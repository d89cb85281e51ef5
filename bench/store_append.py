"""How fast a store takes appends: RUNS runs of STEPS steps, CONCURRENCY at a time, each step durable before the next.

    python bench/store_append.py [--runs 2000] [--steps 10] [--concurrency 100] [--store PATH]

A step is one event with an output of 900 characters, in an append of its own with the run's row, carried to the disk by
the engine's group commit; nothing decides and nothing folds. Prints one JSON line. Compare figures of one machine, taken
one after the other, and never with those of another.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from holdfast.compose import open_store
from holdfast.core.facts.events import Event, Recorded, RunStarted, StepCompleted
from holdfast.core.values.ids import RunId, Seq, SessionId, step_id
from holdfast.core.values.payload import NULL, inline
from holdfast.core.views.projection import Changes, RunRow
from holdfast.engine.runs.mailbox import Flush
from holdfast.platform.machine import MachineClock, RandomIds
from holdfast.ports import Append, Store

OUTPUT = inline({"text": "x" * 900})
TENANT, WORKFLOW, HASH, SESSION = "default", "bench", "0123456789abcdef", SessionId("bench")


def append_of(run: RunId, expected: int, event: Event, now_ms: int, ids: RandomIds) -> Append:
    seq = Seq(expected + 1)
    row = RunRow(run, seq, TENANT, WORKFLOW, 1, HASH, "running", None, now_ms, now_ms, None, None, None, 0, 0, 0, b"[]")
    return Append(run, Seq(expected), ids.append(), (Recorded(seq, now_ms, event),), Changes(row, (SESSION,)))


async def measure(store: Store, runs: int, steps: int, concurrency: int) -> dict[str, object]:
    ids, flush = RandomIds(), Flush(store.log, MachineClock())
    places = asyncio.Semaphore(concurrency)
    latencies_s: list[float] = []

    async def one() -> None:
        async with places:
            run = ids.run(store.clock.now_ms())
            start = RunStarted(run, TENANT, WORKFLOW, 1, HASH, NULL, None, steps)
            await flush.append(append_of(run, 0, start, store.clock.now_ms(), ids))
            for number in range(1, steps + 1):
                done = StepCompleted(step_id("node", number), 1, OUTPUT)
                began = time.perf_counter()
                await flush.append(append_of(run, number, done, store.clock.now_ms(), ids))
                latencies_s.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(runs)))
    took_s = time.perf_counter() - began
    latencies_s.sort()
    return {
        "system": "store_append",
        "runs": runs,
        "steps": steps,
        "concurrency": concurrency,
        "steps_per_s": round(runs * steps / took_s),
        "append_p50_ms": round(latencies_s[len(latencies_s) // 2] * 1000, 2),
        "append_p95_ms": round(latencies_s[int(len(latencies_s) * 0.95)] * 1000, 2),
    }


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--store", help="where the store is made; a temporary directory unless it is given")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = await open_store(asked.store or Path(folder) / "bench.db")
        figures = await measure(store, asked.runs, asked.steps, asked.concurrency)
        await store.aclose()
    print(json.dumps(figures))  # noqa: T201 - the line is what it is for


if __name__ == "__main__":
    asyncio.run(main())
