"""How much of a rate the steps of one process use, placed against a pool, and how often the server behind it says no.

    python bench/quota.py SECONDS [--slots N] [--rate N] [--burst N]

Steps of one model call each ask for 1 of a pool of RATE a second; there are always more of them than SLOTS. The model
server enforces RATE with a bucket of one second, so whoever exceeds it is refused. Prints one JSON line, counted from
the server's own journal.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from holdfast import Demand, Engine, Workflow, llm_node
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer, RateLimit

MODEL = "claude-haiku-4-5"
LATENCY_S = 2.0
_SETTLING_S = 3.0


def calling() -> Workflow:
    workflow = Workflow("calling")

    @workflow.node("ask", demand=Demand(pools={"RPS": 1}))
    @llm_node(model=MODEL, max_tokens=50)
    async def ask(state: Any) -> str:
        return "word"

    return workflow


async def trial(seconds: float, slots: int, rate: int, burst: int) -> dict[str, Any]:
    limits = {MODEL: RateLimit(requests_per_min=rate * 60, capacity_s=1.0)}
    with tempfile.TemporaryDirectory() as folder:
        server = ModelServer(journal=Path(folder) / "calls.jsonl", latency_s=LATENCY_S, limits=limits)
        with server:
            os.environ.update(server.environment)
            providers, workflow = Providers(), calling()
            await providers.prepare(MODEL)
            store = Path(folder) / "quota.db"
            async with Engine.open(store, workflows=[workflow], slots=slots, model=providers) as engine:
                await engine.set_pool("RPS", rate=rate, burst=burst)
                count = int((seconds + _SETTLING_S) * rate) + slots
                for _ in range(count):
                    await engine.start(workflow)
                began_s = time.time()
                await asyncio.sleep(_SETTLING_S + seconds)
                ends_s, begins_s = time.time(), time.time() - seconds
                every = list(server.calls)
                calls = [call for call in every if begins_s <= call.at_unix_s < ends_s]
                most_working = engine.executor.working
            await providers.aclose()
    refused = sum(call.status == 429 for call in every)
    return {
        "slots": slots,
        "rate": rate,
        "burst": burst,
        "seconds": seconds,
        "calls": len(every),
        "refused": refused,
        "used": round(sum(call.status == 200 for call in calls) / (rate * seconds), 3),
        "working": most_working,
        "started_in_s": round(time.time() - began_s - seconds - _SETTLING_S, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float)
    parser.add_argument("--slots", type=int, default=200)
    parser.add_argument("--rate", type=int, default=50)
    parser.add_argument("--burst", type=int, default=5)
    given = parser.parse_args()
    found = asyncio.run(trial(given.seconds, given.slots, given.rate, given.burst))
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
