"""A fleet with very many runs that wait for a person: what a decision takes, and what idling costs.

    python bench/waiting_fleet.py [--runs 1000000] [--decisions 200] [--idle-s 20]

It starts PostgreSQL (fsync on), Redis, `holdfast serve` and one `holdfast worker`, each a process of its own. One run is
brought to its question by the worker; the others are copies of its rows under ids of their own, as the database makes
them fastest. Then it decides gates from this process, which executes nothing, and waits for each run's end. Prints one
JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from pathlib import Path

import asyncpg
from waiting import asking

from holdfast import Engine
from holdfast.settings import Settings
from holdfast.testing.postgres_server import PostgresServer
from holdfast.testing.redis_server import RedisServer

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
CHUNK = 50_000

workflow = asking()

COPY = (
    """
    create temporary table copies as
    select gen_random_uuid() as old, (
        lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
        || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15)
    )::uuid as run from generate_series(1, $1)
    """,
    """
    insert into holdfast.events
    select copies.run, seq, append_id, at_ms, type,
        convert_to(replace(convert_from(payload, 'UTF8'), $1::text, copies.run::text), 'UTF8')
    from holdfast.events, copies where events.run = $1::text::uuid
    """,
    """
    insert into holdfast.runs
    select (jsonb_populate_record(runs, jsonb_build_object('run', copies.run))).* from holdfast.runs, copies
    where runs.run = $1::text::uuid
    """,
    """
    insert into holdfast.gates
    select (jsonb_populate_record(gates, jsonb_build_object(
        'run', copies.run, 'gate', replace(gate, $1::text, copies.run::text), 'place', nextval('holdfast.places')
    ))).* from holdfast.gates, copies where gates.run = $1::text::uuid
    """,
)


async def fill(store: str, pattern: str, runs: int) -> None:
    db = await asyncpg.connect(store)
    made = 1
    while made < runs:
        count = min(CHUNK, runs - made)
        async with db.transaction():
            await db.execute(COPY[0], count, timeout=600)
            for statement in COPY[1:]:
                await db.execute(statement, pattern, timeout=600)
            await db.execute("drop table copies")
        made += count
        print(f"\r{made} runs", end="", file=sys.stderr)  # noqa: T201
    for table in ("runs", "events", "gates"):
        await db.execute(f"vacuum (analyze) holdfast.{table}", timeout=600)
    await db.close()


def cpu_s(pid: int) -> float:
    """What a process and its ended children have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * TICK_S


def family(pid: int) -> list[int]:
    """A process and its children: PostgreSQL has one for each connection."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


async def used(pids: dict[str, int], seconds: float) -> dict[str, float]:
    """Shares of a core, by process, over a while."""
    before = {name: {each: cpu_s(each) for each in family(pid)} for name, pid in pids.items()}
    await asyncio.sleep(seconds)
    after = {name: {each: cpu_s(each) for each in family(pid)} for name, pid in pids.items()}
    return {
        name: round(sum(now - before[name].get(pid, 0.0) for pid, now in after[name].items()) / seconds, 4) for name in pids
    }


def percentiles_ms(values_s: list[float]) -> list[float]:
    ordered = sorted(values_s)
    return [round(ordered[int(len(ordered) * share)] * 1000, 1) for share in (0.5, 0.95, 0.99)]


async def measure(postgres: PostgresServer, redis: RedisServer, asked: argparse.Namespace) -> dict[str, object]:
    here = {**os.environ, "HOLDFAST_STORE": postgres.url, "HOLDFAST_QUEUE": redis.url}
    settings = Settings(store=postgres.url, queue=redis.url)
    async with contextlib.AsyncExitStack() as undo:
        pids = {"postgres": postgres.pid, "redis": redis.pid}
        for name, words in (("serve", ["--port", "0"]), ("worker", [f"{__file__}:workflow"])):
            process = await asyncio.create_subprocess_exec(sys.executable, "-m", "holdfast", name, *words, env=here)
            undo.push_async_callback(end, process)
            pids[name] = process.pid
        engine = await undo.enter_async_context(
            Engine.open(postgres.url, execute=False, settings=settings, workflows=[workflow])
        )
        first = await engine.start(workflow)
        await first.settled()
        began = time.monotonic()
        await fill(postgres.url, first.id, asked.runs)
        filled_s = time.monotonic() - began
        await asyncio.sleep(5)
        idle = await used(pids, asked.idle_s)
        took_s: list[float] = []
        for gate, _ in await engine.runtime.store.views.gates(limit=asked.decisions):
            begin = time.perf_counter()
            await engine.decide(gate.gate)
            assert await engine.run(gate.run).result() == "sent"
            took_s.append(time.perf_counter() - begin)
        return {
            "waiting_runs": asked.runs,
            "filled_s": round(filled_s),
            "idle_cpu": idle,
            "idle_fleet": round(idle["serve"] + idle["worker"], 4),
            "decision_to_end_p50_p95_p99_ms": percentiles_ms(took_s),
        }


async def end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--decisions", type=int, default=200)
    parser.add_argument("--idle-s", type=float, default=20.0)
    asked = parser.parse_args()
    with PostgresServer() as postgres, RedisServer() as redis:
        print(json.dumps(asyncio.run(measure(postgres, redis, asked))))  # noqa: T201


if __name__ == "__main__":
    main()
