"""How much of a provider's limit a fleet uses, and how often the provider has to say no.

    python bench/pools.py SECONDS [--requests-per-min N] [--tokens-per-min N] [--concurrent N] [--workers N] [--max-tokens N]

WORKERS processes work on one PostgreSQL store, which is started for the trial, and call a model server that enforces the
same limits. Prints one JSON line, counted from the server's own journal: answers 429, and the part of each limit that was
used over the last SECONDS. Calls whose MAX_TOKENS do not fit into a worker's part of the burst have the workers take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from holdfast import Engine, Workflow, llm_node
from holdfast.models.providers import Providers
from holdfast.settings import PoolRules, Settings
from holdfast.testing.model_server import CallRecord, ModelServer, RateLimit
from holdfast.testing.postgres_server import PostgresServer

MODEL = "claude-haiku-4-5"
LATENCY_S = 0.3
MAX_TOKENS = 200
CALLERS = 12
"""Runs at once in each worker, each one call after another."""
_SETTLING_S = 4.0
"""Left out at the beginning: the burst that a full pool allows, and what the workers need to get going."""
_PATIENCE_S = 90.0
_FLEET = multiprocessing.get_context("forkserver")
_FLEET.set_forkserver_preload(["holdfast.compose", "holdfast.stores.postgres", "holdfast.models.providers"])
"""Workers are forked from a process that has everything imported: each would need longer for that than for its work."""


def calling(max_tokens: int) -> Workflow:
    workflow = Workflow("calling")

    @workflow.node("ask")
    @llm_node(model=MODEL, max_tokens=max_tokens)
    async def ask(state: Any) -> str:
        return str(state.input["words"])

    return workflow


def worker(line: Connection, store: str, max_tokens: int, limits: Mapping[str, int], provider: Mapping[str, str]) -> None:
    asyncio.run(work(line, store, max_tokens, limits, provider))


async def work(line: Connection, store: str, max_tokens: int, limits: Mapping[str, int], provider: Mapping[str, str]) -> None:
    """One worker: calls from the first word on `line` until its end."""
    settings = Settings(store=store, pools={MODEL: PoolRules(**limits)})
    providers, workflow, chance = Providers(environment=provider), calling(max_tokens), random.Random(os.getpid())
    await providers.prepare(MODEL)
    async with Engine.open(store, workflows=[workflow], settings=settings, model=providers) as engine:
        line.send("ready")
        await asyncio.to_thread(line.recv)

        async def caller() -> None:
            while True:
                run = await engine.start(workflow, {"words": "word " * chance.randint(5, 150)})
                await run.result()

        callers = [asyncio.create_task(caller()) for _ in range(CALLERS)]
        with contextlib.suppress(EOFError):
            await asyncio.to_thread(line.recv)
        for each in callers:
            each.cancel()
        for ended in await asyncio.gather(*callers, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
    await providers.aclose()


async def trial(
    stack: contextlib.ExitStack, folder: Path, max_tokens: int, seconds: float, workers: int, limits: Mapping[str, int]
) -> dict[str, Any]:
    postgres = stack.enter_context(PostgresServer())
    server = ModelServer(journal=folder / "calls.jsonl", latency_s=LATENCY_S, limits={MODEL: RateLimit(**limits)})
    stack.enter_context(server)
    lines, fleet = [], []
    for _ in range(workers):
        line, far_end = _FLEET.Pipe()
        process = _FLEET.Process(target=worker, args=(far_end, postgres.url, max_tokens, limits, dict(server.environment)))
        process.start()
        far_end.close()
        lines.append(line)
        fleet.append(process)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            for line in lines:
                assert await asyncio.to_thread(line.recv) == "ready"
        for line in lines:
            line.send("go")
        await _until_it_flows(server)
        await asyncio.sleep(_SETTLING_S + seconds)
        ends = time.time()
        for line in lines:
            line.close()
        for process in fleet:
            await asyncio.to_thread(process.join, _PATIENCE_S)
        statuses = [process.exitcode for process in fleet]
    finally:
        for process in fleet:
            process.kill()
            process.join()
    return {
        "workers": workers,
        "failed": sum(status != 0 for status in statuses),
        **figures(server.calls, ends, seconds, limits),
    }


async def _until_it_flows(server: ModelServer) -> None:
    """Until the first call."""
    async with asyncio.timeout(_PATIENCE_S):
        while not server.calls:  # noqa: ASYNC110 - a journal rings no bell
            await asyncio.sleep(0.1)


def figures(calls: Sequence[CallRecord], ends_s: float, seconds: float, limits: Mapping[str, int]) -> dict[str, Any]:
    window = [call for call in calls if ends_s - seconds <= call.at_unix_s < ends_s and call.status == 200]
    tokens = sum(call.used.input_tokens + call.used.output_tokens for call in window if call.used is not None)
    used = {"requests_per_min": len(window), "tokens_per_min": tokens}
    return {
        "calls": len(calls),
        "refused": sum(call.status == 429 for call in calls),
        "seconds": seconds,
        "used": {name: round(used[name] / (limit / 60 * seconds), 3) for name, limit in limits.items() if name in used},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=MAX_TOKENS)
    for name in ("requests_per_min", "tokens_per_min", "concurrent"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int)
    given = vars(parser.parse_args())
    seconds, workers, max_tokens = given.pop("seconds"), given.pop("workers"), given.pop("max_tokens")
    limits = {name: limit for name, limit in given.items() if limit is not None}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        found = asyncio.run(trial(stack, Path(folder), max_tokens, seconds, workers, limits))
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
