"""A fleet under a steady load: RUNS runs at once of 10 steps, each step 3 s long, through two workers, for SECONDS;
then a burst.

    python bench/fleet.py [--runs 1000] [--seconds 300] [--burst 5000] [--workers 2] [--no-redis]
                          [--text-bytes 900]

It starts PostgreSQL (fsync on), Redis, `holdfast serve` and the workers by itself, each a process of its own, and a
process that starts a run whenever one has ended. Prints one JSON line a phase. *Pickup* is from the acknowledged commit
of one step to the first line of the next one's handler; *commit* from the decision of an append to its acknowledgement;
*begin* from the acknowledged start of a run to its first handler's first line, in another process. Times of two
processes are compared on the machine's one clock.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast import Engine, Workflow, task
from holdfast.platform.machine import collect_rarely, run_quickly
from holdfast.ports import Append, Observation, StepBegan
from holdfast.settings import Settings
from holdfast.testing.postgres_server import PostgresServer
from holdfast.testing.redis_server import RedisServer

STEPS = 10
STEP_S = 3.0
PAGE_BYTES = 4096
REPORT_S = 5.0


class Meter:
    """What one worker sees, in phases: everything since it was last asked."""

    def __init__(self) -> None:
        self.acknowledged_s: dict[tuple[str, str], float] = {}
        self.reset()

    def reset(self) -> None:
        self.pickup_s: list[float] = []
        self.begin_s: list[float] = []
        self.commit_s: list[float] = []
        self.began_cpu_s, self.began_s = time.process_time(), time.monotonic()

    def __call__(self, observation: Observation) -> None:
        if isinstance(observation, StepBegan):
            self.acknowledged_s[observation.run, observation.step] = time.perf_counter()

    def arrive(self, run: str, step: str, given_s: float | None) -> None:
        acknowledged = self.acknowledged_s.pop((run, step), None)
        if given_s is not None:
            self.begin_s.append(time.time() - given_s)
        elif acknowledged is not None:
            self.pickup_s.append(time.perf_counter() - acknowledged)

    def time_commits(self, engine: Engine) -> None:
        append = engine.runtime.runs.flush.append

        def timed(one: Append, *, patient: bool = False) -> asyncio.Future[None]:
            began = time.perf_counter()
            done = append(one, patient=patient)
            done.add_done_callback(lambda _: self.commit_s.append(time.perf_counter() - began))
            return done

        engine.runtime.runs.flush.append = timed  # type: ignore[method-assign]

    def figures(self) -> dict[str, Any]:
        took_s = time.monotonic() - self.began_s
        found = {
            "pickup_s": self.pickup_s,
            "begin_s": self.begin_s,
            "commit_s": self.commit_s,
            "steps": len(self.pickup_s) + len(self.begin_s),
            "cpu": (time.process_time() - self.began_cpu_s) / took_s,
            "rss_kib": int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES // 1024,
        }
        self.reset()
        return found


def chain(meter: Meter) -> Workflow:
    workflow = Workflow("fleet-bench", max_steps=STEPS + 1)

    def step(number: int) -> Any:
        async def work(state: Any) -> dict[str, str]:
            meter.arrive(state.run_id, f"n{number}#1", state.input["at"] if number == 0 else None)
            await asyncio.sleep(STEP_S)
            return {"text": "x" * state.input["text_bytes"]}

        return work

    for number in range(STEPS):
        workflow.node(f"n{number}")(task(step(number)))
        if number:
            workflow.edge(f"n{number - 1}", f"n{number}")
    return workflow


async def worker(settings: Settings, slots: int) -> None:
    """Work until stdin ends; say figures whenever a line comes."""
    meter = Meter()
    collect_rarely()
    async with Engine.open(
        settings.store, workflows=[chain(meter)], slots=slots, settings=settings, observers=[meter]
    ) as engine:
        meter.time_commits(engine)
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, sys.stdin.readline):
            if engine.runtime.membership.broken is not None:
                raise engine.runtime.membership.broken
            print(json.dumps(meter.figures()), flush=True)  # noqa: T201


class Load:
    """Keeps so many runs going, and counts those that have ended."""

    def __init__(self, engine: Engine, text_bytes: int) -> None:
        self.engine = engine
        self.text_bytes = text_bytes
        self.workflow = chain(Meter())
        self.ended = self.refused = 0

    async def keep(self, until_s: float) -> None:
        while time.monotonic() < until_s:
            await self.one()

    async def one(self) -> None:
        try:
            run = await self.engine.start(self.workflow, {"at": time.time(), "text_bytes": self.text_bytes})
            assert len((await run.result())["text"]) == self.text_bytes
            self.ended += 1
        except Exception as problem:  # noqa: BLE001 - counted, and shown
            self.refused += 1
            print(f"refused: {problem}", file=sys.stderr)  # noqa: T201


def percentiles_ms(values_s: list[float]) -> list[float]:
    """Half, 95 % and 99 % of the values are below."""
    ordered = sorted(values_s) or [0.0]
    return [round(ordered[int(len(ordered) * share)] * 1000, 1) for share in (0.5, 0.95, 0.99)]


async def asked(workers: Sequence[asyncio.subprocess.Process]) -> list[dict[str, Any]]:
    found = []
    for process in workers:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        await process.stdin.drain()
        found.append(json.loads(await process.stdout.readline()))
    return found


async def phase(name: str, workers: Sequence[asyncio.subprocess.Process], took_s: float, load: Load) -> None:
    found = await asked(workers)
    told = {
        "phase": name,
        "seconds": round(took_s, 1),
        "runs_ended": load.ended,
        "refused": load.refused,
        "steps_per_s": round(sum(each["steps"] for each in found) / took_s),
        **{
            f"{what}_p50_p95_p99_ms": percentiles_ms([value for each in found for value in each[f"{what}_s"]])
            for what in ("pickup", "begin", "commit")
        },
        "worker_cpu": [round(each["cpu"], 2) for each in found],
        "worker_rss_mib": [each["rss_kib"] // 1024 for each in found],
    }
    print(json.dumps(told), flush=True)  # noqa: T201
    load.ended = load.refused = 0


async def end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def measure(asked_for: argparse.Namespace, settings: Settings) -> None:
    here = {**os.environ, "HOLDFAST_STORE": settings.store}
    if settings.queue:
        here["HOLDFAST_QUEUE"] = settings.queue
    slots = max(asked_for.runs, asked_for.burst)
    async with contextlib.AsyncExitStack() as undo:
        commands = [[__file__, "--worker", str(slots)] for _ in range(asked_for.workers)]
        processes = []
        for words in [["-m", "holdfast", "serve", "--port", "0"], *commands]:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *words, env=here, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**28
            )
            undo.push_async_callback(end, process)
            processes.append(process)
        engine = await undo.enter_async_context(Engine.open(settings.store, execute=False, settings=settings))
        await asyncio.sleep(REPORT_S)
        load, workers = Load(engine, asked_for.text_bytes), processes[1:]
        began = time.monotonic()
        tasks = []
        for number in range(asked_for.runs):  # spread over one step, as runs of a real day are
            tasks.append(asyncio.create_task(load.keep(began + asked_for.seconds)))
            if number % 10 == 9:
                await asyncio.sleep(STEP_S * 10 / asked_for.runs)
        await asked(workers)
        for half in (1, 2):
            since = time.monotonic()
            await asyncio.sleep(began + asked_for.seconds * half / 2 - time.monotonic())
            await phase(f"steady, half {half}", workers, time.monotonic() - since, load)
        await asyncio.gather(*tasks)
        await asked(workers)
        if asked_for.burst:
            since = time.monotonic()
            await asyncio.gather(*(load.one() for _ in range(asked_for.burst)))
            await phase(f"burst of {asked_for.burst}", workers, time.monotonic() - since, load)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--burst", type=int, default=5000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--text-bytes", type=int, default=900, help="what each step returns")
    parser.add_argument("--no-redis", action="store_true", help="let the workers find everything in the store")
    parser.add_argument("--worker", type=int, metavar="SLOTS", help=argparse.SUPPRESS)
    asked_for = parser.parse_args()
    if asked_for.worker:
        run_quickly(worker(Settings(), asked_for.worker))
        return
    with PostgresServer() as postgres, RedisServer() as redis:
        settings = Settings(store=postgres.url, queue=None if asked_for.no_redis else redis.url)
        run_quickly(measure(asked_for, settings))


if __name__ == "__main__":
    main()
