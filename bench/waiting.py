"""What runs cost that wait for a person: RUNS of them in one store, and then one process more that works on it.

    python bench/waiting.py STORE RUNS

STORE must not exist yet. Prints one JSON line: the memory that a process which executes these runs' workflow has more
than one beside an empty store, what it holds of them, and how long each of 100 decisions takes until its run has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from pathlib import Path

from holdfast import Engine, Workflow, human_gate, task

_CHUNK = 200
_PAGE_BYTES = 4096
_DECISIONS = 100


def asking() -> Workflow:
    """A task, a question to a person, and a task."""
    workflow = Workflow("asking")

    @workflow.node("draft")
    @task
    async def draft(state: object) -> dict[str, str]:
        return {"text": "x" * 900}

    @workflow.node("review")
    @human_gate
    async def review(state: object) -> dict[str, str]:
        return {"text": "please look"}

    @workflow.node("send")
    @task
    async def send(state: object) -> str:
        return "sent"

    workflow.edge("draft", "review")
    workflow.edge("review", "send")
    return workflow


def resident_kib() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * _PAGE_BYTES // 1024


async def fill(store: str, runs: int) -> None:
    workflow = asking()
    async with Engine.open(store, workflows=[workflow]) as engine:
        for _ in range(0, runs, _CHUNK):
            started = await asyncio.gather(*(engine.start(workflow) for _ in range(min(_CHUNK, runs))))
            await asyncio.gather(*(run.settled() for run in started))


async def measure(store: str, runs: int) -> dict[str, object]:
    workflow = asking()
    async with Engine.open(f"{store}.empty", workflows=[workflow]) as engine:
        await engine.idle()
        before_kib = resident_kib()
    # Another process fills the store: what that takes is not what waiting takes.
    filler = await asyncio.create_subprocess_exec(sys.executable, __file__, store, str(runs), "--fill")
    if await filler.wait():
        raise SystemExit("the store could not be filled")
    async with Engine.open(store, workflows=[workflow]) as engine:
        await engine.idle()
        after_kib = resident_kib()
        held = len(engine.runtime.runs.resident)
        took_s: list[float] = []
        for gate, _ in (await engine.gates())[:_DECISIONS]:
            began = time.perf_counter()
            await engine.decide(gate.gate)
            await engine.run(gate.run).result()
            took_s.append(time.perf_counter() - began)
    took_s.sort()
    return {
        "system": "holdfast",
        "waiting": runs,
        "resident_runs": held,
        "memory_kib": after_kib - before_kib,
        "decide_p50_ms": round(took_s[len(took_s) // 2] * 1000, 2),
        "decide_p95_ms": round(took_s[int(len(took_s) * 0.95)] * 1000, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("runs", type=int)
    parser.add_argument("--fill", action="store_true", help="only make the store")
    asked = parser.parse_args()
    if Path(asked.store).exists():
        parser.error(f"{asked.store} exists; name a file that does not")
    if asked.fill:
        asyncio.run(fill(asked.store, asked.runs))
        return
    print(json.dumps(asyncio.run(measure(asked.store, asked.runs))))  # noqa: T201 - the line is what it is for


if __name__ == "__main__":
    main()
