"""What telemetry costs: durable steps a second and processor time of a step, with each part of it on, beside the same without.

    python -m bench.telemetry [--runs 200] [--steps 20] [--concurrency 20] [--rounds 7] [--calls] [PART …]

A process runs RUNS runs of STEPS task steps that return 900 characters, on SQLite in a temporary folder, and ends when every
sink has taken all of it. In each round a process without telemetry and one with each part take turns; a ratio is the median of
those of each pair, with the lowest and the highest. All sinks are fed by the process that works, the dearest case: of a fleet
only the leader feeds them. The other side is a server in a process of its own that takes everything and keeps nothing.

The parts are `logs` (JSON, a line a run), `metrics`, `traces` (OTLP over HTTP), `notifications` (a rule about failures and
questions, of which this work has none), and `all` of these. Beside them `webhooks` sends a signed one at the end of each run,
and `line` logs a line of JSON in each step. Each process knows a secret, as any does that calls a model, and looks for it in
what steps return; `bare` knows none. bench/analytics.py measures the export to ClickHouse, which needs an engine of its
own. Prints one JSON line for each part: `busy` and `loop` are the processor time of a step until the runs have ended, in the
process and in its event loop, which differ less than steps a second where other programs run; `cpu` is that until every sink
has everything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.steps import TEXT, Echo
from holdfast import Engine, Workflow, llm_node, task
from holdfast.cli.page import log_output
from holdfast.cli.page.terminal import outlive_readers
from holdfast.observe.meter import Meter
from holdfast.platform.machine import collect_rarely, run_quickly
from holdfast.settings import LogRules, Settings

PARTS = ("logs", "metrics", "traces", "notifications", "all", "webhooks", "line", "bare")
SECRET = "whsec_bmV3LW5ldy1uZXctbmV3LW5ldy1uZXctbmV3"
log = logging.getLogger("bench")


def chain(steps: int, calls: bool, part: str) -> Workflow:
    workflow = Workflow("steps", max_steps=steps + 1)

    async def plain(state: object) -> dict[str, str]:
        return TEXT

    async def last(state: object) -> dict[str, str]:
        log.info("a run is over")
        return TEXT

    async def loud(state: object) -> dict[str, str]:
        log.info("a step is over")
        return TEXT

    def ask(state: object) -> str:
        return "say it"

    node = llm_node(model="echo", max_tokens=1000)(ask) if calls else task(loud if part == "line" else plain)
    for number in range(steps):
        workflow.node(f"n{number}")(task(last) if part in ("logs", "all") and number == steps - 1 else node)
        if number:
            workflow.edge(f"n{number - 1}", f"n{number}")
    return workflow


def settings(part: str, other: str) -> Settings:
    """What the part asks for."""
    os.environ["OPS_SECRET"] = SECRET
    tables: dict[str, Any] = {"models": {"echo": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 5}}}
    if part in ("traces", "all"):
        tables["telemetry"] = {"endpoint": other}
    if part in ("notifications", "webhooks", "all"):
        tables["channels"] = {
            "ops": {"kind": "webhook", "url": other, "secrets": ["OPS_SECRET"], "allow_private": ["127.0.0.0/8"]}
        }
        occasions = ["run_completed"] if part == "webhooks" else ["run_failed", "gate_opened", "dead_letter"]
        tables["notifications"] = {"rule": {"channel": "ops", "occasions": occasions}}
    return Settings(**tables)


async def measure(folder: str, part: str, other: str, runs: int, steps: int, concurrency: int, calls: bool) -> dict[str, Any]:
    collect_rarely()
    if part in ("logs", "all", "line"):
        log_output.set_up(LogRules(format="json", level="info"))
    places = asyncio.Semaphore(concurrency)
    workflow = chain(steps, calls, part)
    observers = [Meter()] if part in ("metrics", "all") else []
    async with Engine.open(
        f"{folder}/holdfast.db",
        workflows=[workflow],
        slots=concurrency,
        model=Echo(),
        settings=settings(part, other),
        observers=observers,
    ) as engine:

        async def one() -> None:
            async with places:
                await (await engine.start(workflow)).result()

        if part != "bare":
            engine.executor.services.secrets.get("OPS_SECRET")
        await one()
        log.info("all is imported")
        await drained(engine)
        began, cpu, loop_s = time.perf_counter(), time.process_time(), time.thread_time()
        await asyncio.gather(*(one() for _ in range(runs)))
        took_s, busy_s, loop_s = time.perf_counter() - began, time.process_time() - cpu, time.thread_time() - loop_s
        await drained(engine)
        cpu_s = time.process_time() - cpu
    return {
        "steps_per_s": round(runs * steps / took_s),
        "busy_us": round(busy_s / (runs * steps) * 1e6, 1),
        "loop_us": round(loop_s / (runs * steps) * 1e6, 1),
        "cpu_us": round(cpu_s / (runs * steps) * 1e6, 1),
        "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


async def drained(engine: Engine) -> None:
    """Wait until every sink has taken all that was committed."""
    store = engine.runtime.store
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        if not any([(await store.tail.after(row.cursor, 1))[0] for row in await store.followers.listed()]):
            return
        await asyncio.sleep(0.05)


@contextmanager
def receiver() -> Iterator[str]:
    """A server that takes everything."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def in_a_process(part: str, other: str, known: argparse.Namespace) -> dict[str, float]:
    words = ["--one", part, other, "--runs", known.runs, "--steps", known.steps, "--concurrency", known.concurrency]
    command = [sys.executable, "-m", "bench.telemetry", *map(str, words), *["--calls"] * known.calls]
    with Path(os.devnull).open("wb") as nothing:
        found: dict[str, float] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, stderr=nothing, check=True).stdout)
    return found


def spread(values: list[float]) -> dict[str, float]:
    return {name: round(of(values), 3) for name, of in (("median", statistics.median), ("least", min), ("most", max))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    for name, default in (("runs", 200), ("steps", 20), ("concurrency", 20), ("rounds", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--calls", action="store_true", help="a model call in each step")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    known = parser.parse_args()
    if known.one is not None:
        outlive_readers()
        with tempfile.TemporaryDirectory() as folder:
            measuring = measure(folder, *known.one, known.runs, known.steps, known.concurrency, known.calls)
            print(json.dumps(run_quickly(measuring)))  # noqa: T201 - what it is for
        return
    parts = known.parts or [*PARTS]
    pairs: dict[str, list[tuple[dict[str, float], dict[str, float]]]] = {part: [] for part in parts}
    with receiver() as other:
        for _ in range(known.rounds):
            for part in parts:
                without = in_a_process("off", other, known)
                pairs[part].append((without, in_a_process(part, other, known)))
    for part, found in pairs.items():
        figures = {
            "part": part,
            "calls": known.calls,
            "steps_per_s": spread([on["steps_per_s"] / off["steps_per_s"] for off, on in found]),
            "busy": spread([on["busy_us"] / off["busy_us"] for off, on in found]),
            "loop": spread([on["loop_us"] / off["loop_us"] for off, on in found]),
            "cpu": spread([on["cpu_us"] / off["cpu_us"] for off, on in found]),
            "cpu_us_more": spread([on["cpu_us"] - off["cpu_us"] for off, on in found]),
            "cpu_us_without": spread([off["cpu_us"] for off, _ in found]),
            "steps_per_s_without": spread([off["steps_per_s"] for off, _ in found]),
        }
        print(json.dumps(figures), flush=True)  # noqa: T201 - the line is what it is for


if __name__ == "__main__":
    main()
