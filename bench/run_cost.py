"""What a run of ten steps costs in worker and database time and in storage, beside what its model calls cost.

    python bench/run_cost.py [--runs 500] [--at-once 50] [--vcpu-usd-per-h 0.05] [--gb-month-usd 0.12]

RUNS runs of ten steps on PostgreSQL (fsync on), each step a held and settled model call of 1,000 input and 300 output
tokens at the price of a small model ($1 and $5 for a million tokens); the model is a function of this process, so all
other time of the process is the worker's. CPU time of the database is that of all its processes. Storage is what the
tables and indexes grow by, kept for a month. Prices are what large clouds ask for, rounded up; say your own.
Prints one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

from holdfast import Engine, Workflow, llm_node
from holdfast.ports import ModelReply, ModelRequest, Usage
from holdfast.settings import DeclaredModel, Settings
from holdfast.testing.postgres_server import PostgresServer

STEPS = 10
INPUT_TOKENS, OUTPUT_TOKENS = 1000, 300
INPUT_USD_PER_MTOK, OUTPUT_USD_PER_MTOK = Decimal(1), Decimal(5)
PROMPT, ANSWER = "word " * 1000, "word " * 300
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ScriptedModel:
    """A model that answers at once."""

    async def prepare(self, model: str) -> None:
        pass

    async def request(self, request: ModelRequest) -> ModelReply:
        return ModelReply(ANSWER, (), None, Usage(INPUT_TOKENS, OUTPUT_TOKENS), "stop", None, None)


def chain() -> Workflow:
    workflow = Workflow("run-cost", max_steps=STEPS + 1)
    for number in range(STEPS):
        workflow.node(f"n{number}")(llm_node(model="told", max_tokens=1000)(lambda state: PROMPT))
        if number:
            workflow.edge(f"n{number - 1}", f"n{number}")
    return workflow


def cpu_s(root: int) -> float:
    """CPU time of a process and its descendants, those included that have ended and were waited for."""
    total, left = 0, [root]
    while left:
        pid = left.pop()
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            left += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        except OSError:
            continue  # it has ended meanwhile; its parent has its time
        total += sum(map(int, fields[11:15]))
    return total / TICKS_PER_S


def stored_bytes(postgres: PostgresServer) -> int:
    query = "checkpoint; select pg_database_size(current_database())"
    said = postgres.run("psql", "--quiet", "--tuples-only", "--no-align", f"--dbname={postgres.url}", f"--command={query}")
    return int(said.split()[-1])


async def measure(postgres: PostgresServer, runs: int, at_once: int) -> dict[str, float]:
    """Of one run: CPU seconds of the worker and of the database, and bytes stored."""
    price = DeclaredModel(input_usd_per_mtok=INPUT_USD_PER_MTOK, output_usd_per_mtok=OUTPUT_USD_PER_MTOK)
    workflow, places = chain(), asyncio.Semaphore(at_once)
    async with Engine.open(
        postgres.url, workflows=[workflow], slots=at_once, model=ScriptedModel(), settings=Settings(models={"told": price})
    ) as engine:

        async def one() -> None:
            async with places:
                await (await engine.start(workflow)).result()

        await one()
        stored, database_s, worker_s = stored_bytes(postgres), cpu_s(postgres.pid), time.process_time()
        await asyncio.gather(*(one() for _ in range(runs)))
        worker_s = time.process_time() - worker_s
    return {
        "worker_s": worker_s / runs,
        "database_s": (cpu_s(postgres.pid) - database_s) / runs,
        "stored_bytes": (stored_bytes(postgres) - stored) / runs,
    }


def figures(found: dict[str, float], vcpu_usd_per_h: float, gb_month_usd: float) -> dict[str, Any]:
    model_usd = STEPS * float(INPUT_TOKENS * INPUT_USD_PER_MTOK + OUTPUT_TOKENS * OUTPUT_USD_PER_MTOK) / 1e6
    cpu_usd = (found["worker_s"] + found["database_s"]) / 3600 * vcpu_usd_per_h
    storage_usd = found["stored_bytes"] / 1e9 * gb_month_usd
    return {
        "worker_cpu_ms": round(found["worker_s"] * 1000, 2),
        "database_cpu_ms": round(found["database_s"] * 1000, 2),
        "stored_kb": round(found["stored_bytes"] / 1000, 1),
        "cpu_usd": f"{cpu_usd:.2e}",
        "storage_usd": f"{storage_usd:.2e}",
        "model_usd": f"{model_usd:.2e}",
        "share_of_all": f"{(cpu_usd + storage_usd) / (cpu_usd + storage_usd + model_usd):.3%}",
        "share_if_the_machines_work_a_tenth_of_the_time": (
            f"{(10 * cpu_usd + storage_usd) / (10 * cpu_usd + storage_usd + model_usd):.3%}"
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--at-once", type=int, default=50)
    parser.add_argument("--vcpu-usd-per-h", type=float, default=0.05)
    parser.add_argument("--gb-month-usd", type=float, default=0.12)
    asked = parser.parse_args()
    with PostgresServer() as postgres:
        found = asyncio.run(measure(postgres, asked.runs, asked.at_once))
    print(json.dumps(figures(found, asked.vcpu_usd_per_h, asked.gb_month_usd)))  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
