"""What the HTTP API answers in a second, in one process, beside a bare FastAPI route that answers as much JSON from memory.

    python bench/http_api.py [--seconds 5] [--clients 100] [--watchers 1000] [--store sqlite|postgres]

Starts `holdfast serve FILE:quick --http` as a process of its own, and the bare route in another. Clients keep their connections
and send the next request when the last is answered. Reads are of one run; starts are of a workflow of one task, each with a
commit of the store, an entry of the audit log and the run itself, which executes meanwhile. Watchers listen to the events of
one run, which a signal ends. Prints one JSON line: requests a second, p50 and p95 in milliseconds, the process's memory.

The clients share four tokens: the server takes no more than 1,000 requests a second of one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
from fastapi import FastAPI, Request, Response

from holdfast import Workflow, flow, task
from holdfast.observe.listening import listening
from holdfast.platform.machine import run_quickly
from holdfast.testing.postgres_server import PostgresServer

_START_S = 30.0
_TOKENS = [f"bench-{number}-{'x' * 32}" for number in range(4)]
_ME = str(Path(__file__).resolve())

quick = Workflow("quick")


@quick.node("do")
@task
def do(state: Any) -> Any:
    return state.input


@flow
async def waiting(ctx: Any, _: Any) -> str:
    await ctx.wait_signal("enough")
    return "done"


# --- The bare route ---------------------------------------------------------------------------------------------------


async def bare() -> None:
    """A FastAPI application that answers a run's JSON from memory, and takes a start without doing anything."""
    app, row = (
        FastAPI(openapi_url=None),
        json.dumps({"run_id": "x" * 36, "status": "completed", "steps": [{"step": "do#1"}] * 4}),
    )

    async def read(request: Request) -> Response:
        return Response(row, media_type="application/json")

    async def start(request: Request) -> Response:
        await request.json()
        return Response(row, 201, media_type="application/json")

    app.add_api_route("/runs/{run}", read, methods=["GET"])
    app.add_api_route("/runs", start, methods=["POST"])
    async with listening(app, "127.0.0.1", 0, name="") as port:
        sys.stderr.write(f"HTTP on http://127.0.0.1:{port}/api/v1.\n")
        await asyncio.Event().wait()


# --- Clients ----------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def serving(*words: str) -> AsyncIterator[tuple[str, int]]:
    """A process that answers: its address and its id."""
    process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        async with asyncio.timeout(_START_S):
            while (found := re.search(rb"HTTP on (http://\S+)/api/v1\.", line := await process.stderr.readline())) is None:
                if not line:
                    raise SystemExit("the server did not start")
        reading = asyncio.create_task(process.stderr.read())
        yield found[1].decode(), process.pid
        reading.cancel()
    finally:
        process.kill()
        await process.wait()


async def load(clients: int, seconds: float, ask: Callable[[dict[str, str]], Awaitable[httpx2.Response]]) -> dict[str, float]:
    """Requests a second with so many clients, and how long each took."""
    took_s: list[float] = []
    until_s = time.perf_counter() + seconds

    async def client(number: int) -> None:
        headers = with_token(number)
        while (began_s := time.perf_counter()) < until_s:
            answer = await ask(headers)
            assert answer.status_code < 300, answer.text
            took_s.append(time.perf_counter() - began_s)

    await asyncio.gather(*map(client, range(clients)))
    cuts = statistics.quantiles(took_s, n=20)
    return {"a_second": round(len(took_s) / seconds), "p50_ms": round(cuts[9] * 1000, 1), "p95_ms": round(cuts[18] * 1000, 1)}


def with_token(number: int) -> dict[str, str]:
    return {"authorization": f"Bearer {_TOKENS[number % len(_TOKENS)]}"}


async def both(address: str, run: str, how: argparse.Namespace, prefix: str) -> dict[str, Any]:
    limits = httpx2.Limits(max_connections=how.clients)
    async with httpx2.AsyncClient(base_url=f"{address}{prefix}", limits=limits, timeout=60) as http:
        start = {"workflow": "quick", "input": 1}
        return {
            "reads": await load(how.clients, how.seconds, lambda headers: http.get(f"/runs/{run}", headers=headers)),
            "reads_of_one": await load(1, how.seconds / 2, lambda headers: http.get(f"/runs/{run}", headers=headers)),
            "starts": await load(how.clients, how.seconds, lambda headers: http.post("/runs", json=start, headers=headers)),
            "starts_of_one": await load(1, how.seconds / 2, lambda headers: http.post("/runs", json=start, headers=headers)),
        }


async def watched(address: str, count: int) -> dict[str, float]:
    """So many listen to a run each; how long after its end was asked for the first and the last have heard of it."""
    limits = httpx2.Limits(max_connections=count + 20)
    async with httpx2.AsyncClient(base_url=f"{address}/api/v1", limits=limits, timeout=120, headers=with_token(0)) as http:
        run = (await http.post("/runs", json={"workflow": "waiting"})).json()["run_id"]
        heard_s: list[float] = []
        there = asyncio.Semaphore(0)

        async def listen() -> None:
            async with http.stream("GET", f"/runs/{run}/events", headers={"accept": "text/event-stream"}) as said:
                assert said.status_code == 200
                async for line in said.aiter_lines():
                    if line == "event: RunStarted":
                        there.release()
                    if line == "event: RunCompleted":
                        heard_s.append(time.perf_counter())

        async with asyncio.TaskGroup() as listeners:
            for _ in range(count):
                listeners.create_task(listen())
            for _ in range(count):
                await there.acquire()
            asked_s = time.perf_counter()
            await http.post(f"/runs/{run}/signals/enough", json={})
    late_ms = sorted((each - asked_s) * 1000 for each in heard_s)
    return {"watchers": count, "p50_ms": round(late_ms[count // 2], 1), "last_ms": round(late_ms[-1], 1)}


def memory_mb(pid: int) -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) // 1024  # type: ignore[index]


async def measure(how: argparse.Namespace, store: str, tokens: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"store": how.store, "clients": how.clients}
    async with serving(sys.executable, _ME, "--bare") as (address, _):
        found["bare"] = await both(address, "x", how, "")
    words = (
        *(sys.executable, "-m", "holdfast", "serve", f"{_ME}:quick", f"{_ME}:waiting", "--http", "127.0.0.1:0", "--port", "0"),
        *("--tokens", str(tokens), "--store", store),
    )
    async with serving(*words) as (address, pid):
        found["idle_mb"] = memory_mb(pid)
        async with httpx2.AsyncClient(base_url=f"{address}/api/v1", timeout=60) as http:
            headers = {"prefer": "wait=10", **with_token(0)}
            run = (await http.post("/runs", json={"workflow": "quick"}, headers=headers)).json()["run_id"]
        found["holdfast"] = await both(address, run, how, "/api/v1")
        found["watched"] = await watched(address, how.watchers)
        found["mb"] = memory_mb(pid)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--watchers", type=int, default=1_000)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    how = parser.parse_args()
    if how.bare:
        run_quickly(bare())
        return
    os.environ.pop("HOLDFAST_URL", None)
    with tempfile.TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens.toml"
        tokens.touch(0o600)
        tokens.write_text("\n".join(f'[clients.bench-{n}]\ntoken = "{t}"' for n, t in enumerate(_TOKENS)))
        with contextlib.ExitStack() as ended:
            store = str(Path(folder) / "runs.db")
            if how.store == "postgres":
                store = ended.enter_context(PostgresServer()).url
            sys.stdout.write(json.dumps(asyncio.run(measure(how, store, tokens))) + "\n")


if __name__ == "__main__":
    main()
