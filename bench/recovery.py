"""How long the runs of a worker that is killed stand still: RUNS of them, each in a step that has already paid.

    python bench/recovery.py [--runs 1000] [--lease-s 10]

A worker with all of them in flight is killed with SIGKILL beside another one and a leader, on a throwaway PostgreSQL and
Redis. Prints one JSON line: `went_on_s` is from the kill until a step of the last run was started again, `ended_s` until
the last had ended, `lease_s` what must pass before anybody may touch them. `paid` counts the lines that the tool wrote,
which no process of Holdfast can take back: one for each run, or something was done twice.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast import Engine, Run, Workflow, task, tool
from holdfast.core.facts.events import StepStarted
from holdfast.core.values.ids import RunId
from holdfast.settings import Settings
from holdfast.testing.postgres_server import FAST, PostgresServer
from holdfast.testing.redis_server import RedisServer

MAX_S = 240.0
_LOOK_S = 0.05
_PAID_SEQ = 4
"""RunStarted, StepStarted, EffectIntended, EffectCompleted."""


@tool(effect="once")
async def pay(run: str, key: str) -> str:
    """Pay: one line in a file that nobody takes back."""
    descriptor = os.open(os.environ["PAID"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, f"{key}\n".encode())
    os.close(descriptor)
    return run


held = Workflow("held")


@held.node("hold")
@task(tools=[pay])
async def hold(state: Any, ctx: Any) -> str:
    paid: str = await ctx.tool("pay", run=state.run_id)
    await asyncio.sleep(float(os.environ["HOLD_S"]))
    return paid


held.node("after")(task(lambda state: state.events["hold"].output))
held.edge("hold", "after")


@contextlib.contextmanager
def process(log: Path, environment: dict[str, str], *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the fleet, killed at the end; it is there when it has said its first line."""
    with log.open("wb") as said:
        started = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words], stdout=said, stderr=said, env={**os.environ, **environment}
        )
    try:
        until(lambda: b"Ctrl-C" in log.read_bytes() or started.poll() is not None)
        assert started.poll() is None, log.read_text()
        yield started
    finally:
        started.kill()
        started.wait()


def until(met: Callable[[], bool]) -> None:
    late_s = time.monotonic() + MAX_S
    while not met():
        if time.monotonic() > late_s:
            raise TimeoutError("it takes too long")
        time.sleep(_LOOK_S)


async def measure(runs: int, lease_s: float, folder: Path) -> dict[str, object]:
    paid = folder / "paid"
    with PostgresServer(settings=FAST) as postgres, RedisServer() as redis, contextlib.ExitStack() as undo:
        known = {
            "HOLDFAST_STORE": postgres.url,
            "HOLDFAST_QUEUE": redis.url,
            "HOLDFAST_LEASE_S": str(lease_s),
            "PAID": str(paid),
        }
        works = ("worker", f"{__file__}:held", "--slots", str(runs))
        settings = Settings(store=postgres.url, queue=redis.url)
        async with asyncio.timeout(MAX_S), Engine.open(postgres.url, execute=False, settings=settings) as engine:
            undo.enter_context(process(folder / "serve", known, "serve", "--port", "0"))
            victim = undo.enter_context(process(folder / "victim", {**known, "HOLD_S": "3600"}, *works))
            started = await asyncio.gather(*(engine.start(held) for _ in range(runs)))
            while await in_flight(engine, started) < runs:  # noqa: ASYNC110 - another process gets them there
                await asyncio.sleep(_LOOK_S)
            undo.enter_context(process(folder / "heir", {**known, "HOLD_S": "0"}, *works))
            victim.send_signal(signal.SIGKILL)
            killed_ms = engine.runtime.store.clock.now_ms()
            outputs = await asyncio.gather(*(run.result() for run in started))
            ended_ms = engine.runtime.store.clock.now_ms()
            went_on_ms = [await went_on_at_ms(run) for run in started]
    keys = paid.read_text().split()
    return {
        "runs": runs,
        "lease_s": lease_s,
        "went_on_s": round((max(went_on_ms) - killed_ms) / 1000, 2),
        "ended_s": round((ended_ms - killed_ms) / 1000, 2),
        "right": sum(output == run.id for output, run in zip(outputs, started, strict=True)),
        "paid": len(keys),
        "keys": len(set(keys)),
    }


async def in_flight(engine: Engine, runs: Sequence[Run]) -> int:
    """How many of the runs have paid, durably, and are in the middle of their step."""
    seqs = await engine.runtime.store.log.seqs([RunId(run.id) for run in runs])
    return sum(seq >= _PAID_SEQ for seq in seqs.values())


async def went_on_at_ms(run: Run) -> int:
    """When its step was started for the second time."""
    starts = [each.at_ms for each in await run.events() if isinstance(each.event, StepStarted)]
    return starts[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--lease-s", type=float, default=10.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(asked.runs, asked.lease_s, Path(folder)))
    print(json.dumps(figures))  # noqa: T201 - the line is what it is for


if __name__ == "__main__":
    main()
